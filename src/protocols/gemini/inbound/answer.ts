// Answers of generateContent: candidates with parts, usageMetadata, and errors in Google's shape.

import type { Annotation, BlockedPrompt, Choice, FinishReason } from '../../../conversation/event.ts'
import type { GatewayRun } from '../../../conversation/gateway-tools.ts'
import type { Json, JsonObject, ReasoningDetail } from '../../../conversation/request.ts'
import { completionTokens, promptTokens, type Usage } from '../../../conversation/usage.ts'
import { errorTable, type RenderedError } from '../../../errors.ts'
import { isObject, parseToolJson } from '../../json.ts'
import type { AnswerContext, Bill } from '../../protocol.ts'
import { isFilterReason } from '../finish-reasons.ts'
import { carriedBy } from '../signatures.ts'
import { isForeign, sealedPart, thoughtSignatureOf, thoughtsOnCall } from './thoughts.ts'
import { thinkingText } from '../../claude/carried-reasoning.ts'

/** Google uses STOP after function calls too. */
const finishReasons: Readonly<Record<FinishReason, string>> = {
  stop: 'STOP',
  tool_calls: 'STOP',
  length: 'MAX_TOKENS',
  content_filter: 'SAFETY',
}

/** The finish reason on the wire; `native` is the provider's own, which is kept if Google has it for a filter. */
export function wireFinish(reason: FinishReason, native: string | undefined): string {
  const isFiner = reason === 'content_filter' && native !== undefined && isFilterReason(native)
  return isFiner ? native : finishReasons[reason]
}

/** How an answer without candidates says that the prompt was refused; `native` is the provider's reason. */
export function promptFeedbackOf({ message }: BlockedPrompt, native: string | undefined): JsonObject {
  const said: JsonObject = message === undefined ? {} : { blockReasonMessage: message }
  return { promptFeedback: { blockReason: native || 'OTHER', ...said } }
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

/** A function call with its complete arguments as JSON text. */
interface Called {
  readonly id: string
  readonly name: string
  readonly json: string
  readonly signature: string | undefined
}

/**
 * The function calls of an answer, then what is left of the reasoning of other providers. It is carried by the first
 * call; without one, if the client has not seen it, by parts that show nothing.
 */
export function calledParts(
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
export function reasoningPart(detail: ReasoningDetail): JsonObject[] {
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
export function audioPart(data: string): JsonObject {
  return { inlineData: { mimeType: 'audio/L16;codec=pcm;rate=24000', data } }
}

/** What an answer has of searches: what it cites, what the gateway ran, and items of the provider's own searches. */
export interface Searched {
  readonly annotations: readonly Annotation[]
  readonly runs: readonly GatewayRun[]
  readonly items: readonly JsonObject[]
}

/** The queries of an answer's searches, what they found, and the sources of text ranges. Google counts UTF-8 bytes. */
export function groundingOf({ annotations, runs, items }: Searched, text: string): JsonObject {
  const queries = [
    ...new Set([...runs.flatMap(({ result }) => queriesOf(result.action)), ...items.flatMap(ownQueries)]),
  ]
  const found = runs.flatMap(({ result }) => result.sources ?? [])
  if (queries.length === 0 && annotations.length === 0) return {}
  const titles = new Map([...annotations, ...found].map(({ url, title }) => [url, title]))
  const places = new Map([...titles.keys()].map((url, index) => [url, index]))
  const bytesUntil = (end: number) => Buffer.byteLength(text.slice(0, end))
  return {
    groundingMetadata: {
      ...(queries.length === 0 ? {} : { webSearchQueries: queries }),
      groundingChunks: [...titles].map(([uri, title]) => ({ web: { uri, title } })),
      groundingSupports: annotations.map(({ url, start, end }) => ({
        segment: { startIndex: bytesUntil(start), endIndex: bytesUntil(end), text: text.slice(start, end) },
        groundingChunkIndices: [places.get(url)!],
      })),
    },
  }
}

function ownQueries({ type, action }: JsonObject): string[] {
  return type === 'web_search_call' && isObject(action) ? queriesOf(action) : []
}

/** The queries of a search; opening a page has none. */
function queriesOf(action: JsonObject | undefined): string[] {
  const { query, queries } = action ?? {}
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

/** Cached tokens are inside the prompt count, thoughts beside the candidates'; `cost`, `costDetails` are ours. */
export function usageMetadata(usage: Usage, bill: Bill): JsonObject {
  const prompt = promptTokens(usage)
  const completion = completionTokens(usage)
  return {
    promptTokenCount: prompt,
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
