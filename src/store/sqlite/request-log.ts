// The request log's rows: buffered, written with the next commit of the ledger or a quarter of a second later.

import type { Database, Statement } from 'bun:sqlite'
import type { RequestLog, RequestLogRow } from '../../observe/request-log.ts'
import type { Rider } from './ledger-store.ts'
import { isOutage, reading } from './outage.ts'

const bufferedRows = 10_000
const rowsPerCommit = 256
const latestMs = 250

interface StoredRow extends Omit<Record<keyof RequestLogRow, bigint>, TextColumn> {
  readonly request_id: string
  readonly account: string
  readonly key: string | null
  readonly model: string
  readonly provider: string | null
  readonly code: string | null
  readonly ending: string | null
  readonly prompt_tokens: bigint
  readonly completion_tokens: bigint
  readonly first_byte_ms: bigint | null
  readonly total_ms: bigint
}

type TextColumn = 'requestId' | 'account' | 'key' | 'model' | 'provider' | 'code' | 'ending'

export interface RequestLogQuery {
  readonly account?: string
  /** Milliseconds since 1970: rows before it, newest first. */
  readonly before?: number
  readonly limit: number
}

export class SqliteRequestLog implements RequestLog, Rider {
  readonly #insert: Statement
  readonly #list: Statement<StoredRow, [string | null, number, number]>
  readonly #prune: Statement
  readonly #flush: () => void
  #rows: RequestLogRow[] = []
  #writing = 0
  #timer: ReturnType<typeof setTimeout> | undefined
  /** Rows that found the buffer full or that the database refused. */
  dropped = 0

  /** `flush` commits the riders when no call does it for 250 ms. */
  constructor(database: Database, flush: () => void) {
    this.#flush = flush
    this.#insert = database.prepare(
      `INSERT INTO request_log (request_id, at, account, key, model, provider, stream, status, code, ending,
       prompt_tokens, completion_tokens, cost, attempts, first_byte_ms, total_ms)
       VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
    )
    this.#list = database.prepare(
      'SELECT * FROM request_log WHERE account = coalesce(?1, account) AND at < ?2 ORDER BY at DESC, seq DESC LIMIT ?3',
    )
    this.#prune = database.prepare(
      'DELETE FROM request_log WHERE seq IN (SELECT seq FROM request_log WHERE at < ? ORDER BY at LIMIT ?)',
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
    for (const row of this.#rows.slice(0, this.#writing)) this.#write(row)
  }

  committed(): void {
    if (this.#writing > 0) this.#rows.splice(0, this.#writing)
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
      )
    } catch (error) {
      if (isOutage(error)) throw error
      this.dropped++
    }
  }

  /** Newest first. */
  list(query: RequestLogQuery): RequestLogRow[] {
    const before = query.before ?? Number.MAX_SAFE_INTEGER
    return reading(() => this.#list.all(query.account ?? null, before, query.limit)).map(rowOf)
  }

  /** Deletes rows older than `before`, at most `limit` at once, so that no commit takes long. Returns how many. */
  prune(before: number, limit = 1000): number {
    return Number(reading(() => this.#prune.run(before, limit)).changes)
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

function rowOf(row: StoredRow): RequestLogRow {
  return {
    requestId: row.request_id,
    at: Number(row.at),
    account: row.account,
    key: row.key,
    model: row.model,
    provider: row.provider,
    stream: row.stream === 1n,
    status: Number(row.status),
    code: row.code,
    ending: row.ending,
    promptTokens: Number(row.prompt_tokens),
    completionTokens: Number(row.completion_tokens),
    cost: row.cost,
    attempts: Number(row.attempts),
    firstByteMs: row.first_byte_ms === null ? null : Number(row.first_byte_ms),
    totalMs: Number(row.total_ms),
  }
}
