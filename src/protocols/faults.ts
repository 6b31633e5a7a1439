// Faults: built, told from a status whose body says nothing, from Amazon's errors, and how long to wait before a retry.

import type { ChatEvent, Fault, FaultKind } from '../conversation/event.ts'
import { OversizedFrame } from './framing/sse.ts'
import { entryOf, isObject, nonEmpty, parseJson } from './lenient.ts'

/** The most characters of a provider's message that are kept. */
const maxMessageCharacters = 2000

/** A fault of this kind with the given fields. */
export function fault(kind: FaultKind, message: string, more: Partial<Fault> = {}): Fault {
  return {
    param: undefined,
    providerCode: undefined,
    status: undefined,
    retryAfterMs: undefined,
    ...more,
    kind,
    message: message.slice(0, maxMessageCharacters),
  }
}

/** The terminal event of an answer that failed. */
export function errorEvent(fault: Fault): ChatEvent {
  return { kind: 'error', fault }
}

/** The fault of a stream whose decoder or parser threw. */
export function unreadable(error: unknown): Fault {
  const kind = error instanceof OversizedFrame ? 'too-large' : 'broken'
  return fault(kind, `the stream could not be read: ${String(error)}`)
}

const kinds: Readonly<Record<number, FaultKind>> = {
  401: 'credentials',
  402: 'quota',
  403: 'credentials',
  404: 'not-found',
  408: 'timeout',
  429: 'rate-limited',
  503: 'overloaded',
  504: 'timeout',
  529: 'overloaded',
}

/** What an HTTP status means without a body; `own` holds statuses that only some providers use. */
export function kindOfStatus(status: number, own: Readonly<Record<number, FaultKind>> = {}): FaultKind {
  const byClass = status >= 400 && status < 500 ? 'invalid-request' : 'broken'
  return own[status] ?? kinds[status] ?? byClass
}

/** Of a longer text the beginning says why; the rest may quote the request. */
const longestSentence = 300

/**
 * The message of a server that refuses a request (400 or 422) in plain text, or in JSON of no known shape; undefined for
 * a page or an empty body, which come from a proxy.
 */
export function refusalInWords(status: number, body: string): string | undefined {
  if (status !== 400 && status !== 422) return undefined
  const text = body.trim()
  if (text === '' || text.startsWith('<')) return undefined
  return /^[{[]/.test(text)
    ? 'The provider gave no reason that could be read.'
    : text.slice(0, longestSentence)
}

/**
 * The fault of an error body that is not the protocol's: a proxy in front of the provider wrote it, so its 401 or 404
 * is not the provider's.
 */
export function foreignFault(status: number, body: string, retryAfterMs: number | undefined): Fault {
  const sentence = refusalInWords(status, body)
  if (sentence !== undefined) return fault('invalid-request', sentence, { status, retryAfterMs })
  const kind = status === 429 || status >= 500 ? kindOfStatus(status) : 'broken'
  const what = body.trim() === '' ? 'an empty error body' : 'an error body that is not JSON'
  return fault(kind, `HTTP ${status} with ${what}`, { status, retryAfterMs })
}

// Classifies Bedrock's errors: `{message}` with the type in a header, and exceptions inside a stream.

/** By type in lower case: streams and statuses capitalise the names differently. */
const kindOfType: Readonly<Record<string, FaultKind>> = {
  accessdeniedexception: 'credentials',
  expiredtokenexception: 'credentials',
  incompletesignature: 'credentials',
  invalidsignatureexception: 'credentials',
  missingauthenticationtokenexception: 'credentials',
  unrecognizedclientexception: 'credentials',
  servicequotaexceededexception: 'quota',
  resourcenotfoundexception: 'not-found',
  throttlingexception: 'rate-limited',
  modelnotreadyexception: 'overloaded',
  serviceunavailableexception: 'overloaded',
  modeltimeoutexception: 'timeout',
  modelerrorexception: 'broken',
  modelstreamerrorexception: 'broken',
  internalserverexception: 'broken',
  internalfailure: 'broken',
  validationexception: 'invalid-request',
}

const kindOfWords: readonly (readonly [RegExp, FaultKind])[] = [
  [
    /input tokens? exceeded|input is too long|prompt is too long|too many input tokens|context (window|length|limit)|maximum (context|tokens)/i,
    'context-length',
  ],
  [/model identifier is invalid|model .*(not found|does ?n.t exist)|end of its life/i, 'not-found'],
  [/too many tokens per day|quota/i, 'quota'],
  [/content filtering policy|blocked by .*polic/i, 'content-filter'],
]

/** An answer with an error status. */
export function faultOf(status: number, headers: Headers, body: string): Fault {
  const answer = parseJson(body)
  const wait = retryAfterMs(headers)
  if (!isObject(answer)) return foreignFault(status, body, wait)
  // `ValidationException:http://…` in the header; `…#ValidationException` in some bodies.
  const type = headers.get('x-amzn-errortype')?.split(':')[0] ?? nonEmpty(answer.__type)?.split('#').at(-1)
  const message = nonEmpty(answer.message) ?? nonEmpty(answer.Message) ?? 'an error without a message'
  const kind = kindOf(type, message) ?? kindOfStatus(status)
  return fault(kind, message, { status, providerCode: type, retryAfterMs: wait })
}

/** An exception of a stream that had begun. */
export function faultOfException(type: string, data: string): Fault {
  const answer = parseJson(data)
  const message = (isObject(answer) ? nonEmpty(answer.message) : undefined) ?? 'the provider broke off'
  return fault(kindOf(type, message) ?? 'broken', message, { providerCode: type })
}

function kindOf(type: string | undefined, message: string): FaultKind | undefined {
  const byType = type === undefined ? undefined : entryOf(kindOfType, type.toLowerCase())
  const speaks = byType === undefined || byType === 'invalid-request' || byType === 'rate-limited'
  const byWords = speaks ? kindOfWords.find(([words]) => words.test(message))?.[1] : undefined
  return byWords ?? byType
}

// How long a provider asks us to wait: its retry and rate-limit headers, in all their notations.

/** Go's durations, as OpenAI, Groq and xAI write them: `17.399999999s`, `2ms`, `6m0s`. */
const goUnits: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
}

/** A number of this size is a time since 1970 in milliseconds (OpenRouter), not a duration. */
const earliestEpochMs = 1e12
/** The same in seconds (SambaNova). */
const earliestEpochSeconds = 1e9

/**
 * The shortest wait that the headers of an error name, in milliseconds; undefined where they name none.
 * A zero names none (Azure sends `retry-after-ms: 0` beside `retry-after: 1`). The reset of a limit counts only
 * when nothing remains of that limit: the others reset sooner and help nobody.
 */
export function retryAfterMs(headers: Headers): number | undefined {
  const waits = [
    number(headers.get('retry-after-ms')),
    secondsOrDate(headers.get('retry-after')),
    ...exhaustedResets(headers),
  ].filter((wait) => wait !== undefined && wait > 0) as number[]
  return waits.length === 0 ? undefined : Math.ceil(Math.min(...waits))
}

/** The wait that a message names: "Please try again in 7m12s", "retry after 30 seconds", "wait 5s"; undefined where it names none. */
export function waitInWordsMs(message: string): number | undefined {
  const stated =
    /\b(?:(?:try again|retry(?:ing)?) (?:in|after)|wait(?: for)?) (?:about |approximately )?(\d[\d.]*) ?([a-zµ]+[\d.a-zµ]*)/i.exec(
      message,
    )
  if (!stated) return undefined
  const [, amount = '', unit = ''] = stated
  const written = `${amount}${unit.replace(/\.$/, '')}`
  const inUnits = goDurationMs(written)
  const perUnit = wordUnits[unit.toLowerCase().replace(/s?\.?$/, '')]
  const wait = inUnits ?? (perUnit === undefined ? undefined : Number(amount) * perUnit)
  return wait === undefined || !(wait > 0) ? undefined : Math.ceil(wait)
}

/** Units as words, in the singular. */
const wordUnits: Readonly<Record<string, number>> = {
  millisecond: 1,
  sec: 1000,
  second: 1000,
  min: 60_000,
  minute: 60_000,
  hour: 3_600_000,
}

/** What a provider limits; Cerebras limits each in several windows. */
const limits = ['', '-requests', '-tokens'].flatMap((limit) =>
  limit === '' ? [limit] : [limit, ...['-minute', '-hour', '-day'].map((window) => limit + window)],
)

function exhaustedResets(headers: Headers): (number | undefined)[] {
  return limits
    .filter((limit) => headers.get(`x-ratelimit-remaining${limit}`)?.trim() === '0')
    .map((limit) => resetMs(headers.get(`x-ratelimit-reset${limit}`)))
}

function resetMs(value: string | null): number | undefined {
  const plain = number(value)
  if (plain === undefined) return goDurationMs(value)
  if (plain >= earliestEpochMs) return Math.max(0, plain - Date.now())
  return plain >= earliestEpochSeconds ? Math.max(0, plain * 1000 - Date.now()) : plain * 1000
}

/** A Go duration in milliseconds; undefined for anything else. */
function goDurationMs(value: string | null): number | undefined {
  if (value === null || !/^(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+$/.test(value)) return undefined
  let total = 0
  for (const [, amount, unit] of value.matchAll(/(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)/g)) {
    total += Number(amount) * goUnits[unit!]!
  }
  return total
}

function secondsOrDate(value: string | null): number | undefined {
  const seconds = number(value)
  if (seconds !== undefined) return seconds * 1000
  const duration = goDurationMs(value)
  if (duration !== undefined) return duration
  const date = value === null ? Number.NaN : Date.parse(value)
  return Number.isNaN(date) ? undefined : Math.max(0, date - Date.now())
}

function number(value: string | null): number | undefined {
  if (value === null || !/^\s*\d+(\.\d+)?\s*$/.test(value)) return undefined
  return Number(value)
}
