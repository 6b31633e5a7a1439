// The deadlines of a call at one provider: the gateway's, overridden by the provider's configuration.

import type { ConfiguredProvider } from '../../providers/provider.ts'
import type { ChatLimits } from '../limits.ts'

/** The limits for a provider: its own where configured, otherwise the gateway's. */
export function deadlinesOf(limits: ChatLimits, { timeouts }: ConfiguredProvider): ChatLimits {
  const { connect_ms, first_byte_ms, first_byte_reasoning_ms, gap_ms, total_ms } = timeouts
  // Most providers have none of their own; copying the limits for each call would only be garbage.
  if ((connect_ms ?? first_byte_ms ?? first_byte_reasoning_ms ?? gap_ms ?? total_ms) === undefined)
    return limits
  return {
    ...limits,
    connectMs: connect_ms ?? limits.connectMs,
    firstByteMs: first_byte_ms ?? limits.firstByteMs,
    firstByteReasoningMs: first_byte_reasoning_ms ?? limits.firstByteReasoningMs,
    gapMs: gap_ms ?? limits.gapMs,
    totalMs: total_ms ?? limits.totalMs,
  }
}
