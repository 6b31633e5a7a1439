// Keeps answers for clients that come back for them.

import type { JsonObject } from '../conversation/request.ts'
import { characters, leastBytes, stringifySteps } from '../json/json.ts'
import type { Scheduler } from '../scheduler/scheduler.ts'
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
  readonly scheduler: Pick<Scheduler, 'runSteps'>
  readonly log: { warn(message: string, facts: Readonly<Record<string, unknown>>): void }
  /** Milliseconds since 1970. */
  readonly now: () => number
}

/** The answer of a call, with the items that it was made from. */
export interface AnswerToKeep {
  readonly account: string
  readonly requestId: string
  /** The conversation of the chat that it answers in. */
  readonly conversation: string | undefined
  readonly input: readonly JsonObject[]
  readonly answer: JsonObject
  /** No fewer than the items had in the request and in the responses that it refers to. */
  readonly inputBytes: number
}

/** Type, id and status of an item, and the names around its text: more than is ever added to one that is kept. */
const addedBytes = 256
/** No character of a JavaScript string takes more in UTF-8. */
const bytesPerCharacter = 3

/**
 * Stores a response, if it is not too large and its account has room for it; undefined if not. Always resolves, as soon as
 * the store has queued it: its charge is queued right behind it, so neither is without the other.
 */
export function keepResponse(parts: KeepingParts, call: AnswerToKeep): Promise<void> | undefined {
  const { stored, responseLimits } = parts
  const fits = (size: number) =>
    size <= responseLimits.storedBytes && hasRoom(stored, responseLimits.accountBytes - size)
  // Measuring megabytes takes a while, and most responses are far below what may be kept, or far above.
  const length = characters(call.answer)
  if (length > responseLimits.storedBytes) return undefined
  const most = call.inputBytes + addedBytes * call.input.length + bytesPerCharacter * length
  return fits(most) || fits(leastBytes([call.input, call.answer])) ? keep(parts, call) : undefined
}

async function keep(parts: KeepingParts, asked: AnswerToKeep): Promise<void> {
  const { account, requestId, conversation, input, answer } = asked
  const { responses, responseLimits, scheduler, log, now } = parts
  const previous = answer['previous_response_id']
  const fail = (error: unknown) => log.warn('a response was not stored yet', { request_id: requestId, error })
  try {
    const texts = {
      input: await scheduler.runSteps(stringifySteps(input)),
      answer: await scheduler.runSteps(stringifySteps(answer)),
    }
    const kept = responses.keep({
      id: String(answer['id']),
      account,
      call: requestId,
      // After a failure the conversation stays where it was.
      conversation: answer['status'] === 'failed' ? undefined : conversation,
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

/** While the store cannot be read, answers are given and not kept. */
function hasRoom(stored: StoredBytes | undefined, mostBytes: number): boolean {
  try {
    return stored !== undefined && stored.bytes() <= mostBytes
  } catch {
    return false
  }
}
