// Gemini's API for clients (generateContent, streamGenerateContent), such as Google's libraries and tools.

import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'
import {
  type Annotation,
  type BlockedPrompt,
  type ChatEvent,
  type ChatResult,
  type Choice,
  type FinishReason,
  joinReasoning,
  type NativeFields,
} from '../../../conversation/event.ts'
import type { DeclaredTools, GatewayRun } from '../../../conversation/gateway-tools.ts'
import type { Json, JsonObject, ReasoningDetail } from '../../../conversation/request.ts'
import { completionTokens, promptTokens, type Usage } from '../../../conversation/usage.ts'
import { errorTable, GatewayError, type RenderedError } from '../../../errors/errors.ts'
import { hasNoFields, isObject, parseToolJson } from '../../lenient.ts'
import { inbound as chat } from '../../openai-chat/inbound/inbound.ts'
import { refuseDropped, wireWarnings } from '../../lowering.ts'
import type { AnswerContext, Bill, Inbound, InboundRequest, StreamEncoder, Texts } from '../../protocol.ts'
import {
  bodyObject,
  type ClientFields,
  errorFor,
  invalidParam,
  invalidRequest,
  safeParsed,
  unsupportedParam,
} from '../../request/fields.ts'
import { gatewayShape } from '../../request/gateway-tools.ts'
import {
  addresses,
  camelCased,
  camelCasedEmbedding,
  chatBody,
  isForeign,
  sealedPart,
  thoughtSignatureOf,
  thoughtsOnCall,
} from './read.ts'
import { geminiUsage, generateContentRequest } from './schema.ts'
import { thinkingText } from '../../claude/content-blocks.ts'
import { encodeFrame, type Frame } from '../../framing/sse.ts'
import { carriedBy, isFilterReason } from '../wire-words.ts'

/** A chunk without text: Google's Python client takes a comment for broken JSON, and ends the answer. */
const keepalive = new TextEncoder().encode(
  `data: ${JSON.stringify({ candidates: [candidateOf(0, [{ text: '' }])] })}\n\n`,
)

export const inbound: Inbound = {
  id: 'gemini',
  keepalive,
  addresses,
  parse: parseRequest,
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
function parseRequest(sent: unknown): InboundRequest {
  const body = bodyObject(sent)
  const { data, error } = safeParsed(generateContentRequest, body)
  if (error) throw invalidRequest(error)
  const made = chatBody(data, String(body['model'] ?? ''), body['stream'] === true)
  const fields: ClientFields = { messages: () => made.params, names, membersDiffer: true }
  const request = attempt(() => chat.parse(made.body), fields)
  refuseDropped(made.warnings, request.envelope.strict)
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
  const [first] = result.choices
  const blocked = first?.blockedPrompt
  const native = first?.nativeFields
  return {
    ...(blocked === undefined ? { candidates } : promptFeedbackOf(blocked, first?.nativeFinish)),
    ...nativeFeedback(native),
    usageMetadata: usageMetadata(usage, bill, native?.usage),
    ...answerHead(context),
    ...wireWarnings(context.warnings),
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

// Encodes a streamed answer as chunks of streamGenerateContent, each shaped like a whole answer.

/** A function call with its arguments as JSON text. */
interface Called {
  readonly id: string
  readonly name: string
  readonly json: string
  readonly signature: string | undefined
}

interface OpenCall extends Called {
  json: string
}

interface OpenCandidate {
  text: string
  /** Reasoning that may go on; its signature is sent when it does not. */
  thought: ReasoningDetail | undefined
  /** Reasoning of other providers than Google, as far as it is complete. */
  readonly foreign: ReasoningDetail[]
  readonly calls: OpenCall[]
  readonly annotations: Annotation[]
  readonly runs: GatewayRun[]
  readonly items: JsonObject[]
  readonly logprobs: Json[]
  finish: Extract<ChatEvent, { kind: 'choice-finish' }> | undefined
}

/** Function calls are not split in this protocol, so they are sent at the end, with complete arguments. */
export class GeminiEncoder implements StreamEncoder {
  readonly #context: AnswerContext
  readonly #candidates = new Map<number, OpenCandidate>()

  constructor(context: AnswerContext) {
    this.#context = context
    this.#candidate(0)
  }

  start(): readonly Frame[] {
    return []
  }

  event(event: ChatEvent): readonly Frame[] {
    if (!('choice' in event)) return []
    const candidate = this.#candidate(event.choice)
    switch (event.kind) {
      case 'text-delta':
      case 'refusal-delta':
        candidate.text += event.text
        return event.text === '' ? [] : this.#chunkOfParts(event.choice, [{ text: event.text }])
      case 'reasoning-delta':
        if (this.#context.sealsThoughts === true && isForeign(event.detail)) {
          keep(candidate, event.detail)
          return []
        }
        return this.#chunkOf(event.choice, thoughtParts(candidate, event.detail))
      case 'tool-call-start': {
        const { call, id, name, thoughtSignature: signature } = event
        candidate.calls[call] = { id, name, signature, json: '' }
        return []
      }
      case 'tool-call-delta': {
        const call = candidate.calls[event.call]
        if (call) call.json += event.arguments
        return []
      }
      case 'image':
        return this.#chunkOfParts(event.choice, [
          { inlineData: { mimeType: event.mediaType, data: event.data } },
        ])
      case 'audio-delta': {
        const { data } = event.audio
        return data === undefined ? [] : this.#chunkOfParts(event.choice, [audioPart(data)])
      }
      case 'annotation':
        candidate.annotations.push(event.annotation)
        return []
      case 'logprobs':
        candidate.logprobs.push(...event.content)
        return []
      case 'gateway-run':
        candidate.runs.push(event.run)
        return []
      case 'gateway-item':
        candidate.items.push(event.item)
        return []
      case 'gateway-call':
      case 'search-start':
        // A search shows at the end, with what it has found.
        return []
      case 'choice-finish':
        candidate.finish = event
        return []
      default:
        return event satisfies never
    }
  }

  /** What has come together goes on in one chunk: clients of this protocol keep a content for each, and send it back. */
  texts({ choice, content }: Texts): string {
    this.#candidate(choice).text += content
    return this.#chunkOfParts(choice, [{ text: content }])
      .map(encodeFrame)
      .join('')
  }

  finish(usage: Usage, bill: Bill): readonly Frame[] {
    const blocked = this.#candidate(0).finish
    const native = blocked?.nativeFields
    const end = {
      usageMetadata: usageMetadata(usage, bill, native?.usage),
      ...nativeFeedback(native),
      ...this.#context.extra,
    }
    if (blocked?.blockedPrompt !== undefined) {
      const feedback = promptFeedbackOf(blocked.blockedPrompt, blocked.native)
      return [frameOf({ ...answerHead(this.#context), ...feedback, ...end })]
    }
    const candidates = [...this.#candidates]
      .toSorted(([a], [b]) => a - b)
      .map(([index, candidate]) => ({
        ...candidateOf(index, lastParts(candidate, this.#context)),
        ...endingOf(candidate.finish ?? { reason: 'stop' }),
        ...candidate.finish?.nativeFields?.choice,
        ...groundingOf(candidate, candidate.text, candidate.finish?.nativeFields),
        ...logprobsOf(candidate.logprobs),
      }))
    return [this.#chunk(candidates, end)]
  }

  fail(error: RenderedError): readonly Frame[] {
    return [frameOf(wireError(error))]
  }

  #candidate(index: number): OpenCandidate {
    const known = this.#candidates.get(index)
    if (known) return known
    const fresh: OpenCandidate = {
      text: '',
      thought: undefined,
      foreign: [],
      calls: [],
      annotations: [],
      runs: [],
      items: [],
      logprobs: [],
      finish: undefined,
    }
    this.#candidates.set(index, fresh)
    return fresh
  }

  /** Parts that come after the reasoning so far. */
  #chunkOfParts(index: number, parts: JsonObject[]): Frame[] {
    return this.#chunkOf(index, [...closedThought(this.#candidate(index)), ...parts])
  }

  #chunkOf(index: number, parts: JsonObject[]): Frame[] {
    return parts.length === 0 ? [] : [this.#chunk([candidateOf(index, parts)])]
  }

  #chunk(candidates: JsonObject[], more: JsonObject = {}): Frame {
    return frameOf({ candidates, ...answerHead(this.#context), ...more })
  }
}

function frameOf(chunk: JsonObject): Frame {
  return { event: undefined, data: JSON.stringify(chunk) }
}

/**
 * Google's client drops the whole turn from its chat, with the question, if a chunk has no part: an empty text is one.
 * What a filter has stopped is dropped as it is at Google.
 */
function lastParts(candidate: OpenCandidate, { sealsThoughts }: AnswerContext): JsonObject[] {
  const { calls, finish, foreign } = candidate
  const parts = [...closedThought(candidate), ...calledParts(calls, foreign, sealsThoughts)]
  // An answer that the model spoiled may hold nothing at all.
  const isEmpty = finish?.reason === 'other' && candidate.text === ''
  return parts.length === 0 && finish?.reason !== 'content_filter' && !isEmpty ? [{ text: '' }] : parts
}

/** Keeps a piece of reasoning for the end of the answer. */
function keep({ foreign }: OpenCandidate, detail: ReasoningDetail): void {
  const last = foreign.at(-1)
  if (last?.index === detail.index) foreign[foreign.length - 1] = joinReasoning(last, detail)
  else foreign.push(detail)
}

/**
 * A piece of reasoning as it is streamed: the text at once, and what carries the rest of it behind its last piece. A
 * client returns each chunk by itself, and only the whole is of use to the provider that made it.
 */
function thoughtParts(candidate: OpenCandidate, detail: ReasoningDetail): JsonObject[] {
  if (!isForeign(detail)) return [...closedThought(candidate), ...reasoningPart(detail)]
  const isMore = candidate.thought?.index === detail.index
  const closed = isMore ? [] : closedThought(candidate)
  candidate.thought = isMore ? joinReasoning(candidate.thought, detail) : detail
  const text = thinkingText(detail)
  return text === '' ? closed : [...closed, { text, thought: true }]
}

/** The end of the reasoning so far: a part that carries all of it but the text, if there is anything. */
function closedThought(candidate: OpenCandidate): JsonObject[] {
  const { thought } = candidate
  candidate.thought = undefined
  if (thought === undefined) return []
  candidate.foreign.push(thought)
  return reasoningPart({ ...thought, text: '' })
}

/** The fields common to chunks and whole answers. */
export function answerHead({ id, model }: AnswerContext): JsonObject {
  return { modelVersion: model, responseId: id }
}

export function candidateOf(index: number, parts: JsonObject[]): JsonObject {
  return { index, content: { role: 'model', parts } }
}

// Answers of generateContent: candidates with parts, usageMetadata, and errors in Google's shape.

/** Google uses STOP after function calls too. */
const finishReasons: Readonly<Record<FinishReason, string>> = {
  stop: 'STOP',
  tool_calls: 'STOP',
  length: 'MAX_TOKENS',
  content_filter: 'SAFETY',
  other: 'OTHER',
}

/** How an answer ended. */
interface Ending {
  readonly reason: FinishReason
  readonly native?: string | undefined
  readonly explanation?: string | undefined
}

/** The finish reason on the wire, and a sentence about it: the provider's, or ours where Google has no word for the end. */
export function endingOf({ reason, native, explanation }: Ending): JsonObject {
  const finishReason = wireFinish(reason, native)
  const said =
    explanation ??
    (reason === 'other' && native && finishReason !== native
      ? `The provider ended the answer with ${native}.`
      : undefined)
  return { finishReason, ...(said === undefined ? {} : { finishMessage: said }) }
}

/** Google's finish reasons: those that are new are written like the known ones. */
const googlesWord = /^[A-Z]+(?:_[A-Z]+)*$/

/** `native` is the provider's own word, which is kept if it is Google's for a filter, or for an end like no other. */
function wireFinish(reason: FinishReason, native: string | undefined): string {
  const isFiner =
    native !== undefined &&
    ((reason === 'content_filter' && isFilterReason(native)) ||
      (reason === 'other' && googlesWord.test(native)))
  return isFiner ? native : finishReasons[reason]
}

/** How an answer without candidates says that the prompt was refused; `native` is the provider's reason. */
export function promptFeedbackOf({ message }: BlockedPrompt, native: string | undefined): JsonObject {
  const said: JsonObject = message === undefined ? {} : { blockReasonMessage: message }
  return { promptFeedback: { blockReason: native || 'OTHER', ...said } }
}

/** What Google itself said of the prompt. */
function nativeFeedback(native: NativeFields | undefined): JsonObject {
  return native === undefined || hasNoFields(native.prompt) ? {} : { promptFeedback: native.prompt }
}

/**
 * All parts of a whole answer: thoughts, text, pictures, sound, then calls. Sealed thoughts come last, as many
 * clients take the first part for the answer.
 */
export function partsOf(
  choice: Choice,
  { sealsThoughts }: Pick<AnswerContext, 'sealsThoughts'>,
): JsonObject[] {
  const foreign = choice.reasoning.filter(isForeign)
  const shown =
    sealsThoughts === true ? choice.reasoning.filter((each) => !isForeign(each)) : choice.reasoning
  const text = `${choice.text ?? ''}${choice.refusal ?? ''}`
  const audio = choice.audio?.data
  return [
    ...shown.flatMap(reasoningPart),
    ...(text === '' ? [] : [{ text }]),
    ...choice.images.map(({ mediaType, data }) => ({ inlineData: { mimeType: mediaType, data } })),
    ...(audio === undefined ? [] : [audioPart(audio)]),
    ...calledParts(
      choice.toolCalls.map((call) => ({ ...call, json: call.arguments, signature: call.thoughtSignature })),
      foreign,
      sealsThoughts,
    ),
  ]
}

/**
 * The function calls of an answer, then what is left of the reasoning of other providers. It is carried by the first
 * call; without one, if the client has not seen it, by parts that show nothing.
 */
function calledParts(
  calls: readonly Called[],
  foreign: readonly ReasoningDetail[],
  sealsThoughts: true | undefined,
): JsonObject[] {
  const isCarried = foreign.length > 0 && calls[0] !== undefined && calls[0].signature === undefined
  const parts = calls.map(({ id, name, json, signature }, at) =>
    callPart(id, name, json, isCarried && at === 0 ? thoughtsOnCall(foreign) : signature),
  )
  return isCarried || sealsThoughts !== true ? parts : [...parts, ...foreign.map(sealedPart)]
}

/** A piece of reasoning as the part it belongs to, or as a thought. */
function reasoningPart(detail: ReasoningDetail): JsonObject[] {
  // Only Google's own has places in its ids, and signatures that Google knows.
  const carried = isForeign(detail) ? undefined : carriedBy(detail)
  if (carried?.kind === 'part') return [carried.part]
  // Signatures of images are left out: the image has been sent already.
  if (carried?.kind === 'image') return []
  if (carried?.kind === 'text') return [{ text: '', thoughtSignature: carried.signature }]
  const text = thinkingText(detail)
  const signature = thoughtSignatureOf(detail)
  const signed: JsonObject = signature === undefined ? {} : { thoughtSignature: signature }
  if (detail.type === 'reasoning.encrypted') return signature === undefined ? [] : [{ text: '', ...signed }]
  return text === '' && signature === undefined ? [] : [{ text, thought: true, ...signed }]
}

function callPart(id: string, name: string, json: string, signature: string | undefined): JsonObject {
  const args = parseToolJson(json === '' ? '{}' : json)
  return {
    functionCall: { id, name, args: isObject(args) ? args : { invalid_arguments: json } },
    ...(signature === undefined ? {} : { thoughtSignature: signature }),
  }
}

/** Sound as Google makes it: 24 kHz PCM. */
function audioPart(data: string): JsonObject {
  return { inlineData: { mimeType: 'audio/L16;codec=pcm;rate=24000', data } }
}

/** What an answer has of searches: what it cites, what the gateway ran, and items of the provider's own searches. */
interface Searched {
  readonly annotations: readonly Annotation[]
  readonly runs: readonly GatewayRun[]
  readonly items: readonly JsonObject[]
}

/** The queries of an answer's searches, what they found, and the sources of text ranges. Google counts UTF-8 bytes. */
export function groundingOf(
  { annotations, runs, items }: Searched,
  text: string,
  native: NativeFields | undefined,
): JsonObject {
  const queries = [
    ...new Set([
      ...runs.flatMap(({ result }) => queriesOf(result.action)),
      ...items.flatMap(({ type, action }) => (type === 'web_search_call' ? queriesOf(action) : [])),
    ]),
  ]
  const found = runs.flatMap(({ result }) => result.sources ?? [])
  if (queries.length === 0 && annotations.length === 0) return {}
  const titles = new Map([...annotations, ...found].map(({ url, title }) => [url, title]))
  const places = new Map([...titles.keys()].map((url, index) => [url, index]))
  const bytesUntil = (end: number) => Buffer.byteLength(text.slice(0, end))
  return {
    groundingMetadata: {
      // Google's terms ask for its own search suggestions to be shown.
      ...(native?.choice['groundingMetadata'] as JsonObject | undefined),
      ...(queries.length === 0 ? {} : { webSearchQueries: queries }),
      groundingChunks: [...titles].map(([uri, title]) => ({ web: { uri, title } })),
      groundingSupports: annotations.map(({ url, start, end }) => ({
        segment: { startIndex: bytesUntil(start), endIndex: bytesUntil(end), text: text.slice(start, end) },
        groundingChunkIndices: [places.get(url)!],
      })),
    },
  }
}

/** The queries of a search; opening a page has none. */
function queriesOf(action: Json | undefined): string[] {
  const { query, queries } = isObject(action) ? action : {}
  const all = Array.isArray(queries) ? queries : [query]
  return all.filter((each): each is string => typeof each === 'string')
}

export function logprobsOf(content: readonly Json[]): JsonObject {
  if (content.length === 0) return {}
  const token = (value: Json): JsonObject =>
    isObject(value) ? { token: value['token'] ?? '', logProbability: value['logprob'] ?? 0 } : {}
  const rivals = (value: Json) =>
    isObject(value) && Array.isArray(value['top_logprobs']) ? value['top_logprobs'].map(token) : []
  return {
    logprobsResult: {
      chosenCandidates: content.map(token),
      topCandidates: content.map((value) => ({ candidates: rivals(value) })),
    },
  }
}

/**
 * Cached tokens are inside the prompt count, thoughts beside the candidates'; `cost`, `costDetails` are ours. `native`:
 * Google's own counters, of which the prompts of its tools are beside the prompt count.
 */
export function usageMetadata(usage: Usage, bill: Bill, native: JsonObject = {}): JsonObject {
  const prompt = promptTokens(usage)
  const completion = completionTokens(usage)
  const { toolUsePromptTokenCount: ofTools } = native
  return {
    ...native,
    promptTokenCount: typeof ofTools === 'number' ? Math.max(0, prompt - ofTools) : prompt,
    cachedContentTokenCount: usage.cacheRead + usage.cacheReadAudio,
    candidatesTokenCount: completion - usage.reasoning,
    thoughtsTokenCount: usage.reasoning,
    totalTokenCount: prompt + completion,
    cost: Number(bill.cost),
    costDetails: { ...bill.lines, total: bill.cost },
  }
}

/** google.rpc.Code for the HTTP statuses in use. */
const statuses: Readonly<Record<number, string>> = {
  401: 'UNAUTHENTICATED',
  402: 'FAILED_PRECONDITION',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  405: 'UNIMPLEMENTED',
  409: 'ABORTED',
  429: 'RESOURCE_EXHAUSTED',
  499: 'CANCELLED',
  500: 'INTERNAL',
  502: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
}

/** An error in Google's shape, with our code and metadata in its details. */
export function wireError({ error }: RenderedError): JsonObject {
  const code = errorTable[error.code].status
  const known = Object.entries(error.metadata).filter(([, value]) => value !== undefined)
  const metadata = Object.fromEntries(
    known.map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
  )
  const reason: JsonObject = {
    '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
    reason: error.code,
    domain: 'weir',
    metadata: { ...metadata, ...(error.param === null ? {} : { param: error.param }) },
  }
  return {
    error: {
      code,
      message: error.message,
      status: statuses[code] ?? 'INVALID_ARGUMENT',
      details: [reason],
    },
  }
}
