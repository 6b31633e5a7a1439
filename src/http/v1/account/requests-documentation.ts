// The documentation of the request log and of usage: their schemas, examples and operations.

import { z } from 'zod'
import { receiptSchema } from './schema.ts'
import { ofAnyRequest, ofCaller } from '../../docs/openapi-errors.ts'
import { shownReceipt as receipt } from './documentation.ts'
import { json, type Operation, text } from '../../docs/operation.ts'
import type { requestList, requestWhole } from './request-views.ts'
import { usageSchema, type UsageView } from './usage.ts'

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
  id: receipt.data.id,
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
const oneExample = { data: { ...served, receipt: receipt.data, contents: null } }

const usageExample: UsageView = {
  object: 'usage',
  from: '2026-11-21',
  to: '2026-11-22',
  by: 'model',
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
    },
  ],
  totals: { calls: 2, errors: 1, input_tokens: 7, output_tokens: 2, cost: '0.0000075', charged: '0.0000075' },
  rest: null,
}

const usageParameters = [
  text('from', 'The first UTC day; without it 30 days up to `to`.', '2026-11-21'),
  text('to', 'The last UTC day; without it today.', '2026-11-22'),
  {
    ...text('by', 'What each day is divided by.'),
    schema: { type: 'string', enum: ['day', 'model', 'key', 'channel'], default: 'day' },
  },
  text('key', 'Only calls with the key of this id.'),
  text('model', 'Only calls of this model.'),
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
    'Calls, tokens and cost by UTC day, divided by model, key or channel (`api` or `app`), for at most 366 days. An answer has at most 10,000 rows: groups that find no place are added up in `rest`. The sums are those of the ledger, and are kept as long as it is. A key gets those of its own line, unless it was made with `sees: all`.',
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
  parameters: [
    {
      name: 'id',
      in: 'path',
      required: true,
      description: 'The request id.',
      schema: { type: 'string' },
      example: receipt.data.id,
    },
  ],
  answers: {
    200: {
      description: 'The call.',
      content: json('LoggedRequest', oneExample),
    },
  },
  errors: [...ofAnyRequest, ...ofCaller, 'not_found'],
  schemas: { LoggedRequest: requestSchema },
}
