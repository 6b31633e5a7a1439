// The rows of calls: opened by a hold, kept while the call runs, ended once.

import type { Database, Statement } from 'bun:sqlite'
import type { Attempt, CallRecord, SettleCommand } from '../../credits/ledger.ts'
import type { Pool } from '../../credits/pool.ts'
import type { CallChange, OpenCall } from '../../credits/wallet.ts'
import {
  callRecordOf,
  pinsText,
  progressText,
  receiptText,
  type CallRow,
  type ReceiptFacts,
} from './call-record.ts'
import { requireOne } from './wallets.ts'

export interface CallEnd {
  readonly at: number
  /** How it ended; for a call that was released, why. */
  readonly ending: string
  /** The transaction that charged it; null when nothing was charged. */
  readonly tx: number | null
  readonly receipt: (ReceiptFacts & Pick<SettleCommand, 'estimated'>) | null
  readonly attempts: readonly Attempt[]
}

export class CallTable {
  readonly #sql: ReturnType<typeof statements>

  constructor(database: Database) {
    this.#sql = statements(database)
  }

  /** The number of the new row; nothing when the id has been used before. */
  insert(account: string, open: OpenCall): number | undefined {
    const { changes, lastInsertRowid } = this.#sql.insert.run(
      open.call,
      account,
      open.key,
      open.hold,
      pinsText(open.pins),
      open.funding.join(','),
      open.model,
      open.priceVersion,
      open.keyLimit?.limit ?? null,
      open.keyLimit?.windowStart ?? null,
      open.owner,
      open.leaseUntil,
      open.openedAt,
    )
    return Number(changes) === 1 ? Number(lastInsertRowid) : undefined
  }

  update(row: number, open: OpenCall): void {
    const progress = open.progress === null ? null : progressText(open.progress)
    const { changes } = this.#sql.update.run(
      open.hold,
      pinsText(open.pins),
      open.leaseUntil,
      progress,
      row,
      open.owner,
    )
    requireOne(changes, 'call')
  }

  end(row: number, ended: Extract<CallChange, { kind: 'ended' }>, end: CallEnd): void {
    const { open, state, cost, charged, absorbed } = ended
    const { changes } = this.#sql.end.run(
      state,
      end.at,
      end.ending,
      cost,
      charged,
      absorbed,
      end.receipt?.estimated ? 1 : 0,
      end.receipt?.served?.upstreamId ?? null,
      end.receipt === null ? null : receiptText(end.receipt),
      end.tx,
      row,
      open.owner,
    )
    requireOne(changes, 'call')
    for (const [n, attempt] of end.attempts.entries()) {
      if (attempt.outcome === 'served') continue
      const attemptState = attempt.provider === 'unreconciled' ? 'unreconciled' : 'failed'
      this.#sql.attempt.run(open.call, n, attempt.provider, attempt.upstreamId, attemptState, attempt.code)
    }
  }

  open(): Pick<CallRow, 'id' | 'account' | 'owner' | 'lease_until'>[] {
    return this.#sql.open.all()
  }

  /** By our id, or by the id the provider gave its answer. */
  record(account: string, id: string): CallRecord | undefined {
    const row = this.#sql.byId.get(id, account) ?? this.#sql.byUpstreamId.get(id, account)
    if (!row) return undefined
    const drawn = row.settle_tx === null ? [] : this.#sql.drawn.all(row.settle_tx)
    return callRecordOf(
      row,
      drawn.map(({ lot, pool, amount }) => ({ lot, pool, amount })),
    )
  }
}

function statements(database: Database) {
  return {
    insert: database.prepare(
      `INSERT INTO call (id, account, key, state, hold, pins, funding, model, price_version, key_limit, key_window,
       owner, lease_until, opened_at) VALUES (?,?,?,'open',?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO NOTHING`,
    ) as Statement,
    update: database.prepare(
      `UPDATE call SET hold = ?, pins = ?, lease_until = ?, progress = ? WHERE seq = ? AND state = 'open' AND owner = ?`,
    ) as Statement,
    end: database.prepare(
      `UPDATE call SET state = ?, pins = NULL, progress = NULL, ended_at = ?, ending = ?, cost = ?, charged = ?,
       absorbed = ?, estimated = ?, upstream_id = ?, receipt = ?, settle_tx = ?
       WHERE seq = ? AND state = 'open' AND owner = ?`,
    ) as Statement,
    attempt: database.prepare(
      'INSERT INTO attempt (call, n, provider, upstream_id, state, code, est_cost) VALUES (?,?,?,?,?,?,0)',
    ) as Statement,
    open: database.prepare<Pick<CallRow, 'id' | 'account' | 'owner' | 'lease_until'>, []>(
      `SELECT id, account, owner, lease_until FROM call WHERE state = 'open'`,
    ),
    byId: database.prepare<CallRow, [string, string]>('SELECT * FROM call WHERE id = ? AND account = ?'),
    byUpstreamId: database.prepare<CallRow, [string, string]>(
      'SELECT * FROM call WHERE upstream_id = ? AND account = ? ORDER BY seq DESC LIMIT 1',
    ),
    drawn: database.prepare<{ lot: string; pool: Pool; amount: bigint }, [bigint]>(
      `SELECT journal.lot, lot.pool, -journal.amount AS amount FROM journal JOIN lot ON lot.id = journal.lot
       WHERE journal.tx = ? ORDER BY journal.leg`,
    ),
  }
}
