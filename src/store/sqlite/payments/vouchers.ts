// Vouchers on SQLite.

import type { Database, Statement } from 'bun:sqlite'
import type { Period, SubscriptionState, SubscriptionStore } from '../../../payments/subscriptions.ts'
import type { Voucher, VoucherStore } from '../../../payments/vouchers.ts'
import { numberOrNull, writing } from '../accounts/account-store.ts'
import { reading, sqliteCode, whenNeeded } from '../database/sqlite.ts'

interface VoucherRow {
  readonly id: string
  readonly hash: string
  readonly amount: bigint
  readonly note: string
  readonly created_at: bigint
  readonly expires_at: bigint | null
  readonly revoked_at: bigint | null
  readonly account: string | null
  readonly redeemed_at: bigint | null
  readonly lot: string | null
}

export class SqliteVouchers implements VoucherStore {
  readonly #database: Database
  readonly #sql: () => ReturnType<typeof statements>

  constructor(database: Database) {
    this.#database = database
    this.#sql = whenNeeded(() => statements(database))
  }

  addVouchers(vouchers: readonly Voucher[]): boolean {
    const add = this.#database.transaction(() => {
      for (const { id, hash, amount, note, createdAt, expiresAt } of vouchers)
        this.#sql().add.run(id, hash, amount, note, createdAt, expiresAt)
    })
    try {
      writing(() => add.immediate())
      return true
    } catch (error) {
      if (sqliteCode(error) !== 'SQLITE_CONSTRAINT_PRIMARYKEY') throw error
      return false
    }
  }

  findVoucher(hash: string): Voucher | undefined {
    const row = reading(() => this.#sql().find.get(hash))
    return row ? voucherOf(row) : undefined
  }

  claimVoucher(hash: string, account: string, now: number): boolean {
    return Number(writing(() => this.#sql().claim.run(account, now, hash, now)).changes) === 1
  }

  voucherGranted(id: string, lot: string): void {
    writing(() => this.#sql().granted.run(lot, id))
  }

  listVouchers(limit: number): readonly Voucher[] {
    return reading(() => this.#sql().list.all(limit)).map(voucherOf)
  }

  revokeVoucher(id: string, at: number): boolean {
    return Number(writing(() => this.#sql().revoke.run(at, id)).changes) === 1
  }

  ungrantedVouchers(limit: number): readonly Voucher[] {
    return reading(() => this.#sql().ungranted.all(limit)).map(voucherOf)
  }
}

function statements(database: Database) {
  const write = (sql: string): Statement => database.prepare(sql)
  return {
    add: write('INSERT INTO voucher (id, hash, amount, note, created_at, expires_at) VALUES (?,?,?,?,?,?)'),
    find: database.prepare<VoucherRow, [string]>('SELECT * FROM voucher WHERE hash = ?'),
    claim: write(
      `UPDATE voucher SET account = ?, redeemed_at = ? WHERE hash = ? AND account IS NULL AND revoked_at IS NULL
         AND (expires_at IS NULL OR expires_at > ?)`,
    ),
    granted: write('UPDATE voucher SET lot = ? WHERE id = ?'),
    list: database.prepare<VoucherRow, [number]>(
      'SELECT * FROM voucher ORDER BY created_at DESC, id DESC LIMIT ?',
    ),
    revoke: write('UPDATE voucher SET revoked_at = coalesce(revoked_at, ?) WHERE id = ? AND account IS NULL'),
    ungranted: database.prepare<VoucherRow, [number]>(
      'SELECT * FROM voucher WHERE redeemed_at IS NOT NULL AND lot IS NULL ORDER BY redeemed_at LIMIT ?',
    ),
  }
}

function voucherOf(row: VoucherRow): Voucher {
  return {
    id: row.id,
    hash: row.hash,
    amount: row.amount,
    note: row.note,
    createdAt: Number(row.created_at),
    expiresAt: numberOrNull(row.expires_at),
    revokedAt: numberOrNull(row.revoked_at),
    account: row.account,
    redeemedAt: numberOrNull(row.redeemed_at),
    lot: row.lot,
  }
}

// Periods of subscriptions on SQLite.

interface PeriodRow {
  readonly period: string
  readonly source: string
  readonly subscription: string
  readonly account: string
  readonly product: string
  readonly starts_at: bigint
  readonly ends_at: bigint
  readonly state: string
  readonly amount: bigint
  readonly lot: string | null
  readonly taken_back: bigint | null
  readonly created_at: bigint
  readonly updated_at: bigint
}

export class SqliteSubscriptions implements SubscriptionStore {
  readonly #database: Database
  readonly #sql: () => ReturnType<typeof subscriptionsStatements>

  constructor(database: Database) {
    this.#database = database
    this.#sql = whenNeeded(() => subscriptionsStatements(database))
  }

  changePeriod(period: string, change: (current: Period | undefined) => Period | null): Period | undefined {
    const work = this.#database.transaction(() => {
      const row = this.#sql().find.get(period)
      const current = row ? periodOf(row) : undefined
      const changed = change(current)
      if (changed === null) return current
      this.#put(changed)
      return changed
    })
    return writing(() => work.immediate())
  }

  #put(row: Period): void {
    const { period, source, subscription, account, product, startsAt, endsAt, state, amount } = row
    const named = [period, source, subscription, account, product]
    const times = [startsAt, endsAt, state, amount, row.lot, row.takenBack, row.createdAt, row.updatedAt]
    this.#sql().put.run(...named, ...times)
  }

  findPeriod(period: string): Period | undefined {
    const row = reading(() => this.#sql().find.get(period))
    return row ? periodOf(row) : undefined
  }

  lotOf(period: string): string | undefined {
    return reading(() => this.#sql().lot.get(period))?.id
  }

  periodsOf(source: string, subscription: string): readonly Period[] {
    return reading(() => this.#sql().of.all(source, subscription)).map(periodOf)
  }

  listPeriods(account: string | null, limit: number): readonly Period[] {
    return reading(() => this.#sql().list.all({ account, limit })).map(periodOf)
  }
}

function subscriptionsStatements(database: Database) {
  return {
    find: database.prepare<PeriodRow, [string]>('SELECT * FROM subscription WHERE period = ?'),
    of: database.prepare<PeriodRow, [string, string]>(
      'SELECT * FROM subscription WHERE source = ? AND subscription = ? ORDER BY starts_at DESC, period DESC',
    ),
    lot: database.prepare<{ id: string }, [string]>('SELECT id FROM lot WHERE source = ?'),
    list: database.prepare<PeriodRow, [{ account: string | null; limit: number }]>(
      `SELECT * FROM subscription WHERE $account IS NULL OR account = $account
       ORDER BY starts_at DESC, period DESC LIMIT $limit`,
    ),
    put: database.prepare(
      `INSERT OR REPLACE INTO subscription (period, source, subscription, account, product, starts_at, ends_at, state,
         amount, lot, taken_back, created_at, updated_at) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)`,
    ) as Statement,
  }
}

function periodOf(row: PeriodRow): Period {
  return {
    period: row.period,
    source: row.source,
    subscription: row.subscription,
    account: row.account,
    product: row.product,
    startsAt: Number(row.starts_at),
    endsAt: Number(row.ends_at),
    state: row.state as SubscriptionState,
    amount: row.amount,
    lot: row.lot,
    takenBack: row.taken_back,
    createdAt: Number(row.created_at),
    updatedAt: Number(row.updated_at),
  }
}
