// The request log: one row per call, for operators. Kept apart from the money and may be trimmed at any time.

export interface RequestLogRow {
  readonly requestId: string
  /** Milliseconds since 1970. */
  readonly at: number
  readonly account: string
  readonly key: string | null
  readonly model: string
  readonly provider: string | null
  readonly stream: boolean
  readonly status: number
  /** Our error code, where the call failed. */
  readonly code: string | null
  readonly ending: string | null
  readonly promptTokens: number
  readonly completionTokens: number
  /** Picodollars. */
  readonly cost: bigint
  readonly attempts: number
  readonly firstByteMs: number | null
  readonly totalMs: number
}

export interface RequestLog {
  /** Takes the row and writes it soon, in a batch; never throws, and drops rows rather than wait. */
  append(row: RequestLogRow): void
}
