// Vouchers, and periods of subscriptions that are sold elsewhere, on SQLite.

import type { Database, Statement } from 'bun:sqlite'
import type { Period, SubscriptionStore } from '../../../payments/subscriptions.ts'
import type { Voucher, VoucherStore } from '../../../payments/vouchers.ts'
import { inTransaction, orUnavailable, sqliteCode, whenNeeded } from '../database/sqlite.ts'
import { numberOrNull, recordReader } from '../../sql/work.ts'
import type { Row } from '../../schema.ts'

export class SqliteVouchers implements VoucherStore {
  readonly #database: Database
  readonly #sql: () => ReturnType<typeof statements>

  constructor(database: Database) {
    this.#database = database
    this.#sql = whenNeeded(() => statements(database))
  }

  addVouchers(vouchers: readonly Voucher[]): boolean {
    try {
      inTransaction(this.#database, () => {
        for (const { id, hash, amount, note, createdAt, expiresAt } of vouchers)
          this.#sql().add.run(id, hash, amount, note, createdAt, expiresAt)
      })
      return true
    } catch (error) {
      if (sqliteCode(error) !== 'SQLITE_CONSTRAINT_PRIMARYKEY') throw error
      return false
    }
  }

  findVoucher(hash: string): Voucher | undefined {
    const row = orUnavailable(() => this.#sql().find.get(hash))
    return row ? voucherOf(row) : undefined
  }

  claimVoucher(hash: string, account: string, now: number): boolean {
    return Number(orUnavailable(() => this.#sql().claim.run(account, now, hash, now)).changes) === 1
  }

  voucherGranted(id: string, lot: string): void {
    orUnavailable(() => this.#sql().granted.run(lot, id))
  }

  listVouchers(limit: number): readonly Voucher[] {
    return orUnavailable(() => this.#sql().list.all(limit)).map(voucherOf)
  }

  revokeVoucher(id: string, at: number): boolean {
    return Number(orUnavailable(() => this.#sql().revoke.run(at, id)).changes) === 1
  }

  ungrantedVouchers(limit: number): readonly Voucher[] {
    return orUnavailable(() => this.#sql().ungranted.all(limit)).map(voucherOf)
  }
}

function statements(database: Database) {
  const write = (sql: string): Statement => database.prepare(sql)
  return {
    add: write('INSERT INTO voucher (id, hash, amount, note, created_at, expires_at) VALUES (?,?,?,?,?,?)'),
    find: database.prepare<Row<'voucher'>, [string]>('SELECT * FROM voucher WHERE hash = ?'),
    claim: write(
      `UPDATE voucher SET account = ?, redeemed_at = ? WHERE hash = ? AND account IS NULL AND revoked_at IS NULL
         AND (expires_at IS NULL OR expires_at > ?)`,
    ),
    granted: write('UPDATE voucher SET lot = ? WHERE id = ?'),
    list: database.prepare<Row<'voucher'>, [number]>(
      'SELECT * FROM voucher ORDER BY created_at DESC, id DESC LIMIT ?',
    ),
    revoke: write('UPDATE voucher SET revoked_at = coalesce(revoked_at, ?) WHERE id = ? AND account IS NULL'),
    ungranted: database.prepare<Row<'voucher'>, [number]>(
      'SELECT * FROM voucher WHERE redeemed_at IS NOT NULL AND lot IS NULL ORDER BY redeemed_at LIMIT ?',
    ),
  }
}

const voucherOf = recordReader<Row<'voucher'>>()({
  created_at: Number,
  expires_at: numberOrNull,
  revoked_at: numberOrNull,
  redeemed_at: numberOrNull,
})

// Periods of subscriptions on SQLite.

export class SqliteSubscriptions implements SubscriptionStore {
  readonly #database: Database
  readonly #sql: () => ReturnType<typeof subscriptionStatements>

  constructor(database: Database) {
    this.#database = database
    this.#sql = whenNeeded(() => subscriptionStatements(database))
  }

  changePeriod(period: string, change: (current: Period | undefined) => Period | null): Period | undefined {
    return inTransaction(this.#database, () => {
      const row = this.#sql().find.get(period)
      const current = row ? periodOf(row) : undefined
      const changed = change(current)
      if (changed === null) return current
      this.#put(changed)
      return changed
    })
  }

  #put(row: Period): void {
    const { period, source, subscription, account, product, startsAt, endsAt, state, amount } = row
    const named = [period, source, subscription, account, product]
    const times = [startsAt, endsAt, state, amount, row.lot, row.takenBack, row.createdAt, row.updatedAt]
    this.#sql().put.run(...named, ...times)
  }

  findPeriod(period: string): Period | undefined {
    const row = orUnavailable(() => this.#sql().find.get(period))
    return row ? periodOf(row) : undefined
  }

  lotOf(period: string): string | undefined {
    return orUnavailable(() => this.#sql().lot.get(period))?.id
  }

  periodsOf(source: string, subscription: string): readonly Period[] {
    return orUnavailable(() => this.#sql().of.all(source, subscription)).map(periodOf)
  }

  listPeriods(account: string | null, limit: number): readonly Period[] {
    return orUnavailable(() => this.#sql().list.all({ account, limit })).map(periodOf)
  }
}

function subscriptionStatements(database: Database) {
  return {
    find: database.prepare<Row<'subscription'>, [string]>('SELECT * FROM subscription WHERE period = ?'),
    of: database.prepare<Row<'subscription'>, [string, string]>(
      'SELECT * FROM subscription WHERE source = ? AND subscription = ? ORDER BY starts_at DESC, period DESC',
    ),
    lot: database.prepare<{ id: string }, [string]>('SELECT id FROM lot WHERE source = ?'),
    list: database.prepare<Row<'subscription'>, [{ account: string | null; limit: number }]>(
      `SELECT * FROM subscription WHERE $account IS NULL OR account = $account
       ORDER BY starts_at DESC, period DESC LIMIT $limit`,
    ),
    put: database.prepare(
      `INSERT OR REPLACE INTO subscription (period, source, subscription, account, product, starts_at, ends_at, state,
         amount, lot, taken_back, created_at, updated_at) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)`,
    ) as Statement,
  }
}

const periodOf = recordReader<Row<'subscription'>>()({
  starts_at: Number,
  ends_at: Number,
  created_at: Number,
  updated_at: Number,
})
