// GET /v1/usage: the account's usage by day and by a chosen dimension, as JSON or CSV.

import { z } from 'zod'
import type { Viewer } from '../../../accounts/caller.ts'
import { dayMs, startOfDay } from '../../../credits/calendar.ts'
import { formatUsd } from '../../../credits/money.ts'
import { csvOf } from '../../../csv.ts'
import { GatewayError } from '../../../errors.ts'
import type { UsageGroup, UsageQuery, UsageReader, UsageSum } from '../../../observe/usage.ts'
import { queryOf } from '../../intake/query.ts'
import type { HttpParts } from '../../parts.ts'

const defaultDays = 30
const mostDays = 366

const date = z
  .string()
  .regex(/^\d{4}-\d\d-\d\d$/, 'It takes a UTC date such as 2027-01-31.')
  .refine((text) => isoDay(Date.parse(text)) === text, 'There is no such day.')
const name = z.string().max(200, 'It has at most 200 characters.')

/** `from` and `to` are both included. */
export const usageParameters = z.strictObject({
  from: date.optional(),
  to: date.optional(),
  by: z.enum(['day', 'model', 'key', 'channel'], 'It takes day, model, key or channel.').default('day'),
  key: name.optional(),
  model: name.optional(),
})

/** The same for operators, for any account. */
export const adminUsageParameters = usageParameters.extend({
  by: z
    .enum(['day', 'model', 'key', 'channel', 'account'], 'It takes day, model, key, channel or account.')
    .default('day'),
  account: name.optional(),
})

type Parameters = z.infer<typeof adminUsageParameters>

const sums = {
  calls: z.int().describe('Every call that has ended, refusals included.'),
  errors: z.int().describe('Of these: refused, without an answer, or broken off by the provider.'),
  input_tokens: z.int(),
  output_tokens: z.int(),
  cost: z.string().describe('What the provider’s price makes of it, US dollars, an exact decimal string.'),
  charged: z.string().describe('What of the cost the account has paid.'),
}

export const usageSchema = z.object({
  object: z.literal('usage'),
  from: z.string().describe('The first UTC day.'),
  to: z.string().describe('The last UTC day.'),
  by: z.string(),
  data: z
    .array(
      z.object({
        day: z.string(),
        group: z
          .string()
          .describe(
            'The model, the id of the key, or the channel; empty for a whole day, and for what has none.',
          ),
        label: z.string().nullable().describe('The name of the key, or the address of the account.'),
        ...sums,
      }),
    )
    .describe('One row for each day and group with calls, by day.'),
  totals: z.object(sums),
})

export type UsageView = z.infer<typeof usageSchema>

/** The usage of an account, as far as the viewer may see it, by the query parameters. Throws `invalid_request`. */
export function accountUsage(
  { usage, accounts, now }: Pick<HttpParts, 'usage' | 'accounts' | 'now'>,
  viewer: Viewer,
  request: Request,
): Promise<UsageView> {
  const query = { ...usageQuery(queryOf(usageParameters, request), now()), ...viewer }
  return usageView(usage, query, (by, group) => labelIn(accounts, by, group))
}

/** The display name of a key or an account. */
export async function labelIn(
  accounts: Pick<HttpParts['accounts'], 'findKey' | 'findAccount'>,
  by: UsageGroup,
  group: string,
): Promise<string | null> {
  if (by === 'key') return (await accounts.findKey(group))?.name ?? null
  if (by === 'account') return (await accounts.findAccount(group))?.email ?? null
  return null
}

/** The requested days; the last 30 by default. Throws `invalid_request` for a wrong order or too many. */
export function usageQuery({ from, to, ...rest }: Parameters, now: number): UsageQuery {
  const last = to === undefined ? startOfDay(now) : Date.parse(to)
  const first = from === undefined ? last - (defaultDays - 1) * dayMs : Date.parse(from)
  if (first > last) throw wrongDays('from', 'from must not be after to.')
  if (last - first >= mostDays * dayMs)
    throw wrongDays('from', `from and to may be at most ${mostDays} days apart.`)
  return { ...rest, from: first, until: last + dayMs }
}

function wrongDays(param: string, message: string): GatewayError {
  return new GatewayError('invalid_request', { message, param })
}

/** `labelOf` gives the display name of a group. */
export async function usageView(
  reader: UsageReader,
  query: UsageQuery,
  labelOf: (by: UsageGroup, group: string) => Promise<string | null>,
): Promise<UsageView> {
  const rows = await reader.usage(query)
  const labels = new Map<string, string | null>()
  for (const { group } of rows)
    if (!labels.has(group)) labels.set(group, group === '' ? null : await labelOf(query.by, group))
  return {
    object: 'usage',
    from: isoDay(query.from),
    to: isoDay(query.until - dayMs),
    by: query.by,
    data: rows.map((row) => ({
      day: isoDay(row.day),
      group: row.group,
      label: labels.get(row.group) ?? null,
      ...figures(row),
    })),
    totals: figures(total(rows)),
  }
}

type Figures = Omit<UsageSum, 'day' | 'group'>

function figures(sum: Figures) {
  return {
    calls: sum.calls,
    errors: sum.errors,
    input_tokens: sum.inputTokens,
    output_tokens: sum.outputTokens,
    cost: formatUsd(sum.cost),
    charged: formatUsd(sum.charged),
  }
}

function total(rows: readonly Figures[]): Figures {
  const sum = { calls: 0, errors: 0, inputTokens: 0, outputTokens: 0, cost: 0n, charged: 0n }
  for (const row of rows) {
    sum.calls += row.calls
    sum.errors += row.errors
    sum.inputTokens += row.inputTokens
    sum.outputTokens += row.outputTokens
    sum.cost += row.cost
    sum.charged += row.charged
  }
  return sum
}

function isoDay(at: number): string {
  return Number.isNaN(at) ? '' : new Date(at).toISOString().slice(0, 10)
}

const columns = [
  'day',
  'group',
  'label',
  'calls',
  'errors',
  'input_tokens',
  'output_tokens',
  'cost',
  'charged',
] as const

/** The same rows as the JSON, with the same digits. */
export function usageCsv({ data }: Pick<UsageView, 'data'>): string {
  return csvOf(columns, data)
}

/** As a file to save. */
export function csvResponse(csv: string | ReadableStream<Uint8Array>, file: string): Response {
  return new Response(csv, {
    headers: {
      'content-type': 'text/csv; charset=utf-8',
      'content-disposition': `attachment; filename="${file}"`,
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
    },
  })
}
