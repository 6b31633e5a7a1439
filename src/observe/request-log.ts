// The request log: one row per call, and per refusal of one, for operators and the account itself. Kept apart from the
// money and may be trimmed at any time.

import type { Awaitable } from '../awaitable.ts'

export interface RequestLogRow {
  readonly requestId: string
  /** Milliseconds since 1970: when the call ended. */
  readonly at: number
  readonly account: string
  readonly key: string | null
  /** As it was asked for; empty where the request named none. */
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
  /** Details of the error besides its code, as a small JSON object; null without any. */
  readonly detail: string | null
  /** The words of request and answer as JSON, cut to a bound; null unless `log.prompts` allows them. */
  readonly contents: string | null
}

/** A row, with what only the log line says. */
export interface EndedCall extends RequestLogRow {
  /** The last four characters of the key; null for the app. */
  readonly lastFour: string | null
}

export interface RequestLog {
  /** Takes the row and writes it soon, in a batch; never throws, and drops rows rather than wait. */
  append(row: RequestLogRow): void
}

/** A row's place in the order of the log, newest first. */
export interface RequestPlace {
  readonly at: number
  readonly seq: number
}

export interface RequestQuery {
  readonly account?: string
  readonly key?: string
  readonly model?: string
  readonly code?: string
  /** Milliseconds since 1970: from then on, and before then. */
  readonly from?: number
  readonly until?: number
  /** Only rows behind this one. */
  readonly after?: RequestPlace
  readonly limit: number
}

export type LoggedRequest = RequestLogRow & RequestPlace

export interface RequestPage {
  /** Newest first; fewer than the limit, or none, also where more may follow. */
  readonly rows: readonly LoggedRequest[]
  /** Where to continue; null at the end of the log. */
  readonly next: RequestPlace | null
}

export interface RequestReader {
  page(query: RequestQuery): Awaitable<RequestPage>
  /** By its id; of any account where none is named. */
  find(requestId: string, account?: string): Awaitable<LoggedRequest | undefined>
}
