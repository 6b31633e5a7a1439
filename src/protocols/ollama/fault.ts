// Classifies Ollama's errors: `{"error": "message"}` on error statuses and as a line of a started stream.

import type { Fault, FaultKind } from '../../conversation/event.ts'
import { fault, foreignFault, kindOfStatus } from '../faults.ts'
import { isObject, nonEmpty, parseJson } from '../json.ts'
import { retryAfterMs } from '../retry-after.ts'

/** Errors can only be told apart by message. The missing model is recorded, the others are from the server's source. */
const kindOfWords: readonly (readonly [RegExp, FaultKind])[] = [
  [/not found|try pulling it/i, 'not-found'],
  [/context (length|window|size)|input length|prompt is too long|exceeds? .*context/i, 'context-length'],
  [/server busy|maximum pending requests|overloaded/i, 'overloaded'],
  [/usage limit|quota|upgrade/i, 'quota'],
  [/does not support|invalid/i, 'invalid-request'],
]

/** An answer with an error status. */
export function faultOf(status: number, headers: Headers, body: string): Fault {
  const wait = retryAfterMs(headers)
  const message = messageIn(parseJson(body))
  if (message === undefined) return foreignFault(status, body, wait)
  const byStatus = kindOfStatus(status)
  // A 5xx with the server's own fault is not the request's, whatever its message contains.
  const speaks = ['invalid-request', 'rate-limited', 'broken'].includes(byStatus)
  const byWords = speaks ? kindOfMessage(message) : undefined
  const kind = byStatus === 'broken' && byWords === 'invalid-request' ? 'broken' : (byWords ?? byStatus)
  return fault(kind, message, { status, retryAfterMs: wait })
}

/** The fault in a line of a stream, if any. */
export function faultIn(line: unknown): Fault | undefined {
  const message = messageIn(line)
  return message === undefined ? undefined : fault(kindOfMessage(message) ?? 'broken', message)
}

function kindOfMessage(message: string): FaultKind | undefined {
  return kindOfWords.find(([words]) => words.test(message))?.[1]
}

/** Ollama sends a string; services in front of it send an object. */
function messageIn(body: unknown): string | undefined {
  if (!isObject(body) || body.error == null) return undefined
  const { error } = body
  return (
    nonEmpty(error) ?? (isObject(error) ? nonEmpty(error.message) : undefined) ?? 'an error without words'
  )
}
