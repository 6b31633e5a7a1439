// The ledger's time: the clock's, but never earlier than anything that is booked. A lot that was over stays over, and no
// day begins twice, whatever happens to the clock.

import type { Database, Statement } from 'bun:sqlite'
import { GatewayError } from '../../../errors.ts'

export interface LedgerClockParts {
  /** Milliseconds since 1970. */
  readonly clock: () => number
  /** The furthest the clock may be behind the ledger's time, milliseconds, before nothing more is admitted. */
  readonly backMs: number
  /** Called once when the clock is found to be behind, with how far. */
  readonly stepped: (behindMs: number) => void
}

/** NTP corrections stay below this and need not be reported. */
const unnoticedMs = 1_000

export class LedgerClock {
  readonly #parts: LedgerClockParts
  readonly #last: Statement<{ at: bigint }, []>
  #latest = 0
  #lastClock = 0
  #loaded = false
  #warned = false

  constructor(database: Database, parts: LedgerClockParts) {
    this.#parts = parts
    // The head of the journal, and what ends or begins without an entry in it.
    this.#last = database.prepare(
      `SELECT max(
         coalesce((SELECT at FROM journal ORDER BY tx DESC, leg DESC LIMIT 1), 0),
         coalesce((SELECT ended_at FROM call ORDER BY seq DESC LIMIT 1), 0),
         coalesce((SELECT max(opened_at) FROM open_call), 0)) AS at`,
    )
  }

  /** Another process may have written, or our own transaction was undone: the file is asked again. */
  forget(): void {
    this.#loaded = false
  }

  /** Milliseconds since 1970, no less than the last time it was asked and no less than anything in the file. */
  now(): number {
    if (!this.#loaded) {
      this.#latest = Math.max(this.#latest, Number(this.#last.get()?.at ?? 0n))
      this.#loaded = true
    }
    const clock = (this.#lastClock = this.#parts.clock())
    if (clock >= this.#latest) {
      this.#warned = false
      return (this.#latest = clock)
    }
    if (!this.#warned && this.#latest - clock >= unnoticedMs) {
      this.#warned = true
      this.#parts.stepped(this.#latest - clock)
    }
    return this.#latest
  }

  /** The same for what may be refused. Throws `store_unavailable` while the clock is further behind than it may be. */
  admitting(): number {
    const now = this.now()
    if (!this.tooFarBehind) return now
    const seconds = Math.round((now - this.#lastClock) / 1000)
    throw new GatewayError('store_unavailable', {
      message: `The clock of this machine is ${seconds} s behind the time of the ledger.`,
      retryAfterMs: 60_000,
    })
  }

  get tooFarBehind(): boolean {
    return this.#latest - this.#lastClock > this.#parts.backMs
  }
}
