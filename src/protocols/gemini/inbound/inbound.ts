// Gemini's API for clients (generateContent, streamGenerateContent), such as Google's libraries and tools.

import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'
import type { ChatResult } from '../../../conversation/event.ts'
import type { DeclaredTools } from '../../../conversation/gateway-tools.ts'
import type { JsonObject } from '../../../conversation/request.ts'
import type { Usage } from '../../../conversation/usage.ts'
import { GatewayError } from '../../../errors/errors.ts'
import { isObject } from '../../lenient.ts'
import { inbound as chat } from '../../openai-chat/inbound/inbound.ts'
import { wireWarnings } from '../../openai/messages.ts'
import type { AnswerContext, Bill, Inbound, InboundRequest } from '../../protocol.ts'
import {
  type ClientFields,
  errorFor,
  invalidParam,
  invalidRequest,
  safeParsed,
  unsupportedParam,
} from '../../request/fields.ts'
import { gatewayShape } from '../../request/gateway-tools.ts'
import {
  answerHead,
  candidateOf,
  GeminiEncoder,
  groundingOf,
  logprobsOf,
  partsOf,
  promptFeedbackOf,
  usageMetadata,
  wireError,
  endingOf,
} from './encode.ts'
import { addresses, camelCased, camelCasedEmbedding, chatBody } from './read.ts'
import { geminiUsage, generateContentRequest } from './schema.ts'

/** A chunk without text: Google's Python client takes a comment for broken JSON, and ends the answer. */
const keepalive = new TextEncoder().encode(
  `data: ${JSON.stringify({ candidates: [candidateOf(0, [{ text: '' }])] })}\n\n`,
)

export const inbound: Inbound = {
  id: 'gemini',
  keepalive,
  addresses,
  parse: (body) => parseRequest(body, isObject(body) && body['stream'] === true),
  whole,
  encoder: (context) => new GeminiEncoder(context),
  error: wireError,
}

/** The provider of models that clients name without one. */
const home = 'gemini'

/** The catalog id of the model in a path: `gemini-2.5-flash`, `models/gemini-2.5-flash` or `anthropic/claude-…`. */
export function modelId(name: string): string {
  const plain = name.replace(/^models\//, '')
  return plain.includes('/') ? plain : `${home}/${plain}`
}

/** The body with the model from its path, with the API's field names. */
export function withModel(body: JsonObject, model: string, stream: boolean): JsonObject {
  return { ...camelCased(body), model: modelId(model), stream }
}

/** Takes the result of `withModel`. Throws `invalid_request` and `unsupported_parameter` with `param`. */
function parseRequest(body: unknown, stream: boolean): InboundRequest {
  if (!isObject(body)) {
    throw new GatewayError('invalid_request', { message: 'The body must be a JSON object.' })
  }
  const { data, error } = safeParsed(generateContentRequest, body)
  if (error) throw invalidRequest(error)
  const made = chatBody(data, String(body['model'] ?? ''), stream)
  const fields: ClientFields = { messages: () => made.params, names, membersDiffer: true }
  const request = attempt(() => chat.parse(made.body), fields)
  const [dropped] = made.warnings
  if (dropped && request.envelope.strict) {
    throw new GatewayError('unsupported_parameter', { message: dropped.message, param: dropped.param })
  }
  const { gatewayTools } = request
  return {
    ...request,
    envelope: {
      ...request.envelope,
      ...(data.generationConfig?.thinkingConfig?.includeThoughts === true ? {} : { sealsThoughts: true }),
    },
    fields,
    ...(gatewayTools === undefined ? {} : { gatewayTools: declaredAt(gatewayTools, made.searchParam) }),
    warnings: [...(request.warnings ?? []), ...made.warnings],
    toChatRequest: () => {
      const asked = attempt(() => request.toChatRequest(), fields)
      return made.members === undefined ? asked : { ...asked, googleMembers: made.members }
    },
  }
}

/** The same tools, declared where the client declares its search. */
function declaredAt(tools: DeclaredTools, param: string | undefined): DeclaredTools {
  if (param === undefined) return tools
  return { ...tools, declarations: tools.declarations.map((each) => ({ ...each, param })) }
}

/** Its errors name the client's own fields. */
function attempt<T>(act: () => T, fields: ClientFields): T {
  try {
    return act()
  } catch (thrown) {
    throw errorFor(thrown, fields)
  }
}

/** What clients of this protocol call the parameters of a chat completion. */
const names: Readonly<Record<string, string>> = {
  max_completion_tokens: 'generationConfig.maxOutputTokens',
  max_tokens: 'generationConfig.maxOutputTokens',
  temperature: 'generationConfig.temperature',
  top_p: 'generationConfig.topP',
  top_k: 'generationConfig.topK',
  seed: 'generationConfig.seed',
  stop: 'generationConfig.stopSequences',
  n: 'generationConfig.candidateCount',
  presence_penalty: 'generationConfig.presencePenalty',
  frequency_penalty: 'generationConfig.frequencyPenalty',
  logprobs: 'generationConfig.responseLogprobs',
  top_logprobs: 'generationConfig.logprobs',
  response_format: 'generationConfig.responseSchema',
  reasoning: 'generationConfig.thinkingConfig',
  modalities: 'generationConfig.responseModalities',
  audio: 'generationConfig.speechConfig',
  tool_choice: 'toolConfig.functionCallingConfig',
  service_tier: 'serviceTier',
  'extra_body.google.safetySettings': 'safetySettings',
  'extra_body.google.labels': 'labels',
  'extra_body.google.mediaResolution': 'generationConfig.mediaResolution',
  'extra_body.google.callingMode': 'toolConfig.functionCallingConfig.mode',
  'extra_body.google.tools': 'tools',
}

/** A whole answer. Throws `upstream_error` for one that never ended: no finish reason is invented. */
function whole(result: ChatResult, usage: Usage, bill: Bill, context: AnswerContext): JsonObject {
  const candidates = result.choices.map((choice) => {
    if (choice.finish === undefined) {
      throw new GatewayError('upstream_error', { message: 'The answer ended without a finish reason.' })
    }
    const text = `${choice.text ?? ''}${choice.refusal ?? ''}`
    return {
      ...candidateOf(choice.index, partsOf(choice, context)),
      ...endingOf({ reason: choice.finish, native: choice.nativeFinish, explanation: choice.explanation }),
      ...choice.nativeFields?.choice,
      ...groundingOf(
        { annotations: choice.annotations, runs: choice.runs ?? [], items: choice.items ?? [] },
        text,
        choice.nativeFields,
      ),
      ...logprobsOf(choice.logprobs?.content ?? []),
    }
  })
  const { warnings } = context
  const [first] = result.choices
  const blocked = first?.blockedPrompt
  const native = first?.nativeFields
  return {
    ...(blocked === undefined ? { candidates } : promptFeedbackOf(blocked, first?.nativeFinish)),
    ...(native === undefined || Object.keys(native.prompt).length === 0
      ? {}
      : { promptFeedback: native.prompt }),
    usageMetadata: usageMetadata(usage, bill, native?.usage),
    ...answerHead(context),
    ...(warnings.length === 0 ? {} : { warnings: warnings.map((warning) => ({ ...warning })) }),
    ...context.extra,
  }
}

// Gemini's embeddings for clients (ai.google.dev, "Embeddings"): embedContent and batchEmbedContents.

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
