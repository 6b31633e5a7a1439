// The request log: one row per call and refusal, for operators and the account itself. Independent of the ledger; may
// be trimmed at any time.

import type { Awaitable } from '../awaitable.ts'

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

/** A part of an account's calls, as a key may see them: see `viewerOf` of accounts/caller.ts. */
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
