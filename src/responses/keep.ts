// Keeps answers for clients that come back for them.

import type { JsonObject } from '../conversation/request.ts'
import type { Steps } from '../json/steps.ts'
import { leastBytes, stringifySteps } from '../json/stringify.ts'
import type { ResponseStore, StoredBytes } from './response-store.ts'

export interface ResponseLimits {
  /** How long a response is kept. */
  readonly retentionMs: number
  /** The largest response that is kept, with its input. */
  readonly storedBytes: number
  /** How much one account may have kept. */
  readonly accountBytes: number
}

export interface KeepingParts {
  readonly responses: Pick<ResponseStore, 'keep'>
  /** What the account of the call has kept; undefined where the store could not say. */
  readonly stored: StoredBytes | undefined
  readonly responseLimits: ResponseLimits
  /** Shares the event loop among all calls. */
  readonly turns: { through<T>(steps: Steps<T>): T | Promise<T> }
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
 * Has a response kept, if it is not too large and its account has room for it; undefined where not. Resolves, always,
 * when the store has it in its queue: its charge is booked right behind it, so neither is without the other.
 */
export function keepResponse(parts: KeepingParts, call: AnsweredCall): Promise<void> | undefined {
  const { stored, responseLimits } = parts
  const size = leastBytes([call.input, call.answer])
  if (size > responseLimits.storedBytes) return undefined
  if (!hasRoom(stored, responseLimits.accountBytes - size)) return undefined
  return keep(parts, call)
}

async function keep(parts: KeepingParts, { account, requestId, input, answer }: AnsweredCall): Promise<void> {
  const { responses, responseLimits, turns, log, now } = parts
  const previous = answer['previous_response_id']
  const fail = (error: unknown) => log.warn('a response was not stored yet', { request_id: requestId, error })
  try {
    const texts = {
      input: await turns.through(stringifySteps(input)),
      answer: await turns.through(stringifySteps(answer)),
    }
    const kept = responses.keep({
      id: String(answer['id']),
      account,
      call: requestId,
      previous: typeof previous === 'string' ? previous : undefined,
      expiresAt: now() + responseLimits.retentionMs,
      ...texts,
    })
    // Not waited for: the charge is to be in the same commit.
    kept.catch(fail)
  } catch (error) {
    fail(error)
  }
}

/** An answer goes out also while the store cannot be read: it is only not kept. */
function hasRoom(stored: StoredBytes | undefined, mostBytes: number): boolean {
  try {
    return stored !== undefined && stored.bytes() <= mostBytes
  } catch {
    return false
  }
}
