// Classifies errors of this protocol by HTTP status, error type and message.

import type { Fault, FaultKind } from '../../../conversation/event.ts'
import { fault, foreignFault, kindOfStatus } from '../../faults.ts'
import { entryOf, isObject, parseJson } from '../../json.ts'

const kindOfType: Readonly<Record<string, FaultKind>> = {
  invalid_request_error: 'invalid-request',
  authentication_error: 'credentials',
  permission_error: 'credentials',
  billing_error: 'quota',
  not_found_error: 'not-found',
  request_too_large: 'invalid-request',
  rate_limit_error: 'rate-limited',
  timeout_error: 'timeout',
  api_error: 'broken',
  overloaded_error: 'overloaded',
}

/** Messages more specific than status and type. The first is recorded, the others documented or reported. */
const kindOfWords: readonly (readonly [RegExp, FaultKind])[] = [
  [
    /prompt is too long|exceeds? (the )?context (limit|window)|input is too long|too many total text bytes/i,
    'context-length',
  ],
  [/credit balance is too low|usage limits?\b|spend(ing)? limit/i, 'quota'],
  [/content filtering policy|blocked by .*polic/i, 'content-filter'],
]

/** The fault of an error status. `body` is raw text: possibly HTML, empty, or another cloud's envelope. */
export function faultOf(status: number, headers: Headers, body: string): Fault {
  const envelope = envelopeOf(body)
  const retryAfterMs = retryAfterOf(headers)
  if (envelope === undefined) return foreignFault(status, body, retryAfterMs)
  const kind = kindOf(status, envelope.type, envelope.message)
  return fault(kind, envelope.message, {
    param: kind === 'invalid-request' ? paramOf(envelope.message) : undefined,
    providerCode: envelope.type,
    status,
    retryAfterMs,
  })
}

/** The fault of an `error` event inside a stream with status 200. */
export function faultOfEvent(type: string | undefined, message: string | undefined): Fault {
  const words = message ?? 'the provider reported an error'
  const kind = wordsKind(words) ?? (type === undefined ? undefined : entryOf(kindOfType, type)) ?? 'broken'
  return fault(kind, words, { providerCode: type })
}

function kindOf(status: number, type: string | undefined, message: string): FaultKind {
  const byWords = status < 500 && status !== 401 && status !== 404 ? wordsKind(message) : undefined
  if (byWords !== undefined) return byWords
  const byStatus = kindOfStatus(status)
  const byType = type === undefined ? undefined : entryOf(kindOfType, type)
  if (byStatus === 'invalid-request') return byType ?? byStatus
  return byStatus === 'broken' && (byType === 'overloaded' || byType === 'timeout') ? byType : byStatus
}

function wordsKind(message: string): FaultKind | undefined {
  return kindOfWords.find(([pattern]) => pattern.test(message))?.[1]
}

interface ErrorBody {
  readonly type: string | undefined
  readonly message: string
}

/** Anthropic's `{error:{type,message}}`, Google's `{error:{status,message}}` (Vertex), Amazon's `{message}`. */
function envelopeOf(body: string): ErrorBody | undefined {
  const parsed = parseJson(body)
  const outer: unknown = Array.isArray(parsed) ? parsed[0] : parsed
  if (!isObject(outer)) return undefined
  const inner = isObject(outer.error) ? outer.error : outer
  const message = [inner.message, outer.message, outer.error].find(isText)
  const type = [inner.type, inner.status].find((value) => isText(value) && value !== 'error')
  return { type: isText(type) ? type : undefined, message: message ?? 'an error without a message' }
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

/** The field at fault: Anthropic's messages begin with its path ("messages.0.content: …"). */
function paramOf(message: string): string | undefined {
  return /^([a-z_]+(?:\.[a-z0-9_]+)*): /.exec(message)?.[1]
}

/** How long the provider asks to wait, milliseconds: `retry-after-ms`, or `retry-after` in seconds or as a date. */
function retryAfterOf(headers: Headers): number | undefined {
  const millis = Number(headers.get('retry-after-ms') ?? Number.NaN)
  if (Number.isFinite(millis) && millis > 0) return millis
  const after = headers.get('retry-after')
  if (after === null) return undefined
  const seconds = Number(after)
  if (Number.isFinite(seconds)) return seconds >= 0 ? seconds * 1000 : undefined
  // The date is relative to the provider's clock, not ours.
  const wait = Date.parse(after) - Date.parse(headers.get('date') ?? '')
  return Number.isFinite(wait) ? Math.max(0, wait) : undefined
}
