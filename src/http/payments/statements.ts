// The monthly statement for an account and for operators: sums by day, receipts of payments, and a file of all
// entries.

import type { Account } from '../../accounts/account.ts'
import type { Group } from '../../accounts/group.ts'
import { groupTag } from '../../conversation/request.ts'
import {
  type Month,
  MonthlySums,
  monthNamed,
  type Movement,
  netOf,
  type StatementBalance,
  type StatementSum,
} from '../../credits/ledger/monthly.ts'
import { formatUsd } from '../../credits/money.ts'
import { formatCreditLine } from '../../credits/wallet.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { UsageFigures, UsageGroup } from '../../observe/call-log.ts'
import { processorIds } from '../../payments/top-up.ts'
import { accountNamed } from '../admin/accounts.ts'
import { historyCsv } from '../console/credits.ts'
import { type AdminRoute, adminRoute, type ConsoleRoute, iso, ownRoute } from '../console/route.ts'
import { whileOpen } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import { csvResponse } from '../v1/usage.ts'
import type { GroupStatementView, StatementView } from './answers.ts'
import { viewOf } from './top-ups.ts'

type StatementParts = Pick<HttpParts, 'statements' | 'ledger' | 'paymentStore' | 'now'>

export const statementRoutes: readonly ConsoleRoute[] = [
  ownRoute(
    'GET credits/statements/:month',
    { summary: 'The statement of a month, such as 2026-11' },
    async ({ parts, account, params, request }) => {
      const month = askedMonth(params)
      return {
        data: await whileOpen(parts, request, () => statementOf(parts, account, month, request.signal)),
      }
    },
  ),
  ownRoute(
    'GET credits/statements/:month/entries.csv',
    { summary: 'Every entry of a month, the newest first, as a file' },
    ({ parts, account, params, request }) => entriesFile(parts, request, account, askedMonth(params)),
  ),
]

export const adminStatementRoutes: readonly AdminRoute[] = [
  adminRoute(
    'GET accounts/:account/statements/:month',
    {
      id: 'getStatement',
      summary: 'Get the statement of an account for a month, such as 2026-11',
      description:
        'Opening and every movement are closing, to the last digit. Months are those of UTC; the one that runs ends now.',
    },
    async (given) => {
      const month = askedMonth(given.params)
      const account = await accountNamed(given)
      return {
        data: await whileOpen(given.parts, given.request, () =>
          statementOf(given.parts, account, month, given.request.signal),
        ),
      }
    },
  ),
  adminRoute(
    'GET accounts/:account/statements/:month/entries.csv',
    {
      id: 'getStatementEntries',
      summary: 'Get every entry of an account in a month, the newest first, as a file',
    },
    async (given) => {
      const month = askedMonth(given.params)
      return entriesFile(given.parts, given.request, await accountNamed(given), month)
    },
  ),
]

function askedMonth({ month: name = '' }: Readonly<Record<string, string>>): Month {
  const month = monthNamed(name)
  if (month !== undefined) return month
  const message = 'month takes a month such as 2026-11.'
  throw new GatewayError('invalid_request', { message, param: 'month' })
}

/** An account's statement for a month. Amounts are decimal strings of US dollars. */
export async function statementOf(
  { statements, ledger, paymentStore, now }: StatementParts,
  account: Pick<Account, 'id' | 'email'>,
  month: Month,
  signal?: AbortSignal,
): Promise<StatementView> {
  const { from, to } = month
  const found = await statements.sums({ account: account.id, from, to }, signal)
  const { opening, closing } = found
  const sums = new MonthlySums()
  for (const sum of found.sums) sums.add(sum)
  const payments = found.sums.filter(isPayment)
  const receipts = await Promise.all(payments.map((entry) => receiptOf(paymentStore, entry)))
  return {
    account: account.id,
    email: account.email,
    month: month.name,
    complete: month.to <= now(),
    currency: 'USD',
    opening: standingView(opening),
    closing: standingView(closing),
    credit_line: formatCreditLine((await ledger.balance(account.id)).creditLine),
    totals: sums.kinds.map(({ kind, ...movement }) => ({ kind, ...movementView(movement) })),
    days: sums.days.map(({ day, kind, pool, ...movement }) => ({
      day,
      kind,
      pool,
      ...movementView(movement),
    })),
    receipts,
  }
}

const fromPayment = /^payment:([a-z]+):(.+)$/
/** The period of a plan that a top-up has paid for (plans.ts). */
const fromPlan = /^subscription:weir\.plan:(topup_[0-9a-f]+):/

function isPayment({ kind, source }: StatementSum): boolean {
  return kind === 'grant' && source !== null && (fromPayment.test(source) || fromPlan.test(source))
}

/** The receipt of the entry that credited it, since a statement shows the journal's figures. */
async function receiptOf(paymentStore: HttpParts['paymentStore'], { source, amount, lot, at }: StatementSum) {
  const [, processor = '', paymentId = ''] = fromPayment.exec(source ?? '') ?? []
  const known = processorIds.find((id) => id === processor)
  const plan = fromPlan.exec(source ?? '')?.[1]
  const topUp =
    plan === undefined
      ? known && (await paymentStore.findByPayment(known, paymentId))
      : await paymentStore.findTopUp(plan)
  const view = topUp === undefined ? undefined : viewOf(topUp)
  return {
    receipt: view?.receipt ?? null,
    top_up: view?.id ?? null,
    payment_id: view?.payment_id ?? paymentId,
    amount: view?.amount ?? null,
    currency: view?.currency ?? null,
    rate: view?.rate ?? null,
    plan: view?.plan?.title ?? null,
    refunded: view?.refunded ?? null,
    credit_usd: formatUsd(amount),
    lot: lot ?? '',
    credited_at: iso(at),
  }
}

function standingView(standing: StatementBalance) {
  const { credit, owed } = standing
  return { credit: formatUsd(credit), owed: formatUsd(owed), balance: formatUsd(netOf(standing)) }
}

function movementView(movement: Movement) {
  return { ...standingView(movement), entries: movement.entries }
}

/** An account that has done little in a long journal may wait for its first line. */
function entriesFile(
  { statements, closeWhenIdle }: StatementParts & Pick<HttpParts, 'closeWhenIdle'>,
  request: Request,
  { id }: Pick<Account, 'id'>,
  { name, from, to }: Month,
): Response {
  closeWhenIdle(request)
  return csvResponse(historyCsv({ statements }, id, { from, to }), `credits-${name}.csv`)
}

// The monthly statement of a group: who has spent what in it, and where it has credit of its own, what came of that.

type Parts = Pick<HttpParts, 'statements' | 'ledger' | 'paymentStore' | 'now' | 'usage' | 'groups'>

/** People, keys or models that a statement names; what the others came to is one more row. */
const mostRows = 1_000

export const groupStatementRoutes: readonly AdminRoute[] = [
  adminRoute(
    'GET groups/:group/statements/:month',
    {
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
    'GET groups/:group/statements/:month/spending.csv',
    {
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
    'GET groups/:group/statements/:month/entries.csv',
    {
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
