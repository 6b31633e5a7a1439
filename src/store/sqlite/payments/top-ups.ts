// Top-ups, the messages about them, and what was taken back, on SQLite.

import type { Database, Statement } from 'bun:sqlite'
import type {
  AskedRefund,
  EventOutcome,
  EventRecord,
  OpenedUnder,
  PaymentNews,
  PaymentStore,
  ProcessorId,
  Reversal,
  TooManyUnpaid,
  TopUp,
  TopUpFilter,
  UnpaidLimit,
} from '../../../payments/top-up.ts'
import { inTransaction, orUnavailable, whenNeeded } from '../database/sqlite.ts'
import { isSet, numberOrNull, recordReader } from '../../sql/work.ts'
import { addToOutbox, topUpCredited } from '../../sql/webhooks.ts'
import { SqliteTables } from '../database/tables.ts'
import type { Row } from '../../schema.ts'

type Values = (string | number | bigint | null)[]

export class SqlitePayments implements PaymentStore {
  readonly #database: Database
  readonly #tables: SqliteTables
  readonly #sql: () => ReturnType<typeof statements>

  constructor(database: Database) {
    this.#database = database
    this.#tables = new SqliteTables(database)
    this.#sql = whenNeeded(() => statements(database))
  }

  addTopUp(
    topUp: TopUp,
    under: OpenedUnder | null,
    { most, since }: UnpaidLimit,
  ): TopUp | 'conflict' | TooManyUnpaid {
    return inTransaction(this.#database, () => {
      const row = under === null ? null : this.#sql().underKey.get(topUp.account, under.key)
      if (row && under) return row.idempotency_hash === under.hash ? topUpOf(row) : 'conflict'
      const first = this.#sql().unpaid.get(topUp.account, since, most - 1)
      if (first) return { firstAt: Number(first.created_at) }
      const { id, account, processor, createdAt, expiresAt } = topUp
      const asked: Values = [
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
        topUp.state,
      ]
      this.#sql().add.run(...asked, createdAt, expiresAt, expiresAt, under?.key ?? null, under?.hash ?? null)
      return topUp
    })
  }

  findTopUp(id: string): TopUp | undefined {
    return this.#one(this.#sql().find, id)
  }

  findByReference(processor: ProcessorId, reference: string): TopUp | undefined {
    return this.#one(this.#sql().byReference, processor, reference)
  }

  findByPayment(processor: ProcessorId, paymentId: string): TopUp | undefined {
    return this.#one(this.#sql().byPayment, processor, paymentId)
  }

  #one(statement: Statement<Row<'topUp'>, string[]>, ...values: string[]): TopUp | undefined {
    const row = orUnavailable(() => statement.get(...values))
    return row ? topUpOf(row) : undefined
  }

  listTopUps(
    account: string | null,
    limit: number,
    before: string | null,
    { state, processor, problem, from, until }: TopUpFilter = {},
  ): readonly TopUp[] {
    const asked = {
      account,
      before,
      limit,
      state: state ?? null,
      processor: processor ?? null,
      problem: problem === true ? 1 : null,
      from: from ?? null,
      until: until ?? null,
    }
    return orUnavailable(() => this.#sql().list.all(asked)).map(topUpOf)
  }

  changeTopUp(id: string, change: (topUp: TopUp) => TopUp | null): TopUp {
    return inTransaction(this.#database, () => {
      const before = this.#rowOf(id)
      const after = change(before)
      return after === null ? before : this.#write(before, after)
    })
  }

  #rowOf(id: string): TopUp {
    const row = this.#sql().find.get(id)
    if (!row) throw new Error(`there is no top-up ${id}`)
    return topUpOf(row)
  }

  #write(before: TopUp, after: TopUp): TopUp {
    const numbered = before.creditedAt === null && after.creditedAt !== null && !after.test
    const receipt = numbered ? this.#nextReceipt(after.creditedAt) : before.receipt
    if (numbered) this.#tables.drive(addToOutbox(topUpCredited({ ...after, receipt }, after.creditedAt)))
    const { reference, url, state, paymentId, method, lot, refunded, problem, paidAt, creditedAt, id } = after
    const paid: Values = [reference, url, state, paymentId, method, lot, refunded, problem]
    this.#sql().change.run(...paid, receipt?.year ?? null, receipt?.number ?? null, paidAt, creditedAt, id)
    return { ...after, receipt }
  }

  /** Numbers go up by one through a year, in the transaction that takes them: none is left out. */
  #nextReceipt(at: number): NonNullable<TopUp['receipt']> {
    const year = new Date(at).getUTCFullYear()
    return { year, number: Number(this.#sql().lastReceipt.get(year)?.number ?? 0n) + 1 }
  }

  claimQuestion(id: string, now: number, everyMs: number): boolean {
    // A time that lies ahead was noted by a clock that has been put back.
    const { changes } = orUnavailable(() => this.#sql().claimQuestion.run(now, id, now - everyMs, now))
    return Number(changes) === 1
  }

  scheduleQuestion(id: string, at: number | null): void {
    orUnavailable(() => this.#sql().schedule.run(at, id))
  }

  dueTopUps(now: number, limit: number): readonly TopUp[] {
    return orUnavailable(() => this.#sql().due.all(now, limit)).map(topUpOf)
  }

  recordEvent(event: EventRecord): EventRecord {
    const { processor, id, type, at, hash, outcome, topUp, reference, paymentId, news } = event
    return inTransaction(this.#database, () => {
      const known = this.#sql().event.get(processor, id)
      if (known) return eventOf(known)
      const values: Values = [processor, id, type, at, hash, outcome, topUp, reference, paymentId]
      this.#sql().addEvent.run(...values, newsText(news))
      return event
    })
  }

  concludeEvent({ processor, id }: EventRecord, outcome: EventOutcome, topUp: string | null): void {
    orUnavailable(() => this.#sql().concludeEvent.run(outcome, topUp, processor, id))
  }

  waitingFor(processor: ProcessorId, paymentId: string): readonly EventRecord[] {
    return orUnavailable(() => this.#sql().waiting.all(processor, paymentId)).map(eventOf)
  }

  unfinishedEvents(before: number, limit: number): readonly EventRecord[] {
    return orUnavailable(() => this.#sql().unfinished.all(before, limit)).map(eventOf)
  }

  listEvents(topUp: string | null, limit: number): readonly EventRecord[] {
    return orUnavailable(() => this.#sql().events.all({ topUp, limit })).map(eventOf)
  }

  changeReversal(
    { processor, id, topUp }: Pick<Reversal, 'processor' | 'id' | 'topUp'>,
    change: Parameters<PaymentStore['changeReversal']>[1],
  ): Reversal | undefined {
    return inTransaction(this.#database, () => {
      const before = this.#rowOf(topUp)
      const all = this.#sql().reversals.all(topUp).map(reversalOf)
      const current = all.find((other) => other.processor === processor && other.id === id)
      const changed = change(before, current, all)
      if (changed === null) return current
      const { kind, amount, credit, held, booked, at } = changed.reversal
      this.#sql().putReversal.run(processor, id, topUp, kind, amount, credit, held, booked ? 1 : 0, at)
      this.#write(before, changed.topUp)
      return changed.reversal
    })
  }

  askRefund(refund: AskedRefund): AskedRefund | 'exceeds' {
    const { topUp: id, amount, askedAt } = refund
    return inTransaction(this.#database, () => {
      const known = this.#sql().refund.get(id, refund.id)
      if (known) return askedRefundOf(known)
      const topUp = this.#rowOf(id)
      if (amount > topUp.amount - topUp.refunded) return 'exceeds'
      this.#sql().askRefund.run(id, refund.id, amount, askedAt)
      return refund
    })
  }

  refundMade({ topUp, id }: AskedRefund, at: number): void {
    orUnavailable(() => this.#sql().refundMade.run(at, topUp, id))
  }

  refundRefused({ topUp, id }: AskedRefund): void {
    orUnavailable(() => this.#sql().refundRefused.run(topUp, id))
  }

  reversalsOf(topUp: string): readonly Reversal[] {
    return orUnavailable(() => this.#sql().reversals.all(topUp)).map(reversalOf)
  }

  unbookedReversals(limit: number): readonly Reversal[] {
    return orUnavailable(() => this.#sql().unbooked.all(limit)).map(reversalOf)
  }
}

function statements(database: Database) {
  const write = (sql: string): Statement => database.prepare(sql)
  const topUp = (where: string) =>
    database.prepare<Row<'topUp'>, string[]>(`SELECT * FROM top_up WHERE ${where}`)
  const events = <Given extends (string | number)[]>(where: string) =>
    database.prepare<Row<'paymentEvent'>, Given>(`SELECT * FROM payment_event WHERE ${where}`)
  return {
    find: topUp('id = ?'),
    byReference: topUp('processor = ? AND reference = ?'),
    byPayment: topUp('processor = ? AND payment_id = ?'),
    underKey: topUp('account = ? AND idempotency_key = ?'),
    list: database.prepare<Row<'topUp'>, [Readonly<Record<string, string | number | null>>]>(
      `SELECT * FROM top_up WHERE ($account IS NULL OR account = $account)
         AND ($state IS NULL OR state = $state) AND ($processor IS NULL OR processor = $processor)
         AND ($problem IS NULL OR problem IS NOT NULL)
         AND ($from IS NULL OR created_at >= $from) AND ($until IS NULL OR created_at < $until)
         AND ($before IS NULL OR (created_at, id) < (SELECT created_at, id FROM top_up WHERE id = $before))
       ORDER BY created_at DESC, id DESC LIMIT $limit`,
    ),
    unpaid: database.prepare<{ created_at: bigint }, [string, number, number]>(
      `SELECT created_at FROM top_up WHERE account = ? AND created_at > ? AND paid_at IS NULL
       ORDER BY created_at DESC LIMIT 1 OFFSET ?`,
    ),
    add: write(
      `INSERT INTO top_up (id, account, processor, test, amount, currency, rate, rate_as_of, rate_source, credit, state,
         refunded, created_at, expires_at, ask_at, idempotency_key, idempotency_hash)
       VALUES (?,?,?,?,?,?,?,?,?,?,?,0,?,?,?,?,?)`,
    ),
    change: write(
      `UPDATE top_up SET reference = ?, url = ?, state = ?, payment_id = ?, method = ?, lot = ?, refunded = ?,
         problem = ?, receipt_year = ?, receipt_number = ?, paid_at = ?, credited_at = ? WHERE id = ?`,
    ),
    lastReceipt: database.prepare<{ number: bigint }, [number]>(
      `SELECT receipt_number AS number FROM top_up WHERE receipt_year = ? AND receipt_number IS NOT NULL
       ORDER BY receipt_number DESC LIMIT 1`,
    ),
    claimQuestion: write(
      `UPDATE top_up SET checked_at = ?
       WHERE id = ? AND (checked_at IS NULL OR checked_at <= ? OR checked_at > ?)`,
    ),
    schedule: write('UPDATE top_up SET ask_at = ? WHERE id = ?'),
    due: database.prepare<Row<'topUp'>, [number, number]>(
      `SELECT * FROM (SELECT * FROM top_up WHERE paid_at IS NOT NULL AND credited_at IS NULL
           AND problem IS NOT 'not_creditable'
         UNION SELECT * FROM top_up WHERE ask_at <= ? AND paid_at IS NULL) ORDER BY created_at LIMIT ?`,
    ),
    event: events<[string, string]>('processor = ? AND id = ?'),
    addEvent: write(
      `INSERT INTO payment_event (processor, id, type, at, hash, outcome, top_up, reference, payment_id, news)
       VALUES (?,?,?,?,?,?,?,?,?,?)`,
    ),
    concludeEvent: write('UPDATE payment_event SET outcome = ?, top_up = ? WHERE processor = ? AND id = ?'),
    waiting: events<[string, string]>(
      `outcome = 'waiting' AND processor = ? AND payment_id = ? ORDER BY at, id`,
    ),
    // What waits for a payment that is credited was left by a process that died in between.
    unfinished: database.prepare<Row<'paymentEvent'>, [number, number]>(
      `SELECT * FROM payment_event WHERE outcome = 'received' AND at <= ?
       UNION ALL
       SELECT payment_event.* FROM payment_event JOIN top_up USING (processor, payment_id)
       WHERE payment_event.outcome = 'waiting' AND top_up.credited_at IS NOT NULL LIMIT ?`,
    ),
    events: database.prepare<Row<'paymentEvent'>, [{ topUp: string | null; limit: number }]>(
      'SELECT * FROM payment_event WHERE $topUp IS NULL OR top_up = $topUp ORDER BY at DESC, id DESC LIMIT $limit',
    ),
    refund: database.prepare<Row<'paymentRefund'>, [string, string]>(
      'SELECT * FROM payment_refund WHERE top_up = ? AND id = ?',
    ),
    askRefund: write('INSERT INTO payment_refund (top_up, id, amount, asked_at) VALUES (?,?,?,?)'),
    refundMade: write('UPDATE payment_refund SET made_at = ? WHERE top_up = ? AND id = ?'),
    refundRefused: write('DELETE FROM payment_refund WHERE top_up = ? AND id = ? AND made_at IS NULL'),
    reversals: database.prepare<Row<'paymentReversal'>, [string]>(
      'SELECT * FROM payment_reversal WHERE top_up = ? ORDER BY at, id',
    ),
    unbooked: database.prepare<Row<'paymentReversal'>, [number]>(
      'SELECT * FROM payment_reversal WHERE booked = 0 ORDER BY at LIMIT ?',
    ),
    putReversal: write(
      `INSERT INTO payment_reversal (processor, id, top_up, kind, amount, credit, held, booked, at)
       VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT (processor, id) DO UPDATE SET kind = excluded.kind,
         amount = excluded.amount, credit = excluded.credit, held = excluded.held, booked = excluded.booked,
         at = excluded.at`,
    ),
  }
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

/** JSON has no integers of this size: amounts are text. */
export function newsText(news: PaymentNews): string {
  return JSON.stringify(news, (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value))
}

function newsOf(text: string): PaymentNews {
  return JSON.parse(text, (key, value: unknown) =>
    key === 'amount' && typeof value === 'string' ? BigInt(value) : value,
  ) as PaymentNews
}
