// Usage by day, for charts and statements, from a rollup written together with the calls.

import type { SeenCalls } from './request-log.ts'

/** What a day may be divided by. */
export type UsageGroup = 'day' | 'model' | 'key' | 'channel' | 'account'

export interface UsageQuery extends SeenCalls {
  /** All accounts by default. */
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
   * A model, the id of a key or an account, or a channel (`api`, `app`). Empty for totals of a day, for the app when
   * grouping by key, and for refusals of unknown models.
   */
  readonly group: string
  /** All ended calls, including refusals. */
  readonly calls: number
  /** Of these: refused, without an answer, or broken off by the provider. */
  readonly errors: number
  readonly inputTokens: number
  readonly outputTokens: number
  /** The cost at the provider's price, picodollars. */
  readonly cost: bigint
  /** What of the cost was paid. */
  readonly charged: bigint
}

export interface UsageReader {
  /** By day, then by group. Yields to the event loop between days. Rejects with GatewayError `store_unavailable`. */
  usage(query: UsageQuery): Promise<readonly UsageSum[]>
}
