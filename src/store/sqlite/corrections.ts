// The table of refunds and adjustments: each once for its id, with the answer that was given.

import type { Database, Statement } from 'bun:sqlite'
import type { AdjustCommand, RefundCommand } from '../../credits/ledger.ts'
import type { Pico } from '../../credits/money.ts'
import { GatewayError } from '../../errors.ts'

/** What a correction did, in picodollars. */
export interface Corrected {
  readonly taken: Pico
  readonly debt: Pico
}

export class Corrections {
  readonly #find: Statement<Corrected & { account: string }, [string]>
  readonly #ofLot: Statement<{ refunded: bigint }, [string]>
  readonly #insert: Statement

  constructor(database: Database) {
    this.#find = database.prepare('SELECT account, taken, debt FROM correction WHERE id = ?')
    this.#ofLot = database.prepare(
      'SELECT coalesce(sum(taken + debt), 0) AS refunded FROM correction WHERE lot = ?',
    )
    this.#insert = database.prepare(
      'INSERT INTO correction (id, account, kind, taken, debt, at, lot) VALUES (?,?,?,?,?,?,?)',
    )
  }

  /** What this id has done before. Throws `idempotency_conflict` when that was for another account. */
  find(id: string, account: string): Corrected | undefined {
    const done = this.#find.get(id)
    if (!done) return undefined
    if (done.account === account) return done
    throw new GatewayError('idempotency_conflict', { message: 'This id has been used for another account.' })
  }

  /** What all refunds of this lot have taken back, out of what was left of it or as debt. */
  refundedOf(lot: string): Pico {
    return this.#ofLot.get(lot)?.refunded ?? 0n
  }

  noteRefund({ id, account, lot }: RefundCommand, { taken, debt }: Corrected, now: number): void {
    this.#insert.run(id, account, 'refund', taken, debt, now, lot)
  }

  noteAdjustment({ id, account }: AdjustCommand, now: number): void {
    this.#insert.run(id, account, 'adjust', 0n, 0n, now, null)
  }
}
