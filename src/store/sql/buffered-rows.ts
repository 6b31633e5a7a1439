// Rows of the request log that are not in the database yet. No charge depends on them: they are kept in memory first, and
// written many at a time.

import type { RequestLog, RequestLogRow } from '../../observe/call-log.ts'
import type { UsageAdded } from '../ledger-rows.ts'

const bufferedRows = 10_000
/** How precisely the last use of a key is stored, milliseconds. */
const usedEveryMs = 1_000
const keysRemembered = 10_000

export class RequestBuffer implements RequestLog {
  readonly #onRow: () => void
  /** The model that a refusal counts for, which is stored nowhere else. */
  readonly #refusals = new WeakMap<RequestLogRow, string>()
  #rows: RequestLogRow[] = []
  /** Rows lost because the buffer was full or the database refused them. */
  dropped = 0

  constructor(onRow: () => void) {
    this.#onRow = onRow
  }

  append(row: RequestLogRow): void {
    if (this.#rows.length >= bufferedRows) {
      this.dropped++
      return
    }
    this.#rows.push(row)
    this.#onRow()
  }

  /**
   * Like `append`, for a call refused before it reached the ledger: adds it to the day's usage of `model`, which is
   * empty for an unknown model.
   */
  appendRefused(row: RequestLogRow, model: string): void {
    this.#refusals.set(row, model)
    this.append(row)
  }

  get size(): number {
    return this.#rows.length
  }

  /** The oldest rows. */
  first(most: number): readonly RequestLogRow[] {
    return this.#rows.slice(0, most)
  }

  /** Forgets the oldest rows. */
  remove(count: number): void {
    this.#rows.splice(0, count)
  }

  /** What a row adds to the usage of its day; undefined for a call that the ledger knows. */
  usageOf(row: RequestLogRow): UsageAdded | undefined {
    const model = this.#refusals.get(row)
    if (model === undefined) return undefined
    const { account, at, key, tags, group = null } = row
    const nothing = { inputTokens: 0, outputTokens: 0, cost: 0n, charged: 0n, provider: '', timed: 0, ms: 0 }
    return { account, at, key, model, tags, group, calls: 1, errors: 1, ...nothing }
  }
}

/** When keys were last used, as it is written: once per key and second, however many calls it made. */
export class KeyUses {
  readonly #usedAt = new Map<string, number>()
  #writing = new Map<string, number>()

  /** The uses of keys in these rows that are worth writing. `onWritten` is called when that has been done. */
  among(rows: readonly RequestLogRow[]): ReadonlyMap<string, number> {
    this.#writing = new Map()
    for (const { key, at } of rows) {
      if (key === null || at - (this.#writing.get(key) ?? this.#usedAt.get(key) ?? 0) < usedEveryMs) continue
      this.#writing.set(key, at)
    }
    return this.#writing
  }

  onWritten(): void {
    if (this.#usedAt.size >= keysRemembered) this.#usedAt.clear()
    for (const [key, at] of this.#writing) this.#usedAt.set(key, at)
    this.#writing = new Map()
  }
}

/** The columns of the log, and what of a row goes into each. */
export function cellsOfRequest(row: RequestLogRow) {
  return {
    request_id: row.requestId,
    at: row.at,
    account: row.account,
    key: row.key,
    model: row.model,
    provider: row.provider,
    stream: row.stream ? 1 : 0,
    status: row.status,
    code: row.code,
    ending: row.ending,
    prompt_tokens: whole(row.promptTokens),
    completion_tokens: whole(row.completionTokens),
    cost: row.cost,
    attempts: row.attempts,
    first_byte_ms: row.firstByteMs === null ? null : whole(row.firstByteMs),
    total_ms: whole(row.totalMs),
    detail: row.detail,
    contents: row.contents,
    tags: row.tags,
  }
}

/** Timings have fractions; the column is an integer. */
function whole(value: number): number {
  return Number.isFinite(value) ? Math.round(value) : 0
}
