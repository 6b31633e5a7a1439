// Building faults: what every protocol must fill in, and what an HTTP status means where the body says no more.

import type { Fault, FaultKind } from '../conversation/event.ts'

/** The most characters of a provider's message that are kept. */
const maxMessageCharacters = 2000

/** A fault of this kind; what is not named is unknown. */
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

/** No sentence about a request is longer; a page of a proxy is. */
const longestSentence = 300

/**
 * The sentence of a server that refuses a request (400 or 422) in plain text instead of its protocol's JSON; undefined
 * for a page or nothing at all, which come from a proxy and say nothing of the request.
 */
export function refusalInWords(status: number, body: string): string | undefined {
  if (status !== 400 && status !== 422) return undefined
  const text = body.trim()
  return text === '' || text.length > longestSentence || /^[<{[]/.test(text) ? undefined : text
}

/**
 * What an error body that is not the protocol's means: something before the provider wrote it, so its 401 or 404 is
 * not the provider's.
 */
export function foreignFault(status: number, body: string, retryAfterMs: number | undefined): Fault {
  const sentence = refusalInWords(status, body)
  if (sentence !== undefined) return fault('invalid-request', sentence, { status, retryAfterMs })
  const kind = status === 429 || status >= 500 ? kindOfStatus(status) : 'broken'
  const what = body.trim() === '' ? 'an empty error body' : 'an error body that is not JSON'
  return fault(kind, `HTTP ${status} with ${what}`, { status, retryAfterMs })
}
