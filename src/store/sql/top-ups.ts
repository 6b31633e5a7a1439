// Top-ups, the messages about them, and what was taken back.

import type { Awaitable } from '../../async/async.ts'
import {
  type Period,
  type PlanQuery,
  planSource,
  type PlanStore,
  type SubscriptionStore,
} from '../../payments/subscriptions.ts'
import {
  type AskedRefund,
  type EventOutcome,
  type EventRecord,
  type OpenedUnder,
  type PaymentNews,
  type PaymentStore,
  type ProcessorId,
  type RefundLeft,
  type Reversal,
  type SoldPlan,
  sumUnreported,
  type TooManyUnpaid,
  type TopUp,
  type TopUpFilter,
  type UnpaidLimit,
} from '../../payments/top-up.ts'
import type { Voucher, VoucherStore } from '../../payments/vouchers.ts'
import type { Row } from '../schema.ts'
import { recordAct } from './records.ts'
import { addToOutbox, topUpCredited } from './webhooks.ts'
import {
  AlreadyThere,
  isSet,
  numberOrNull,
  onceMore,
  recordReader,
  sql,
  sqlWhere,
  type Statement,
  type Tables,
  type Work,
} from './work.ts'

export class SqlPayments implements PaymentStore {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  addTopUp(
    topUp: TopUp,
    under: OpenedUnder | null,
    limit: UnpaidLimit,
  ): Promise<TopUp | 'conflict' | TooManyUnpaid> {
    return onceMore(() => this.#addTopUp(topUp, under, limit))
  }

  #addTopUp(
    topUp: TopUp,
    under: OpenedUnder | null,
    { most, since }: UnpaidLimit,
  ): Awaitable<TopUp | 'conflict' | TooManyUnpaid> {
    return this.#tables.together(function* (): Work<TopUp | 'conflict' | TooManyUnpaid> {
      const row = under === null ? undefined : yield* topUps.underKey.first(topUp.account, under.key)
      if (row && under) return row.idempotency_hash === under.hash ? topUpOf(row) : 'conflict'
      const first = yield* topUps.unpaid.first(topUp.account, since, most - 1)
      if (first) return { firstAt: Number(first.created_at) }
      const { id, account, processor, createdAt, expiresAt } = topUp
      const asked = [
        id,
        account,
        processor,
        topUp.test ? 1 : 0,
        topUp.amount,
        topUp.currency,
        topUp.rate,
        topUp.rateAsOf,
        topUp.rateSource,
        topUp.credit,
        planText(topUp.plan),
        topUp.state,
      ]
      yield* topUps.add.run(
        ...asked,
        createdAt,
        expiresAt,
        expiresAt,
        under?.key ?? null,
        under?.hash ?? null,
      )
      return topUp
    })
  }

  findTopUp(id: string): Awaitable<TopUp | undefined> {
    return this.#one(topUps.find, id)
  }

  findByReference(processor: ProcessorId, reference: string): Awaitable<TopUp | undefined> {
    return this.#one(topUps.byReference, processor, reference)
  }

  findByPayment(processor: ProcessorId, paymentId: string): Awaitable<TopUp | undefined> {
    return this.#one(topUps.byPayment, processor, paymentId)
  }

  #one(statement: Statement<Row<'topUp'>>, ...values: string[]): Awaitable<TopUp | undefined> {
    return this.#tables.do(function* () {
      const row = yield* statement.first(...values)
      return row && topUpOf(row)
    })
  }

  listTopUps(
    account: string | null,
    limit: number,
    before: string | null,
    { state, processor, problem, from, until }: TopUpFilter = {},
  ): Awaitable<readonly TopUp[]> {
    const { statement, values } = topUpsWhere([
      ['account = ?', account ?? undefined],
      ['state = ?', state],
      ['processor = ?', processor],
      // None has an empty name.
      ['problem <> ?', problem === true ? '' : undefined],
      ['created_at >= ?', from],
      ['created_at < ?', until],
      ['(created_at, id) < (SELECT created_at, id FROM top_up WHERE id = ?)', before ?? undefined],
    ])
    return this.#tables.do(function* () {
      return (yield* statement.all(...values, limit)).map(topUpOf)
    })
  }

  changeTopUp(id: string, change: (topUp: TopUp) => TopUp | null): Awaitable<TopUp> {
    return this.#tables.together(function* () {
      const before = yield* readTopUp(id)
      const after = change(before)
      return after === null ? before : yield* writeTopUp(before, after)
    })
  }

  claimQuestion(id: string, now: number, everyMs: number): Awaitable<boolean> {
    return this.#tables.do(function* () {
      // A time that lies ahead was noted by a clock that has been put back.
      return (yield* topUps.claimQuestion.run(now, id, now - everyMs, now)) === 1
    })
  }

  scheduleQuestion(id: string, at: number | null): Awaitable<void> {
    return this.#tables.do(function* () {
      yield* topUps.schedule.run(at, id)
    })
  }

  dueTopUps(now: number, limit: number): Awaitable<readonly TopUp[]> {
    return this.#tables.do(function* () {
      return (yield* topUps.due.all(now, limit)).map(topUpOf)
    })
  }

  recordEvent(event: EventRecord): Awaitable<EventRecord> {
    const { processor, id, type, at, hash, outcome, topUp, reference, paymentId, news } = event
    return this.#tables.together(function* () {
      const known = yield* events.find.first(processor, id)
      if (known) return eventOf(known)
      const values = [processor, id, type, at, hash, outcome, topUp, reference, paymentId]
      yield* events.add.run(...values, newsText(news))
      return event
    })
  }

  concludeEvent(
    { processor, id }: EventRecord,
    outcome: EventOutcome,
    topUp: string | null,
  ): Awaitable<void> {
    return this.#tables.do(function* () {
      yield* events.conclude.run(outcome, topUp, processor, id)
    })
  }

  waitingFor(processor: ProcessorId, paymentId: string): Awaitable<readonly EventRecord[]> {
    return this.#events(events.waiting, processor, paymentId)
  }

  unfinishedEvents(before: number, limit: number): Awaitable<readonly EventRecord[]> {
    return this.#events(events.unfinished, before, limit)
  }

  listEvents(topUp: string | null, limit: number): Awaitable<readonly EventRecord[]> {
    return topUp === null ? this.#events(events.list, limit) : this.#events(events.listOf, topUp, limit)
  }

  #events(
    statement: Statement<Row<'paymentEvent'>>,
    ...values: (string | number)[]
  ): Awaitable<readonly EventRecord[]> {
    return this.#tables.do(function* () {
      return (yield* statement.all(...values)).map(eventOf)
    })
  }

  changeReversal(
    { processor, id, topUp }: Pick<Reversal, 'processor' | 'id' | 'topUp'>,
    change: Parameters<PaymentStore['changeReversal']>[1],
  ): Awaitable<Reversal | undefined> {
    return this.#tables.together(function* () {
      const before = yield* readTopUp(topUp)
      const all = (yield* reversals.of.all(topUp)).map(reversalOf)
      const current = all.find((other) => other.processor === processor && other.id === id)
      const changed = change(before, current, all)
      if (changed === null) return current
      const { kind, amount, credit, held, booked, at } = changed.reversal
      yield* reversals.put.run(processor, id, topUp, kind, amount, credit, held, booked ? 1 : 0, at)
      yield* writeTopUp(before, changed.topUp)
      return changed.reversal
    })
  }

  reversalsOf(topUp: string): Awaitable<readonly Reversal[]> {
    return this.#tables.do(function* () {
      return (yield* reversals.of.all(topUp)).map(reversalOf)
    })
  }

  unbookedReversals(limit: number): Awaitable<readonly Reversal[]> {
    return this.#tables.do(function* () {
      return (yield* reversals.unbooked.all(limit)).map(reversalOf)
    })
  }

  askRefund(refund: AskedRefund, unknownSince: number): Awaitable<AskedRefund | RefundLeft> {
    const { topUp: id, amount, askedAt } = refund
    return this.#tables.together(function* (): Work<AskedRefund | RefundLeft> {
      const known = yield* refunds.find.first(id, refund.id)
      if (known) return askedRefundOf(known)
      const topUp = yield* readTopUp(id)
      const asked = (yield* refunds.of.all(id)).map(askedRefundOf)
      const under = sumUnreported(asked, (yield* reversals.of.all(id)).map(reversalOf), unknownSince)
      const left = topUp.amount - topUp.refunded - under
      if (amount > left) return { left: left > 0n ? left : 0n }
      yield* refunds.ask.run(id, refund.id, amount, askedAt)
      return refund
    })
  }

  refundMade({ topUp, id }: AskedRefund, at: number): Awaitable<void> {
    return this.#tables.do(function* () {
      yield* refunds.made.run(at, topUp, id)
    })
  }

  refundRefused({ topUp, id }: AskedRefund): Awaitable<void> {
    return this.#tables.do(function* () {
      yield* refunds.refused.run(topUp, id)
    })
  }
}

function* readTopUp(id: string): Work<TopUp> {
  const row = yield* topUps.find.first(id)
  if (!row) throw new Error(`there is no top-up ${id}`)
  return topUpOf(row)
}

/** One that becomes `credited` gets its receipt number, and is told of. */
function* writeTopUp(before: TopUp, after: TopUp): Work<TopUp> {
  const numbered = before.creditedAt === null && after.creditedAt !== null && !after.test
  const receipt = numbered ? yield* nextReceipt(after.creditedAt) : before.receipt
  if (numbered) yield* addToOutbox(topUpCredited({ ...after, receipt }, after.creditedAt))
  const { reference, url, state, paymentId, method, lot, refunded, problem, plan } = after
  const { paidAt, creditedAt, id } = after
  const paid = [reference, url, state, paymentId, method, lot, refunded, problem]
  const number = [receipt?.year ?? null, receipt?.number ?? null]
  yield* topUps.change.run(...paid, planText(plan), ...number, paidAt, creditedAt, id)
  return { ...after, receipt }
}

/** Numbers go up by one through a year, in the transaction that takes them: none is left out. */
function* nextReceipt(at: number): Work<NonNullable<TopUp['receipt']>> {
  const year = new Date(at).getUTCFullYear()
  const last = yield* topUps.lastReceipt.first(year)
  return { year, number: Number(last?.number ?? 0n) + 1 }
}

const topUps = {
  find: sql<Row<'topUp'>>('SELECT * FROM top_up WHERE id = ?'),
  byReference: sql<Row<'topUp'>>('SELECT * FROM top_up WHERE processor = ? AND reference = ?'),
  byPayment: sql<Row<'topUp'>>('SELECT * FROM top_up WHERE processor = ? AND payment_id = ?'),
  underKey: sql<Row<'topUp'>>('SELECT * FROM top_up WHERE account = ? AND idempotency_key = ?'),
  unpaid: sql<{ created_at: bigint }>(
    `SELECT created_at FROM top_up WHERE account = ? AND created_at > ? AND paid_at IS NULL
     ORDER BY created_at DESC LIMIT 1 OFFSET ?`,
  ),
  add: sql(
    `INSERT INTO top_up (id, account, processor, test, amount, currency, rate, rate_as_of, rate_source, credit, plan,
       state, refunded, created_at, expires_at, ask_at, idempotency_key, idempotency_hash)
     VALUES (?,?,?,?,?,?,?,?,?,?,?,?,0,?,?,?,?,?)`,
  ),
  change: sql(
    `UPDATE top_up SET reference = ?, url = ?, state = ?, payment_id = ?, method = ?, lot = ?, refunded = ?,
       problem = ?, plan = ?, receipt_year = ?, receipt_number = ?, paid_at = ?, credited_at = ? WHERE id = ?`,
  ),
  lastReceipt: sql<{ number: bigint }>(
    `SELECT receipt_number AS number FROM top_up WHERE receipt_year = ? AND receipt_number IS NOT NULL
     ORDER BY receipt_number DESC LIMIT 1`,
  ),
  claimQuestion: sql(
    `UPDATE top_up SET checked_at = ?
     WHERE id = ? AND (checked_at IS NULL OR checked_at <= ? OR checked_at > ?)`,
  ),
  schedule: sql('UPDATE top_up SET ask_at = ? WHERE id = ?'),
  due: sql<Row<'topUp'>>(
    `SELECT * FROM (SELECT * FROM top_up WHERE paid_at IS NOT NULL AND credited_at IS NULL
         AND problem IS DISTINCT FROM 'not_creditable'
       UNION SELECT * FROM top_up WHERE ask_at <= ? AND paid_at IS NULL) AS due ORDER BY created_at, id LIMIT ?`,
  ),
}

const topUpsWhere = sqlWhere<Row<'topUp'>>(
  (conditions) => `SELECT * FROM top_up WHERE ${conditions} ORDER BY created_at DESC, id DESC LIMIT ?`,
)

const events = {
  find: sql<Row<'paymentEvent'>>('SELECT * FROM payment_event WHERE processor = ? AND id = ?'),
  add: sql(
    `INSERT INTO payment_event (processor, id, type, at, hash, outcome, top_up, reference, payment_id, news)
     VALUES (?,?,?,?,?,?,?,?,?,?)`,
  ),
  conclude: sql('UPDATE payment_event SET outcome = ?, top_up = ? WHERE processor = ? AND id = ?'),
  waiting: sql<Row<'paymentEvent'>>(
    `SELECT * FROM payment_event WHERE outcome = 'waiting' AND processor = ? AND payment_id = ? ORDER BY at, id`,
  ),
  // What waits for a payment that is credited was left by a process that died in between.
  unfinished: sql<Row<'paymentEvent'>>(
    `SELECT * FROM payment_event WHERE outcome = 'received' AND at <= ?
     UNION ALL
     SELECT payment_event.* FROM payment_event JOIN top_up USING (processor, payment_id)
     WHERE payment_event.outcome = 'waiting' AND top_up.credited_at IS NOT NULL LIMIT ?`,
  ),
  list: sql<Row<'paymentEvent'>>('SELECT * FROM payment_event ORDER BY at DESC, id DESC LIMIT ?'),
  listOf: sql<Row<'paymentEvent'>>(
    'SELECT * FROM payment_event WHERE top_up = ? ORDER BY at DESC, id DESC LIMIT ?',
  ),
}

const refunds = {
  find: sql<Row<'paymentRefund'>>('SELECT * FROM payment_refund WHERE top_up = ? AND id = ?'),
  of: sql<Row<'paymentRefund'>>('SELECT * FROM payment_refund WHERE top_up = ? ORDER BY id'),
  ask: sql('INSERT INTO payment_refund (top_up, id, amount, asked_at) VALUES (?,?,?,?)'),
  made: sql('UPDATE payment_refund SET made_at = ? WHERE top_up = ? AND id = ?'),
  refused: sql('DELETE FROM payment_refund WHERE top_up = ? AND id = ? AND made_at IS NULL'),
}

const reversals = {
  of: sql<Row<'paymentReversal'>>('SELECT * FROM payment_reversal WHERE top_up = ? ORDER BY at, id'),
  unbooked: sql<Row<'paymentReversal'>>(
    'SELECT * FROM payment_reversal WHERE booked = 0 ORDER BY at LIMIT ?',
  ),
  put: sql(
    `INSERT INTO payment_reversal (processor, id, top_up, kind, amount, credit, held, booked, at)
     VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT (processor, id) DO UPDATE SET kind = excluded.kind,
       amount = excluded.amount, credit = excluded.credit, held = excluded.held, booked = excluded.booked,
       at = excluded.at`,
  ),
}

// Rows of payments as the rest of the gateway knows them.

function topUpOf(row: Row<'topUp'>): TopUp {
  const { receipt_year: year, receipt_number: number } = row
  return {
    id: row.id,
    account: row.account,
    processor: row.processor,
    test: row.test === 1n,
    reference: row.reference,
    url: row.url,
    amount: row.amount,
    currency: row.currency,
    rate: row.rate,
    rateAsOf: row.rate_as_of,
    rateSource: row.rate_source,
    credit: row.credit,
    plan: row.plan === null ? null : (JSON.parse(row.plan) as SoldPlan),
    state: row.state,
    paymentId: row.payment_id,
    method: row.method,
    lot: row.lot,
    refunded: row.refunded,
    problem: row.problem,
    receipt: year === null || number === null ? null : { year: Number(year), number: Number(number) },
    createdAt: Number(row.created_at),
    expiresAt: Number(row.expires_at),
    paidAt: numberOrNull(row.paid_at),
    creditedAt: numberOrNull(row.credited_at),
    checkedAt: numberOrNull(row.checked_at),
  }
}

const eventOf = recordReader<Row<'paymentEvent'>>()({ at: Number, news: newsOf })
const reversalOf = recordReader<Row<'paymentReversal'>>()({ booked: isSet, at: Number })
const askedRefundOf = recordReader<Row<'paymentRefund'>>()({ asked_at: Number, made_at: numberOrNull })

function planText(plan: SoldPlan | null): string | null {
  return plan === null ? null : JSON.stringify(plan)
}

/** JSON has no integers of this size: amounts are text. */
export function newsText(news: PaymentNews): string {
  return JSON.stringify(news, (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value))
}

function newsOf(text: string): PaymentNews {
  return JSON.parse(text, (key, value: unknown) =>
    key === 'amount' && typeof value === 'string' ? BigInt(value) : value,
  ) as PaymentNews
}

// Vouchers, and periods of subscriptions and plans.

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
