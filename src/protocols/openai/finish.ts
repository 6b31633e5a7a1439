// Why an answer ended, from the words providers use to the four that clients know.

import type { FaultKind, FinishReason } from '../../conversation/event.ts'

/** Every reason in use that is not one of the four already. */
const reasons: ReadonlyMap<string, FinishReason> = new Map([
  ['stop', 'stop'],
  ['length', 'length'],
  ['tool_calls', 'tool_calls'],
  ['content_filter', 'content_filter'],
  ['function_call', 'tool_calls'],
  ['tool_use', 'tool_calls'],
  ['eos', 'stop'],
  ['eos_token', 'stop'],
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['complete', 'stop'],
  ['completed', 'stop'],
  ['max_tokens', 'length'],
  ['max_length', 'length'],
  ['max_output_tokens', 'length'],
  ['model_length', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['sensitive', 'content_filter'],
  ['safety', 'content_filter'],
  ['refusal', 'content_filter'],
])

/** Reasons that are failures: the answer is not whole and must not look finished. */
const failures: ReadonlyMap<string, FaultKind> = new Map([
  ['error', 'broken'],
  // Google's compatible endpoint: the model wrote a call that cannot be read.
  ['function_call_filter', 'unusable-output'],
  ['abort', 'broken'],
  ['network_error', 'broken'],
  ['insufficient_system_resource', 'overloaded'],
])

/** Whether a provider has given its reason: before, it writes null, nothing, an empty string, or the word. */
export function isReason(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value !== 'null'
}

/** Google's compatible endpoint appends its own reason to OpenAI's: `content_filter: RECITATION`. */
export function wordOf(native: string): string {
  return native.toLowerCase().split(':', 1)[0]!.trim()
}

/** The kind of failure that a provider's finish reason means, if any. */
export function failureOf(native: string): FaultKind | undefined {
  // Most say it in one of the usual words.
  return reasons.has(native) ? undefined : failures.get(wordOf(native))
}

/**
 * The finish reason for the client. Calls that are whole make it `tool_calls` whatever the provider said, and without
 * calls it never is; an answer cut off in the middle of a call keeps the provider's reason.
 */
export function finishReasonOf(native: string, calls: 'none' | 'whole' | 'partial'): FinishReason {
  const reason = reasons.get(native) ?? reasons.get(wordOf(native)) ?? 'stop'
  if (calls === 'none') return reason === 'tool_calls' ? 'stop' : reason
  if (reason === 'content_filter') return reason
  return calls === 'partial' && reason === 'length' ? reason : 'tool_calls'
}
