// The documentation of top-ups, vouchers and hooks.

import { type ExternalProcessorId, externalProcessors } from '../../payments/top-up.ts'
import { data, inPath, json, ofAnyRequest, ofBody, ofCaller, type Operation } from '../docs/operation.ts'
import { ownPlans, type OwnPlansView, redeemed, topUp, type TopUpView } from './answers.ts'
import { planBody, topUpBody, voucherBody } from './bodies.ts'

const shown: TopUpView = {
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
  plan: null,
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
    ...ofBody,
    'account_suspended',
    'idempotency_conflict',
    'rate_limit_exceeded',
    'payment_processor_error',
  ],
  schemas: { TopUpRequest: topUpBody, TopUp: topUp },
}

export const getTopUpOperation: Operation = {
  id: 'getTopUp',
  path: '/app/v1/top-ups/{id}',
  tag: 'App',
  summary: 'Show a top-up',
  description:
    'What is known of it. While it is open the processor is asked, at most once in ten seconds; where that does not answer, the top-up is given as it was.',
  security: 'session',
  parameters: [inPath('id', 'Its id.')],
  answers: { 200: { description: 'The top-up.', content: json('TopUp', { ...shown, state: 'credited' }) } },
  errors: [...ofAnyRequest, ...ofCaller, 'not_found'],
  schemas: { TopUp: topUp },
}

const plansShown: OwnPlansView = {
  plans: [
    {
      id: 'basic',
      title: 'Basic',
      about: 'For a chat now and then',
      credit_usd: '5',
      months: 1,
      models: ['openai/gpt-5-mini', 'gemini/*'],
      prices: [{ currency: 'INR', amount: '499', processors: ['razorpay'] }],
    },
  ],
  periods: [
    {
      plan: 'basic',
      title: 'Basic',
      subscription: 'topup_5b1c3f0a9d2e4c6f8a7b9c0d',
      state: 'running',
      from: '2026-11-22T09:30:00.000Z',
      to: '2026-12-22T09:30:00.000Z',
      credit_usd: '5',
      models: ['openai/gpt-5-mini', 'gemini/*'],
      cancelled_at: null,
    },
  ],
}

export const listPlansOperation: Operation = {
  id: 'listOwnPlans',
  tag: 'App',
  summary: 'List the plans that are sold, and those of the account',
  description:
    'A plan grants subscription credit, and opens models, for a period. Nothing renews itself: another payment is another period, which begins when those of as much credit or more have ended, or at once.',
  security: 'session',
  answers: {
    200: { description: 'The plans.', content: json('OwnPlans', { data: plansShown }) },
  },
  errors: [...ofAnyRequest, ...ofCaller],
  schemas: { OwnPlans: data(ownPlans) },
}

export const buyPlanOperation: Operation = {
  id: 'buyPlan',
  path: '/app/v1/plans/{plan}/payments',
  tag: 'App',
  summary: 'Open the payment of a period of a plan',
  description:
    'Opens a page on which a payment processor takes the price. It is a top-up like others: `GET /app/v1/top-ups/{id}` says what became of it. With the same `Idempotency-Key` and body the same one is given again.',
  security: 'session',
  parameters: [inPath('plan', 'The id of the plan.'), ...(createTopUpOperation.parameters ?? [])],
  body: json('PlanPaymentRequest', { currency: 'INR', processor: 'razorpay' }),
  answers: {
    201: {
      description: 'The top-up, and where it is paid.',
      content: json('TopUp', {
        ...shown,
        amount: '499',
        rate: '99.8',
        rate_as_of: 'unknown',
        rate_source: 'the price of the plan',
        credit_usd: '5',
        credit_expires_at: '2026-12-22T09:30:00.000Z',
        plan: { id: 'basic', title: 'Basic', from: null, to: null },
      } satisfies TopUpView),
    },
  },
  errors: [...(createTopUpOperation.errors ?? []), 'not_found'],
  schemas: { PlanPaymentRequest: planBody, TopUp: topUp },
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
    ...ofBody,
    'account_suspended',
    'voucher_invalid',
    'voucher_used',
    'overloaded',
  ],
  schemas: { VoucherRequest: voucherBody, RedeemedVoucher: redeemed },
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
