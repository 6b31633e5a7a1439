// How an answer ended, and the figures it ends with.

import type { Progress } from '../conversation/progress.ts'
import type { JsonObject } from '../conversation/request.ts'
import type { Usage } from '../conversation/usage.ts'
import type { Ending } from '../credits/ledger/ledger.ts'
import type { GatewayError } from '../errors.ts'
import type { Bill } from '../protocols/protocol.ts'

/** How an answer ended, and what it delivered. */
export interface Outcome extends Omit<Progress, 'started' | 'finished'> {
  readonly ending: Ending
  readonly stoppedBy: StoppedBy | undefined
  /** Why no provider has gone on with an answer that had begun. */
  readonly error?: GatewayError
}

/** Of an answer that has come to its end. */
export function finished(
  facts: Pick<Progress, 'usage' | 'delivered' | 'finishReason' | 'upstreamId'>,
): Outcome {
  return { ...facts, ending: 'finished', fault: undefined, stoppedBy: undefined }
}

/**
 * What stopped an answer: the caller's money, its credit, its bound where the provider kept to none, or a model that
 * would not stop calling tools.
 */
export type StoppedBy = 'max_cost' | 'credits' | 'max_tokens' | 'max_tool_calls'

/** How an answer says what stopped it; nothing where it ended by itself. */
export function stopNote(stoppedBy: StoppedBy | undefined): JsonObject {
  return stoppedBy === undefined ? {} : { metadata: { stopped_by: stoppedBy } }
}

/** What the last frames of an answer say. */
export interface FinalFigures {
  readonly usage: Usage
  readonly bill: Bill
  /** What bounded the answer, where it was not its own end. */
  readonly stoppedBy: StoppedBy | undefined
}
