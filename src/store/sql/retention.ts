// Deletes expired records that no money depends on: the request log, thought signatures, ended sessions and messages
// about payments. In small batches, because every statement blocks the event loop.

import type { Awaitable } from '../../async/async.ts'
import type { RetentionFacts, RetentionTimes } from '../store.ts'
import { type OrderedTables, sql, type Statement, type Tables } from './work.ts'

const day = 86_400_000
export const defaultRetention: RetentionTimes = {
  requestsMs: 90 * day,
  signaturesMs: day,
  paymentEventsMs: 400 * day,
}
/** A signature is stored with its end. */
type StoredTimes = Pick<RetentionTimes, 'requestsMs' | 'paymentEventsMs'>
/** How long a session is listed (weir accounts sessions) after it was ended or expired. */
const endedSessionMs = 30 * day
/** As in the index, or it is not used. */
const sessionEnd = '(CASE WHEN revoked_at IS NULL THEN expires_at ELSE revoked_at END)'

/** Rows of the first batch; later ones are larger or smaller depending on how long it took. */
const firstBite = 32
/** With the pauses this is 2,000 rows a second, however slow the disk. */
const smallestBite = 24
const largestBite = 512
/** A batch may hold the loop for less than 5 ms: one longer than this is followed by a smaller one. */
const longestBiteMs = 2
const shortestBiteMs = 0.8
/** The pause between two batches: the loop is left to others for more than half of the time. */
const pauseMs = 4
/** The pause where the loop is busy, which shows in how late a pause ends. */
const longPauseMs = 8
const lateMs = 4
/** How long a round deletes from one table; the next goes on. A limit of batches deleted 190 rows a second at most. */
const roundMs = 15_000
/**
 * After so many rows, some 1,000 pages of the write-ahead log, the log is written back: it takes 20 ms then, and 80 if
 * it is left to the calls' commits, which do it after 4,000 pages. A call waits for as long.
 */
const rowsPerCheckpoint = 400
/** The pause where somebody reads what was before, so that the log cannot be written back: it may not grow meanwhile. */
const readerPauseMs = 100

/** The log of a database that is written back into it from time to time. */
export interface WriteAheadLog {
  /** Writes it back, as far as nobody reads what was before; gives whether that was all of it. */
  writeBack(): boolean
  /** Whether a write was refused only because another process is writing. */
  isBusy(error: unknown): boolean
}

export class Retention {
  readonly #tables: Tables
  readonly #times: StoredTimes
  readonly #log: WriteAheadLog | undefined
  #closed = false

  /** `log` is left out where the database sees to its log by itself. */
  constructor(tables: Tables, times: StoredTimes, log?: WriteAheadLog) {
    this.#tables = tables
    this.#times = times
    this.#log = log
  }

  /** Deletes expired rows. Returns their number; rejects if the database cannot be written. */
  async sweep(now: number): Promise<number> {
    const requests = await this.#inBites(expired.requests, now - this.#times.requestsMs)
    const signatures = await this.#inBites(expired.signatures, now)
    const sessions = await this.#inBites(expired.sessions, now - endedSessionMs)
    const events = await this.#inBites(expired.paymentEvents, now - this.#times.paymentEventsMs)
    return requests + signatures + sessions + events
  }

  facts(): Awaitable<RetentionFacts> {
    return this.#tables.do(function* () {
      const bounds = yield* bounded.first()
      if (!bounds || bounds.since === null) return { requests: null }
      const about = Number((bounds.last ?? 0n) - (bounds.first ?? 0n)) + 1
      return { requests: { since: Number(bounds.since), about } }
    })
  }

  /** A running round ends after its current batch. */
  close(): void {
    this.#closed = true
  }

  async #inBites(statement: Statement<never>, before: number): Promise<number> {
    let deleted = 0
    let unwritten = 0
    let size = firstBite
    let pause = pauseMs
    for (const until = performance.now() + roundMs; performance.now() < until && !this.#closed;) {
      if (this.#log && unwritten >= rowsPerCheckpoint) {
        if (this.#log.writeBack()) unwritten = 0
        await Bun.sleep(unwritten === 0 ? pauseMs : readerPauseMs)
        continue
      }
      const { gone, heldMs } = await this.#bite(statement, before, size)
      deleted += gone
      unwritten += gone
      if (gone < size) break
      if (heldMs > longestBiteMs) size = Math.max(smallestBite, Math.floor(size / 2))
      else if (heldMs < shortestBiteMs) size = Math.min(largestBite, size * 2)
      const paused = performance.now()
      await Bun.sleep(pause)
      pause = performance.now() - paused > pause + lateMs ? longPauseMs : pauseMs
    }
    return deleted
  }

  /**
   * Waits for neither disk nor lock: rows that a power cut brings back are deleted by the next round. Tells how long the
   * loop was held, which it is not while a server deletes.
   */
  async #bite(
    statement: Statement<never>,
    before: number,
    size: number,
  ): Promise<{ gone: number; heldMs: number }> {
    const began = performance.now()
    try {
      const done = this.#tables.withoutWaiting(() => statement.run(before, size))
      const heldMs = performance.now() - began
      return { gone: await done, heldMs }
    } catch (error) {
      if (!this.#log?.isBusy(error)) throw error
      return { gone: 0, heldMs: 0 }
    }
  }
}

const expired = {
  requests: sql(
    'DELETE FROM request_log WHERE seq IN (SELECT seq FROM request_log WHERE at < ? ORDER BY at LIMIT ?)',
  ),
  signatures: sql(
    `DELETE FROM signature WHERE tool_call IN
     (SELECT tool_call FROM signature WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)`,
  ),
  sessions: sql(
    `DELETE FROM session WHERE id IN
     (SELECT id FROM session WHERE ${sessionEnd} <= ? ORDER BY ${sessionEnd} LIMIT ?)`,
  ),
  // A message that is not finished stays. One that comes again after its row is gone changes nothing: the top-up has
  // its payment, the ledger grants and refunds once for an id, and refunds and disputes keep rows of their own.
  paymentEvents: sql(
    `DELETE FROM payment_event WHERE (processor, id) IN (SELECT processor, id FROM payment_event
       WHERE at < ? AND outcome <> 'received' ORDER BY at LIMIT ?)`,
  ),
}

const bounded = sql<{ first: bigint | null; last: bigint | null; since: bigint | null }>(
  `SELECT (SELECT min(seq) FROM request_log) AS first, (SELECT max(seq) FROM request_log) AS last,
   (SELECT min(at) FROM request_log) AS since`,
)

// Erases what deleted accounts have asked and were answered. What was counted and charged stays.

/** Rows of the request log that are read, and written if they have contents, at once; these may be large. */
const rowsAtOnce = 64
const answersAtOnce = 32
/** How long an account is looked at again after its deletion: no call that was in flight runs for longer. */
const watchedMs = 86_400_000
/** How far the clock may have been set back meanwhile. */
const clockBackMs = 3_600_000

/** Who keeps what an account was answered. */
interface KeepsAnswers {
  forgetAccount(account: string): Promise<unknown>
}

export class DeletedContents {
  readonly #tables: OrderedTables
  readonly #answers: readonly KeepsAnswers[]
  /** When each account was deleted whose calls may still be ending; undefined before the first sweep. */
  #watched: Map<string, number> | undefined

  constructor(tables: OrderedTables, answers: readonly KeepsAnswers[]) {
    this.#tables = tables
    this.#answers = answers
  }

  /** Erases the contents of an account that was deleted at `deletedAt`; the sweep erases those that come later. */
  async erase(account: string, deletedAt: number): Promise<void> {
    this.#watched?.set(account, deletedAt)
    await this.#erase(account, 0)
  }

  /**
   * Erases what calls in flight have left since their account was deleted; at first, what anything has left of any
   * deleted account. Resolves with the number of accounts that had something.
   */
  async sweep(now: number): Promise<number> {
    const isFirst = this.#watched === undefined
    const watched = (this.#watched ??= await this.#findDeleted())
    let erased = 0
    for (const [account, deletedAt] of watched) {
      if (await this.#erase(account, isFirst ? 0 : deletedAt - clockBackMs)) erased++
      if (deletedAt <= now - watchedMs) watched.delete(account)
    }
    return erased
  }

  /** When accounts were deleted. */
  async #findDeleted(): Promise<Map<string, number>> {
    const rows = await this.#tables.do(() => contents.deleted.all())
    return new Map(rows.map(({ id, at }) => [id, Number(at)]))
  }

  /** Whether there was anything, in rows of the log from `since` on. */
  async #erase(account: string, since: number): Promise<boolean> {
    let found = false
    if (await this.#tables.do(() => contents.response.first(account))) {
      found = true
      for (const kept of this.#answers) await kept.forgetAccount(account)
    }
    while (await this.#tables.do(() => contents.answer.first(account))) {
      found = true
      await this.#tables.admit(() => contents.eraseAnswers.run(account, answersAtOnce))
    }
    return (await this.#eraseLog(account, since)) || found
  }

  async #eraseLog(account: string, since: number): Promise<boolean> {
    let found = false
    let [at, seq] = [BigInt(since), -1n]
    for (;;) {
      const rows = await this.#tables.do(() => contents.rows.all(account, at, seq, rowsAtOnce))
      const full = rows.filter(({ full }) => full !== 0n)
      if (full.length > 0) {
        found = true
        await this.#tables.admit(function* () {
          for (const row of full) yield* contents.eraseRow.run(row.seq)
        })
      }
      const last = rows.at(-1)
      if (last === undefined || rows.length < rowsAtOnce) return found
      ;({ at, seq } = last)
      // Calls go on while the log of a busy account is read.
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
}

const contents = {
  deleted: sql<{ id: string; at: bigint }>(
    'SELECT id, deleted_at AS at FROM account WHERE deleted_at IS NOT NULL',
  ),
  response: sql<object>(
    `SELECT 1 FROM response WHERE account = ?1 UNION ALL SELECT 1 FROM background WHERE account = ?1
     UNION ALL SELECT 1 FROM item_conversation WHERE account = ?1 LIMIT 1`,
  ),
  answer: sql<object>('SELECT 1 FROM idempotency WHERE account = ? AND answer IS NOT NULL LIMIT 1'),
  eraseAnswers: sql(
    `UPDATE idempotency SET answer = NULL WHERE (account, key) IN
     (SELECT account, key FROM idempotency WHERE account = ? AND answer IS NOT NULL LIMIT ?)`,
  ),
  rows: sql<{ at: bigint; seq: bigint; full: bigint }>(
    `SELECT at, seq, CAST(CASE WHEN contents IS NOT NULL OR detail IS NOT NULL THEN 1 ELSE 0 END AS bigint) AS full
     FROM request_log WHERE account = ?1 AND at >= ?2 AND (at > ?2 OR seq > ?3) ORDER BY at, seq LIMIT ?4`,
  ),
  // What a provider said of a fault may quote what it was asked.
  eraseRow: sql('UPDATE request_log SET contents = NULL, detail = NULL WHERE seq = ?'),
}
