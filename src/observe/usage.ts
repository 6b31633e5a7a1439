// What calls came to, by day: for charts and statements, from a rollup that is written with the calls themselves.

/** What a day may be divided by. */
export type UsageGroup = 'day' | 'model' | 'key' | 'channel' | 'account'

export interface UsageQuery {
  /** Of the whole installation, when left out. */
  readonly account?: string
  readonly key?: string
  readonly model?: string
  /** UTC midnights, milliseconds since 1970: the first day, and the day after the last. */
  readonly from: number
  readonly until: number
  readonly by: UsageGroup
}

/** Sums of one day and one group. */
export interface UsageSum {
  readonly day: number
  /**
   * A model, the id of a key, of an account, or a channel: `api` or `app`. Empty for what belongs to none: all of a day,
   * the app where keys are asked for, refusals of unknown models where models are.
   */
  readonly group: string
  /** Every call that has ended, refusals included. */
  readonly calls: number
  /** Of these: refused, without an answer, or broken off by the provider. */
  readonly errors: number
  readonly inputTokens: number
  readonly outputTokens: number
  /** What the provider's price makes of it, picodollars. */
  readonly cost: bigint
  /** What of the cost was paid. */
  readonly charged: bigint
}

export interface UsageReader {
  /**
   * By day, and within a day by group. It leaves the event loop to others between days. Rejects with GatewayError
   * `store_unavailable`.
   */
  usage(query: UsageQuery): Promise<readonly UsageSum[]>
}
