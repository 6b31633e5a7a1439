// The request log: one row per call and refusal, for operators and the account itself. Independent of the ledger; may
// be trimmed at any time.

import type { Awaitable } from '../async/async.ts'

export interface RequestLogRow {
  readonly requestId: string
  /** Milliseconds since 1970: when the call ended. */
  readonly at: number
  readonly account: string
  readonly key: string | null
  /** As the client named it; empty without one. */
  readonly model: string
  readonly provider: string | null
  readonly stream: boolean
  readonly status: number
  /** Our error code, if the call failed. */
  readonly code: string | null
  readonly ending: string | null
  readonly promptTokens: number
  readonly completionTokens: number
  /** Picodollars. */
  readonly cost: bigint
  readonly attempts: number
  readonly firstByteMs: number | null
  readonly totalMs: number
  /** Details of the error besides its code, as a small JSON object; null without any. */
  readonly detail: string | null
  /** Prompt and answer as JSON, cut to a limit; null unless `log.prompts` is on. */
  readonly contents: string | null
}

/** A row, with fields for the log line only. */
export interface EndedCall extends RequestLogRow {
  /** The last four characters of the key; null for the app. */
  readonly lastFour: string | null
}

export interface RequestLog {
  /** Queues the row for the next batch; never throws, and drops rows rather than wait. */
  append(row: RequestLogRow): void
}

/** A row's position in the log, newest first. */
export interface RequestPlace {
  readonly at: number
  readonly seq: number
}

/** A part of an account's calls, as a key may see them: see `viewerOf` of accounts/account.ts. */
export interface SeenCalls {
  /** Only those of the keys of this line; undefined for all. */
  readonly line?: string | undefined
  /** Only those of test keys; undefined for both. */
  readonly mode?: 'test' | undefined
}

export interface RequestQuery extends SeenCalls {
  readonly account?: string
  readonly key?: string
  readonly model?: string
  readonly code?: string
  readonly channel?: 'api' | 'app'
  /** Milliseconds since 1970, a half-open interval. */
  readonly from?: number
  readonly until?: number
  /** Only rows behind this one. */
  readonly after?: RequestPlace
  readonly limit: number
}

export type LoggedRequest = RequestLogRow & RequestPlace

export interface RequestPage {
  /** Newest first. In a very long log it may be shorter than the limit, even empty, although more follow. */
  readonly rows: readonly LoggedRequest[]
  /** Where to continue; null at the end of the log. */
  readonly next: RequestPlace | null
}

export interface RequestReader {
  /** Ends with its signal. */
  page(query: RequestQuery, signal?: AbortSignal): Awaitable<RequestPage>
  /** By id; of any account if none is given. */
  find(requestId: string, account?: string): Awaitable<LoggedRequest | undefined>
}

// Usage by day, for charts and statements, from a rollup written together with the calls.

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
