// Maps Gemini's finish reasons. An answer that the model spoiled is a failure that is not retried: it has been billed.

import type { Fault, FinishReason } from '../../../conversation/event.ts'
import { fault } from '../../faults.ts'
import { isFilterReason } from '../finish-reasons.ts'

/** What the candidate did before it ended. */
export type Calls = 'none' | 'complete' | 'cut'

/** The model spoiled its answer, or could not do what was requested: the output so far is not an answer. */
const spoilt: readonly string[] = [
  'MALFORMED_FUNCTION_CALL',
  'MALFORMED_RESPONSE',
  'MISSING_THOUGHT_SIGNATURE',
  'NO_IMAGE',
  'TOO_MANY_TOOL_CALLS',
  'UNEXPECTED_TOOL_CALL',
]

/**
 * The finish reason for Gemini's, or undefined where the answer is broken. Gemini says STOP after function calls as
 * well. A word that is not known here, or says nothing (OTHER), ends an answer that holds something, as its text is
 * there and will be billed; an answer without anything is broken. `said`: whether there is text or an image.
 */
export function finishOf(native: string, calls: Calls, said: boolean): FinishReason | undefined {
  if (isFilterReason(native)) return 'content_filter'
  // CONTINUATION: the answer has reached the limit of one request.
  if (native === 'MAX_TOKENS' || native === 'CONTINUATION')
    return calls === 'complete' ? 'tool_calls' : 'length'
  if (!endsWell(native) || calls === 'cut') return undefined
  if (calls === 'complete') return 'tool_calls'
  return native === 'STOP' || said ? 'stop' : undefined
}

/** Whether the output with this reason belongs to an answer. */
export function endsWell(native: string): boolean {
  return !spoilt.includes(native)
}

/** The fault of a candidate that ended badly, with Google's explanation if there is one. */
export function brokenFinish(native: string, message: string | undefined): Fault {
  const kind = endsWell(native) ? 'broken' : 'unusable-output'
  return fault(kind, message ?? `The model stopped with ${native}.`, { providerCode: native })
}
