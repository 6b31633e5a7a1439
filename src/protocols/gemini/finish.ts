// Why a candidate ended, in our words. What is neither an end nor a filter is a failure that may be tried again.

import type { Fault, FinishReason } from '../../conversation/event.ts'
import { fault } from '../faults.ts'

const filtered: readonly string[] = [
  'SAFETY',
  'RECITATION',
  'LANGUAGE',
  'BLOCKLIST',
  'PROHIBITED_CONTENT',
  'SPII',
  'MODEL_ARMOR',
  'JAILBREAK',
  'IMAGE_SAFETY',
  'IMAGE_PROHIBITED_CONTENT',
  'IMAGE_RECITATION',
]

/** What the candidate did before it ended. */
export type Calls = 'none' | 'complete' | 'cut'

/**
 * The finish reason for Gemini's, or undefined where the answer is broken (MALFORMED_FUNCTION_CALL,
 * UNEXPECTED_TOOL_CALL, OTHER and every reason not known here). Gemini says STOP after function calls as well.
 */
export function finishOf(native: string, calls: Calls): FinishReason | undefined {
  if (filtered.includes(native)) return 'content_filter'
  if (native === 'MAX_TOKENS') return calls === 'complete' ? 'tool_calls' : 'length'
  if (native !== 'STOP' || calls === 'cut') return undefined
  return calls === 'complete' ? 'tool_calls' : 'stop'
}

/** Whether this reason ends an answer properly, whatever was in it. */
export function endsWell(native: string): boolean {
  return finishOf(native, 'none') !== undefined
}

/** The fault of a candidate that ended badly, with Google's explanation where it gave one. */
export function brokenFinish(native: string, message: string | undefined): Fault {
  return fault('broken', message ?? `The model stopped with ${native}.`, { providerCode: native })
}
