// Request and response types of payments.

import { z } from 'zod'
import { pools } from '../../credits/pool.ts'
import { processorIds } from '../../payments/news.ts'

export const topUpBody = z.lazy(() =>
  z.strictObject({
    amount: z
      .string('must be a string such as "500"')
      .regex(/^\d{1,9}(\.\d{1,2})?$/, 'must be rupees such as "500", with at most two decimals')
      .describe('Rupees, as a decimal string with at most two decimals'),
    currency: z.literal('INR').describe('The currency of the amount'),
    processor: z
      .enum(processorIds)
      .optional()
      .describe('Who takes the money; the first that is set up where it is left out'),
  }),
)

const money = z.string()
const time = z.iso.datetime()

export const topUpSchema = z.lazy(() =>
  z.strictObject({
    id: z.string(),
    state: z
      .enum(['open', 'paid', 'credited', 'failed', 'expired', 'refunded_part', 'refunded', 'disputed'])
      .describe(
        'Money may still arrive after `failed` and `expired`; credit is there from `credited` on, and goes with refunds',
      ),
    processor: z.enum(processorIds),
    test: z.boolean().describe('Of a test mode: it shows the flow and credits nothing'),
    amount: money.describe('What is to be paid'),
    currency: z.literal('INR'),
    rate: money.describe('Rupees for a US dollar; it stays as it was when the top-up was opened'),
    rate_as_of: z.string(),
    rate_source: z.string(),
    credit_usd: money.describe('The credit that the amount becomes, US dollars'),
    credit_expires_at: time.describe('Until when the credit can be used: twelve months from the payment'),
    url: z.string().nullable().describe('The page to pay on'),
    lot: z.string().nullable().describe('The lot of its credit, once it is credited'),
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
    created_at: time,
    expires_at: time.describe('Until when it can be paid at this rate'),
    paid_at: time.nullable(),
  }),
)
export const voucherBody = z.lazy(() =>
  z.strictObject({
    code: z
      .string()
      .min(1)
      .max(100)
      .describe('The code as it was given out, such as WEIR-XXXX-XXXX-XXXX-XXXX'),
  }),
)
export const redeemedSchema = z.lazy(() =>
  z.strictObject({
    credit_usd: money.describe('The credit that it was, US dollars'),
    lot: z.string().describe('The lot of purchased credit that it has become'),
  }),
)

const standing = z.strictObject({
  credit: money.describe('In lots of all pools'),
  owed: money.describe('What it owes'),
  balance: money.describe('The credit less what is owed'),
})
const movement = standing.extend({ entries: z.int().describe('How many entries of the journal it sums up') })
const kind = z.enum(['grant', 'settle', 'expire', 'refund', 'adjust', 'repay', 'borrow'])

export const statementSchema = z.lazy(() =>
  z.strictObject({
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
          amount: money.nullable().describe('Rupees'),
          rate: money.nullable(),
          refunded: money.nullable().describe('Of the amount, what was taken back so far, rupees'),
          credit_usd: money,
          lot: z.string(),
          credited_at: time,
        }),
      )
      .describe('The payments that became credit in the month, the first one first'),
  }),
)

export type StatementView = z.output<typeof statementSchema>
export type TopUpView = z.output<typeof topUpSchema>
