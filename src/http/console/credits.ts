// The credit of an account in the console: the balance, what it can pay for now, and its history.

import { z } from 'zod'
import type { StatementEntry } from '../../credits/ledger/monthly.ts'
import { formatCreditLine, freeIn } from '../../credits/wallet.ts'
import { dayMs, startOfDay } from '../../credits/calendar.ts'
import type { LotBalance } from '../../credits/ledger/ledger.ts'
import { formatUsd, type Pico } from '../../credits/money.ts'
import { fundingOf, pools, rulesOf } from '../../credits/pool.ts'
import { csvLines } from '../../text/text.ts'
import { type Notice, noticesOf } from '../../notify/watch.ts'
import { queryOf } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import { csvResponse } from '../v1/usage.ts'
import { type ConsoleRoute, iso, isoOrNull, ownRoute } from './route.ts'
import type { CreditsView, HistoryEntryView, NoticeView } from './answers.ts'

export const creditRoutes: readonly ConsoleRoute[] = [
  ownRoute(
    'GET credits',
    { summary: 'The credit of the account, by pool and lot' },
    async ({ parts, account }) => {
      await parts.freeCredit.ensure(account)
      return { data: await creditView(parts, account.id) }
    },
  ),
  ownRoute(
    'GET credits/history',
    { summary: 'How its credit came and went, the newest first' },
    async ({ parts, account, request }) => {
      const { cursor, limit } = queryOf(pageParameters, request)
      const page = await parts.statements.page(account.id, limit, cursor)
      return {
        data: page.entries.map(entryView),
        has_more: page.next !== null,
        next_cursor: page.next === null ? null : String(page.next),
      }
    },
  ),
  ownRoute(
    'GET credits/history.csv',
    { summary: 'The same as a file, all of it' },
    ({ parts, account, request }) => {
      queryOf(z.strictObject({}), request)
      // An account that has done little in a long journal may wait for its first line.
      parts.closeWhenIdle(request)
      return csvResponse(historyCsv(parts, account.id), 'credits.csv')
    },
  ),
]

const whole = (most: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/, 'It takes a whole number.')
    .transform(Number)
    .pipe(z.number().min(1).max(most))

const pageParameters = z.strictObject({
  cursor: whole(Number.MAX_SAFE_INTEGER).optional(),
  limit: whole(200).default(50),
})

/** The current credit. Amounts are decimal strings of US dollars. */
export async function creditView(
  { ledger, now, thresholds }: HttpParts,
  account: string,
): Promise<CreditsView> {
  const at = now()
  const [balance, totals] = [await ledger.balance(account), await ledger.totals(account)]
  const living = balance.lots.filter(({ expiresAt }) => expiresAt === null || expiresAt > at)
  return {
    currency: 'USD',
    held: formatUsd(sum(balance.lots, 'pinned')),
    debt: formatUsd(balance.debt),
    credit_line: formatCreditLine(balance.creditLine),
    spendable: {
      api: formatUsd(freeIn(balance, fundingOf('api', true), at)),
      app: formatUsd(freeIn(balance, fundingOf('app', true), at)),
    },
    pools: pools.map((type) => {
      const lots = living.filter(({ pool }) => pool === type)
      return {
        type,
        remaining: formatUsd(sum(lots, 'remaining')),
        held: formatUsd(sum(lots, 'pinned')),
        api_spendable: rulesOf(type).api,
        resets_at: rulesOf(type).life === 'day' ? iso(startOfDay(at) + dayMs) : null,
      }
    }),
    lots: living.map((lot) => ({
      id: lot.id,
      pool: lot.pool,
      amount: formatUsd(lot.granted),
      remaining: formatUsd(lot.remaining),
      held: formatUsd(lot.pinned),
      granted_at: iso(lot.grantedAt),
      expires_at: isoOrNull(lot.expiresAt),
    })),
    notices: noticesOf(balance, totals.purchased, at, thresholds).map(noticeView),
    total_purchased: formatUsd(totals.purchased),
    total_used: formatUsd(totals.used),
  }
}

function noticeView(notice: Notice): NoticeView {
  if (notice.kind === 'balance_low') {
    const { kind, available, threshold } = notice
    return { kind, available: formatUsd(available), threshold: formatUsd(threshold) }
  }
  const { kind, lot, remaining, expiresAt } = notice
  return { kind, lot, remaining: formatUsd(remaining), expires_at: iso(expiresAt) }
}

function sum(lots: readonly LotBalance[], part: 'remaining' | 'pinned'): Pico {
  return lots.reduce((total, lot) => total + lot[part], 0n)
}

function entryView(entry: StatementEntry): HistoryEntryView {
  return {
    at: iso(entry.at),
    kind: entry.kind,
    pool: entry.pool,
    amount: formatUsd(entry.amount),
    lot: entry.lot,
    call: entry.call,
    model: entry.model,
    note: entry.source,
  }
}

const columns = ['at', 'kind', 'pool', 'amount', 'lot', 'call', 'model', 'note'] as const
/** Lines per read. */
const linesAtOnce = 200

/** All entries of the account, newest first, optionally of a time span. */
export function historyCsv(
  { statements }: Pick<HttpParts, 'statements'>,
  account: string,
  within?: { readonly from: number; readonly to: number },
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  let text = `${columns.join(',')}\r\n`
  let before: number | null | undefined
  return new ReadableStream({
    async start() {
      if (within !== undefined) before = await statements.firstSince(account, within.to)
    },
    async pull(controller) {
      // Pages before the last may be empty.
      while (text === '' && before !== null) {
        const page = await statements.page(account, linesAtOnce, before, within?.from)
        text = csvLines(columns, page.entries.map(entryView))
        before = page.next
      }
      if (text === '') controller.close()
      else controller.enqueue(encoder.encode(text))
      text = ''
    },
  })
}
