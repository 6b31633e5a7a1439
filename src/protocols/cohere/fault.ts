// Classifies Cohere's errors: `{id, message, error_type?}` on error statuses, and answers that finish with ERROR.

import type { Fault, FaultKind } from '../../conversation/event.ts'
import { fault, foreignFault, kindOfStatus } from '../faults.ts'
import { isObject, nonEmpty, parseJson } from '../json.ts'
import { retryAfterMs } from '../retry-after.ts'

/**
 * Recorded: TOO_MANY_TOKENS, INVALID_TOOL_GENERATION. The others are documented. Trial keys are limited per minute,
 * which passes, and per month.
 */
const kindOfWords: readonly (readonly [RegExp, FaultKind])[] = [
  [/too[ _]many[ _]tokens|context (length|window)/i, 'context-length'],
  [/(per|\/) ?minute/i, 'rate-limited'],
  [/month|billing|out of credit/i, 'quota'],
  [/blocked|unsafe|content (policy|filter)/i, 'content-filter'],
]

/** Statuses that Cohere documents beside the usual ones: 498 blocked input, 499 cancelled request. */
const ownStatuses: Readonly<Record<number, FaultKind>> = { 498: 'content-filter', 499: 'cut' }

/** An answer with an error status. */
export function faultOf(status: number, headers: Headers, body: string): Fault {
  const answer = parseJson(body)
  const wait = retryAfterMs(headers)
  if (!isObject(answer)) return foreignFault(status, body, wait)
  const message = nonEmpty(answer.message) ?? nonEmpty(answer.error) ?? 'an error without a message'
  const type = nonEmpty(answer.error_type)
  const byStatus = kindOfStatus(status, ownStatuses)
  const speaks = byStatus === 'invalid-request' || byStatus === 'rate-limited'
  const byWords = speaks ? kindOfWords.find(([words]) => words.test(`${type} ${message}`))?.[1] : undefined
  return fault(byWords ?? byStatus, message, { status, providerCode: type, retryAfterMs: wait })
}

/** The error in place of an answer with status 200; undefined if there is none. */
export function faultInside(body: unknown): Fault | undefined {
  if (!isObject(body)) return undefined
  const message = nonEmpty(body.message) ?? nonEmpty(body.error)
  if (message === undefined) return undefined
  const type = nonEmpty(body.error_type)
  const kind = kindOfWords.find(([words]) => words.test(`${type} ${message}`))?.[1]
  return fault(kind ?? 'broken', message, { providerCode: type })
}

/** An answer that finished with ERROR or TIMEOUT: none of it may be taken as complete. */
export function faultOfFinish(reason: string, message: string | undefined, type: string | undefined): Fault {
  const kind = reason === 'TIMEOUT' ? 'timeout' : 'broken'
  return fault(kind, message ?? `the answer finished with ${reason}`, { providerCode: type ?? reason })
}
