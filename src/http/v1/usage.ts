// GET /v1/usage: the account's usage by day and by a chosen dimension, as JSON or CSV.

import { z } from 'zod'
import type { Viewer } from '../../accounts/account.ts'
import { groupTag, tagsOf, userTag } from '../../conversation/request.ts'
import { dayMs, startOfDay, startOfMonth } from '../../credits/calendar.ts'
import type { LedgerStore } from '../../credits/ledger/ledger.ts'
import { receiptOf } from '../../credits/ledger/receipt.ts'
import { formatUsd } from '../../credits/money.ts'
import { GatewayError } from '../../errors/errors.ts'
import {
  averageMs,
  type LoggedRequest,
  type RequestPage,
  type RequestPlace,
  type SeenCalls,
  type UsageFigures,
  type UsageGroup,
  type UsageOfDay,
  type UsageQuery,
  type UsageReader,
  type UsageReport,
} from '../../observe/call-log.ts'
import { queryOf, whileOpen } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'

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
    tags: tagsOf(row.tags),
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

const defaultDays = 30
const mostDays = 366
const defaultGroups = 100
const mostGroups = 1_000
/** Of one answer: groups that find no place are with the rest. */
const mostRows = 10_000

const date = z
  .string()
  .regex(/^\d{4}-\d\d-\d\d$/, 'It takes a UTC date such as 2027-01-31.')
  .refine((text) => isoDay(Date.parse(text)) === text, 'There is no such day.')
const name = z.string().max(200, 'It has at most 200 characters.')

const groups = ['day', 'model', 'key', 'channel', 'user', 'group'] as const
/** By the values of one tag. */
const tagGroup = z.templateLiteral(['tag:', z.string().min(1).max(64)])
const asTag = (text: string) => {
  const at = text.indexOf('=')
  return { name: text.slice(0, at), value: text.slice(at + 1) }
}
/** Only calls with a tag. */
export const tagFilter = z
  .string()
  .max(600, 'It has at most 600 characters.')
  .regex(/^[^=]+=./, 'It takes a tag such as feature=chat.')
  .transform(asTag)

/** `from` and `to` are both included. */
export const usageParameters = z.strictObject({
  from: date.optional(),
  to: date.optional(),
  by: z
    .union([z.enum(groups), tagGroup], 'It takes day, model, key, channel, user, group or tag:NAME.')
    .default('day'),
  per: z
    .enum(['day', 'month'], 'It takes day or month.')
    .default('day')
    .describe('Whether a row is of a day or of a calendar month, in UTC.'),
  tag: tagFilter.optional().describe('Only calls with this tag: `feature=chat`.'),
  key: name.optional(),
  model: name.optional(),
  compare: z
    .enum(['before'], 'It takes before.')
    .optional()
    .describe(
      'With `before` the answer says, too, what the groups came to in as many days before: of a calendar month, in the month before.',
    ),
  limit: z
    .string()
    .regex(/^\d{1,4}$/, `It takes a whole number from 1 to ${mostGroups}.`)
    .transform(Number)
    .pipe(z.number().min(1).max(mostGroups))
    .default(defaultGroups)
    .describe(
      'How many groups have rows of their own: those that cost most, and fewer of them where there would be more than ' +
        `${mostRows} rows. CSV has them all.`,
    ),
})

/** The same for operators, for any account. */
export const adminUsageParameters = usageParameters.extend({
  by: z
    .union(
      [z.enum([...groups, 'account', 'provider']), tagGroup],
      'It takes day, model, key, channel, account, provider, user, group or tag:NAME.',
    )
    .default('day'),
  account: name.optional(),
  provider: name
    .optional()
    .describe('Only calls that this provider answered. Not with an account, a key or a tag.'),
})

type Asked = Omit<z.infer<typeof adminUsageParameters>, 'per'> &
  SeenCalls & { readonly per?: 'day' | 'month' | undefined }

const sums = {
  calls: z.int().describe('Every call that has ended, refusals included.'),
  errors: z.int().describe('Of these: refused, without an answer, or broken off by the provider.'),
  input_tokens: z.int(),
  output_tokens: z.int(),
  cost: z.string().describe('What the provider’s price makes of it, US dollars, an exact decimal string.'),
  charged: z.string().describe('What of the cost the account has paid.'),
  average_ms: z
    .int()
    .nullable()
    .describe('How long a call took that was answered, to its last byte. Null where there was none.'),
}

export const usageSchema = z.object({
  object: z.literal('usage'),
  from: z.string().describe('The first UTC day.'),
  to: z.string().describe('The last UTC day.'),
  by: z.string(),
  per: z.enum(['day', 'month']),
  data: z
    .array(
      z.object({
        day: z.string().describe('With `per=month` a month, such as 2027-01.'),
        group: z
          .string()
          .describe(
            'The model, the id of the key or of its group, the channel, the provider, or the value of the tag; empty for a whole day, and for what ' +
              'has none.',
          ),
        label: z
          .string()
          .nullable()
          .describe('The name of the key or the group, or the address of the account.'),
        ...sums,
      }),
    )
    .describe('One row for each day and group with calls, by day. Of the groups that cost most: see `rest`.'),
  totals: z.object(sums).describe('Of all groups.'),
  rest: z
    .object({
      groups: z.int().describe('How many.'),
      data: z.array(z.object({ day: z.string(), ...sums })).describe('What they came to, by day.'),
    })
    .nullable()
    .describe('The groups without rows of their own; null where every group has its rows.'),
  before: z
    .object({
      from: z.string().describe('The first UTC day.'),
      to: z.string().describe('The last UTC day.'),
      totals: z.object(sums),
      data: z
        .array(z.object({ group: z.string(), ...sums }))
        .describe('Of the groups with rows, those that had calls then.'),
    })
    .optional()
    .describe('With `compare=before`.'),
})

export type UsageView = z.infer<typeof usageSchema>

/** The usage of an account, as far as the viewer may see it, by the query parameters. Throws `invalid_request`. */
export function accountUsage(parts: HttpParts, viewer: Viewer, request: Request): Promise<UsageView> {
  return usageAnswer(parts, { ...queryOf(usageParameters, request), ...viewer }, request)
}

/** The same as a file. */
export function accountUsageCsv(parts: HttpParts, viewer: Viewer, request: Request): Promise<Response> {
  return usageFile(parts, { ...queryOf(usageParameters, request), ...viewer }, request)
}

/** The usage that is asked for. It ends with its client. */
export function usageAnswer(parts: HttpParts, asked: Asked, request: Request): Promise<UsageView> {
  const query = usageQuery(asked, parts.now())
  return whileOpen(parts, request, async () => {
    const view = await usageView(parts.usage, query, asked.limit, request.signal)
    if (asked.compare === undefined) return view
    return { ...view, before: await usageBefore(parts.usage, query, view, request.signal) }
  })
}

/** What the groups of a report came to in the time before it. */
async function usageBefore(
  reader: UsageReader,
  query: UsageQuery,
  { data }: UsageView,
  signal: AbortSignal,
): Promise<UsageView['before']> {
  const [from, until] = spanBefore(query)
  const only = [...new Set(data.map(({ group }) => group))]
  const { rows, totals } = await reader.report(
    { ...query, from, until, only },
    Math.max(1, only.length),
    signal,
  )
  const of = new Map<string, UsageFigures>()
  for (const row of rows) of.set(row.group, sumOf(of.get(row.group), row))
  return {
    from: isoDay(from),
    to: isoDay(until - dayMs),
    totals: figures(totals),
    data: query.by === 'day' ? [] : [...of].map(([group, sum]) => ({ group, ...figures(sum) })),
  }
}

/** As many days before; of a month, or its beginning, as much of the month before. */
export function spanBefore({
  from,
  until,
}: Pick<UsageQuery, 'from' | 'until'>): [from: number, until: number] {
  const last = until - dayMs
  if (from !== startOfMonth(from) || startOfMonth(last) !== from) return [from - (until - from), from]
  const before = startOfMonth(from - dayMs)
  const isWhole = startOfMonth(until) === until
  return [before, isWhole ? from : Math.min(from, before + (until - from))]
}

function sumOf(a: UsageFigures | undefined, b: UsageFigures): UsageFigures {
  if (a === undefined) return b
  return {
    calls: a.calls + b.calls,
    errors: a.errors + b.errors,
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    cost: a.cost + b.cost,
    charged: a.charged + b.charged,
    timed: a.timed + b.timed,
    ms: a.ms + b.ms,
  }
}

/** The same as a file: it is made as fast as the client reads it. */
export async function usageFile(parts: HttpParts, asked: Asked, request: Request): Promise<Response> {
  const query = usageQuery(asked, parts.now())
  const pieces = parts.usage.csv(query, request.signal)[Symbol.asyncIterator]()
  // The first piece says whether there is a report at all: a refusal has its status.
  let next = await whileOpen(parts, request, () => pieces.next())
  const encoder = new TextEncoder()
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        if (next.done) {
          controller.close()
          return
        }
        controller.enqueue(encoder.encode(next.value))
        next = await pieces.next()
      },
      async cancel() {
        await pieces.return?.()
      },
    },
    { highWaterMark: 0 },
  )
  return csvResponse(body, `usage-${isoDay(query.from)}-${isoDay(query.until - dayMs)}.csv`)
}

/** The requested days; the last 30 by default. Throws `invalid_request` for a wrong order or too many. */
export function usageQuery(
  { from, to, limit: _, compare: __, by: asked, ...rest }: Omit<Asked, 'limit'> & { readonly limit?: number },
  now: number,
): UsageQuery {
  const by = groupOf(asked)
  const isOfProviders = by.by === 'provider' || rest.provider !== undefined
  if (isOfProviders && (rest.account !== undefined || rest.key !== undefined || rest.tag !== undefined))
    throw wrongly(
      'provider',
      'Usage by provider is of the whole installation: it takes no account, key or tag.',
    )
  if (rest.provider !== undefined && !['day', 'model', 'channel', 'provider'].includes(by.by))
    throw wrongly('by', 'The usage of one provider is by day, model or channel.')
  if (by.tagName !== undefined && rest.tag !== undefined && by.tagName !== rest.tag.name)
    throw wrongly('tag', 'Usage by the values of one tag cannot be of the calls with another.')
  const last = to === undefined ? startOfDay(now) : Date.parse(to)
  const first = from === undefined ? last - (defaultDays - 1) * dayMs : Date.parse(from)
  if (first > last) throw wrongly('from', 'from must not be after to.')
  if (last - first >= mostDays * dayMs)
    throw wrongly('from', `from and to may be at most ${mostDays} days apart.`)
  return { ...rest, ...by, from: first, until: last + dayMs }
}

/** Who a call is made for is a tag, too, and the group of its key is kept like one. */
function groupOf(asked: Asked['by']): Pick<UsageQuery, 'by' | 'tagName'> {
  if (asked === 'user') return { by: 'tag', tagName: userTag }
  if (asked === 'group') return { by: 'tag', tagName: groupTag }
  const name = asked.startsWith('tag:') ? asked.slice('tag:'.length) : undefined
  return name === undefined ? { by: asked as UsageGroup } : { by: 'tag', tagName: name }
}

function groupText({ by, tagName }: UsageQuery): string {
  if (by !== 'tag') return by
  if (tagName === groupTag) return 'group'
  return tagName === userTag ? 'user' : `tag:${tagName}`
}

function wrongly(param: string, message: string): GatewayError {
  return new GatewayError('invalid_request', { message, param })
}

/** The report with rows for at most `limit` groups. */
export async function usageView(
  reader: UsageReader,
  query: UsageQuery,
  limit: number = mostGroups,
  signal?: AbortSignal,
): Promise<UsageView> {
  const days = (query.until - query.from) / (query.per === 'month' ? 28 * dayMs : dayMs)
  const most = Math.max(1, Math.min(limit, Math.floor(mostRows / Math.max(1, days))))
  const { rows, totals, rest } = await reader.report(query, most, signal)
  return {
    object: 'usage',
    from: isoDay(query.from),
    to: isoDay(query.until - dayMs),
    by: groupText(query),
    per: query.per ?? 'day',
    data: rows.map((row) => ({
      day: nameOf(row.day, query),
      group: row.group,
      label: row.label,
      ...figures(row),
    })),
    totals: figures(totals),
    rest: restView(rest, query),
  }
}

function restView(rest: UsageReport['rest'], query: UsageQuery): UsageView['rest'] {
  if (rest === null) return null
  const ofDay = (row: UsageOfDay) => ({ day: nameOf(row.day, query), ...figures(row) })
  return { groups: rest.groups, data: rest.days.map(ofDay) }
}

function figures(sum: UsageFigures) {
  return {
    calls: sum.calls,
    errors: sum.errors,
    input_tokens: sum.inputTokens,
    output_tokens: sum.outputTokens,
    cost: formatUsd(sum.cost),
    charged: formatUsd(sum.charged),
    average_ms: averageMs(sum),
  }
}

/** A day, or a month. */
function nameOf(at: number, { per }: UsageQuery): string {
  return per === 'month' ? isoDay(at).slice(0, 'yyyy-mm'.length) : isoDay(at)
}

function isoDay(at: number): string {
  return Number.isNaN(at) ? '' : new Date(at).toISOString().slice(0, 10)
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
