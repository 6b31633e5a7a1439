// Rows that no charge depends on: kept in memory first, and written soon, many at a time.

import { LRUCache } from 'lru-cache'
import type { Awaitable } from '../../async/async.ts'
import type { RequestLog, RequestLogRow } from '../../observe/call-log.ts'
import type { UsageAdded } from '../ledger-rows.ts'
import { AlreadyThere, sql, type Tables, type Work } from './work.ts'

/** Rows that no charge depends on are written after so long at the latest, milliseconds. */
const latestMs = 250

/** Does something soon after it was asked for, once for all who ask meanwhile, and never twice at a time. */
export class Soon {
  readonly #act: () => Awaitable<void>
  #timer: ReturnType<typeof setTimeout> | undefined
  #running: Promise<void> | undefined

  /** `act` does not throw. It may ask for itself again. */
  constructor(act: () => Awaitable<void>) {
    this.#act = act
  }

  ask(): void {
    this.#timer ??= setTimeout(() => void this.now(), latestMs)
  }

  /** At once, after what is under way. */
  async now(): Promise<void> {
    this.forget()
    const before = this.#running
    const running = (async () => {
      await before
      await this.#act()
    })()
    this.#running = running
    await running
    if (this.#running === running) this.#running = undefined
  }

  /** Nobody asks any more. */
  forget(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}

// The request log.

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

// Thought signatures by a key of their tool call, for clients that drop them. Kept for a limited time.

const cachedSignatures = 5_000
const largestSignature = 256 * 1024
const waitingSignatures = 1_000

export interface SignatureParts {
  readonly tables: Tables
  readonly clock: () => number
  /** How long each is kept, milliseconds. */
  readonly livesMs: number
  /** Called when there is something to write, where no commit takes it along. */
  readonly onWaiting?: () => void
}

interface Waiting {
  readonly signature: string
  readonly expiresAt: number
}

export class SqlSignatures {
  readonly #parts: SignatureParts
  readonly #cache = new LRUCache<string, string>({
    max: cachedSignatures,
    maxSize: 64 * 1024 * 1024,
    sizeCalculation: (text) => text.length + 1,
  })
  readonly #waiting = new Map<string, Waiting>()
  #writing: readonly (readonly [key: string, Waiting])[] = []

  constructor(parts: SignatureParts) {
    this.#parts = parts
  }

  /** Stores the signature of a tool call. Absurdly long ones are not stored. */
  remember(key: string, signature: string): void {
    if (signature.length > largestSignature) return
    this.#cache.set(key, signature)
    if (this.#waiting.size >= waitingSignatures) return
    const { clock, livesMs, onWaiting } = this.#parts
    this.#waiting.set(key, { signature, expiresAt: clock() + livesMs })
    onWaiting?.()
  }

  /** undefined if unknown or expired. Never fails: the call can continue without it. */
  recall(key: string): Awaitable<string | undefined> {
    return this.#cache.get(key) ?? this.#readStored(key)
  }

  async #readStored(key: string): Promise<string | undefined> {
    const { tables, clock } = this.#parts
    try {
      const row = await tables.do(() => find.first(key, clock()))
      if (row !== undefined) this.#cache.set(key, row.signature)
      return row?.signature
    } catch {
      return undefined
    }
  }

  get waiting(): boolean {
    return this.#waiting.size > 0
  }

  /** Writes what waits; `onWritten` is called when that has been committed. */
  *write(): Work<void> {
    if (this.#waiting.size === 0) return
    this.#writing = [...this.#waiting]
    for (const [key, { signature, expiresAt }] of this.#writing) {
      try {
        yield* insert.run(key, signature, expiresAt)
      } catch (error) {
        // One that the database refuses must not undo what else is in the transaction.
        if (!(error instanceof AlreadyThere)) throw error
      }
    }
  }

  onWritten(): void {
    for (const [key, written] of this.#writing)
      if (this.#waiting.get(key) === written) this.#waiting.delete(key)
    this.#writing = []
  }
}

const insert = sql(
  `INSERT INTO signature (tool_call, signature, expires_at) VALUES (?,?,?)
   ON CONFLICT (tool_call) DO UPDATE SET signature = excluded.signature, expires_at = excluded.expires_at`,
)
const find = sql<{ readonly signature: string }>(
  'SELECT signature FROM signature WHERE tool_call = ? AND expires_at > ?',
)
