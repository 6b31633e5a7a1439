// How an answer ended, and its final figures.

import { Delivered } from '../conversation/delivered.ts'
import type { Progress } from '../conversation/progress.ts'
import type { JsonObject } from '../conversation/request.ts'
import type { Usage } from '../conversation/usage.ts'
import type { Ending } from '../credits/ledger/ledger.ts'
import type { GatewayError } from '../errors.ts'
import type { Bill } from '../protocols/protocol.ts'
import type { Candidate } from './routing/candidates.ts'

/** How an answer ended, and what it delivered. */
export interface Outcome extends Omit<Progress, 'started' | 'finished'> {
  readonly ending: Ending
  readonly stoppedBy: StoppedBy | undefined
  /** Why a started answer could not be continued by any provider, or was ended by the gateway. */
  readonly error?: GatewayError
}

/** A provider that was asked, and whose answer had not begun when nobody waited for it any more. */
export interface Abandoned {
  readonly candidate: Candidate
  /** How long it had been asked for, milliseconds. */
  readonly askedMs: number
  /** What it had counted so far. */
  readonly usage: Usage | undefined
}

/** The outcome of an answer that is complete. */
export function outcomeOf(
  facts: Pick<Progress, 'usage' | 'delivered' | 'finishReason' | 'upstreamId'>,
): Outcome {
  const { usage, delivered, finishReason, upstreamId } = facts
  return {
    usage,
    delivered,
    finishReason,
    upstreamId,
    ending: 'finished',
    fault: undefined,
    stoppedBy: undefined,
  }
}

/** What stopped an answer early: max_cost, the credit, max_tokens if the provider ignored it, too many tools. */
export type StoppedBy = 'max_cost' | 'credits' | 'max_tokens' | 'max_tool_calls'

/** The fields of an answer that say what stopped it; none if it ended by itself. */
export function stopNote(stoppedBy: StoppedBy | undefined): JsonObject {
  return stoppedBy === undefined ? noNote : { metadata: { stopped_by: stoppedBy } }
}

const noNote: JsonObject = {}

/** What the last frames of an answer contain. */
export interface FinalFigures {
  readonly usage: Usage
  readonly bill: Bill
  /** What limited the answer, if it did not end by itself. */
  readonly stoppedBy: StoppedBy | undefined
}

/** The outcome of a call that ends without an answer to its last round, or after that was booked. */
export function unservedOutcome(
  ending: 'client-gone' | 'stopped',
  stoppedBy: StoppedBy | undefined,
  error?: GatewayError,
): Outcome {
  return {
    ending,
    stoppedBy,
    usage: undefined,
    delivered: new Delivered(),
    finishReason: stoppedBy === undefined ? undefined : 'length',
    upstreamId: undefined,
    fault: undefined,
    ...(error === undefined ? {} : { error }),
  }
}
