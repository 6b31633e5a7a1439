// The answers about payments of the console's API and the admin API, for the documentation.

import { z } from 'zod'
import { externalProcessors, type ExternalProcessorId, processorIds } from '../../payments/news.ts'
import { ofAnyRequest, ofCaller } from '../docs/openapi-errors.ts'
import { json, type Operation, time, usd } from '../docs/operation.ts'
import { redeemedSchema, statementSchema, topUpBody, topUpSchema, voucherBody } from './wire.ts'

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
      processors: z.array(z.strictObject({ id: z.enum(processorIds), test: z.boolean() })),
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

// The documentation of top-ups.

const shown = {
  id: 'topup_5b1c3f0a9d2e4c6f8a7b9c0d',
  state: 'open',
  processor: 'razorpay',
  test: false,
  amount: '500',
  currency: 'INR',
  rate: '89.015',
  rate_as_of: '2026-11-20',
  rate_source: 'RBI reference rate',
  credit_usd: '5.617030837499',
  credit_expires_at: '2027-11-22T09:30:00.000Z',
  url: 'https://rzp.io/rzp/abc',
  lot: null,
  payment_id: null,
  refunded: '0',
  problem: null,
  receipt: null,
  created_at: '2026-11-22T09:30:00.000Z',
  expires_at: '2026-11-22T10:00:00.000Z',
  paid_at: null,
}

export const createTopUpOperation: Operation = {
  id: 'createTopUp',
  tag: 'App',
  summary: 'Open a top-up',
  description:
    'Opens a page on which a payment processor takes the amount. The rate is fixed now; the credit is added once, when the ' +
    'processor says that it was paid, and lives twelve months from then. With the same `Idempotency-Key` and body the ' +
    'same top-up is given again.',
  security: 'session',
  parameters: [
    {
      name: 'Idempotency-Key',
      in: 'header',
      description: 'A request sent again with the same key and body gets the top-up of the first.',
      schema: { type: 'string', maxLength: 255 },
    },
  ],
  body: json('TopUpRequest', { amount: '500', currency: 'INR', processor: 'razorpay' }),
  answers: { 201: { description: 'The top-up, and where it is paid.', content: json('TopUp', shown) } },
  errors: [
    ...ofAnyRequest,
    ...ofCaller,
    'payload_too_large',
    'unsupported_media_type',
    'account_suspended',
    'idempotency_conflict',
    'rate_limit_exceeded',
    'payment_processor_error',
  ],
  schemas: { TopUpRequest: topUpBody, TopUp: topUpSchema },
}

export const getTopUpOperation: Operation = {
  id: 'getTopUp',
  path: '/app/v1/top-ups/{id}',
  tag: 'App',
  summary: 'Show a top-up',
  description:
    'What is known of it. While it is open the processor is asked, at most once in ten seconds; where that does not answer, the top-up is given as it was.',
  security: 'session',
  parameters: [
    { name: 'id', in: 'path', required: true, description: 'Its id.', schema: { type: 'string' } },
  ],
  answers: { 200: { description: 'The top-up.', content: json('TopUp', { ...shown, state: 'credited' }) } },
  errors: [...ofAnyRequest, ...ofCaller, 'not_found'],
  schemas: { TopUp: topUpSchema },
}

export const redeemVoucherOperation: Operation = {
  id: 'redeemVoucher',
  tag: 'App',
  summary: 'Redeem a voucher',
  description: 'Turns the code into purchased credit of twelve months. A voucher is redeemed once.',
  security: 'session',
  body: json('VoucherRequest', { code: 'WEIR-7K3M-9P2X-4QTB-W1Z8' }),
  answers: {
    200: {
      description: 'Its credit.',
      content: json('RedeemedVoucher', { credit_usd: '10', lot: 'lot_a14fd2a28fa3232fd409b849' }),
    },
  },
  errors: [
    ...ofAnyRequest,
    ...ofCaller,
    'payload_too_large',
    'unsupported_media_type',
    'account_suspended',
    'voucher_invalid',
    'voucher_used',
    'overloaded',
  ],
  schemas: { VoucherRequest: voucherBody, RedeemedVoucher: redeemedSchema },
}

const received = {
  type: 'object',
  properties: { received: { type: 'boolean' }, outcome: { type: 'string' } },
  required: ['received', 'outcome'],
}

function hookOperation(
  id: string,
  name: string,
  headers: readonly (readonly [name: string, means: string])[],
): Operation {
  return {
    id,
    tag: 'Payments',
    summary: `Take a message of ${name}`,
    description:
      'A message that is known already is answered as the first time and changes nothing. While the database cannot be ' +
      'written the answer is 503, so that the message is sent again.',
    security: 'none',
    parameters: headers.map(([header, description]) => ({
      name: header,
      in: 'header',
      required: true,
      description,
      schema: { type: 'string' },
    })),
    body: { 'application/json': { schema: { type: 'object' } } },
    answers: {
      200: {
        description: 'It is kept. `outcome` says what became of it.',
        content: {
          'application/json': { schema: received, example: { received: true, outcome: 'applied' } },
        },
      },
    },
    errors: [
      ...ofAnyRequest,
      'bad_signature',
      'rate_limit_exceeded',
      'not_found',
      'payload_too_large',
      'store_unavailable',
      'overloaded',
    ],
  }
}

export function processorHookOperation(id: ExternalProcessorId): Operation {
  const { name, signedIn } = externalProcessors[id]
  return hookOperation(`take${name}Event`, name, signedIn)
}

export const hookOperations = {
  apple: hookOperation('takeAppleNotification', 'the App Store (Server Notifications, version 2)', []),
  subscriptions: hookOperation('takeSubscriptionMessage', 'the seller of subscriptions', [
    ['webhook-id', 'As Standard Webhooks has it: the id of the message.'],
    ['webhook-timestamp', 'When it was sent, seconds since 1970; five minutes are the most.'],
    [
      'webhook-signature',
      '`v1,` and the base64 of HMAC-SHA256 of id, time and body; several apart by spaces.',
    ],
  ]),
} as const
