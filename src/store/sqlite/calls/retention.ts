// Deletes expired records that no money depends on: the request log, thought signatures, ended sessions and messages
// about payments. In small batches, because every statement blocks the event loop.

import { existsSync, statSync } from 'node:fs'
import type { Database, Statement } from 'bun:sqlite'
import type { RetentionFacts, RetentionTimes } from '../../store.ts'
import { withoutWaiting } from '../database/connection.ts'
import { isBusy, reading } from '../database/outage.ts'

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
/** A batch must stay below 5 ms: one longer than this is followed by a smaller one. */
const longestBiteMs = 2
const shortestBiteMs = 0.8
/** The pause between two batches: the loop is left to others for more than half of the time. */
const pauseMs = 4
/** The pause where the loop is busy, which shows in how late a pause ends. */
const longPauseMs = 8
const lateMs = 4
/** How long a round deletes from one table; the next goes on. A limit of batches deleted 190 rows a second at most. */
const roundMs = 15_000
/** Ledger commits checkpoint the write-ahead log. If there are none, a round may do it without making anyone wait. */
const longWalBytes = 32 * 1024 * 1024

export class Retention {
  readonly #database: Database
  readonly #times: StoredTimes
  readonly #requests: Statement
  readonly #signatures: Statement
  readonly #sessions: Statement
  readonly #paymentEvents: Statement
  readonly #bounds: Statement<{ first: bigint | null; last: bigint | null; since: bigint | null }, []>
  #closed = false

  constructor(database: Database, times: StoredTimes) {
    this.#database = database
    this.#times = times
    this.#requests = database.prepare(
      'DELETE FROM request_log WHERE seq IN (SELECT seq FROM request_log WHERE at < ? ORDER BY at LIMIT ?)',
    )
    this.#signatures = database.prepare(
      `DELETE FROM signature WHERE rowid IN
       (SELECT rowid FROM signature WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)`,
    )
    this.#sessions = database.prepare(
      `DELETE FROM session WHERE rowid IN
       (SELECT rowid FROM session WHERE ${sessionEnd} <= ? ORDER BY ${sessionEnd} LIMIT ?)`,
    )
    // A message that is not finished stays. One that comes again after its row is gone changes nothing: the top-up has
    // its payment, the ledger grants and refunds once for an id, and refunds and disputes keep rows of their own.
    this.#paymentEvents = database.prepare(
      `DELETE FROM payment_event WHERE (processor, id) IN (SELECT processor, id FROM payment_event
         WHERE at < ? AND outcome <> 'received' ORDER BY at LIMIT ?)`,
    )
    this.#bounds = database.prepare(
      `SELECT (SELECT min(seq) FROM request_log) AS first, (SELECT max(seq) FROM request_log) AS last,
       (SELECT min(at) FROM request_log) AS since`,
    )
  }

  /** Deletes expired rows. Returns their number; rejects if the database cannot be written. */
  async sweep(now: number): Promise<number> {
    const requests = await this.#inBites(this.#requests, now - this.#times.requestsMs)
    const signatures = await this.#inBites(this.#signatures, now)
    const sessions = await this.#inBites(this.#sessions, now - endedSessionMs)
    const events = await this.#inBites(this.#paymentEvents, now - this.#times.paymentEventsMs)
    return requests + signatures + sessions + events
  }

  facts(): RetentionFacts {
    const bounds = reading(() => this.#bounds.get())
    if (!bounds || bounds.since === null) return { requests: null }
    const about = Number((bounds.last ?? 0n) - (bounds.first ?? 0n)) + 1
    return { requests: { since: Number(bounds.since), about } }
  }

  /** A running round ends after its current batch. */
  close(): void {
    this.#closed = true
  }

  async #inBites(statement: Statement, before: number): Promise<number> {
    let deleted = 0
    let size = firstBite
    let pause = pauseMs
    for (const until = performance.now() + roundMs; performance.now() < until && !this.#closed;) {
      const { gone, ms } = this.#bite(statement, before, size)
      deleted += gone
      if (gone < size) break
      if (ms > longestBiteMs) size = Math.max(smallestBite, Math.floor(size / 2))
      else if (ms < shortestBiteMs) size = Math.min(largestBite, size * 2)
      const paused = performance.now()
      await Bun.sleep(pause)
      pause = performance.now() - paused > pause + lateMs ? longPauseMs : pauseMs
    }
    if (deleted > 0 && !this.#closed) this.#shortenWal()
    return deleted
  }

  /** Waits for neither disk nor lock: rows that a power cut brings back are deleted by the next round. */
  #bite(statement: Statement, before: number, size: number): { gone: number; ms: number } {
    const began = performance.now()
    try {
      const gone = withoutWaiting(this.#database, () => Number(statement.run(before, size).changes))
      return { gone, ms: performance.now() - began }
    } catch (error) {
      if (!isBusy(error)) throw error
      return { gone: 0, ms: 0 }
    }
  }

  #shortenWal(): void {
    const wal = `${this.#database.filename}-wal`
    if (existsSync(wal) && statSync(wal).size > longWalBytes)
      this.#database.run('PRAGMA wal_checkpoint(PASSIVE)')
  }
}
