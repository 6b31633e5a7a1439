/** The limits of a call, from configuration. */
export interface ChatLimits {
  readonly connectMs: number
  readonly firstByteMs: number
  readonly firstByteReasoningMs: number
  readonly gapMs: number
  readonly toolMs: number
  readonly totalMs: number
  readonly clientStallMs: number
  readonly drainMs: number
  readonly keepaliveMs: number
  readonly bufferBytes: number
  readonly checkpointMs: number
  readonly checkpointTokens: number
  readonly holdOutputTokens: number
  readonly leaseMs: number
  readonly answerBytes: number
  readonly eventBytes: number
  /** Of all events of one streamed answer. */
  readonly streamBytes: number
  readonly attempts: number
  /** Gateway tool calls per request, unless the request sets its own limit. */
  readonly toolCalls: number
}

/** Until when a call belongs to its process. Longer than every deadline: recovery must not end a running call. */
export function leaseUntil({ totalMs, drainMs, leaseMs }: ChatLimits, now: number): number {
  return now + totalMs + drainMs + leaseMs
}
