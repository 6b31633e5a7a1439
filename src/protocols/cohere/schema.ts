// What Cohere's chat API (version 2) looks like on the wire. Loose on purpose: a field that is missing or of another
// type must not lose the rest of the answer.

import { z } from 'zod'

/** How a host of this protocol deviates from Cohere's own. */
export interface CohereQuirks {
  /** Appended to the base URL. */
  readonly path: string
  /** Models that think, beside those the catalog says reason: a regular expression over the model's name. */
  readonly thinkers: string
  /** Tokens to think with, by effort; an effort that is not named gets no bound, which is Cohere's default. */
  readonly budgets: Readonly<Record<string, number>>
}

export const defaultQuirks: CohereQuirks = {
  path: '/chat',
  thinkers: 'reasoning|command-a-plus',
  // A choice of ours: Cohere knows on, off and a number of tokens, but no effort words.
  budgets: { minimal: 512, low: 2048, medium: 8192 },
}

const text = z.string().catch('')
const counter = z.number().nullish().catch(undefined)
const units = z.object({ input_tokens: counter, output_tokens: counter, reasoning_tokens: counter })

export const usageSchema = z.object({
  billed_units: units.nullish().catch(undefined),
  tokens: units.nullish().catch(undefined),
  cached_tokens: counter,
})

export type WireUsage = z.infer<typeof usageSchema>

export const citationSchema = z.object({
  start: z.number(),
  end: z.number(),
  text,
  sources: z.array(z.unknown()).catch([]),
  content_index: z.number().optional().catch(undefined),
})

/** A stretch of the answer with the logarithm of the probability of each of its tokens. */
export const logprobSchema = z.object({ text, logprobs: z.array(z.number()).catch([]) })

const blockSchema = z.object({ type: text, text, thinking: text })
const callSchema = z.object({
  id: text,
  function: z.object({ name: text, arguments: z.string().nullish().catch(undefined) }),
})

const finish = {
  finish_reason: z.string().nullish().catch(undefined),
  usage: usageSchema.nullish().catch(undefined),
  error: z.string().nullish().catch(undefined),
  error_type: z.string().nullish().catch(undefined),
}

export const answerSchema = z.object({
  id: z.string().optional().catch(undefined),
  message: z.object({
    tool_plan: z.string().nullish().catch(undefined),
    content: z.array(blockSchema).nullish().catch(undefined),
    tool_calls: z.array(callSchema).nullish().catch(undefined),
    citations: z.array(z.unknown()).nullish().catch(undefined),
  }),
  logprobs: z.array(z.unknown()).nullish().catch(undefined),
  ...finish,
})

const index = z.number().catch(0)
const delta = <Shape extends z.core.$ZodLooseShape>(message: Shape) =>
  z.object({ index, delta: z.object({ message: z.object(message) }) })

/** The events of a stream, by type. An event of another type is ignored. */
export const eventSchemas = {
  'message-start': z.object({ id: z.string().optional().catch(undefined) }),
  'content-start': delta({ content: blockSchema }),
  'content-delta': delta({ content: z.object({ text, thinking: text }) }).extend({
    logprobs: z.unknown().optional(),
  }),
  'tool-plan-delta': delta({ tool_plan: text }),
  'tool-call-start': delta({ tool_calls: callSchema }),
  'tool-call-delta': delta({ tool_calls: z.object({ function: z.object({ arguments: text }) }) }),
  'citation-start': delta({ citations: z.unknown() }),
  'message-end': z.object({ delta: z.object(finish) }),
} as const
