// The wire schemas of keys, credits and receipts. The documentation is generated from them, and a test checks the
// gateway's real answers against them.

import { z } from 'zod'
import type { LedgerStore } from '../../credits/ledger/ledger.ts'
import { type Receipt, receiptOf } from '../../credits/ledger/receipt.ts'
import { formatUsd } from '../../credits/money.ts'
import { pools } from '../../credits/pool.ts'
import type { LoggedRequest, RequestPage, RequestPlace } from '../../observe/request-log.ts'
import { count, milliseconds, time, usd } from '../docs/operation.ts'

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
}) satisfies z.ZodType<Receipt>

export const receiptSchema = z.object({ data: receipt })

// The request log as clients see it, and the cursor of a page.

/** One logged call. `detail`: the details of its error. */
export function requestObject(row: LoggedRequest) {
  return {
    id: row.requestId,
    object: 'request' as const,
    ended_at: new Date(row.at).toISOString(),
    key: row.key,
    model: row.model === '' ? null : row.model,
    provider: row.provider,
    stream: row.stream,
    status: row.status,
    code: row.code,
    ending: row.ending,
    prompt_tokens: row.promptTokens,
    completion_tokens: row.completionTokens,
    cost: formatUsd(row.cost),
    attempts: row.attempts,
    first_byte_ms: row.firstByteMs,
    total_ms: row.totalMs,
    detail: jsonObject(row.detail),
  }
}

export function requestList({ rows, next }: RequestPage) {
  return {
    object: 'list' as const,
    data: rows.map(requestObject),
    has_more: next !== null,
    next_cursor: next === null ? null : cursorText(next),
  }
}

/** One call with its receipt and contents, if there are any. */
export async function requestWhole(row: LoggedRequest, ledger: Pick<LedgerStore, 'call'>) {
  const call = await ledger.call(row.account, row.requestId)
  return {
    ...requestObject(row),
    receipt: call === undefined ? null : receiptOf(call),
    contents: jsonObject(row.contents),
  }
}

export function cursorText({ at, seq }: RequestPlace): string {
  return `${at}_${seq}`
}

export function placeOf(cursor: string): RequestPlace | undefined {
  const [, at, seq] = /^(\d{1,15})_(\d{1,15})$/.exec(cursor) ?? []
  return at === undefined ? undefined : { at: Number(at), seq: Number(seq) }
}

/** Parses a stored JSON object; anything else is left out. */
function jsonObject(stored: string | null): Record<string, unknown> | null {
  if (stored === null) return null
  const read = z.record(z.string(), z.unknown()).safeParse(JSON.parse(stored))
  return read.success ? read.data : null
}
