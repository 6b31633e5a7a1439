// OpenAI's embeddings: checks a client's body, builds the answer, and asks providers that speak it.

import { z } from 'zod'
import type { JsonObject } from '../../conversation/request.ts'
import { promptTokens, type Usage } from '../../conversation/usage.ts'
import { GatewayError } from '../../errors/errors.ts'
import {
  type AnswerContext,
  type Bill,
  type EmbeddingAnswer,
  type EmbeddingInput,
  type EmbeddingOutbound,
  type EmbeddingRequest,
  type Envelope,
  notVectors,
  textsOf,
  toBase64,
  vectorOf,
} from '../protocol.ts'
import { costDetails, costDetailsSchema, faultInside, usageIn } from '../openai/usage.ts'
import { gatewayEnvelope, gatewayShape } from '../request/gateway-tools.ts'
import { bodyObject, invalidParam, invalidRequest } from '../request/fields.ts'
import { promptParts, type PromptParts } from '../request/prompt-parts.ts'
import { isObject, nonEmpty } from '../lenient.ts'
import { passedOn, type Warning, warnInto, wireWarnings } from '../lowering.ts'

/** Limit of inputs per request, the same as OpenAI's. */
const maxInputs = 2048
const token = z.int().min(0)
const text = z.string().min(1)

const { provider, max_cost, strict, on_disconnect } = gatewayShape

const ours = {
  model: z.string().min(1).max(256),
  encoding_format: z.enum(['float', 'base64']).nullish(),
  dimensions: z.int().min(1).max(65_536).nullish(),
  user: z.string().nullish(),
  provider,
  max_cost,
  strict,
  on_disconnect,
}

/** The body for the documentation: `input` is checked by hand, because it may be very long. */
export const embeddingRequest = z.lazy(() =>
  z.looseObject({
    ...ours,
    input: z
      .union([
        text,
        z.array(text).min(1).max(maxInputs),
        z.array(token).min(1),
        z.array(z.array(token).min(1)).min(1).max(maxInputs),
      ])
      .describe('A text, texts, the tokens of one text, or the tokens of each of several.'),
  }),
)

const withoutInput = z.looseObject(ours)

const count = z.int().min(0)

/** What clients receive. */
export const embeddingList = z.lazy(() =>
  z.object({
    object: z.literal('list'),
    data: z.array(
      z.object({
        object: z.literal('embedding'),
        index: count,
        embedding: z
          .union([z.array(z.number()), z.string()])
          .describe('Numbers, or base64 of little-endian 32-bit floats where the request asks for it.'),
      }),
    ),
    model: z.string(),
    usage: z.object({
      prompt_tokens: count,
      total_tokens: count,
      cost: z.number().describe('US dollars.'),
      cost_details: costDetailsSchema('prompt', 'completions'),
    }),
    warnings: z.array(z.object({ param: z.string(), message: z.string() })).optional(),
  }),
)

export interface InboundEmbedding {
  readonly envelope: Envelope
  /** Only the inputs, which the prompt is measured by. */
  readonly body: { readonly input: JsonObject[string] }
  readonly bodyBytes: number
  readonly promptParts: PromptParts
  readonly request: EmbeddingRequest
  readonly format: 'float' | 'base64'
}

/** Takes parsed JSON. Throws GatewayError `invalid_request` with `param`, or `wrong_endpoint` for a chat body. */
export function parseEmbedding(sent: unknown): InboundEmbedding {
  const body = bodyObject(sent)
  if (body.input === undefined && body.messages !== undefined) {
    const message = 'A body with `messages` belongs to POST /v1/chat/completions; embeddings take `input`.'
    throw new GatewayError('wrong_endpoint', { message, param: 'messages' })
  }
  const { data: known, error } = withoutInput.safeParse(body)
  if (error) throw invalidRequest(error)
  const inputs = inputsOf(body.input)
  const given = new Set([...Object.keys(ours), 'input', '__proto__'])
  const measured = JSON.stringify(body.input)
  return {
    envelope: envelopeOf(known, inputs.length),
    body: { input: body.input! },
    bodyBytes: Buffer.byteLength(measured),
    promptParts: promptParts({ input: body.input! }, { conversation: 'input', declared: [] }),
    request: {
      inputs,
      dimensions: known.dimensions ?? undefined,
      user: known.user ?? undefined,
      rest: Object.fromEntries(Object.entries(body).filter(([name]) => !given.has(name))),
    },
    format: known.encoding_format ?? 'float',
  }
}

function inputsOf(input: unknown): readonly EmbeddingInput[] {
  if (typeof input === 'string') return [nonEmptyText(input, 'input')]
  if (!Array.isArray(input) || input.length === 0) {
    throw invalidParam(
      'input',
      'it must be a text, a list of texts, a list of tokens, or a list of such lists.',
    )
  }
  if (typeof input[0] === 'number') return [tokensOf(input, 'input')]
  if (input.length > maxInputs)
    throw invalidParam('input', `at most ${maxInputs} inputs fit into one request.`)
  const texts = typeof input[0] === 'string'
  return input.map((one: unknown, at) =>
    texts ? nonEmptyText(one, `input[${at}]`) : tokensOf(one, `input[${at}]`),
  )
}

function nonEmptyText(value: unknown, param: string): string {
  if (typeof value === 'string' && value !== '') return value
  throw invalidParam(
    param,
    typeof value === 'string' ? 'it is empty.' : 'it must be a text, as the first one is.',
  )
}

function tokensOf(value: unknown, param: string): readonly number[] {
  if (!Array.isArray(value) || value.length === 0) throw invalidParam(param, 'it must be a list of tokens.')
  const wrong = value.findIndex((one) => !Number.isSafeInteger(one) || one < 0)
  if (wrong >= 0) throw invalidParam(`${param}[${wrong}]`, 'a token is a whole number, not negative.')
  return value
}

/** Vectors have no output tokens. One per input keeps the hold above zero. */
function envelopeOf(known: z.infer<typeof withoutInput>, inputs: number): Envelope {
  const { provider, max_cost, strict, on_disconnect } = known
  return {
    ...gatewayEnvelope({ provider, max_cost, strict, on_disconnect }),
    model: known.model,
    // Another model's vectors are not comparable, so there are no fallbacks.
    fallbacks: [],
    stream: false,
    includeUsage: false,
    maxOutputTokens: 1,
    n: inputs,
  }
}

/** The answer, in OpenAI's shape with our cost fields. */
export function embeddingBody(
  vectors: readonly (readonly number[])[],
  format: 'float' | 'base64',
  usage: Usage,
  bill: Bill,
  { model, warnings, extra }: Pick<AnswerContext, 'model' | 'warnings' | 'extra'>,
): JsonObject {
  const prompt = promptTokens(usage)
  return {
    object: 'list',
    data: vectors.map((vector, index) => ({
      object: 'embedding',
      index,
      embedding: format === 'base64' ? toBase64(vector) : [...vector],
    })),
    model,
    usage: {
      prompt_tokens: prompt,
      total_tokens: prompt,
      cost: Number(bill.cost),
      cost_details: costDetails(bill, 'prompt', 'completions'),
    },
    ...wireWarnings(warnings),
    ...extra,
  }
}

// Embeddings of providers that speak OpenAI's API: POST …/embeddings.

/** Server-specific parameters for the kind of text; an unknown field might have a price. */
const known: ReadonlySet<string> = new Set([
  'add_special_tokens',
  'embedding_type',
  'input_type',
  'instruct',
  'instruction',
  'late_chunking',
  'normalize',
  'normalized',
  'output_dtype',
  'prompt_name',
  'task',
  'task_type',
  'text_type',
  'truncate',
  'truncate_prompt_tokens',
  'truncation',
])

export const embeddings: EmbeddingOutbound = {
  lower({ inputs, dimensions, user, rest }, { model, quirks }) {
    const warnings: Warning[] = []
    if (user !== undefined && !quirks.user)
      warnings.push({ param: 'user', message: 'The provider has no such parameter; dropped.' })
    return {
      path: quirks.path,
      headers: {},
      body: {
        ...passedOn(rest, known, warnInto(warnings)),
        model,
        input: quirks.tokens
          ? inputs.map((input) => (typeof input === 'string' ? input : [...input]))
          : [...textsOf(inputs)],
        ...(quirks.format === 'base64' ? { encoding_format: 'base64' } : {}),
        ...(dimensions === undefined ? {} : { [quirks.dimensionsField]: dimensions }),
        ...(user === undefined || !quirks.user ? {} : { user }),
      },
      warnings,
    }
  },
  read,
}

function read(body: unknown): EmbeddingAnswer {
  const fault = faultInside(body)
  if (fault) return { kind: 'fault', fault }
  if (!isObject(body) || !Array.isArray(body.data)) return notVectors()
  const vectors = body.data
    .filter(isObject)
    .map((item, at) => ({ at: typeof item.index === 'number' ? item.index : at, item }))
    .toSorted((a, b) => a.at - b.at)
    .flatMap(({ item }) => {
      const vector = vectorOf(item.embedding)
      return vector === undefined ? [] : [vector]
    })
  return { kind: 'vectors', vectors, usage: usageOfVectors(body), id: nonEmpty(body.id) }
}

/** Vectors are no output: a total without a completion, or beyond the prompt, is of the prompt. */
function usageOfVectors(body: JsonObject): Usage | undefined {
  const { usage } = body
  return usageIn(isObject(usage) ? { ...body, usage: { completion_tokens: 0, ...usage } } : body, counters)
}

/** Counters lie where chat has them. A cost that comes along is the price only where the provider's row says so. */
const counters = { reasoningTokens: 'inside', totalCorrects: 'prompt', reportedCost: 'usage.cost' } as const
