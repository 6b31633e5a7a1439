// The documentation of keys, credits, receipts and requests: their schemas, then the operations.

import { z } from 'zod'
import type { Receipt } from '../../credits/ledger/receipt.ts'
import { pools } from '../../credits/pool.ts'
import {
  count,
  inPath,
  json,
  milliseconds,
  ofAnyRequest,
  ofCaller,
  type Operation,
  text,
  time,
  usd,
} from '../docs/operation.ts'
import { answered } from './chat-examples.ts'
import { leakReport } from './leaked-keys.ts'
import { type requestList, type requestWhole, usageSchema, type UsageView } from './usage.ts'

// The gateway's real answers are checked against these in a test.

export const keySchema = z.object({
  data: z.object({
    id: z.string(),
    label: z.string(),
    mode: z.enum(['live', 'test']).describe('Test keys are answered by the simulator and cost nothing.'),
    account: z.string(),
    created_at: time,
    expires_at: time.nullable(),
    limit: usd
      .nullable()
      .describe('The most this key may spend in one window, US dollars; null without a limit.'),
    limit_window: z.enum(['day', 'week', 'month', 'total']).nullable(),
    limit_remaining: usd.nullable(),
    limit_resets_at: time.nullable(),
    allowed_models: z.array(z.string()).nullable().describe('Ids or provider/*; null allows every model.'),
    requests_per_minute: z.int().nullable().describe('The key’s own limit; null leaves it to the gateway’s.'),
    tokens_per_minute: z.int().nullable().describe('The same for tokens.'),
    networks: z.array(z.string()).nullable().describe('Where it may be used from; null for anywhere.'),
    cache_ttl: z
      .int()
      .nullable()
      .describe(
        'Seconds that an answer is given again for, where a request has no `cache` of its own; null for none.',
      ),
    sees: z
      .enum(['own', 'all'])
      .describe(
        'Whose calls and responses it may read: its own and those of the keys it replaces or is replaced by, or all of ' +
          'the account (for a test key all of test keys).',
      ),
    usage: usd.describe('Spent by this key in all, US dollars.'),
    usage_daily: usd.describe('Spent since midnight UTC.'),
    usage_weekly: usd.describe('Spent in this week, UTC.'),
    usage_monthly: usd.describe('Spent in this month, UTC.'),
    group: z
      .object({
        id: z.string(),
        name: z.string(),
        paid_by: z.string().describe('Whose credit pays: the account, or a group.'),
        budgets: z
          .array(
            z.object({
              group: z.string(),
              name: z.string(),
              of: z.enum(['member', 'group']),
              window: z.enum(['day', 'week', 'month', 'none']),
              limit: usd,
              spent: usd,
              reserved: usd.describe('Held by calls in flight.'),
              resets_at: time.nullable(),
            }),
          )
          .describe('Every budget that its calls spend from, the innermost first.'),
      })
      .nullable()
      .describe('The group that it was made in.'),
  }),
})

export const creditsSchema = z.object({
  data: z.object({
    currency: z.literal('USD'),
    available: usd.describe('What a call of this kind, by API key or from the app, could be paid with now.'),
    held: usd.describe('Reserved for calls that are running.'),
    debt: usd.describe('What the account owes, with what calls in flight hold of its credit line.'),
    credit_line: z
      .string()
      .nullable()
      .describe('How much the account may owe, US dollars, or `unlimited`; null for nothing.'),
    pools: z.array(
      z.object({
        type: z.enum(pools),
        remaining: usd,
        api_spendable: z.boolean().describe('Whether calls made with an API key are paid from it.'),
        lots: z.array(z.object({ remaining: usd, held: usd, granted_at: time, expires_at: time.nullable() })),
      }),
    ),
    total_purchased: usd,
    total_used: usd,
  }),
})

const tags = z.record(z.string(), z.string())

const receipt = z.object({
  id: z.string().describe('The request id of the call: `x-request-id` of its answer.'),
  object: z.literal('generation'),
  model: z.string().describe('The model that served, or was to serve.'),
  route: z
    .object({
      id: z.string().describe('The virtual model that was asked for.'),
      reason: z
        .string()
        .describe('What decided who is asked first: order, weight, price, latency or session.'),
      passed_over: z
        .array(z.object({ model: z.string(), reason: z.string() }))
        .describe('Members that did not serve: an error code, `cooling` or `not_sold`.'),
    })
    .nullable()
    .describe('How a virtual model came to `model`; null where a model was asked for itself.'),
  key: z.string().nullable().describe('The id of the API key.'),
  person: z.string().describe('The account of whoever made the call.'),
  group: z.string().nullable().describe('The group that the key was made in.'),
  paid_by: z.string().describe('Whose credit paid: the account, or a group that has credit of its own.'),
  mode: z.enum(['live', 'test']),
  tags: tags.describe('What the request said that it is for; `user` is who it was made for.'),
  state: z.enum(['open', 'settled', 'voided']),
  ending: z.enum(['finished', 'client-gone', 'provider-cut', 'stopped', 'recovered']).nullable(),
  error: z.string().nullable().describe('The error code of a call that served nothing.'),
  created_at: time,
  ended_at: time.nullable(),
  usage: z
    .object({
      prompt_tokens: count,
      completion_tokens: count,
      estimated: z.boolean().describe('Whether the provider gave no count and Weir counted itself.'),
      tokens: z.record(z.string(), count).describe('By kind of token, each token in one kind.'),
    })
    .nullable(),
  lines: z
    .array(
      z.object({
        item: z.string().describe('A kind of token, or a fee.'),
        quantity: z.number(),
        rate: usd.describe('US dollars for one.'),
        amount: usd.describe('quantity × rate, exactly.'),
      }),
    )
    .describe('They add up to `total`.'),
  total: usd,
  charged: usd.describe('What the account paid.'),
  absorbed: usd.describe('What the operator bears; charged + absorbed = total.'),
  over_limit: z
    .boolean()
    .describe(
      'What the provider billed has taken the key beyond its limit, or its group beyond a budget; it is charged all the same.',
    ),
  held: usd.describe('Set aside while the call runs.'),
  price_version: z.string(),
  service_tier: z
    .string()
    .nullable()
    .describe('The service tier that the provider says it served at; null for the standard one.'),
  unpriced: z
    .array(z.string())
    .describe(
      'What was charged at the standard rate because the catalog has no rate for it, so that the provider may bill ' +
        'another amount (`service_tier:priority`, `input_audio`). Empty for an exact charge.',
    ),
  on_credit: usd.describe('Of the charge, what the account owes: it was paid on its credit line.'),
  drawn: z.array(z.object({ pool: z.string(), lot: z.string(), amount: usd })).describe('What paid.'),
  provider: z.string().nullable(),
  upstream_model: z.string().nullable(),
  upstream_id: z.string().nullable(),
  finish_reason: z.string().nullable(),
  stream: z.boolean().nullable(),
  attempts: z.array(
    z.object({
      provider: z.string(),
      outcome: z.string(),
      code: z.string().nullable(),
      upstream_id: z.string().nullable(),
      ms: milliseconds,
      status: z.int().nullable().describe("The provider's HTTP status, where it failed with one."),
      reason: z.string().nullable().describe('Why it failed.'),
    }),
  ),
  first_byte_ms: milliseconds.nullable(),
  total_ms: milliseconds.nullable(),
  guardrails: z
    .array(
      z.object({
        guardrail: z.string(),
        on: z.string(),
        decision: z.string(),
        code: z.string().nullable(),
        times: z.int(),
      }),
    )
    .describe(
      "What the operator's masks and hooks decided of the `request` and of the `response`: allow, deny, replace, or failed for a hook that did not answer.",
    ),
}) satisfies z.ZodType<Receipt>

export const receiptSchema = z.object({ data: receipt })

const shownReceipt = {
  data: {
    id: answered.id,
    object: 'generation',
    model: 'sim/echo',
    route: null,
    key: 'hUwC2nPm0Jq4',
    person: 'acct_8b1f2c3d4e5f60718293',
    group: null,
    paid_by: 'acct_8b1f2c3d4e5f60718293',
    mode: 'live',
    tags: { user: 'u-42', feature: 'chat' },
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
    guardrails: [],
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
      ...pools.slice(2).map((type) => ({ type, remaining: '0', api_spendable: false, lots: [] })),
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
    cache_ttl: null,
    sees: 'own',
    usage: '0.0000075',
    usage_daily: '0.0000075',
    usage_weekly: '0.0000075',
    usage_monthly: '0.0000075',
    group: null,
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

export const leakedKey: Operation = {
  id: 'reportLeakedKey',
  tag: 'Account',
  summary: 'Report a key that you have found',
  description:
    'The key itself is the proof. An API key is frozen at once: it is refused until its owner, who is told, resumes or replaces it. A management key is revoked. The answer is the same whether there is such a key or not.',
  security: 'none',
  body: json('LeakReport', { key: 'sk-weir-live-…' }),
  answers: { 202: { description: 'Received.', content: json('LeakReceived', { received: true }) } },
  errors: [...ofAnyRequest, 'payload_too_large', 'unsupported_media_type', 'rate_limit_exceeded'],
  schemas: { LeakReport: leakReport, LeakReceived: z.object({ received: z.literal(true) }) },
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

// The documentation of the request log and of usage: their schemas, examples and operations.

const logged = z.object({
  id: z.string().describe('The request id: `x-request-id` of the answer.'),
  object: z.literal('request'),
  ended_at: z.string().describe('ISO 8601, UTC.'),
  key: z.string().nullable().describe('The id of the key; null for the app.'),
  model: z.string().nullable().describe('As it was asked for.'),
  provider: z.string().nullable().describe('Who was asked last; null where nobody was.'),
  stream: z.boolean(),
  status: z.int(),
  code: z.string().nullable().describe('The error code of a call that failed or was refused.'),
  ending: z.string().nullable(),
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  cost: z.string().describe('US dollars, an exact decimal string.'),
  attempts: z.int().describe('How often a provider was asked.'),
  first_byte_ms: z.number().nullable(),
  total_ms: z.number(),
  detail: z
    .record(z.string(), z.unknown())
    .nullable()
    .describe(
      'What the error said beside its code, such as the credit that was needed and the credit there was.',
    ),
  tags: tags.describe('What the request said that it is for: `x-weir-tags`, `user` and `metadata`.'),
})

export const requestListSchema = z.object({
  object: z.literal('list'),
  data: z.array(logged),
  has_more: z
    .boolean()
    .describe(
      'Whether older calls are left to look at. In a very long log a page may be short, or empty, before the last.',
    ),
  next_cursor: z.string().nullable(),
}) satisfies z.ZodType<ReturnType<typeof requestList>>

export const requestSchema = z.object({
  data: logged.extend({
    receipt: receiptSchema.shape.data.nullable().describe('Null where no credit was set aside.'),
    contents: z
      .record(z.string(), z.unknown())
      .nullable()
      .describe('The words of request and answer, where the operator keeps them (`log.prompts`).'),
  }),
}) satisfies z.ZodType<{ data: Awaited<ReturnType<typeof requestWhole>> }>

const served = {
  id: shownReceipt.data.id,
  object: 'request',
  ended_at: '2026-11-22T08:30:00.000Z',
  key: 'k3yOfTheDocs',
  model: 'sim/echo',
  provider: 'sim',
  stream: false,
  status: 200,
  code: null,
  ending: 'finished',
  prompt_tokens: 7,
  completion_tokens: 2,
  cost: '0.0000075',
  attempts: 1,
  first_byte_ms: 22,
  total_ms: 23,
  detail: null,
  tags: { user: 'u-42', feature: 'chat' },
}

const refused = {
  ...served,
  id: 'req_01a1fcaa216272aa8d5548c4e8af6c09',
  provider: null,
  status: 402,
  code: 'insufficient_credits',
  ending: null,
  prompt_tokens: 0,
  completion_tokens: 0,
  cost: '0',
  attempts: 0,
  first_byte_ms: null,
  total_ms: 2,
  detail: { model: 'sim/echo', available: '0.000001', held: '0', estimate: '0.0000055' },
}

const listExample = { object: 'list', data: [refused, served], has_more: false, next_cursor: null }
const oneExample = { data: { ...served, receipt: shownReceipt.data, contents: null } }

const usageExample: UsageView = {
  object: 'usage',
  from: '2026-11-21',
  to: '2026-11-22',
  by: 'model',
  per: 'day',
  data: [
    {
      day: '2026-11-22',
      group: 'sim/echo',
      label: null,
      calls: 2,
      errors: 1,
      input_tokens: 7,
      output_tokens: 2,
      cost: '0.0000075',
      charged: '0.0000075',
      average_ms: 412,
    },
  ],
  totals: {
    calls: 2,
    errors: 1,
    input_tokens: 7,
    output_tokens: 2,
    cost: '0.0000075',
    charged: '0.0000075',
    average_ms: 412,
  },
  rest: null,
}

const usageParameters = [
  text('from', 'The first UTC day; without it 30 days up to `to`.', '2026-11-21'),
  text('to', 'The last UTC day; without it today.', '2026-11-22'),
  {
    ...text('by', 'What each day is divided by.'),
    schema: {
      anyOf: [
        { type: 'string', enum: ['day', 'model', 'key', 'channel', 'user', 'group'] },
        { type: 'string', pattern: '^tag:.' },
      ],
      default: 'day',
      description:
        '`tag:feature` divides by the values of the tag `feature`, and `user` by who calls were made for.',
    },
  },
  {
    ...text('per', 'Whether a row is of a UTC day or of a calendar month.'),
    schema: { type: 'string', enum: ['day', 'month'], default: 'day' },
  },
  text('tag', 'Only calls with this tag.', 'feature=chat'),
  text('key', 'Only calls with the key of this id.'),
  text('model', 'Only calls of this model.'),
  {
    ...text(
      'compare',
      'With `before` the answer also says what the groups came to in as many days before; of a calendar month, in the month before.',
    ),
    schema: { type: 'string', enum: ['before'] },
  },
  {
    ...text(
      'limit',
      'How many groups have rows of their own: those that cost most. The others are added up in `rest`.',
    ),
    schema: { type: 'integer', minimum: 1, maximum: 1_000, default: 100 },
  },
]

export const usage: Operation = {
  id: 'getUsage',
  tag: 'Account',
  summary: 'Get what the account’s calls came to',
  description:
    'Calls, tokens and cost by UTC day or month, divided by model, key, group of the key, channel (`api` or `app`), the person they were made for or the values of a tag, for at most 366 days. An answer has at most 10,000 rows: groups that find no place are added up in `rest`. The sums are those of the ledger, and are kept as long as it is. A key gets those of its own line, unless it was made with `sees: all`.',
  security: 'key',
  parameters: usageParameters,
  answers: { 200: { description: 'The days.', content: json('Usage', usageExample) } },
  errors: [...ofAnyRequest, ...ofCaller, 'rate_limit_exceeded'],
  schemas: { Usage: usageSchema },
}

export const usageCsv: Operation = {
  id: 'getUsageCsv',
  tag: 'Account',
  summary: 'Get the same as CSV',
  description: 'Every group of every day, with the same digits as `GET /v1/usage`, as a file with a heading.',
  security: 'key',
  parameters: usageParameters,
  answers: {
    200: { description: 'The days.', content: { 'text/csv': { schema: { type: 'string' } } } },
  },
  errors: [...ofAnyRequest, ...ofCaller, 'rate_limit_exceeded'],
}

export const listRequests: Operation = {
  id: 'listRequests',
  tag: 'Account',
  summary: 'List the calls of the account',
  description:
    'Newest first, refused calls included, for as long as the operator keeps them (90 days by default). A key gets those of its own line (itself, the keys it replaces, those that replace it), unless it was made with `sees: all`.',
  security: 'key',
  parameters: [
    text('key', 'Only calls with the key of this id.'),
    text('model', 'Only calls that asked for this model.'),
    text('code', 'Only calls that ended with this error code.'),
    text('tag', 'Only calls with this tag.', 'feature=chat'),
    text('from', 'Only calls that ended then or later: a date or an ISO 8601 time.'),
    text('until', 'Only calls that ended before then.'),
    {
      ...text('limit', 'How many to give.'),
      schema: { type: 'integer', minimum: 1, maximum: 200, default: 50 },
    },
    text('cursor', 'The `next_cursor` of the page before.'),
  ],
  answers: {
    200: {
      description: 'A page of calls.',
      content: json('RequestList', listExample),
    },
  },
  errors: [...ofAnyRequest, ...ofCaller],
  schemas: { RequestList: requestListSchema },
}

export const getRequest: Operation = {
  id: 'getRequest',
  path: '/v1/requests/{id}',
  tag: 'Account',
  summary: 'Get one call of the account',
  description:
    'With its receipt: every attempt and why it failed. A key gets those of its own line, unless it was made with `sees: all`.',
  security: 'key',
  parameters: [inPath('id', 'The request id.', shownReceipt.data.id)],
  answers: {
    200: {
      description: 'The call.',
      content: json('LoggedRequest', oneExample),
    },
  },
  errors: [...ofAnyRequest, ...ofCaller, 'not_found'],
  schemas: { LoggedRequest: requestSchema },
}
