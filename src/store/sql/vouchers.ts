// Vouchers, and periods of subscriptions and plans.

import type { Awaitable } from '../../async/async.ts'
import { type PlanQuery, planSource, type PlanStore } from '../../payments/plans.ts'
import type { Period, SubscriptionStore } from '../../payments/subscriptions.ts'
import type { Voucher, VoucherStore } from '../../payments/vouchers.ts'
import type { Row } from '../schema.ts'
import { recordAct } from './records.ts'
import {
  AlreadyThere,
  numberOrNull,
  onceMore,
  recordReader,
  sql,
  sqlWhere,
  type Tables,
  type Work,
} from './work.ts'

export class SqlVouchers implements VoucherStore {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  async addVouchers(made: readonly Voucher[]): Promise<boolean> {
    try {
      await this.#tables.together(function* () {
        for (const { id, hash, amount, note, createdAt, expiresAt } of made)
          yield* vouchers.add.run(id, hash, amount, note, createdAt, expiresAt)
      })
      return true
    } catch (error) {
      if (!(error instanceof AlreadyThere)) throw error
      return false
    }
  }

  findVoucher(hash: string): Awaitable<Voucher | undefined> {
    return this.#tables.do(function* () {
      const row = yield* vouchers.find.first(hash)
      return row && voucherOf(row)
    })
  }

  claimVoucher(hash: string, account: string, now: number): Awaitable<boolean> {
    return this.#tables.do(function* () {
      return (yield* vouchers.claim.run(account, now, hash, now)) === 1
    })
  }

  voucherGranted(id: string, lot: string): Awaitable<void> {
    return this.#tables.do(function* () {
      yield* vouchers.granted.run(lot, id)
    })
  }

  listVouchers(limit: number): Awaitable<readonly Voucher[]> {
    return this.#tables.do(function* () {
      return (yield* vouchers.list.all(limit)).map(voucherOf)
    })
  }

  revokeVoucher(id: string, at: number): Awaitable<boolean> {
    return this.#tables.do(function* () {
      return (yield* vouchers.revoke.run(at, id)) === 1
    })
  }

  ungrantedVouchers(limit: number): Awaitable<readonly Voucher[]> {
    return this.#tables.do(function* () {
      return (yield* vouchers.ungranted.all(limit)).map(voucherOf)
    })
  }
}

const vouchers = {
  add: sql('INSERT INTO voucher (id, hash, amount, note, created_at, expires_at) VALUES (?,?,?,?,?,?)'),
  find: sql<Row<'voucher'>>('SELECT * FROM voucher WHERE hash = ?'),
  claim: sql(
    `UPDATE voucher SET account = ?, redeemed_at = ? WHERE hash = ? AND account IS NULL AND revoked_at IS NULL
       AND (expires_at IS NULL OR expires_at > ?)`,
  ),
  granted: sql('UPDATE voucher SET lot = ? WHERE id = ?'),
  list: sql<Row<'voucher'>>('SELECT * FROM voucher ORDER BY created_at DESC, id DESC LIMIT ?'),
  revoke: sql('UPDATE voucher SET revoked_at = coalesce(revoked_at, ?) WHERE id = ? AND account IS NULL'),
  ungranted: sql<Row<'voucher'>>(
    'SELECT * FROM voucher WHERE redeemed_at IS NOT NULL AND lot IS NULL ORDER BY redeemed_at LIMIT ?',
  ),
}

const voucherOf = recordReader<Row<'voucher'>>()({
  created_at: Number,
  expires_at: numberOrNull,
  revoked_at: numberOrNull,
  redeemed_at: numberOrNull,
})

// Periods of subscriptions.

/** An account has a few periods of plans that have not ended. */
const mostOthers = 1_000

export class SqlSubscriptions implements SubscriptionStore, PlanStore {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  changePeriod(
    period: string,
    change: (current: Period | undefined) => Period | null,
  ): Awaitable<Period | undefined> {
    return this.#tables.together(function* () {
      const row = yield* periods.find.first(period)
      const current = row && periodOf(row)
      const changed = change(current)
      if (changed === null) return current
      yield* periods.put.run(...valuesOf(changed))
      return changed
    })
  }

  findPeriod(period: string): Awaitable<Period | undefined> {
    return this.#tables.do(function* () {
      const row = yield* periods.find.first(period)
      return row && periodOf(row)
    })
  }

  lotOf(period: string): Awaitable<string | undefined> {
    return this.#tables.do(function* () {
      return (yield* periods.lot.first(period))?.id
    })
  }

  periodsOf(source: string, subscription: string): Awaitable<readonly Period[]> {
    return this.#tables.do(function* () {
      return (yield* periods.of.all(source, subscription)).map(periodOf)
    })
  }

  placePeriod(...given: Parameters<PlanStore['placePeriod']>): Promise<Period> {
    return onceMore(() => this.#placePeriod(...given))
  }

  #placePeriod(...[unplaced, now, place, actOf]: Parameters<PlanStore['placePeriod']>): Awaitable<Period> {
    const { source, subscription, account } = unplaced
    return this.#tables.together(function* (): Work<Period> {
      const placed = yield* periods.of.first(source, subscription)
      if (placed) return periodOf(placed)
      const others = (yield* periods.plansOf.all(account, now, mostOthers)).map(periodOf)
      const { startsAt, endsAt } = place(others)
      const period = `subscription:${source}:${subscription}:${new Date(startsAt).toISOString()}`
      const row = { ...unplaced, period, startsAt, endsAt }
      yield* periods.add.run(...valuesOf(row))
      if (actOf) yield* recordAct(actOf(row))
      return row
    })
  }

  movePeriods(...given: Parameters<PlanStore['movePeriods']>): Promise<readonly Period[]> {
    return onceMore(() => this.#movePeriods(...given))
  }

  #movePeriods(...[account, now, place]: Parameters<PlanStore['movePeriods']>): Awaitable<readonly Period[]> {
    return this.#tables.together(function* (): Work<readonly Period[]> {
      const before: Period[] = []
      const moved: Period[] = []
      for (const row of yield* periods.plansOf.all(account, now, mostOthers)) {
        const period = periodOf(row)
        const isFree = period.state === 'active' && period.lot === null
        const span = isFree ? place(period, before) : undefined
        // A gateway may have been killed between a grant and the note of it.
        if (span === undefined || (yield* periods.lot.first(period.period))) {
          before.push(period)
          continue
        }
        const { startsAt, endsAt } = span
        yield* periods.move.run(startsAt, endsAt, now, period.period)
        const paid = yield* periods.paidBy.first(period.subscription)
        if (paid?.plan) {
          const plan = JSON.stringify({ ...(JSON.parse(paid.plan) as object), period: { startsAt, endsAt } })
          yield* periods.changePayment.run(plan, period.subscription)
        }
        const changed = { ...period, startsAt, endsAt, updatedAt: now }
        moved.push(changed)
        before.push(changed)
      }
      return moved
    })
  }

  plansOf(account: string, now: number, limit: number): Awaitable<readonly Period[]> {
    return this.#tables.do(function* () {
      return (yield* periods.plansOf.all(account, now, limit)).map(periodOf)
    })
  }

  pagePlans({ account, plan, after, now, limit }: PlanQuery): Awaitable<readonly Period[]> {
    const { statement, values } = plansWhere([
      ['ends_at > ?', now],
      ['account = ?', account],
      ['product = ?', plan],
      ['starts_at <= ?', after?.startsAt],
    ])
    const last = after ?? { startsAt: Number.MAX_SAFE_INTEGER, period: '' }
    return this.#tables.do(function* () {
      return (yield* statement.all(...values, last.startsAt, last.period, limit)).map(periodOf)
    })
  }

  duePlans(now: number, until: number, limit: number): Awaitable<readonly Period[]> {
    return this.#tables.do(function* () {
      return (yield* periods.due.all(until, now, limit)).map(periodOf)
    })
  }

  endingPlans(now: number, until: number, limit: number): Awaitable<readonly Period[]> {
    return this.#tables.do(function* () {
      return (yield* periods.ending.all(now, until, limit)).map(periodOf)
    })
  }

  claimReminder(period: string, at: number): Awaitable<boolean> {
    return this.#tables.do(function* () {
      return (yield* periods.claimReminder.run(at, period)) === 1
    })
  }

  cancelPlans(account: string, at: number): Awaitable<void> {
    return this.#tables.do(function* () {
      yield* periods.cancel.run(at, account, at)
    })
  }

  listPeriods(account: string | null, limit: number): Awaitable<readonly Period[]> {
    return this.#tables.do(function* () {
      const rows =
        account === null ? yield* periods.list.all(limit) : yield* periods.listOf.all(account, limit)
      return rows.map(periodOf)
    })
  }
}

function valuesOf(row: Period) {
  const { source, subscription, account, product, startsAt, endsAt, state, amount } = row
  const named = [row.period, source, subscription, account, product]
  const { lot, takenBack, createdAt, updatedAt } = row
  const models = row.models === null ? null : JSON.stringify(row.models)
  return [...named, startsAt, endsAt, state, amount, lot, takenBack, models, createdAt, updatedAt]
}

const periods = {
  find: sql<Row<'subscription'>>('SELECT * FROM subscription WHERE period = ?'),
  of: sql<Row<'subscription'>>(
    'SELECT * FROM subscription WHERE source = ? AND subscription = ? ORDER BY starts_at DESC, period DESC',
  ),
  plansOf: sql<Row<'subscription'>>(
    `SELECT * FROM subscription WHERE account = ? AND source = '${planSource}' AND ends_at > ?
     ORDER BY starts_at, period LIMIT ?`,
  ),
  move: sql(
    'UPDATE subscription SET starts_at = ?, ends_at = ?, updated_at = ? WHERE period = ? AND lot IS NULL',
  ),
  paidBy: sql<Row<'topUp', 'plan'>>('SELECT plan FROM top_up WHERE id = ?'),
  changePayment: sql('UPDATE top_up SET plan = ? WHERE id = ?'),
  due: sql<Row<'subscription'>>(
    `SELECT * FROM subscription WHERE lot IS NULL AND source = '${planSource}' AND starts_at <= ? AND ends_at > ?
       AND state IN ('active', 'ended') ORDER BY starts_at LIMIT ?`,
  ),
  ending: sql<Row<'subscription'>>(
    `SELECT * FROM subscription WHERE reminded_at IS NULL AND source = '${planSource}' AND cancelled_at IS NULL
       AND state = 'active' AND ends_at > ? AND ends_at <= ? ORDER BY ends_at LIMIT ?`,
  ),
  claimReminder: sql('UPDATE subscription SET reminded_at = ? WHERE period = ? AND reminded_at IS NULL'),
  cancel: sql(
    `UPDATE subscription SET cancelled_at = ? WHERE account = ? AND source = '${planSource}' AND ends_at > ?
       AND cancelled_at IS NULL`,
  ),
  lot: sql<{ id: string }>('SELECT id FROM lot WHERE source = ?'),
  list: sql<Row<'subscription'>>('SELECT * FROM subscription ORDER BY starts_at DESC, period DESC LIMIT ?'),
  listOf: sql<Row<'subscription'>>(
    'SELECT * FROM subscription WHERE account = ? ORDER BY starts_at DESC, period DESC LIMIT ?',
  ),
  add: sql(
    `INSERT INTO subscription (period, source, subscription, account, product, starts_at, ends_at, state, amount, lot,
       taken_back, models, created_at, updated_at) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
  ),
  put: sql(
    `INSERT INTO subscription (period, source, subscription, account, product, starts_at, ends_at, state, amount, lot,
       taken_back, models, created_at, updated_at) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)
     ON CONFLICT (period) DO UPDATE SET source = excluded.source, subscription = excluded.subscription,
       account = excluded.account, product = excluded.product, starts_at = excluded.starts_at,
       ends_at = excluded.ends_at, state = excluded.state, amount = excluded.amount, lot = excluded.lot,
       taken_back = excluded.taken_back, created_at = excluded.created_at, updated_at = excluded.updated_at`,
  ),
}

const plansWhere = sqlWhere<Row<'subscription'>>(
  (
    conditions,
  ) => `SELECT * FROM subscription WHERE source = '${planSource}' AND state <> 'refunded' AND ${conditions}
     AND (starts_at < ? OR period > ?) ORDER BY starts_at DESC, period LIMIT ?`,
)

const periodOf = recordReader<Row<'subscription'>>()({
  models: (text) => (text === null ? null : (JSON.parse(text) as readonly string[])),
  cancelled_at: numberOrNull,
  reminded_at: numberOrNull,
  starts_at: Number,
  ends_at: Number,
  created_at: Number,
  updated_at: Number,
})
