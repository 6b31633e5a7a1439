// `weir credits grant|show`

import * as acts from '../../http/admin/acts.ts'
import type { Account } from '../../accounts/account.ts'
import { formatCreditLine, freeIn } from '../../credits/wallet.ts'
import { grantMonthly, lifeFault } from '../../credits/calendar.ts'
import type { LedgerReader, LotBalance } from '../../credits/ledger/ledger.ts'
import {
  type HistoryEntry,
  type Month,
  MonthlySums,
  netOf,
  type StatementEntry,
} from '../../credits/ledger/monthly.ts'
import { formatUsd, largestLot, parseUsd, type Pico } from '../../credits/money.ts'
import { fundingOf, type Pool, pools, rulesOf } from '../../credits/pool.ts'
import { recordAct } from '../../http/console/route.ts'
import { csvOf, escapeHtml, plural } from '../../text/text.ts'
import { type Context, type Invocation, isoTime, print, table, usageFault } from '../context.ts'
import { amountOfUsd, endOfGrant, monthOf, oneOf } from '../values.ts'
import type { Store } from '../../store/store.ts'
import { actingOn, commandLineOperator, unlessConflict, withAccount, withStore } from '../with-store.ts'

/**
 * Grants credit. The same --id never grants twice, so that a script may be run again; with another account, amount, pool
 * or end it fails, so that two invoices are not taken for one.
 */
export async function grantCredit(context: Context, invocation: Invocation): Promise<void> {
  const now = context.io.clock()
  const pool = oneOf('--pool', invocation.option('pool') ?? '', pools)
  const amount = amountOfUsd('--usd', invocation.option('usd') ?? '')
  // Without a date the expiry depends on the pool: twelve months, the UTC day, or never.
  const expiresAt = endOfGrant(invocation, now)
  const fault = lifeFault(pool, expiresAt, now)
  if (fault !== undefined) throw usageFault(`--expires: ${fault}`)
  const id = invocation.option('id')
  if (id === '') throw usageFault('--id must not be empty')
  const done = await withAccount(context, invocation, async (store, account) => {
    const wanted = { id, pool, amount, expiresAt, note: null }
    const granted = acts.grantCredit(actingOn(context, store, store), account, wanted)
    const result = await unlessConflict('nothing granted', granted)
    return { account, result, balance: await balanceView(store.ledger, account.id, now) }
  })
  const { account, result, balance } = done
  const json = {
    account: account.id,
    lot: result.lot,
    granted: result.granted,
    pool,
    usd: formatUsd(amount),
    expires_at: lotOf(balance, result.lot)?.expires_at ?? null,
    credits: balance,
  }
  const what = result.granted
    ? `granted ${formatUsd(amount)} USD (${pool}) to ${account.email}`
    : `nothing granted to ${account.email}: this id was used before`
  print(context, { json, text: `${what}\n${renderBalance(balance)}` })
}

/** The balance; with --history also every line of the account's journal, with --csv only those lines. */
export async function showCredit(context: Context, invocation: Invocation): Promise<void> {
  const csv = invocation.flag('csv')
  if (csv && context.json) throw usageFault('--csv and --json are two forms of the same: take one')
  const shown = await withAccount(context, invocation, async (store, account) => {
    if (!account.suspended) await grantMonthly(store.ledger, account)
    const history =
      invocation.flag('history') || csv ? historyView(await store.reports.history(account.id)) : undefined
    return { account, history, balance: await balanceView(store.ledger, account.id, context.io.clock()) }
  })
  const { account, history, balance } = shown
  const text = [
    `${account.email}: ${renderBalance(balance)}`,
    ...(history === undefined ? [] : [renderHistory(history)]),
  ].join('\n\n')
  print(context, {
    json: { account: account.id, ...balance, ...(history === undefined ? {} : { history }) },
    text: csv && history !== undefined ? historyCsv(history) : text,
  })
}

// An account's credit for `weir credits show` and `weir accounts show`, in the format of GET /v1/credits.

type BalanceView = Awaited<ReturnType<typeof balanceView>>

/** Reads the balance as it is at `now`; amounts are decimal strings in US dollars. */
export async function balanceView(ledger: LedgerReader, account: string, now: number) {
  const balance = await ledger.balance(account)
  const { lots, debt } = balance
  const { purchased, used } = await ledger.totals(account)
  const live = lots.filter((lot) => lot.remaining > 0n && (lot.expiresAt === null || lot.expiresAt > now))
  const held = sum(lots.map((lot) => lot.pinned))
  return {
    currency: 'USD' as const,
    /** What API calls could hold now, and what calls from the app could hold. */
    available: formatUsd(freeIn(balance, fundingOf('api', false), now)),
    app_available: formatUsd(freeIn(balance, fundingOf('app', true), now)),
    held: formatUsd(held),
    debt: formatUsd(debt),
    /** How much the account may owe; null if it may not owe anything. */
    credit_line: formatCreditLine(balance.creditLine),
    pools: pools.map((pool) => poolView(pool, live)),
    total_purchased: formatUsd(purchased),
    total_used: formatUsd(used),
  }
}

function poolView(pool: Pool, live: readonly LotBalance[]) {
  const lots = live.filter((lot) => lot.pool === pool)
  return {
    type: pool,
    remaining: formatUsd(sum(lots.map((lot) => lot.remaining))),
    api_spendable: rulesOf(pool).api,
    lots: lots.map(({ id, remaining, expiresAt }) => ({
      id,
      remaining: formatUsd(remaining),
      expires_at: isoTime(expiresAt),
    })),
  }
}

/** A lot of the balance by its id; undefined if it is used up. */
function lotOf(balance: BalanceView, id: string) {
  return balance.pools.flatMap(({ lots }) => lots).find((lot) => lot.id === id)
}

export function renderBalance(balance: BalanceView): string {
  const lots = balance.pools.flatMap(({ type, lots }) =>
    lots.map((lot) => [type, lot.remaining, lot.expires_at ?? 'never', lot.id]),
  )
  const line = balance.credit_line === null ? '' : ` of a line of ${balance.credit_line}`
  const debt = balance.debt === '0' && line === '' ? '' : `, debt ${balance.debt}${line}`
  const heading =
    `available ${balance.available} USD to API calls, ${balance.app_available} in the app, ` +
    `held by calls in flight ${balance.held}${debt}`
  return lots.length === 0
    ? heading
    : `${heading}\n${table(['POOL', 'REMAINING USD', 'EXPIRES', 'LOT'], lots)}`
}

function sum(amounts: readonly Pico[]): Pico {
  return amounts.reduce((total, amount) => total + amount, 0n)
}

// `weir credits refund|adjust|expire|debts`: corrections by an operator, each once for its id and each in the journal.

/** Takes a payment back from its lot; what has been spent of it becomes debt. */
export async function refundCredit(context: Context, invocation: Invocation): Promise<void> {
  const now = context.io.clock()
  const amount = amountOfUsd('--usd', invocation.option('usd') ?? '')
  const id = idOf(invocation)
  const lot = invocation.option('lot') ?? ''
  const done = await withAccount(context, invocation, async (store, account) => {
    const command = { id: `refund:${account.id}:${id}`, account: account.id, lot, amount }
    const result = await unlessConflict('nothing refunded', store.ledger.refund(command))
    const [taken, debt] = [formatUsd(result.taken), formatUsd(result.debt)]
    if (result.refunded)
      await recordAct(actingOn(context, store, {}), 'credits.refund', account.id, null, {
        id: command.id,
        lot,
        taken,
        debt,
      })
    return { account, result, balance: await balanceView(store.ledger, account.id, now) }
  })
  const { account, result, balance } = done
  const json = {
    account: account.id,
    lot,
    refunded: result.refunded,
    taken: formatUsd(result.taken),
    debt: formatUsd(result.debt),
    credits: balance,
  }
  const debt =
    result.debt > 0n
      ? `, ${formatUsd(result.debt)} USD had been spent or held and is owed: free credit repays it first`
      : ''
  const what = result.refunded
    ? `took ${formatUsd(result.taken)} USD back from ${lot}${debt}`
    : 'nothing refunded: this id was used before'
  print(context, { json, text: `${what}\n${account.email}: ${renderBalance(balance)}` })
}

/** Adds credit to a pool, or removes free credit with a negative amount. */
export async function adjustCredit(context: Context, invocation: Invocation): Promise<void> {
  const pool = oneOf('--pool', invocation.option('pool') ?? '', pools)
  const done = await withAccount(context, invocation, async (store, account) => ({
    account,
    ...(await adjustPool(context, invocation, store, account.id, pool)),
  }))
  const { account, adjusted, usd, balance } = done
  const json = { account: account.id, adjusted, pool, usd, credits: balance }
  const what = adjusted ? `adjusted ${pool} by ${usd} USD` : 'nothing adjusted: this id was used before'
  print(context, { json, text: `${what}\n${account.email}: ${renderBalance(balance)}` })
}

/** Adjusts a pool of an account, or of a group, by `--usd`, once for `--id`. */
export async function adjustPool(
  context: Context,
  invocation: Invocation,
  store: Store,
  account: string,
  pool: Pool,
) {
  const amount = signedAmountOfUsd(invocation.option('usd') ?? '')
  const operator = commandLineOperator()
  const command = { id: `adjust:${account}:${idOf(invocation)}`, account, pool, amount, operator }
  const { adjusted } = await unlessConflict('nothing adjusted', store.ledger.adjust(command))
  const balance = await balanceView(store.ledger, account, context.io.clock())
  return { adjusted, usd: formatUsd(amount), balance }
}

function idOf(invocation: Invocation): string {
  const id = invocation.option('id') ?? ''
  if (!/^[\x21-\x7e]{1,200}$/.test(id))
    throw usageFault('--id takes 1 to 200 visible characters without blanks')
  return id
}

function signedAmountOfUsd(text: string): Pico {
  const amount = parseUsd(text)
  if (amount === undefined || amount === 0n || amount > largestLot || amount < -largestLot) {
    throw usageFault(
      `--usd takes US dollars such as 10 or -0.50, not 0 and at most 1000000 either way, not ${JSON.stringify(text)}`,
    )
  }
  return amount
}

/** Books the expiry of every expired lot; a running server does this a few times a minute. */
export async function expireCredit(context: Context): Promise<void> {
  const accounts = await withStore(context, async ({ ledger }) => ledger.expire(context.io.clock()))
  print(context, { json: { accounts }, text: `credit of ${plural(accounts, 'account')} has expired` })
}

/** Accounts that owe something: refunds beyond their credit, until the next top-up. */
export async function listDebts(context: Context): Promise<void> {
  const debts = await withStore(context, async (store) =>
    Promise.all(
      (await store.reports.debts()).map(async ({ account, debt }) => ({
        account,
        email: (await store.accounts.findAccount(account))?.email ?? null,
        debt: formatUsd(debt),
      })),
    ),
  )
  const rows = debts.map(({ account, email, debt }) => [account, email ?? '', debt])
  print(context, {
    json: debts,
    text: rows.length === 0 ? 'no debts' : table(['ACCOUNT', 'EMAIL', 'DEBT USD'], rows),
  })
}

// `weir credits statement`: an account's credit and usage of a month, as a table, CSV or a page to print.

type StatementView = Awaited<ReturnType<typeof statementOf>>

export async function monthlyStatement(context: Context, invocation: Invocation): Promise<void> {
  const month = monthOf(invocation, context.io.clock())
  const [csv, html] = [invocation.flag('csv'), invocation.flag('html')]
  if ([csv, html, context.json].filter(Boolean).length > 1)
    throw usageFault('a statement is --csv, --html or --json')
  const view = await withAccount(context, invocation, (store, account) => statementOf(store, account, month))
  const text = csv ? historyCsv(view.entries) : html ? page(view) : renderStatement(view)
  print(context, { json: view, text })
}

async function statementOf({ statements, ledger }: Store, { id, email }: Account, month: Month) {
  const [sums, entries] = [new MonthlySums(), [] as StatementEntry[]]
  const { opening, closing } = await statements.span(id, month, (entry) => {
    sums.add(entry)
    entries.push(entry)
  })
  let balance = netOf(opening)
  const lines = entries.toReversed().map((entry) => ({ ...entry, balance: (balance += entry.amount) }))
  const { creditLine } = await ledger.balance(id)
  return {
    account: id,
    email,
    month: month.name,
    currency: 'USD' as const,
    /** The account's credit before the month and after it, in all pools, less its debt. */
    opening: formatUsd(netOf(opening)),
    closing: formatUsd(netOf(closing)),
    /** The debt at the end of the month, and the current credit line. */
    owed: formatUsd(closing.owed),
    credit_line: formatCreditLine(creditLine),
    /** By kind of entry; opening and these add up to closing. */
    totals: Object.fromEntries(sums.kinds.map((movement) => [movement.kind, formatUsd(netOf(movement))])),
    entries: historyView(lines),
  }
}

function renderStatement(view: StatementView): string {
  const totals = Object.entries(view.totals).map(([kind, amount]) => `${kind} ${amount}`)
  const sums = [
    `opening ${view.opening}`,
    ...totals,
    `closing ${view.closing}`,
    `owed ${owedText(view)}`,
  ].join(', ')
  return `${view.email}, ${view.month}, US dollars: ${sums}\n\n${renderHistory(view.entries)}`
}

function owedText({ owed, credit_line: line }: StatementView): string {
  return `${owed}${line === null ? '' : ` of a credit line of ${line}`}`
}

/** A self-contained page without scripts, for printing in a browser. */
function page(view: StatementView): string {
  const cells = (values: readonly string[], tag = 'td') =>
    `<tr>${values.map((value) => `<${tag}>${escapeHtml(value)}</${tag}>`).join('')}</tr>`
  const totals = Object.entries(view.totals).map(([kind, amount]) => cells([kind, amount]))
  const entries = view.entries.map(({ at, kind, pool, usd, balance, call, source, lot }) =>
    cells([at, kind, pool, usd, balance, call ?? source ?? lot ?? 'debt']),
  )
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Statement ${escapeHtml(view.month)}, ${escapeHtml(view.email)}</title>
<style>
  body { font: 12px/1.5 system-ui, sans-serif; margin: 2em; color: #111 }
  table { border-collapse: collapse; width: 100%; margin: 1em 0 }
  th, td { text-align: left; padding: 2px 8px; border-bottom: 1px solid #ddd; font-variant-numeric: tabular-nums }
  thead { display: table-header-group } tr { break-inside: avoid }
</style>
<h1>Statement for ${escapeHtml(view.month)}</h1>
<p>${escapeHtml(view.email)} (${escapeHtml(view.account)}). Amounts in US dollars; what is owed is negative.</p>
<table><tbody>${cells(['Opening', view.opening])}${totals.join('')}${cells(['Closing', view.closing])}${cells(['Owed', owedText(view)])}</tbody></table>
<table><thead>${cells(['When', 'What', 'Pool', 'USD', 'Balance', 'For'], 'th')}</thead><tbody>${entries.join('\n')}</tbody></table>
</html>`
}

// An account's statement from the journal, as a table, CSV or JSON.

type HistoryView = ReturnType<typeof historyView>[number]

/** Amounts as decimal strings of US dollars, moments as ISO text. */
function historyView(entries: readonly HistoryEntry[]) {
  return entries.map((entry) => ({
    at: new Date(entry.at).toISOString(),
    transaction: entry.tx,
    kind: entry.kind,
    pool: entry.pool,
    usd: formatUsd(entry.amount),
    balance: formatUsd(entry.balance),
    lot: entry.lot,
    call: entry.call,
    model: entry.model,
    source: entry.source,
  }))
}

const columns = [
  'at',
  'transaction',
  'kind',
  'pool',
  'usd',
  'balance',
  'lot',
  'call',
  'model',
  'source',
] as const

/** As CSV with a heading, without a line break at its end. */
function historyCsv(history: readonly HistoryView[]): string {
  return csvOf(columns, history).slice(0, -'\r\n'.length)
}

function renderHistory(history: readonly HistoryView[]): string {
  if (history.length === 0) return 'no entries'
  return table(
    ['WHEN', 'WHAT', 'POOL', 'USD', 'BALANCE', 'FOR'],
    history.map(({ at, kind, pool, usd, balance, call, model, source, lot }) => [
      at,
      kind,
      pool,
      usd,
      balance,
      call === null ? (source ?? lot ?? 'debt') : `${model} ${call}`,
    ]),
  )
}
