// Builds faults, and says what an HTTP status means if the body does not.

import type { Fault, FaultKind } from '../conversation/event.ts'
import { OversizedFrame } from './framing/sse.ts'

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
