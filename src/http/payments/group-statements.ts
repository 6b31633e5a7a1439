// The monthly statement of a group: who has spent what in it, and where it has credit of its own, what came of that.

import type { Group } from '../../accounts/group.ts'
import { groupTag } from '../../conversation/tags.ts'
import type { Month } from '../../credits/ledger/monthly.ts'
import { formatUsd } from '../../credits/money.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { UsageFigures, UsageGroup } from '../../observe/call-log.ts'
import { type AdminRoute, adminRoute } from '../console/route.ts'
import { whileOpen } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import { csvResponse } from '../v1/usage.ts'
import type { GroupStatementView } from './answers.ts'
import { askedMonth, entriesFile, statementOf } from './statements.ts'

type Parts = Pick<HttpParts, 'statements' | 'ledger' | 'paymentStore' | 'now' | 'usage' | 'groups'>

/** People, keys or models that a statement names; what the others came to is one more row. */
const mostRows = 1_000

export const groupStatementRoutes: readonly AdminRoute[] = [
  adminRoute(
    {
      method: 'GET',
      path: 'groups/:group/statements/:month',
      id: 'getGroupStatement',
      summary: 'Get the statement of a group for a month, such as 2026-11',
      description:
        'What the calls of its keys came to, by person, key, model and day: each of these adds up to `spent`. `credit` is that of the group, as of an account; null where its members pay. Groups in it have statements of their own. Months are those of UTC; the one that runs ends now.',
    },
    async ({ parts, params, request }) => {
      const month = askedMonth(params)
      const group = await groupNamed(parts, params)
      return { data: await whileOpen(parts, request, () => groupStatementOf(parts, group, month)) }
    },
  ),
  adminRoute(
    {
      method: 'GET',
      path: 'groups/:group/statements/:month/spending.csv',
      id: 'getGroupSpending',
      summary: 'Get what was spent in a group in a month as a file, by day and person',
    },
    async ({ parts, params, request }) => {
      const { name, from, to } = askedMonth(params)
      const group = await groupNamed(parts, params)
      const query = { from, until: to, by: 'account', tag: { name: groupTag, value: group.id } } as const
      return csvResponse(fileOf(parts.usage.csv(query, request.signal)), `group-${name}.csv`)
    },
  ),
  adminRoute(
    {
      method: 'GET',
      path: 'groups/:group/statements/:month/entries.csv',
      id: 'getGroupStatementEntries',
      summary: 'Get every entry of the credit of a group in a month, the newest first, as a file',
    },
    async ({ parts, params, request }) =>
      entriesFile(parts, request, await groupNamed(parts, params), askedMonth(params)),
  ),
]

async function groupNamed(
  { groups }: Pick<Parts, 'groups'>,
  { group: id = '' }: Readonly<Record<string, string>>,
): Promise<Group> {
  const group = await groups.findGroup(id)
  if (group) return group
  throw new GatewayError('not_found')
}

function fileOf(pieces: AsyncIterable<string>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  const iterator = pieces[Symbol.asyncIterator]()
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const next = await iterator.next()
        if (next.done) controller.close()
        else controller.enqueue(encoder.encode(next.value))
      },
      cancel: async () => void (await iterator.return?.()),
    },
    { highWaterMark: 0 },
  )
}

/** A group's statement for a month. Amounts are decimal strings of US dollars. */
export async function groupStatementOf(
  parts: Parts,
  { id, name }: Pick<Group, 'id' | 'name'>,
  month: Month,
): Promise<GroupStatementView> {
  const tag = { name: groupTag, value: id }
  const usageBy = async (by: UsageGroup) => {
    const query = { from: month.from, until: month.to, by, tag, per: by === 'day' ? 'day' : 'month' } as const
    return parts.usage.report(query, mostRows)
  }
  const rows = async (by: UsageGroup) => {
    const report = await usageBy(by)
    const named = report.rows.map(({ group, label, ...figures }) => ({
      id: group,
      label,
      ...figuresOf(figures),
    }))
    const others =
      report.rest?.days.map((figures) => ({ id: null, label: null, ...figuresOf(figures) })) ?? []
    return [...named, ...others]
  }
  const ofDays = await usageBy('day')
  const hasCredit = await parts.groups.hasCredit(id)
  const credit = hasCredit ? await statementOf(parts, { id, email: '' }, month) : null
  return {
    group: id,
    name,
    month: month.name,
    complete: month.to <= parts.now(),
    currency: 'USD',
    spent: figuresOf(ofDays.totals),
    people: await rows('account'),
    keys: await rows('key'),
    models: await rows('model'),
    days: ofDays.rows.map(({ day, ...figures }) => ({
      day: new Date(day).toISOString().slice(0, 10),
      ...figuresOf(figures),
    })),
    credit: credit && {
      opening: credit.opening,
      closing: credit.closing,
      totals: credit.totals,
      days: credit.days,
    },
  }
}

function figuresOf({ calls, errors, inputTokens, outputTokens, cost, charged }: UsageFigures) {
  return {
    calls,
    errors,
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    cost_usd: formatUsd(cost),
    charged_usd: formatUsd(charged),
  }
}
