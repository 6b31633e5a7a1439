// Top-ups, the messages about them, and what was taken back.

import type { Awaitable } from '../../async/async.ts'
import type {
  AskedRefund,
  EventOutcome,
  EventRecord,
  OpenedUnder,
  PaymentNews,
  PaymentStore,
  ProcessorId,
  RefundLeft,
  Reversal,
  SoldPlan,
  TooManyUnpaid,
  TopUp,
  TopUpFilter,
  UnpaidLimit,
} from '../../payments/top-up.ts'
import { sumUnreported } from '../../payments/top-up.ts'
import type { Row } from '../schema.ts'
import { addToOutbox, topUpCredited } from './webhooks.ts'
import {
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
