// The wire schemas of the answers that have no protocol of their own: keys, credits, receipts, estimates, errors.
// The API documentation is made from them; a test holds the gateway's real answers against them.

import { z } from 'zod'
import type { Estimate } from '../../chat/estimate.ts'
import type { Receipt } from '../../credits/receipt.ts'
import { pools } from '../../credits/pool.ts'

const usd = z.string().describe('US dollars, an exact decimal string.')
const time = z.string().describe('ISO 8601, UTC.')
const count = z.int().min(0)
const milliseconds = z.number().describe('Milliseconds.')

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
    usage: usd.describe('Spent by this key in all, US dollars.'),
    usage_daily: usd.describe('Spent since midnight UTC.'),
    usage_weekly: usd.describe('Spent in this week, UTC.'),
    usage_monthly: usd.describe('Spent in this month, UTC.'),
  }),
})

export const creditsSchema = z.object({
  data: z.object({
    currency: z.literal('USD'),
    available: usd.describe('What a call of this kind, by API key or from the app, could be paid with now.'),
    held: usd.describe('Reserved for calls that are running.'),
    debt: usd,
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

const receipt = z.object({
  id: z.string().describe('The request id of the call: `x-request-id` of its answer.'),
  object: z.literal('generation'),
  model: z.string(),
  mode: z.enum(['live', 'test']),
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
    .describe('What the provider billed has taken the key beyond its limit; it is charged all the same.'),
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
}) satisfies z.ZodType<Receipt>

export const receiptSchema = z.object({ data: receipt })

export const estimateSchema = z.object({
  model: z.string(),
  prompt_tokens: z.object({ expected: count, maximum: count }),
  low: usd.describe('With one token of output.'),
  expected: usd.describe('With an answer of usual length.'),
  maximum: usd.describe('The most the request allows.'),
  affordable_output_tokens: count.describe('How long an answer the credit at hand pays for.'),
  pool: z.string().describe('The pool that pays first.'),
  refusal: z.string().optional().describe('The error code that the call would be refused with.'),
}) satisfies z.ZodType<Estimate>

export const providersSchema = z.object({
  object: z.literal('list'),
  data: z.array(
    z.object({
      id: z.string(),
      object: z.literal('provider'),
      name: z.string(),
      protocol: z.string(),
      state: z.enum(['healthy', 'degraded', 'unavailable']),
      success_rate: z.number().min(0).max(1).nullable().describe('Of the last answers; null without any.'),
      p50_latency_ms: milliseconds.nullable(),
      answers: count,
      cool_down_until: time.nullable(),
      last_error: z
        .object({
          at: time,
          model: z.string().describe('Its name at the provider.'),
          code: z.string(),
          status: z.int().nullable(),
          reason: z.string(),
        })
        .nullable()
        .describe("The last failure that was the provider's own."),
      troubles: z.array(
        z.object({
          key: count.describe('Which of its keys, from 1.'),
          model: z.string().nullable().describe('null where the key is in trouble for every model.'),
          state: z.string(),
          breaker: z
            .enum(['closed', 'open', 'half-open'])
            .describe('`open`: no call is sent there; `half-open`: the next one goes as a probe.'),
          failures: count.describe('Failed calls in a row.'),
        }),
      ),
    }),
  ),
})

export const errorSchema = z.object({
  error: z.object({
    message: z.string(),
    type: z.string(),
    param: z.string().nullable().describe('The field of the request that is at fault.'),
    code: z.string().describe('One of the codes of GET /v1/errors.'),
    metadata: z.looseObject({
      source: z.enum(['gateway', 'provider']),
      provider: z.string().optional(),
      request_id: z.string(),
      retryable: z.boolean(),
      retry_after: z.int().optional().describe('Seconds.'),
      docs_url: z.string(),
    }),
  }),
})

export const errorListSchema = z.object({
  object: z.literal('list'),
  data: z.array(
    z.object({
      code: z.string(),
      status: z.int(),
      type: z.string(),
      retryable: z.boolean(),
      means: z.string(),
      remedy: z.string(),
      docs_url: z.string(),
    }),
  ),
})

export const aliveSchema = z.object({ status: z.literal('ok') })

export const readinessSchema = z.object({
  status: z.enum(['ready', 'not ready']),
  store: z.enum(['writable', 'unavailable']),
  draining: z.boolean().describe('The gateway is stopping: it finishes what it has and takes nothing new.'),
})
