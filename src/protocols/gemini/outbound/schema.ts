// The answers of Gemini and Vertex, read leniently: a field of the wrong type counts as absent, unknown fields are
// kept. Google's JSON omits zeros, false and empty strings.

import type { Fault, FaultKind } from '../../../conversation/event.ts'
import { count, counter, disjoint, serviceTierOf, type Usage } from '../../../conversation/usage.ts'
import { fault, foreignFault, kindOfStatus } from '../../faults.ts'
import {
  anyObject,
  anything,
  entryOf,
  flag,
  list,
  number,
  object,
  parseJson,
  position,
  text,
  type ValueRead,
} from '../../lenient.ts'

const partialArg = object({
  jsonPath: text,
  stringValue: text,
  numberValue: number,
  boolValue: flag,
  nullValue: anything,
  willContinue: flag,
})

const functionCall = object({
  id: text,
  name: text,
  args: anyObject,
  partialArgs: list(partialArg),
  willContinue: flag,
})

const part = object({
  text,
  thought: flag,
  thoughtSignature: text,
  functionCall,
  inlineData: object({ mimeType: text, data: text }),
})

const tokenDetail = object({ modality: text, tokenCount: number })

const counterFields = {
  promptTokenCount: number,
  candidatesTokenCount: number,
  thoughtsTokenCount: number,
  toolUsePromptTokenCount: number,
  cachedContentTokenCount: number,
  totalTokenCount: number,
  promptTokensDetails: list(tokenDetail),
  cacheTokensDetails: list(tokenDetail),
  candidatesTokensDetails: list(tokenDetail),
  toolUsePromptTokensDetails: list(tokenDetail),
  // Vertex and the Gemini API use different names for the service tier.
  trafficType: text,
  serviceTier: text,
}
const usageMetadata = object(counterFields)

const source = object({ uri: text, title: text })

const groundingMetadata = object({
  webSearchQueries: list(text),
  // A web page, a document of the caller, or a place on the map.
  groundingChunks: list(object({ web: source, retrievedContext: source, maps: source })),
  groundingSupports: list(
    object({
      segment: object({ startIndex: number, endIndex: number, text }),
      groundingChunkIndices: list(number),
    }),
  ),
})

const tokenLogprob = object({ token: text, logProbability: number })

const candidate = object({
  index: position,
  content: object({ parts: list(part) }),
  finishReason: text,
  finishMessage: text,
  groundingMetadata,
  citationMetadata: object({
    citations: list(object({ startIndex: number, endIndex: number, uri: text, title: text })),
  }),
  logprobsResult: object({
    chosenCandidates: list(tokenLogprob),
    topCandidates: list(object({ candidates: list(tokenLogprob) })),
  }),
})

/** An answer, or a chunk of a streamed one: they have the same shape. */
export const readChunk = object({
  responseId: text,
  modelVersion: text,
  candidates: list(candidate),
  promptFeedback: object({ blockReason: text, blockReasonMessage: text }),
  usageMetadata,
  error: anything,
})

/** Google's error object, in error statuses and streams. */
const readError = object({
  code: number,
  message: text,
  status: text,
  details: list(
    object({
      reason: text,
      retryDelay: text,
      violations: list(object({ quotaId: text })),
      fieldViolations: list(object({ field: text })),
    }),
  ),
})

export type Chunk = ValueRead<typeof readChunk>
export type AnswerCandidate = ValueRead<typeof candidate>
export type Part = ValueRead<typeof part>
export type PartialArg = ValueRead<typeof partialArg>
type UsageMetadata = ValueRead<typeof usageMetadata>
type TokenDetail = ValueRead<typeof tokenDetail>
export type GroundingMetadata = ValueRead<typeof groundingMetadata>
export type CitationMetadata = NonNullable<AnswerCandidate['citationMetadata']>
export type LogprobsResult = NonNullable<AnswerCandidate['logprobsResult']>

// Converts Gemini's counters. Cached tokens are inside the prompt count; thoughts and the prompts of built-in tools
// are separate (total = prompt + tool prompts + candidates + thoughts).

/** The latest value of each counter of an answer. */
export type Counters = { -readonly [Name in CounterName]?: UsageMetadata[Name] }

type CounterName = keyof typeof counterFields
const counterNames = Object.keys(counterFields) as readonly CounterName[]

/**
 * Takes the counters of a chunk: one without a counter (Vertex sends only `trafficType` before its last chunk) does not
 * change it, while an explicit zero does.
 */
export function updateCounters(counters: Counters, chunk: UsageMetadata): void {
  for (const name of counterNames) {
    const value = chunk[name]
    if (value !== undefined) (counters as Record<CounterName, unknown>)[name] = value
  }
}

/** The counters in disjoint buckets; undefined if the provider counted nothing. */
export function usageOf(counters: Counters, toolCalls: Record<string, number>): Usage | undefined {
  if (!countsAnything(counters)) return undefined
  const toolPrompt = count(counters.toolUsePromptTokenCount)
  const thoughts = count(counters.thoughtsTokenCount)
  const { prompt, candidates } = partsOf(counters, toolPrompt + thoughts)
  const serviceTier = serviceTierOf(counters.serviceTier ?? counters.trafficType)
  const usage = disjoint({
    prompt: prompt === undefined ? undefined : prompt + toolPrompt,
    completion: candidates === undefined ? undefined : candidates + thoughts,
    cacheRead: Math.min(count(counters.cachedContentTokenCount), prompt ?? 0),
    cacheReadAudio: tokensOf(counters.cacheTokensDetails, 'AUDIO'),
    inputAudio: askedIn(counters, 'AUDIO'),
    inputImage: askedIn(counters, 'IMAGE'),
    reasoning: thoughts,
    outputAudio: tokensOf(counters.candidatesTokensDetails, 'AUDIO'),
    outputImage: tokensOf(counters.candidatesTokensDetails, 'IMAGE'),
    toolCalls,
  })
  return serviceTier === undefined ? usage : { ...usage, serviceTier }
}

/**
 * The prompt and the candidates. The total gives the one that is left out; what it has beyond all that is counted (`other`
 * are the counters beside these two) is output. A counter that is there and cannot be is none.
 */
function partsOf(
  counters: Counters,
  other: number,
): { readonly prompt: number | undefined; readonly candidates: number | undefined } {
  const prompt = counter(counters.promptTokenCount)
  const candidates = counter(counters.candidatesTokenCount)
  const total = counter(counters.totalTokenCount)
  if (total === undefined) return { prompt, candidates }
  const rest = Math.max(0, total - other)
  if (prompt === undefined) {
    const isLeftOut = counters.promptTokenCount === undefined && candidates !== undefined
    return { prompt: isLeftOut ? Math.max(0, rest - candidates) : undefined, candidates }
  }
  if (candidates === undefined && counters.candidatesTokenCount !== undefined) return { prompt, candidates }
  return { prompt, candidates: Math.max(candidates ?? 0, rest - prompt) }
}

/** The prompt tokens of one modality. Cached tokens are in the cache bucket, whatever their modality. */
function askedIn(counters: Counters, modality: string): number {
  return (
    tokensOf(counters.promptTokensDetails, modality) +
    tokensOf(counters.toolUsePromptTokensDetails, modality) -
    tokensOf(counters.cacheTokensDetails, modality)
  )
}

function countsAnything(counters: Counters): boolean {
  return (
    counters.promptTokenCount !== undefined ||
    counters.candidatesTokenCount !== undefined ||
    counters.thoughtsTokenCount !== undefined ||
    counters.totalTokenCount !== undefined
  )
}

function tokensOf(details: readonly TokenDetail[] | undefined, modality: string): number {
  if (details === undefined) return 0
  let sum = 0
  for (const detail of details) if (detail.modality === modality) sum += count(detail.tokenCount)
  return sum
}

// Classifies Google's errors: the envelope of error statuses, and the same object inside streams.

type GoogleError = ValueRead<typeof readError>

/** The fault of an error status. The body may be the envelope, the envelope in an array, HTML or empty. */
export function faultOf(status: number, headers: Headers, body: string): Fault {
  const error = errorIn(parseJson(body))
  if (error === undefined) {
    const retryAfterMs = waitIn(headers)
    // An HTML page comes from something in front of Google; an empty body means what its status says.
    if (body.trim() !== '') return foreignFault(status, body, retryAfterMs)
    return fault(kindOfStatus(status, ownStatuses), `HTTP ${status} with an empty body`, {
      status,
      retryAfterMs,
    })
  }
  return faultOfError(error, status, waitIn(headers))
}

/** The fault in a chunk with an `error`; undefined without one. */
export function faultIn(value: unknown): Fault | undefined {
  const error = errorIn(value)
  return error === undefined ? undefined : faultOfError(error, error.code, undefined)
}

export function cutOff(): Fault {
  return fault('cut', 'The stream ended before the answer did.')
}

function errorIn(value: unknown): GoogleError | undefined {
  const holder: unknown = Array.isArray(value) ? value[0] : value
  if (typeof holder !== 'object' || holder === null || !('error' in holder)) return undefined
  if (typeof holder.error === 'string') return { message: holder.error }
  return readError(holder.error)
}

function faultOfError(
  error: GoogleError,
  status: number | undefined,
  headerWaitMs: number | undefined,
): Fault {
  const details = error.details ?? []
  const reason = details.find((detail) => detail.reason !== undefined)?.reason
  const delay = details.map((detail) => milliseconds(detail.retryDelay)).find((wait) => wait !== undefined)
  return fault(
    kindOf(error, status, reason),
    error.message ?? error.status ?? 'The provider reported an error.',
    {
      status,
      providerCode: reason ?? error.status,
      param: details.flatMap((detail) => detail.fieldViolations ?? []).find((field) => field.field)?.field,
      // The delay is in the body; a header only comes from proxies.
      retryAfterMs: delay ?? headerWaitMs,
    },
  )
}

const contextOverflow =
  /token count.{0,40}exceeds|exceeds the maximum number of (?:input )?tokens|input context is too long|context (?:length|window)/i
/** Wrong, expired, leaked or unauthorised credentials: the operator's fault, not the caller's. */
const badCredentials =
  /api[ _]key (?:not valid|not found|expired|is invalid|was reported)|API_KEY|UNAUTHENTICATED|location is not supported/i
const outOfCredit = /credits? (?:are|is) depleted|spending cap|billing (?:is|account|to be) (?:not|dis)/i
/** A file that the key cannot read is reported as a permission error. */
const foreignFile = /access the file/i

function kindOf(error: GoogleError, status: number | undefined, reason: string | undefined): FaultKind {
  const message = error.message ?? ''
  if (badCredentials.test(`${reason ?? ''} ${error.status ?? ''} ${message}`)) return 'credentials'
  if (status === 403 && foreignFile.test(message)) return 'invalid-request'
  if (contextOverflow.test(message)) return 'context-length'
  if (outOfCredit.test(message)) return 'quota'
  if (status === 429 && hasDailyQuota(error)) return 'quota'
  return kindOfStatus(status ?? entryOf(statusOfName, error.status ?? '') ?? 500, ownStatuses)
}

/** A daily quota is not restored within the life of a request. */
function hasDailyQuota(error: GoogleError): boolean {
  return (error.details ?? []).some((detail) =>
    (detail.violations ?? []).some((violation) => violation.quotaId?.includes('PerDay')),
  )
}

const statusOfName: Readonly<Record<string, number>> = {
  INVALID_ARGUMENT: 400,
  FAILED_PRECONDITION: 400,
  OUT_OF_RANGE: 400,
  PERMISSION_DENIED: 403,
  NOT_FOUND: 404,
  RESOURCE_EXHAUSTED: 429,
  CANCELLED: 499,
  INTERNAL: 500,
  UNAVAILABLE: 503,
  DEADLINE_EXCEEDED: 504,
}

/** Google's number for CANCELLED. */
const ownStatuses: Readonly<Record<number, FaultKind>> = { 499: 'cut' }

/** Google's durations ("48s", "0.5s") in milliseconds. */
function milliseconds(duration: string | undefined): number | undefined {
  const seconds = /^(\d+(?:\.\d+)?)s$/.exec(duration ?? '')?.[1]
  return seconds === undefined ? undefined : Math.ceil(Number(seconds) * 1000)
}

function waitIn(headers: Headers): number | undefined {
  const value = headers.get('retry-after')
  return value !== null && /^\d+(?:\.\d+)?$/.test(value) ? Math.ceil(Number(value) * 1000) : undefined
}
