// The answers about payments of the console's API and the admin API, for the documentation.

import { z } from 'zod'
import { time, usd } from '../docs/fields.ts'
import { redeemedSchema, statementSchema, topUpSchema } from './wire.ts'

const data = <Item extends z.ZodType>(item: Item) => z.strictObject({ data: item })
const rupees = z.string().describe('Rupees, a decimal string.')

export const paymentAnswers: Readonly<Record<string, z.ZodType>> = {
  'GET top-up-terms': data(
    z.strictObject({
      currency: z.literal('INR'),
      rate: z.string(),
      rate_as_of: z.string(),
      rate_source: z.string(),
      min: rupees,
      max: rupees,
      credit_expires_at: time.describe('Until when credit could be used that is paid for now.'),
      processors: z.array(z.strictObject({ id: z.enum(['razorpay', 'stripe', 'sim']), test: z.boolean() })),
    }),
  ),
  'GET top-ups': z.strictObject({
    data: z.array(topUpSchema),
    has_more: z.boolean(),
    next_cursor: z.string().nullable(),
  }),
  'POST top-ups': topUpSchema,
  'GET top-ups/:id': topUpSchema,
  'GET top-ups/:id/receipt': topUpSchema.unwrap().extend({
    method: z.string().nullable().describe('How it was paid, in a word of the processor.'),
    seller: z.strictObject({
      name: z.string().nullable(),
      address: z.string().nullable(),
      gstin: z.string().nullable(),
    }),
    payer: z.string().describe('The e-mail address of the account.'),
  }),
  'POST vouchers/redeem': redeemedSchema,
  'GET credits/statements/:month': data(statementSchema),
}

const topUp = topUpSchema.unwrap().extend({
  account: z.string(),
  reference: z.string().nullable().describe("The processor's id of the page that it is paid on."),
  checked_at: time.nullable().describe('When the processor was last asked.'),
})

const event = z.strictObject({
  processor: z.string(),
  id: z.string(),
  type: z.string(),
  at: time,
  outcome: z.enum(['received', 'waiting', 'unmatched', 'applied', 'ignored', 'refused']),
  top_up: z.string().nullable(),
  payment_id: z.string().nullable(),
  amount: rupees.nullable(),
  body_sha256: z.string(),
})

const whole = topUp.extend({
  events: z.array(event),
  reversals: z.array(
    z.strictObject({
      id: z.string(),
      kind: z.enum(['refund', 'refund_failed', 'dispute_open', 'dispute_won', 'dispute_lost']),
      amount: rupees,
      credit_usd: usd,
      held_usd: usd,
      booked: z.boolean().describe('Whether the ledger has all of it.'),
      at: time,
    }),
  ),
})

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

export const adminPaymentAnswers: Readonly<Record<string, z.ZodType>> = {
  'GET top-ups': z.strictObject({
    data: z.array(topUp),
    has_more: z.boolean(),
    next_cursor: z.string().nullable(),
  }),
  'GET top-ups/:id': data(whole),
  'POST top-ups/:id/reconcile': data(whole),
  'POST top-ups/:id/refund': data(whole),
  'GET payment-events': data(z.array(event)),
  'GET accounts/:account/statements/:month': data(statementSchema),
  'GET vouchers': data(z.array(voucher)),
  'POST vouchers': data(
    z.array(voucher.extend({ code: z.string().describe('The code itself, this once.') })),
  ),
  'POST vouchers/:id/revoke': z.strictObject({ id: z.string(), revoked: z.literal(true) }),
  'GET subscriptions': data(z.array(period)).extend({
    products: z
      .array(z.strictObject({ id: z.string(), credit_usd: usd, months: z.int() }))
      .describe('Those of the configuration: the credit of a period, and its length'),
  }),
  'POST subscriptions': data(period.nullable()),
  'POST subscriptions/end': data(z.array(period)),
}
