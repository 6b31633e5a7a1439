// The table of refunds and adjustments: each once for its id, with the answer that was given.

import type { Database, Statement } from 'bun:sqlite'
import type { AdjustCommand, RefundCommand } from '../../../credits/ledger/ledger.ts'
import { formatUsd, type Pico } from '../../../credits/money.ts'
import { GatewayError } from '../../../errors.ts'
import type { GroupWrites } from '../../ledger-core.ts'

/** What a correction did, in picodollars. */
export interface Corrected {
  readonly taken: Pico
  readonly debt: Pico
}

interface CorrectionRow extends Corrected {
  readonly account: string
  readonly kind: 'refund' | 'adjust'
  readonly lot: string | null
}

function conflictWith({ kind, account, taken, debt }: CorrectionRow): GatewayError {
  const what =
    kind === 'refund'
      ? `refunded ${formatUsd(taken + debt)} USD`
      : `adjusted credit by ${formatUsd(-taken)} USD`
  return new GatewayError('idempotency_conflict', {
    message: `This id has ${what} for the account ${account} before.`,
  })
}

type CorrectionWrites = GroupWrites['corrections']

export class Corrections implements CorrectionWrites {
  readonly #find: Statement<CorrectionRow, [string]>
  readonly #ofLot: Statement<{ refunded: bigint }, [string]>
  readonly #insert: Statement
  readonly #log: Statement

  constructor(database: Database) {
    this.#find = database.prepare('SELECT account, kind, lot, taken, debt FROM correction WHERE id = ?')
    this.#ofLot = database.prepare(
      'SELECT coalesce(sum(taken + debt), 0) AS refunded FROM correction WHERE lot = ?',
    )
    this.#insert = database.prepare(
      'INSERT INTO correction (id, account, kind, taken, debt, at, lot) VALUES (?,?,?,?,?,?,?)',
    )
    this.#log = database.prepare(
      `INSERT INTO act (at, operator, what, subject, before, after) VALUES (?, ?, 'credits.adjust', ?, NULL, ?)`,
    )
  }

  /** What this refund has done before. Throws `idempotency_conflict` when its id stands for another one. */
  findRefund({ id, account, lot, amount }: RefundCommand): Corrected | undefined {
    const done = this.#find.get(id)
    if (!done) return undefined
    // Rows of old do not name the lot.
    const sameLot = done.lot === null || done.lot === lot
    if (done.kind === 'refund' && done.account === account && sameLot && done.taken + done.debt === amount)
      return done
    throw conflictWith(done)
  }

  /** Whether this correction was made before. Throws `idempotency_conflict` when its id stands for another one. */
  hasAdjusted({ id, account, amount }: AdjustCommand): boolean {
    const done = this.#find.get(id)
    if (!done) return false
    // Rows of old do not tell the amount.
    const sameAmount = done.taken === 0n || done.taken === -amount
    if (done.kind === 'adjust' && done.account === account && sameAmount) return true
    throw conflictWith(done)
  }

  /** What all refunds of this lot have taken back, out of what was left of it or as debt, less what has failed. */
  refundedOf(lot: string): Pico {
    return this.#ofLot.get(lot)?.refunded ?? 0n
  }

  noteRefund({ id, account, lot }: RefundCommand, { taken, debt }: Corrected, now: number): void {
    this.#insert.run(id, account, 'refund', taken, debt, now, lot)
  }

  noteAdjustment({ id, account, pool, amount, refundOf, operator }: AdjustCommand, now: number): void {
    this.#insert.run(id, account, 'adjust', -amount, 0n, now, refundOf ?? null)
    // An act that was logged by itself could be missing: the audit takes an adjustment without one for forged.
    if (operator !== undefined)
      this.#log.run(now, operator, account, JSON.stringify({ id, pool, usd: formatUsd(amount) }))
  }
}
