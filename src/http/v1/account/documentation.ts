// The documentation of keys, credits and receipts.

import { ofAnyRequest, ofCaller } from '../../docs/openapi-errors.ts'
import { json, type Operation, text } from '../../docs/operation.ts'
import { answered } from '../chat/examples.ts'
import { creditsSchema, keySchema, receiptSchema } from './schema.ts'

export const shownReceipt = {
  data: {
    id: answered.id,
    object: 'generation',
    model: 'sim/echo',
    mode: 'live',
    state: 'settled',
    ending: 'finished',
    error: null,
    created_at: '2026-11-21T05:52:50.543Z',
    ended_at: '2026-11-21T05:52:50.554Z',
    usage: {
      prompt_tokens: 7,
      completion_tokens: 2,
      estimated: false,
      tokens: {
        input: 7,
        cache_read: 0,
        cache_write_5m: 0,
        cache_write_1h: 0,
        output: 2,
        reasoning: 0,
        input_audio: 0,
        output_audio: 0,
        input_image: 0,
        output_image: 0,
      },
    },
    lines: [
      { item: 'input', quantity: 7, rate: '0.0000005', amount: '0.0000035' },
      { item: 'output', quantity: 2, rate: '0.000002', amount: '0.000004' },
    ],
    total: '0.0000075',
    charged: '0.0000075',
    absorbed: '0',
    over_limit: false,
    held: '0',
    price_version: 'pv_b1d179a0d262',
    service_tier: null,
    unpriced: [],
    on_credit: '0',
    drawn: [{ pool: 'purchased', lot: 'lot_a14fd2a28fa3232fd409b849', amount: '0.0000075' }],
    provider: 'sim',
    upstream_model: 'echo',
    upstream_id: 'chatcmpl-2ozby0q3rh935',
    finish_reason: 'stop',
    stream: false,
    attempts: [
      {
        provider: 'sim',
        outcome: 'served',
        code: null,
        upstream_id: null,
        ms: 8,
        status: null,
        reason: null,
      },
    ],
    first_byte_ms: 22,
    total_ms: 23,
  },
}

const sinceFirstRun = '2026-11-21T05:52:49.015Z'

const shownCredits = {
  data: {
    currency: 'USD',
    available: '99.9999925',
    held: '0',
    debt: '0',
    credit_line: null,
    pools: [
      {
        type: 'purchased',
        remaining: '99.9999925',
        api_spendable: true,
        lots: [
          {
            remaining: '99.9999925',
            held: '0',
            granted_at: sinceFirstRun,
            expires_at: '2027-11-21T05:52:49.015Z',
          },
        ],
      },
      {
        type: 'welcome',
        remaining: '0.5',
        api_spendable: false,
        lots: [{ remaining: '0.5', held: '0', granted_at: sinceFirstRun, expires_at: null }],
      },
      { type: 'daily', remaining: '0', api_spendable: false, lots: [] },
      { type: 'subscription', remaining: '0', api_spendable: false, lots: [] },
    ],
    total_purchased: '100',
    total_used: '0.0000075',
  },
}

const shownKey = {
  data: {
    id: 'aaKwVUYeZ8Ia',
    label: 'owner',
    mode: 'live',
    account: 'acct_b7bf761a336552e575',
    created_at: sinceFirstRun,
    expires_at: null,
    limit: '25',
    limit_window: 'month',
    limit_remaining: '24.9999925',
    limit_resets_at: '2026-12-01T00:00:00.000Z',
    allowed_models: ['sim/*'],
    requests_per_minute: 60,
    tokens_per_minute: null,
    networks: null,
    sees: 'own',
    usage: '0.0000075',
    usage_daily: '0.0000075',
    usage_weekly: '0.0000075',
    usage_monthly: '0.0000075',
  },
}

// ---- operations -------------------------------------------------------------------------------------------

export const key: Operation = {
  id: 'getKey',
  tag: 'Account',
  summary: 'Get the calling key',
  description: 'Its label, its limits, and what it has spent.',
  security: 'key',
  answers: { 200: { description: 'The key.', content: json('Key', shownKey) } },
  errors: [...ofAnyRequest, ...ofCaller],
  schemas: { Key: keySchema },
}

export const credits: Operation = {
  id: 'getCredits',
  tag: 'Account',
  summary: 'Get the credit of the account',
  description:
    'By pool and by lot. One credit is one US dollar of model usage. A test key spends nothing: for it all amounts are 0.',
  security: 'key',
  answers: { 200: { description: 'The credit.', content: json('Credits', shownCredits) } },
  errors: [...ofAnyRequest, ...ofCaller],
  schemas: { Credits: creditsSchema },
}

export const generation: Operation = {
  id: 'getGeneration',
  tag: 'Chat',
  summary: 'Get the receipt of a call',
  description:
    'Every line is quantity × rate = amount, the lines add up to the total, and what the lots paid adds up to what was charged. Complete in the same second as the answer. A key gets those of its own line (itself, the keys it replaces, those that replace it), unless it was made with `sees: all`.',
  security: 'key',
  parameters: [
    {
      ...text(
        'id',
        'The `x-request-id` of the call, the id of its response, or the id that its provider gave it.',
      ),
      required: true,
    },
  ],
  answers: { 200: { description: 'The receipt.', content: json('Receipt', shownReceipt) } },
  errors: [...ofAnyRequest, ...ofCaller, 'not_found'],
  schemas: { Receipt: receiptSchema },
}
