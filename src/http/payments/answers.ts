// The answers about payments, of the app, the console's API and the admin API, like ../console/answers.ts.

import { z } from 'zod'
import { transactionKinds } from '../../credits/ledger/ledger.ts'
import { pools } from '../../credits/pool.ts'
import { processorIds, topUpStates } from '../../payments/top-up.ts'
import { type Answers, data, pageOf, time, usd, type Wire } from '../docs/operation.ts'

const amount = z.string().describe('A decimal string, in the currency of the payment.')
const currency = z.string().describe('Of the amount, by ISO 4217')
const money = z.string()
const iso = z.iso.datetime()

export const topUp = z.strictObject({
  id: z.string(),
  state: z
    .enum(topUpStates)
    .describe(
      'Money may still arrive after `failed` and `expired`; credit is there from `credited` on, and goes with refunds',
    ),
  processor: z.enum(processorIds),
  test: z.boolean().describe('Of a test mode: it shows the flow and credits nothing'),
  amount: money.describe('What is to be paid'),
  currency,
  rate: money.describe(
    'Units of the currency for a US dollar; it stays as it was when the top-up was opened',
  ),
  rate_as_of: z.string(),
  rate_source: z.string(),
  credit_usd: money.describe('The credit that the amount becomes, US dollars'),
  credit_expires_at: iso.describe(
    'Until when the credit can be used: twelve months from the payment, or the end of the period of a plan',
  ),
  plan: z
    .strictObject({ id: z.string(), title: z.string(), from: iso.nullable(), to: iso.nullable() })
    .nullable()
    .describe('The plan that it pays for, with its period once it is paid; null for purchased credit'),
  url: z.string().nullable().describe('The page to pay on'),
  lot: z.string().nullable().describe('The lot of its credit, once it is credited; null for a plan'),
  payment_id: z.string().nullable().describe("The processor's id of the payment"),
  refunded: money.describe('Of the amount, what was taken back'),
  problem: z
    .enum([
      'amount_differs',
      'currency_differs',
      'paid_twice',
      'payment_used',
      'not_creditable',
      'refund_exceeds',
    ])
    .nullable()
    .describe('Why an operator looks at it'),
  receipt: z.string().nullable().describe('The number of its payment receipt'),
  created_at: iso,
  expires_at: iso.describe('Until when it can be paid at this rate'),
  paid_at: iso.nullable(),
})
export type TopUpView = Wire<typeof topUp>

export const redeemed = z.strictObject({
  credit_usd: money.describe('The credit that it was, US dollars'),
  lot: z.string().describe('The lot of purchased credit that it has become'),
})

const currencyTerms = z.strictObject({
  currency: z.string(),
  decimals: z.int().describe('How many decimals an amount may have.'),
  rate: z.string().describe('Units of the currency for a US dollar.'),
  rate_as_of: z.string(),
  rate_source: z.string(),
  min: amount,
  max: amount,
  processors: z.array(z.enum(processorIds)).describe('Who takes it, the preferred one first.'),
})
export type CurrencyTermsView = Wire<typeof currencyTerms>

const terms = z.strictObject({
  currencies: z.array(currencyTerms).describe('What can be paid in, the preferred one first.'),
  credit_expires_at: time.describe('Until when credit could be used that is paid for now.'),
  processors: z.array(z.strictObject({ id: z.enum(processorIds), test: z.boolean() })),
})
export type TopUpTermsView = Wire<typeof terms>

const plan = z.strictObject({
  id: z.string(),
  title: z.string(),
  about: z.string().nullable(),
  credit_usd: usd.describe('The subscription credit of a period, US dollars.'),
  months: z.int().describe('How long a period is.'),
  models: z.array(z.string()).nullable().describe('Patterns of the models that it opens; null for all.'),
  prices: z.array(z.strictObject({ currency, amount, processors: z.array(z.enum(processorIds)) })),
})
export type PlanView = Wire<typeof plan>

const planPeriod = z.strictObject({
  plan: z.string(),
  title: z.string(),
  subscription: z.string().describe('The id of the payment, or `by-hand-` and the id of a grant.'),
  state: z.enum(['running', 'coming']),
  from: iso,
  to: iso,
  credit_usd: usd,
  models: z.array(z.string()).nullable(),
  cancelled_at: iso.nullable().describe('When its holder said that it shall not go on.'),
})
export type PlanPeriodView = Wire<typeof planPeriod>

export const ownPlans = z.strictObject({
  plans: z.array(plan),
  periods: z
    .array(planPeriod)
    .describe('Those of the account that run or are paid for, the first one first.'),
})
export type OwnPlansView = Wire<typeof ownPlans>

const subscriber = planPeriod.extend({ account: z.string(), account_email: z.string().nullable() })
export type SubscriberView = Wire<typeof subscriber>

const receipt = topUp.extend({
  method: z.string().nullable().describe('How it was paid, in a word of the processor.'),
  seller: z.strictObject({
    name: z.string().nullable(),
    address: z.string().nullable(),
    gstin: z.string().nullable(),
  }),
  payer: z.string().describe('The e-mail address of the account.'),
})
export type PaymentReceiptView = Wire<typeof receipt>

const standing = z.strictObject({
  credit: money.describe('In lots of all pools'),
  owed: money.describe('What it owes'),
  balance: money.describe('The credit less what is owed'),
})
const movement = standing.extend({ entries: z.int().describe('How many entries of the journal it sums up') })
const kind = z.enum(transactionKinds)

const statement = z.strictObject({
  account: z.string(),
  email: z.string(),
  month: z.string().describe('Of UTC, such as `2026-11`'),
  complete: z.boolean().describe('Whether the month is over'),
  currency: z.literal('USD'),
  opening: standing,
  closing: standing,
  credit_line: z.string().nullable().describe('How much it may owe now: US dollars, or `unlimited`'),
  totals: z.array(movement.extend({ kind })).describe('By kind; opening and all of them are closing'),
  days: z
    .array(
      movement.extend({
        day: z.string(),
        kind,
        pool: z.enum(pools),
      }),
    )
    .describe('The same by day, kind and pool'),
  receipts: z
    .array(
      z.strictObject({
        receipt: z.string().nullable().describe('Its number; null until the top-up is marked as credited'),
        top_up: z.string().nullable(),
        payment_id: z.string(),
        amount: money.nullable().describe('In `currency`'),
        currency: currency.nullable(),
        rate: money.nullable(),
        plan: z.string().nullable().describe('The plan that was paid for'),
        refunded: money.nullable().describe('Of the amount, what was taken back so far'),
        credit_usd: money,
        lot: z.string(),
        credited_at: iso,
      }),
    )
    .describe('The payments that became credit in the month, the first one first'),
})
export type StatementView = Wire<typeof statement>

const spentInGroup = z.strictObject({
  calls: z.int(),
  errors: z.int().describe('Of the calls: refused, without an answer, or broken off.'),
  input_tokens: z.int(),
  output_tokens: z.int(),
  cost_usd: money,
  charged_usd: money.describe('What of the cost was paid, by the group or its people.'),
})
const spentBy = z
  .array(
    spentInGroup.extend({
      id: z.string().nullable().describe('null for all others together'),
      label: z.string().nullable(),
    }),
  )
  .describe('They add up to `spent`.')

const groupStatement = z.strictObject({
  group: z.string(),
  name: z.string(),
  month: z.string().describe('Of UTC, such as `2026-11`'),
  complete: z.boolean().describe('Whether the month is over'),
  currency: z.literal('USD'),
  spent: spentInGroup,
  people: spentBy,
  keys: spentBy,
  models: spentBy,
  days: z.array(spentInGroup.extend({ day: z.string() })),
  credit: statement
    .pick({ opening: true, closing: true, totals: true, days: true })
    .nullable()
    .describe('Of the credit of the group; null where it has none of its own.'),
})
export type GroupStatementView = Wire<typeof groupStatement>

export const paymentAnswers: Answers = {
  'GET top-up-terms': data(terms),
  'GET top-ups': pageOf(topUp),
  'POST top-ups': topUp,
  'GET top-ups/:id': topUp,
  'GET top-ups/:id/receipt': receipt,
  'GET plans': data(ownPlans),
  'POST plans/:plan/payments': topUp,
  'POST plans/cancel': data(ownPlans),
  'POST vouchers/redeem': redeemed,
  'GET credits/statements/:month': data(statement),
}

// For operators.

const topUpOfOperator = topUp.extend({
  account: z.string(),
  account_email: z.string().nullable().describe('The address of the account.'),
  reference: z.string().nullable().describe("The processor's id of the page that it is paid on."),
  checked_at: time.nullable().describe('When the processor was last asked.'),
})
export type TopUpOfOperatorView = Wire<typeof topUpOfOperator>

const event = z.strictObject({
  processor: z.string(),
  id: z.string(),
  type: z.string(),
  at: time,
  outcome: z.enum(['received', 'waiting', 'unmatched', 'applied', 'ignored', 'refused']),
  top_up: z.string().nullable(),
  payment_id: z.string().nullable(),
  amount: amount.nullable(),
  currency: z.string().nullable(),
  body_sha256: z.string(),
})
export type PaymentEventView = Wire<typeof event>

const reversal = z.strictObject({
  id: z.string(),
  kind: z.enum(['refund', 'refund_failed', 'dispute_open', 'dispute_won', 'dispute_lost']),
  amount,
  credit_usd: usd,
  held_usd: usd,
  booked: z.boolean().describe('Whether the ledger has all of it.'),
  at: time,
})
export type ReversalView = Wire<typeof reversal>

const topUpDetail = topUpOfOperator.extend({
  events: z.array(event),
  reversals: z.array(reversal),
})
export type TopUpDetailView = Wire<typeof topUpDetail>

const voucher = z.strictObject({
  id: z.string(),
  credit_usd: usd,
  state: z.enum(['valid', 'redeemed', 'revoked', 'expired']),
  note: z.string(),
  created_at: time,
  expires_at: time.nullable(),
  account: z.string().nullable(),
  redeemed_at: time.nullable(),
})
export type VoucherView = Wire<typeof voucher>

const newVoucher = voucher.extend({ code: z.string().describe('The code itself, this once.') })
export type NewVoucherView = Wire<typeof newVoucher>

const period = z.strictObject({
  subscription: z.string(),
  source: z.string(),
  account: z.string(),
  product: z.string(),
  state: z.enum(['active', 'grace', 'ended', 'refunded', 'refund_reversed']),
  from: time,
  to: time,
  credit_usd: usd,
  lot: z.string().nullable(),
  updated_at: time,
})
export type PeriodView = Wire<typeof period>

const subscriptions = data(z.array(period)).extend({
  products: z
    .array(z.strictObject({ id: z.string(), credit_usd: usd, months: z.int() }))
    .describe('Those of the configuration: the credit of a period, and its length'),
})
export type SubscriptionsView = Wire<typeof subscriptions>

export const adminPaymentAnswers: Answers = {
  'GET top-ups': pageOf(topUpOfOperator),
  'GET top-ups/:id': data(topUpDetail),
  'POST top-ups/:id/reconcile': data(topUpDetail),
  'POST top-ups/:id/refund': data(topUpDetail),
  'GET payment-events': data(z.array(event)),
  'GET accounts/:account/statements/:month': data(statement),
  'GET groups/:group/statements/:month': data(groupStatement),
  'GET vouchers': data(z.array(voucher)),
  'POST vouchers': data(z.array(newVoucher)),
  'POST vouchers/:id/revoke': z.strictObject({ id: z.string(), revoked: z.literal(true) }),
  'GET plans': data(z.array(plan)),
  'GET plans/subscribers': pageOf(subscriber),
  'POST plans/:plan/grants': data(planPeriod),
  'GET subscriptions': subscriptions,
  'POST subscriptions': data(period.nullable()),
  'POST subscriptions/end': data(z.array(period)),
}
