// Periods of subscriptions on SQLite.

import type { Database, Statement } from 'bun:sqlite'
import type { Period, SubscriptionState, SubscriptionStore } from '../../../payments/subscriptions.ts'
import { writing } from '../accounts/account-store.ts'
import { reading } from '../database/outage.ts'
import { whenNeeded } from '../database/when-needed.ts'

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
  readonly #sql: () => ReturnType<typeof statements>

  constructor(database: Database) {
    this.#database = database
    this.#sql = whenNeeded(() => statements(database))
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

function statements(database: Database) {
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
