// Gemini's embeddings for clients (ai.google.dev, "Embeddings"): embedContent and batchEmbedContents.

import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'
import type { JsonObject } from '../../../conversation/request.ts'
import type { Usage } from '../../../conversation/usage.ts'
import type { AnswerContext, Bill } from '../../protocol.ts'
import { wireWarnings } from '../../openai/messages.ts'
import { gatewayShape } from '../../request/gateway-tools.ts'
import { invalidParam, invalidRequest, safeParsed, unsupportedParam } from '../../request/fields.ts'
import { usageMetadata } from './encode.ts'
import { camelCasedEmbedding } from './read.ts'
import { modelId } from './inbound.ts'
import { geminiUsage } from './schema.ts'

const text = z.string()

const { provider, max_cost, strict, on_disconnect } = gatewayShape
const ours = { provider, max_cost, strict, on_disconnect }

const one = z.looseObject({
  model: text.nullish(),
  content: z.looseObject({ parts: z.array(z.looseObject({ text: text.nullish() })).min(1) }),
  taskType: text.nullish(),
  title: text.nullish(),
  outputDimensionality: z.int().min(1).nullish(),
})

/** The limit of a request of Google's. */
const maxInputs = 100

export const embedContentRequest = z.looseObject({ ...one.shape, ...ours })
export const batchEmbedContentsRequest = z.looseObject({
  requests: z.array(one).min(1).max(maxInputs),
  ...ours,
})

const vector = z.looseObject({ values: z.array(z.number()) })
export const embedContentResponse = z.looseObject({
  embedding: vector.optional().describe('Of `embedContent`.'),
  embeddings: z.array(vector).optional().describe('Of `batchEmbedContents`.'),
  usageMetadata: geminiUsage,
})

export type EmbeddingMethod = 'embedContent' | 'batchEmbedContents'

type One = z.infer<typeof one>

/**
 * The body as OpenAI's embeddings API has it. `model` is the name in the path. Throws `invalid_request`, and
 * `unsupported_parameter` for contents that are no text, with `param`.
 */
export function openaiEmbedding(method: EmbeddingMethod, body: JsonObject, model: string): JsonObject {
  const { requests, ...gateway } = requestsIn(method, camelCasedEmbedding(body))
  const places = requests.map((_, at) => (method === 'embedContent' ? '' : `requests[${at}].`))
  const input = requests.map((request, at) => textOf(request, places[at]!, modelId(model)))
  const { outputDimensionality, ...options } = optionsOf(requests, places)
  const fields = { ...options, dimensions: outputDimensionality, ...gateway }
  const given = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null)
  return { ...Object.fromEntries(given), model: modelId(model), input } as JsonObject
}

type Gateway = Partial<Record<keyof typeof ours, unknown>>

function requestsIn(
  method: EmbeddingMethod,
  body: JsonObject,
): Gateway & { readonly requests: readonly One[] } {
  if (method === 'batchEmbedContents') {
    const { requests, provider, max_cost, strict, on_disconnect } = checkBody(batchEmbedContentsRequest, body)
    return { requests, provider, max_cost, strict, on_disconnect }
  }
  const { provider, max_cost, strict, on_disconnect, ...request } = checkBody(embedContentRequest, body)
  return { requests: [request], provider, max_cost, strict, on_disconnect }
}

function checkBody<Checked>(schema: z.ZodType<Checked>, body: JsonObject): Checked {
  const { data, error } = safeParsed(schema, body)
  if (error) throw invalidRequest(error)
  return data
}

/** The text that is embedded. */
function textOf({ model, content }: One, place: string, named: string): string {
  if (model != null && modelId(model) !== named)
    throw invalidParam(`${place}model`, 'it is another model than the one in the path.')
  const texts = content.parts.map((part, at) => {
    if (typeof part.text === 'string') return part.text
    throw unsupportedParam(`${place}content.parts[${at}]`, 'only texts are embedded here.')
  })
  const joined = texts.join('\n')
  if (joined === '') throw invalidParam(`${place}content`, 'it is empty.')
  return joined
}

/** How all of them are to be embedded: one call has one way. */
function optionsOf(requests: readonly One[], places: readonly string[]): Record<string, unknown> {
  const [first = {}, ...others] = requests.map(
    ({ content: _content, model: _model, ...options }): Record<string, unknown> => options,
  )
  for (const [at, options] of others.entries())
    for (const name of new Set([...Object.keys(first), ...Object.keys(options)]))
      if (!isDeepStrictEqual(options[name], first[name]))
        throw invalidParam(`${places[at + 1]!}${name}`, 'it must be the same in all requests of a batch.')
  return first
}

/** The answer, with the figures of a chat's. */
export function embeddingAnswer(
  method: EmbeddingMethod,
  vectors: readonly (readonly number[])[],
  usage: Usage,
  bill: Bill,
  { model, warnings, extra }: Pick<AnswerContext, 'model' | 'warnings' | 'extra'>,
): JsonObject {
  const embeddings = vectors.map((values) => ({ values: [...values] }))
  return {
    ...(method === 'embedContent' ? { embedding: embeddings[0]! } : { embeddings }),
    usageMetadata: usageMetadata(usage, bill),
    modelVersion: model,
    ...wireWarnings(warnings),
    ...extra,
  }
}
