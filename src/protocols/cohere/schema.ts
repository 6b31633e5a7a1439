// The wire schemas of Cohere's chat API, version 2. Lenient: a missing or invalid field must not lose the rest of the
// answer. Built when they are first needed.

import { z } from 'zod'
import type { JsonObject } from '../../conversation/request.ts'
import { isObject } from '../lenient.ts'

/** How a host of this protocol differs from Cohere's own. */
export interface CohereQuirks {
  /** Appended to the base URL. */
  readonly path: string
  /** Models that think, beside those the catalog marks: a regular expression for the name. */
  readonly thinkers: string
  /** Thinking tokens by effort; other efforts are unlimited, Cohere's default. */
  readonly budgets: Readonly<Record<string, number>>
}

export const defaultQuirks: CohereQuirks = {
  path: '/chat',
  thinkers: 'reasoning|command-a-plus',
  // Our choice: Cohere has on, off and a number of tokens, but no efforts.
  budgets: { minimal: 512, low: 2048, medium: 8192 },
}

const text = z.string().catch('')
const counter = z.number().nullish().catch(undefined)
const units = () => z.object({ input_tokens: counter, output_tokens: counter, reasoning_tokens: counter })

const usage = () =>
  z.object({
    billed_units: units().nullish().catch(undefined),
    tokens: units().nullish().catch(undefined),
    cached_tokens: counter,
  })

export const usageSchema = z.lazy(usage)
export type CohereUsage = z.infer<typeof usageSchema>

export const citationSchema = z.lazy(() =>
  z.object({
    start: z.number(),
    end: z.number(),
    text,
    sources: z.array(z.unknown()).catch([]),
    content_index: z.number().optional().catch(undefined),
  }),
)

/** A part of the answer with log probabilities for each token. */
export const logprobSchema = z.lazy(() => z.object({ text, logprobs: z.array(z.number()).catch([]) }))

const blockSchema = () => z.object({ type: text, text, thinking: text })
/** Arguments are JSON text; some servers send an object. */
const argumentsText = () =>
  z
    .union([z.string(), z.looseObject({}).transform((given) => JSON.stringify(given))])
    .nullish()
    .catch(undefined)
const callSchema = () =>
  z.object({
    id: text,
    function: z.object({ name: text, arguments: argumentsText() }),
  })

const finish = () => ({
  finish_reason: z.string().nullish().catch(undefined),
  usage: usage().nullish().catch(undefined),
  error: z.string().nullish().catch(undefined),
  error_type: z.string().nullish().catch(undefined),
})

export const answerSchema = z.lazy(() =>
  z.object({
    id: z.string().optional().catch(undefined),
    message: z.object({
      tool_plan: z.string().nullish().catch(undefined),
      content: z
        .union([
          z.array(blockSchema()),
          z.string().transform((said) => [{ type: 'text', text: said, thinking: '' }]),
        ])
        .nullish()
        .catch(undefined),
      tool_calls: z.array(callSchema()).nullish().catch(undefined),
      citations: z.array(z.unknown()).nullish().catch(undefined),
    }),
    logprobs: z.array(z.unknown()).nullish().catch(undefined),
    ...finish(),
  }),
)

export const citationStartSchema = z.lazy(() =>
  z.object({
    delta: z.object({ message: z.object({ citations: z.unknown() }) }),
  }),
)

export const messageEndSchema = z.lazy(() => z.object({ delta: z.object(finish()) }))
export type WireEnd = z.infer<typeof messageEndSchema>['delta']

// The frequent stream events are read by hand, as leniently as the schemas above.

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

/** A tool call from its first event; missing fields are empty. */
export interface CallStart {
  readonly id: string
  readonly name: string
  readonly arguments: string
}

/** The call in a value, if it contains one. */
export function callOf(value: unknown): CallStart | undefined {
  if (!isObject(value) || !isObject(value.function)) return undefined
  const { name, arguments: given } = value.function
  const json = isObject(given) ? JSON.stringify(given) : textOf(given)
  return { id: textOf(value.id), name: textOf(name), arguments: json }
}
