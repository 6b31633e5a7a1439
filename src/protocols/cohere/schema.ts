// What Cohere's chat API (version 2) looks like on the wire. Loose on purpose: a field that is missing or of another
// type must not lose the rest of the answer.

import { z } from 'zod'
import type { JsonObject } from '../../conversation/request.ts'
import { isObject } from '../json.ts'

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
/** Arguments are JSON text; an object is what such a text would say. */
const argumentsText = z
  .union([z.string(), z.looseObject({}).transform((given) => JSON.stringify(given))])
  .nullish()
  .catch(undefined)
const callSchema = z.object({
  id: text,
  function: z.object({ name: text, arguments: argumentsText }),
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
    content: z
      .union([
        z.array(blockSchema),
        z.string().transform((said) => [{ type: 'text', text: said, thinking: '' }]),
      ])
      .nullish()
      .catch(undefined),
    tool_calls: z.array(callSchema).nullish().catch(undefined),
    citations: z.array(z.unknown()).nullish().catch(undefined),
  }),
  logprobs: z.array(z.unknown()).nullish().catch(undefined),
  ...finish,
})

export const citationStartSchema = z.object({
  delta: z.object({ message: z.object({ citations: z.unknown() }) }),
})

export const messageEndSchema = z.object({ delta: z.object(finish) })

// The events that a stream has many of are read by hand, as leniently as the schemas above read a whole answer.

/** The `delta.message` of a stream event, if any. */
export function messageIn({ delta }: JsonObject): JsonObject | undefined {
  return isObject(delta) && isObject(delta.message) ? delta.message : undefined
}

/** Which block or call an event is about. */
export function indexOf({ index }: JsonObject): number {
  return typeof index === 'number' && Number.isFinite(index) ? index : 0
}

export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/** A tool call as its first event carries it; empty strings for what is missing. */
export interface CallStart {
  readonly id: string
  readonly name: string
  readonly arguments: string
}

/** The call in a value; undefined where it holds none. */
export function callOf(value: unknown): CallStart | undefined {
  if (!isObject(value) || !isObject(value.function)) return undefined
  const { name, arguments: given } = value.function
  const json = isObject(given) ? JSON.stringify(given) : textOf(given)
  return { id: textOf(value.id), name: textOf(name), arguments: json }
}
