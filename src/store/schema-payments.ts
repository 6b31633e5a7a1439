// The tables of payments: top-ups, messages of processors, vouchers, and subscriptions sold elsewhere.

import { sql } from 'drizzle-orm'
import type { EventOutcome, ProcessorId, Reversal, TopUpProblem, TopUpState } from '../payments/top-up.ts'
import type { SubscriptionState } from '../payments/subscriptions.ts'
import type * as columns from './columns.ts'

/** Takes the column kinds of one database and returns the tables of payments. */
export function paymentTables(c: typeof columns) {
  const topUp = c.table(
    'top_up',
    {
      id: c.string('id').primaryKey(),
      account: c.string('account').notNull(),
      processor: c.string('processor').$type<ProcessorId>().notNull(),
      /** 1 for a payment in a processor's test mode, which never reaches the ledger. */
      test: c.flag('test').notNull(),
      /** The processor's id of the payment page, and its address. */
      reference: c.string('reference'),
      url: c.string('url'),
      /** In the currency's smallest unit. */
      amount: c.whole('amount').notNull(),
      currency: c.string('currency').notNull(),
      /** Units of the currency per US dollar, in millionths; the day of the rate and its source. */
      rate: c.whole('rate').notNull(),
      rateAsOf: c.string('rate_as_of').notNull(),
      rateSource: c.string('rate_source').notNull(),
      credit: c.money('credit').notNull(),
      /** The plan that is paid for, as JSON; null for purchased credit. */
      plan: c.json('plan'),
      state: c.string('state').$type<TopUpState>().notNull(),
      paymentId: c.string('payment_id'),
      method: c.string('method'),
      lot: c.string('lot'),
      /** The refunded part of the amount. */
      refunded: c.whole('refunded').notNull(),
      problem: c.string('problem').$type<TopUpProblem>(),
      receiptYear: c.whole('receipt_year'),
      receiptNumber: c.whole('receipt_number'),
      createdAt: c.time('created_at').notNull(),
      expiresAt: c.time('expires_at').notNull(),
      paidAt: c.time('paid_at'),
      creditedAt: c.time('credited_at'),
      /** When the processor was last asked, and when the sweep asks next; null if it does not ask again. */
      checkedAt: c.time('checked_at'),
      askAt: c.time('ask_at'),
      /** The Idempotency-Key of the request, and the SHA-256 of its content. */
      idempotencyKey: c.string('idempotency_key'),
      idempotencyHash: c.string('idempotency_hash'),
    },
    (t) => [
      c.partialUniqueIndex('top_up_reference', sql`reference is not null`, t.processor, t.reference),
      c.partialUniqueIndex('top_up_payment', sql`payment_id is not null`, t.processor, t.paymentId),
      c.partialUniqueIndex('top_up_lot', sql`lot is not null`, t.lot),
      c.partialUniqueIndex('top_up_receipt', sql`receipt_number is not null`, t.receiptYear, t.receiptNumber),
      c.partialUniqueIndex(
        'top_up_idempotency',
        sql`idempotency_key is not null`,
        t.account,
        t.idempotencyKey,
      ),
      c.index('top_up_account').on(t.account, t.createdAt),
      // Operators page through all of them, by each of these.
      c.index('top_up_created').on(t.createdAt, t.id),
      c.index('top_up_state_of').on(t.state, t.createdAt, t.id),
      c.index('top_up_processor').on(t.processor, t.createdAt, t.id),
      c.partialIndex('top_up_problem', sql`problem is not null`, t.createdAt, t.id),
      c.partialIndex('top_up_ask', sql`ask_at is not null`, t.askAt),
      c.partialIndex('top_up_uncredited', sql`paid_at is not null and credited_at is null`, t.paidAt),
      c.check(
        'top_up_state',
        sql`state in ('open','paid','credited','failed','expired','refunded_part','refunded','disputed')`,
      ),
      c.check('top_up_amount', sql`amount > 0 and rate > 0 and refunded between 0 and amount`),
      c.check('top_up_paid', sql`(payment_id is null) = (paid_at is null)`),
      c.check(
        'top_up_credited',
        sql`credited_at is null or (paid_at is not null
          and ((plan is null and test = ${c.flagOf(sql`lot is null`)}) or (plan is not null and lot is null)))`,
      ),
    ],
  )

  /** Every message of a processor with a valid signature. */
  const paymentEvent = c.table(
    'payment_event',
    {
      processor: c.string('processor').$type<ProcessorId>().notNull(),
      id: c.string('id').notNull(),
      type: c.string('type').notNull(),
      at: c.time('at').notNull(),
      /** SHA-256 of the body, hex: bodies are not kept. */
      hash: c.string('hash').notNull(),
      outcome: c.string('outcome').$type<EventOutcome>().notNull(),
      topUp: c.string('top_up'),
      reference: c.string('reference'),
      paymentId: c.string('payment_id'),
      /** The ids and amounts in it. */
      news: c.json('news').notNull(),
    },
    (t) => [
      c.primaryKey({ columns: [t.processor, t.id] }),
      c.index('payment_event_at').on(t.at),
      c.partialIndex('payment_event_top_up', sql`top_up is not null`, t.topUp),
      c.partialIndex('payment_event_waiting', sql`outcome = 'waiting'`, t.processor, t.paymentId),
      c.partialIndex('payment_event_unfinished', sql`outcome = 'received'`, t.at),
    ],
  )

  /** Refunds and disputes of payments, and refunds that failed. */
  const paymentReversal = c.table(
    'payment_reversal',
    {
      processor: c.string('processor').$type<ProcessorId>().notNull(),
      id: c.string('id').notNull(),
      topUp: c.string('top_up').notNull(),
      kind: c.string('kind').$type<Reversal['kind']>().notNull(),
      amount: c.whole('amount').notNull(),
      credit: c.money('credit').notNull(),
      /** The amount withheld for an open dispute. */
      held: c.money('held').notNull(),
      /** 1 if the ledger has all of it. */
      booked: c.flag('booked').notNull(),
      at: c.time('at').notNull(),
    },
    (t) => [
      c.primaryKey({ columns: [t.processor, t.id] }),
      c.index('payment_reversal_top_up').on(t.topUp),
      c.partialIndex('payment_reversal_unbooked', sql`booked = 0`, t.at),
      c.check('payment_reversal_kind', sql`kind in ('refund', 'failed', 'open', 'won', 'lost')`),
      c.check('payment_reversal_amount', sql`amount >= 0 and credit >= 0 and held >= 0`),
    ],
  )

  /** What operators have given back, by their own ids: the same id never gives back twice. */
  const paymentRefund = c.table(
    'payment_refund',
    {
      topUp: c.string('top_up').notNull(),
      id: c.string('id').notNull(),
      amount: c.whole('amount').notNull(),
      /** When the processor was first asked, and when it said that it has made it. */
      askedAt: c.time('asked_at').notNull(),
      madeAt: c.time('made_at'),
    },
    (t) => [c.primaryKey({ columns: [t.topUp, t.id] }), c.check('payment_refund_amount', sql`amount > 0`)],
  )

  const voucher = c.table(
    'voucher',
    {
      id: c.string('id').primaryKey(),
      /** SHA-256 of the code, hex: the code is shown once. */
      hash: c.string('hash').notNull(),
      amount: c.money('amount').notNull(),
      note: c.string('note').notNull(),
      createdAt: c.time('created_at').notNull(),
      expiresAt: c.time('expires_at'),
      revokedAt: c.time('revoked_at'),
      /** The account that has it, from the moment it is redeemed. */
      account: c.string('account'),
      redeemedAt: c.time('redeemed_at'),
      /** The lot it became; null until the ledger has it. */
      lot: c.string('lot'),
    },
    (t) => [
      c.uniqueIndex('voucher_hash').on(t.hash),
      c.index('voucher_created').on(t.createdAt),
      c.partialIndex('voucher_ungranted', sql`redeemed_at is not null and lot is null`, t.redeemedAt),
      c.check('voucher_amount', sql`amount > 0`),
      c.check('voucher_redeemed', sql`(account is null) = (redeemed_at is null)`),
    ],
  )

  /** Periods of subscriptions, those sold elsewhere and those of plans; each is a lot of its own. */
  const subscription = c.table(
    'subscription',
    {
      /** `subscription:<source>:<id>:<from>`: the source of its lot as well. */
      period: c.string('period').primaryKey(),
      source: c.string('source').notNull(),
      subscription: c.string('subscription').notNull(),
      account: c.string('account').notNull(),
      product: c.string('product').notNull(),
      startsAt: c.time('starts_at').notNull(),
      endsAt: c.time('ends_at').notNull(),
      state: c.string('state').$type<SubscriptionState>().notNull(),
      amount: c.money('amount').notNull(),
      lot: c.string('lot'),
      /** What was left of its lot when it was taken back; null unless it was refunded. */
      takenBack: c.money('taken_back'),
      /** Of a plan that names its models: their patterns, as JSON. */
      models: c.json('models'),
      /** When its holder said that it shall not go on, and when they were reminded of its end. */
      cancelledAt: c.time('cancelled_at'),
      remindedAt: c.time('reminded_at'),
      createdAt: c.time('created_at').notNull(),
      updatedAt: c.time('updated_at').notNull(),
    },
    (t) => [
      c.index('subscription_account').on(t.account, t.startsAt),
      c.index('subscription_of').on(t.source, t.subscription, t.startsAt),
      c.partialIndex('subscription_ungranted', sql`lot is null and source = 'weir.plan'`, t.startsAt),
      c.partialIndex('subscription_unreminded', sql`reminded_at is null and source = 'weir.plan'`, t.endsAt),
      c.check(
        'subscription_state',
        sql`state in ('active', 'grace', 'ended', 'refunded', 'refund_reversed')`,
      ),
    ],
  )

  return { topUp, paymentEvent, paymentReversal, paymentRefund, voucher, subscription }
}
