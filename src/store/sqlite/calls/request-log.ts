// The request log's rows: buffered, written with the next commit of the ledger or a quarter of a second later.

import type { Database, Statement } from 'bun:sqlite'
import type { RequestLog, RequestLogRow } from '../../../observe/request-log.ts'
import type { BufferedRows } from '../ledger/ledger-parts.ts'
import { isOutage } from '../database/outage.ts'
import type { UsageDays } from './usage-days.ts'

const bufferedRows = 10_000
const rowsPerCommit = 256
const latestMs = 250
/** How far behind the time may be that a key was last used at. */
const usedEveryMs = 1_000
const keysRemembered = 10_000

export class SqliteRequestLog implements RequestLog, BufferedRows {
  readonly #insert: Statement
  readonly #used: Statement
  readonly #usage: UsageDays
  /** The model that a refusal counts for. Refusals are in no book but this. */
  readonly #refusals = new WeakMap<RequestLogRow, string>()
  readonly #flush: () => void
  /** When a key was last written to have been used. */
  readonly #usedAt = new Map<string, number>()
  /** The same, in the transaction under way. */
  #using = new Map<string, number>()
  #rows: RequestLogRow[] = []
  #writing = 0
  #timer: ReturnType<typeof setTimeout> | undefined
  /** Rows that found the buffer full or that the database refused. */
  dropped = 0

  /** `flush` commits the buffered rows when no call does it for 250 ms. */
  constructor(database: Database, usage: UsageDays, flush: () => void) {
    this.#flush = flush
    this.#usage = usage
    this.#used = database.prepare('UPDATE api_key SET used_at = max(coalesce(used_at, 0), ?) WHERE id = ?')
    this.#insert = database.prepare(
      `INSERT INTO request_log (request_id, at, account, key, model, provider, stream, status, code, ending,
       prompt_tokens, completion_tokens, cost, attempts, first_byte_ms, total_ms,
       detail, contents)
       VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
    )
  }

  append(row: RequestLogRow): void {
    if (this.#rows.length >= bufferedRows) {
      this.dropped++
      return
    }
    this.#rows.push(row)
    this.#wake()
  }

  /**
   * As `append`, for a call that was refused before the ledger knew of it: counted for its day here, and for `model`,
   * which is empty for one that there is not.
   */
  appendRefused(row: RequestLogRow, model: string): void {
    this.#refusals.set(row, model)
    this.append(row)
  }

  #wake(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#flush()
    }, latestMs)
  }

  get waiting(): boolean {
    return this.#rows.length > 0
  }

  write(): void {
    this.#writing = Math.min(this.#rows.length, rowsPerCommit)
    const rows = this.#rows.slice(0, this.#writing)
    for (const row of rows) this.#write(row)
    // Once for each key and second, however many calls were made with it.
    this.#using = new Map()
    for (const { key, at } of rows) {
      if (key === null || at - (this.#using.get(key) ?? this.#usedAt.get(key) ?? 0) < usedEveryMs) continue
      this.#used.run(at, key)
      this.#using.set(key, at)
    }
  }

  committed(): void {
    if (this.#writing > 0) this.#rows.splice(0, this.#writing)
    if (this.#usedAt.size >= keysRemembered) this.#usedAt.clear()
    for (const [key, at] of this.#using) this.#usedAt.set(key, at)
    this.#writing = 0
    this.close()
    if (this.#rows.length > 0) this.#wake()
  }

  // A row that the database refuses must not undo the money it travels with.
  #write(row: RequestLogRow): void {
    try {
      this.#insert.run(
        row.requestId,
        row.at,
        row.account,
        row.key,
        row.model,
        row.provider,
        row.stream ? 1 : 0,
        row.status,
        row.code,
        row.ending,
        whole(row.promptTokens),
        whole(row.completionTokens),
        row.cost,
        row.attempts,
        row.firstByteMs === null ? null : whole(row.firstByteMs),
        whole(row.totalMs),
        row.detail,
        row.contents,
      )
      const refusedFor = this.#refusals.get(row)
      if (refusedFor !== undefined) this.#countRefusal(row, refusedFor)
    } catch (error) {
      if (isOutage(error)) throw error
      this.dropped++
    }
  }

  #countRefusal({ account, at, key }: RequestLogRow, model: string): void {
    const nothing = { inputTokens: 0, outputTokens: 0, cost: 0n, charged: 0n }
    this.#usage.add({ account, at, key, model, calls: 1, errors: 1, ...nothing })
    this.#usage.write()
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}

/** Timings come with fractions; the column is a whole number. */
function whole(value: number): number {
  return Number.isFinite(value) ? Math.round(value) : 0
}
