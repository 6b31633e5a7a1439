/** Every bound of a call, from configuration. Milliseconds, tokens and bytes as the names say. */
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
  readonly attempts: number
  /** Calls of gateway tools of a request that names no bound of its own. */
  readonly toolCalls: number
}
