// OpenAI's Decisions: typed questions about an input, each answered with the probabilities of its options. Nothing is
// generated, so the input alone is paid for.

import { z } from 'zod'
import type { JsonObject } from '../../conversation/request.ts'
import { counter, disjoint, type Usage } from '../../conversation/usage.ts'
import { isObject } from '../lenient.ts'
import { type Warning, wireWarnings } from '../lowering.ts'
import type { AnswerContext, Bill, Envelope } from '../protocol.ts'
import { invalidRequest, safeParsed } from '../request/fields.ts'
import { costDetails } from '../openai/usage.ts'
import { gatewayEnvelope, gatewayShape } from '../request/gateway-tools.ts'
import { type PromptParts, promptParts } from '../request/prompt-parts.ts'

const text = z.string()
const json = z.looseObject({})
const instructions = z.union([text.min(1), z.array(json).min(1)])
const name = text.optional()

const question = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('predicate'), name, instructions }),
  z.looseObject({
    type: z.literal('choice'),
    name,
    instructions,
    choices: z
      .array(z.looseObject({ value: z.union([text, z.boolean()]), description: text.optional() }))
      .min(2)
      .max(255),
  }),
  z.looseObject({
    type: z.literal('score'),
    name,
    instructions,
    levels: z.array(z.looseObject({ label: text, description: text.optional() })).min(2),
  }),
])

const { provider, max_cost, session_id, strict } = gatewayShape

export const decisionRequest = z.looseObject({
  model: text.min(1).max(512),
  input: z
    .union([text.min(1), z.array(json).min(1)])
    .describe('A text, or messages, calls and their results.'),
  questions: z.array(question).min(1).max(400),
  safety_identifier: text.nullish(),
  prompt_cache_key: text.nullish(),
  prompt_cache_options: json.nullish(),
  provider,
  max_cost,
  session_id,
  strict,
})

const probability = z.number().min(0).max(1)

export const decision = z.looseObject({
  model: text,
  answers: z.array(
    z.looseObject({
      type: z.enum(['predicate', 'choice', 'score', 'refusal']),
      name: text.nullable(),
      probability: probability.optional(),
      confidence: z.number().optional(),
    }),
  ),
  usage: z.looseObject({
    input_tokens: z.int(),
    output_tokens: z.int(),
    total_tokens: z.int(),
    cost: z.number(),
  }),
})

/** What a provider is sent: whatever else a client writes has no known price. */
const sent = ['input', 'questions', 'safety_identifier', 'prompt_cache_key', 'prompt_cache_options'] as const

export interface AskedDecision {
  readonly envelope: Envelope
  readonly body: JsonObject
  readonly promptParts: PromptParts
  readonly warnings: readonly Warning[]
}

/** Takes parsed JSON. Throws GatewayError `invalid_request` with `param`. */
export function parseDecision(body: JsonObject): AskedDecision {
  const { data, error } = safeParsed(decisionRequest, body)
  if (error) throw invalidRequest(error)
  const { provider, max_cost, session_id, strict } = data
  const known = new Set(Object.keys(decisionRequest.shape))
  const unknown = Object.keys(body).filter((field) => !known.has(field))
  const asked = Object.fromEntries(
    sent.flatMap((field) => (body[field] == null ? [] : [[field, body[field]]])),
  )
  return {
    envelope: {
      ...gatewayEnvelope({ provider, max_cost, session_id, strict }),
      model: data.model,
      // The probabilities of another model are not comparable.
      fallbacks: [],
      stream: false,
      includeUsage: false,
      // Nothing is generated; one token keeps the hold above zero.
      maxOutputTokens: 1,
      n: 1,
    },
    body: asked as JsonObject,
    promptParts: promptParts(asked as JsonObject, { conversation: 'input', declared: ['questions'] }),
    warnings: unknown.map((param) => ({ param, message: 'Unknown field; dropped.' })),
  }
}

/** The counters of a decision: what it read, and nothing that it wrote. Undefined where the provider counted nothing. */
export function usageOf({ usage }: JsonObject): Usage | undefined {
  if (!isObject(usage) || counter(usage['input_tokens'] as number) === undefined) return undefined
  const details = isObject(usage['input_tokens_details']) ? usage['input_tokens_details'] : {}
  const number = (value: unknown) => (typeof value === 'number' ? value : 0)
  return disjoint({
    prompt: number(usage['input_tokens']),
    completion: 0,
    cacheRead: number(details['cached_tokens']),
    cacheWrite5m: number(details['cache_write_tokens']),
  })
}

/** Whether a provider's answer holds answers. */
export function isDecision(answer: unknown): answer is JsonObject {
  return isObject(answer) && Array.isArray(answer['answers'])
}

/** The provider's answer for the client, with the figures of the call. */
export function decisionBody(
  answer: JsonObject,
  usage: Usage,
  bill: Bill,
  { model, warnings, extra }: Pick<AnswerContext, 'model' | 'warnings' | 'extra'>,
): JsonObject {
  const read = usage.input + usage.inputAudio + usage.inputImage + usage.cacheWrite5m + usage.cacheWrite1h
  const cached = usage.cacheRead + usage.cacheReadAudio
  const counted = isObject(answer['usage']) ? answer['usage'] : {}
  return {
    ...answer,
    model,
    usage: {
      input_tokens_details: { cached_tokens: cached, cache_write_tokens: usage.cacheWrite5m },
      output_tokens_details: { reasoning_tokens: 0 },
      output_tokens: 0,
      ...counted,
      input_tokens: read + cached,
      total_tokens: read + cached,
      cost: Number(bill.cost),
      cost_details: costDetails(bill, 'prompt', 'completions'),
    },
    ...wireWarnings(warnings),
    ...extra,
  }
}
