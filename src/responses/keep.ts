// Keeps answers for clients that come back for them.

import type { JsonObject } from '../conversation/request.ts'
import { leastLength } from '../json/stringify.ts'
import type { ResponseStore } from './response-store.ts'

export interface ResponseLimits {
  /** How long a response is kept. */
  readonly retentionMs: number
  /** The largest response that is kept, with its input. */
  readonly storedBytes: number
  /** How much one account may have kept. */
  readonly accountBytes: number
}

export interface KeepingParts {
  readonly responses: Pick<ResponseStore, 'keep' | 'storedBytes'>
  readonly responseLimits: ResponseLimits
  readonly log: { warn(message: string, facts: Readonly<Record<string, unknown>>): void }
  /** Milliseconds since 1970. */
  readonly now: () => number
}

/** The answer of a call, with the items that it was made from. */
export interface AnsweredCall {
  readonly account: string
  readonly requestId: string
  readonly input: readonly JsonObject[]
  readonly answer: JsonObject
}

/**
 * Has a response kept, if it is not too large and its account has room for it. Its charge is booked right after, so
 * neither is without the other. Gives whether it is kept.
 */
export function keepResponse(
  { responses, responseLimits, log, now }: KeepingParts,
  call: AnsweredCall,
): boolean {
  const { account, requestId } = call
  if (leastLength([call.input, call.answer]) > responseLimits.storedBytes) return false
  const input = JSON.stringify(call.input)
  const answer = JSON.stringify(call.answer)
  const size = Buffer.byteLength(input) + Buffer.byteLength(answer)
  if (size > responseLimits.storedBytes) return false
  if (!hasRoom(responses, account, responseLimits.accountBytes - size)) return false
  const previous = call.answer['previous_response_id']
  responses
    .keep({
      id: String(call.answer['id']),
      account,
      call: requestId,
      previous: typeof previous === 'string' ? previous : undefined,
      expiresAt: now() + responseLimits.retentionMs,
      input,
      answer,
    })
    .catch((error: unknown) => {
      log.warn('a response was not stored yet', { request_id: requestId, error })
    })
  return true
}

/** An answer goes out also while the store cannot be read: it is only not kept. */
function hasRoom(responses: Pick<ResponseStore, 'storedBytes'>, account: string, mostBytes: number): boolean {
  try {
    return responses.storedBytes(account) <= mostBytes
  } catch {
    return false
  }
}
