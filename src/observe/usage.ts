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

export interface UsageFigures {
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

export interface UsageOfDay extends UsageFigures {
  readonly day: number
}

/** Sums of one day and one group. */
export interface UsageSum extends UsageOfDay {
  /**
   * A model, the id of a key or an account, or a channel (`api`, `app`). Empty for totals of a day, for the app when
   * grouping by key, and for refusals of unknown models.
   */
  readonly group: string
  /** The name of the key, or the address of the account. */
  readonly label: string | null
}

export interface UsageReport {
  /** By day, then by group: of the groups that cost most. */
  readonly rows: readonly UsageSum[]
  /** Of all groups. */
  readonly totals: UsageFigures
  /** The groups that have no rows of their own, added up by day; null if there are none. */
  readonly rest: { readonly groups: number; readonly days: readonly UsageOfDay[] } | null
}

/** Columns of the CSV. */
export const usageColumns = [
  'day',
  'group',
  'label',
  'calls',
  'errors',
  'input_tokens',
  'output_tokens',
  'cost',
  'charged',
] as const

/**
 * Long reports are made beside the calls. They end with their signal, are refused with `rate_limit_exceeded` if there
 * are too many at once, and reject with `store_unavailable`.
 */
export interface UsageReader {
  /** With rows for `most` groups. */
  report(query: UsageQuery, most: number, signal?: AbortSignal): Promise<UsageReport>
  /** Every day and group as CSV, in pieces. */
  csv(query: UsageQuery, signal?: AbortSignal): AsyncIterable<string>
}
