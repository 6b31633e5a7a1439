// Rows that no charge depends on: kept in memory first, and written with the commit of a ledger group.

import type { Database, SQLQueryBindings, Statement } from 'bun:sqlite'
import { LRUCache } from 'lru-cache'
import type { RequestLog, RequestLogRow } from '../../../observe/call-log.ts'
import { BulkInsert } from '../ledger/journal.ts'
import type { BufferedRows } from '../ledger/ledger-store.ts'
import { isOutage } from '../database/sqlite.ts'
import type { UsageDays } from '../ledger/calls.ts'

// The request log: written once there are enough rows, or after a quarter of a second. Each batch writes the pages of
// four indexes, which is dear for the few rows of one group.

const bufferedRows = 10_000
const rowsPerCommit = 256
/** So many go with the next commit, whoever makes it. */
const rowsTogether = 128
const latestMs = 250
/** How precisely the last use of a key is stored, milliseconds. */
const usedEveryMs = 1_000
const keysRemembered = 10_000

export class SqliteRequestLog implements RequestLog, BufferedRows {
  readonly #inserts: BulkInsert
  readonly #used: Statement
  readonly #usage: UsageDays
  /** The model that a refusal counts for, which is stored nowhere else. */
  readonly #refusals = new WeakMap<RequestLogRow, string>()
  readonly #flush: () => void
  /** When the last use of each key was last written. */
  readonly #usedAt = new Map<string, number>()
  /** The same within the current transaction. */
  #using = new Map<string, number>()
  #rows: RequestLogRow[] = []
  #writing = 0
  /** Whether the next commit takes along what there is. */
  #due = false
  #timer: ReturnType<typeof setTimeout> | undefined
  /** Rows lost because the buffer was full or the database refused them. */
  dropped = 0

  /** `flush` makes a commit, 250 ms after a row that no commit has taken along. */
  constructor(database: Database, usage: UsageDays, flush: () => void) {
    this.#flush = flush
    this.#usage = usage
    this.#used = database.prepare('UPDATE api_key SET used_at = max(coalesce(used_at, 0), ?) WHERE id = ?')
    this.#inserts = new BulkInsert(
      database,
      'request_log',
      `request_id, at, account, key, model, provider, stream, status, code, ending, prompt_tokens, completion_tokens,
       cost, attempts, first_byte_ms, total_ms, detail, contents, tags`,
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
   * Like `append`, for a call refused before it reached the ledger: adds it to the day's usage of `model`, which is
   * empty for an unknown model.
   */
  appendRefused(row: RequestLogRow, model: string): void {
    this.#refusals.set(row, model)
    this.append(row)
  }

  #wake(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.hurry()
      this.#flush()
    }, latestMs)
  }

  /** Has the next commit take all rows along, or as many as it can. */
  hurry(): void {
    this.#due = true
  }

  get waiting(): boolean {
    return this.#rows.length > 0
  }

  write(): void {
    this.#writing = 0
    if (!this.#due && this.#rows.length < rowsTogether) return
    this.#writing = Math.min(this.#rows.length, rowsPerCommit)
    const rows = this.#rows.slice(0, this.#writing)
    this.#insert(rows)
    // Once per key and second, however many calls it made.
    this.#using = new Map()
    for (const { key, at } of rows) {
      if (key === null || at - (this.#using.get(key) ?? this.#usedAt.get(key) ?? 0) < usedEveryMs) continue
      this.#used.run(at, key)
      this.#using.set(key, at)
    }
  }

  onCommitted(): void {
    if (this.#writing === 0) return
    this.#rows.splice(0, this.#writing)
    this.#due = this.#rows.length > 0 && this.#due
    if (this.#usedAt.size >= keysRemembered) this.#usedAt.clear()
    for (const [key, at] of this.#using) this.#usedAt.set(key, at)
    this.#writing = 0
    this.close()
    if (this.#rows.length > 0) this.#wake()
  }

  // A row that the database refuses must not undo the charge in the same transaction.
  #insert(rows: readonly RequestLogRow[]): void {
    for (const row of rows) this.#inserts.add(valuesOf(row))
    const refused = new Set<number>()
    this.#inserts.writeEach((error, place) => {
      if (isOutage(error)) throw error
      refused.add(place)
    })
    this.dropped += refused.size
    for (let n = 0; n < rows.length; n++) {
      const refusedFor = this.#refusals.get(rows[n]!)
      if (refusedFor !== undefined && !refused.has(n)) this.#countRefusal(rows[n]!, refusedFor)
    }
  }

  #countRefusal({ account, at, key, tags, group = null }: RequestLogRow, model: string): void {
    const nothing = { inputTokens: 0, outputTokens: 0, cost: 0n, charged: 0n, provider: '', timed: 0, ms: 0 }
    this.#usage.add({ account, at, key, model, tags, group, calls: 1, errors: 1, ...nothing })
    this.#usage.write()
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}

function valuesOf(row: RequestLogRow): SQLQueryBindings[] {
  return [
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
    row.tags,
  ]
}

/** Timings have fractions; the column is an integer. */
function whole(value: number): number {
  return Number.isFinite(value) ? Math.round(value) : 0
}

// Thought signatures by a key of their tool call, for clients that drop them. Kept in memory at once, in the file soon
// after, for a limited time.

const cachedSignatures = 5_000
const largestSignature = 256 * 1024
const waitingSignatures = 1_000

export class SqliteSignatures implements BufferedRows {
  readonly #cache = new LRUCache<string, string>({
    max: cachedSignatures,
    maxSize: 64 * 1024 * 1024,
    sizeCalculation: (text) => text.length + 1,
  })
  readonly #waiting = new Map<string, { readonly signature: string; readonly expiresAt: number }>()
  readonly #insert: Statement
  readonly #select: Statement<{ signature: string }, [string, number]>
  readonly #clock: () => number
  readonly #livesMs: number

  /** Each is kept for `livesMs` milliseconds. */
  constructor(database: Database, clock: () => number, livesMs: number) {
    this.#clock = clock
    this.#livesMs = livesMs
    this.#insert = database.prepare(
      `INSERT INTO signature (tool_call, signature, expires_at) VALUES (?,?,?)
       ON CONFLICT (tool_call) DO UPDATE SET signature = excluded.signature, expires_at = excluded.expires_at`,
    )
    this.#select = database.prepare('SELECT signature FROM signature WHERE tool_call = ? AND expires_at > ?')
  }

  /** Stores the signature of a tool call. Absurdly long ones are not stored. */
  remember(key: string, signature: string): void {
    if (signature.length > largestSignature) return
    this.#cache.set(key, signature)
    if (this.#waiting.size < waitingSignatures) {
      this.#waiting.set(key, { signature, expiresAt: this.#clock() + this.#livesMs })
    }
  }

  /** undefined if unknown or expired. Never throws: the call can continue without it. */
  recall(key: string): string | undefined {
    const cached = this.#cache.get(key)
    if (cached !== undefined) return cached
    try {
      const stored = this.#select.get(key, this.#clock())?.signature
      if (stored !== undefined) this.#cache.set(key, stored)
      return stored
    } catch {
      return undefined
    }
  }

  get waiting(): boolean {
    return this.#waiting.size > 0
  }

  write(): void {
    for (const [key, { signature, expiresAt }] of this.#waiting) {
      try {
        this.#insert.run(key, signature, expiresAt)
      } catch (error) {
        // A row that the database refuses must not undo the charge in the same transaction.
        if (isOutage(error)) throw error
      }
    }
  }

  onCommitted(): void {
    this.#waiting.clear()
  }
}
