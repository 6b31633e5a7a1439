// `weir credits statement`: an account's credit and usage of a month, as a table, CSV or a page to print.

import { formatCreditLine } from '../../../credits/balance.ts'
import {
  type HistoryEntry,
  MonthlySums,
  monthNamed,
  netOf,
  type StatementEntry,
} from '../../../credits/ledger/monthly.ts'
import { formatUsd } from '../../../credits/money.ts'
import { csvOf } from '../../../text/csv.ts'
import { type Context, type Invocation, print, table, usageFault } from '../../context.ts'
import { accountOf, withStore } from '../../with-store.ts'

interface StatementView {
  readonly account: string
  readonly email: string
  readonly month: string
  readonly currency: 'USD'
  /** The account's credit before the month and after it, in all pools, less its debt. */
  readonly opening: string
  readonly closing: string
  /** The debt at the end of the month, and the current credit line. */
  readonly owed: string
  readonly credit_line: string | null
  /** By kind of entry; opening and these add up to closing. */
  readonly totals: Readonly<Record<string, string>>
  readonly entries: readonly HistoryView[]
}

export async function monthlyStatement(context: Context, invocation: Invocation): Promise<void> {
  const name = invocation.option('month') ?? new Date(context.io.clock()).toISOString().slice(0, 7)
  const month = monthNamed(name)
  if (month === undefined)
    throw usageFault(`--month takes a month such as 2026-11, not ${JSON.stringify(name)}`)
  const [csv, html] = [invocation.flag('csv'), invocation.flag('html')]
  if ([csv, html, context.json].filter(Boolean).length > 1)
    throw usageFault('a statement is --csv, --html or --json')
  const view = await withStore(context, async (store): Promise<StatementView> => {
    const account = await accountOf(store, invocation.option('account') ?? '')
    const [sums, entries] = [new MonthlySums(), [] as StatementEntry[]]
    const { opening, closing } = await store.statements.span(account.id, month, (entry) => {
      sums.add(entry)
      entries.push(entry)
    })
    let balance = netOf(opening)
    const lines = entries.toReversed().map((entry) => ({ ...entry, balance: (balance += entry.amount) }))
    const { creditLine } = await store.ledger.balance(account.id)
    return {
      account: account.id,
      email: account.email,
      month: name,
      currency: 'USD',
      opening: formatUsd(netOf(opening)),
      closing: formatUsd(netOf(closing)),
      owed: formatUsd(closing.owed),
      credit_line: formatCreditLine(creditLine),
      totals: Object.fromEntries(sums.kinds.map((movement) => [movement.kind, formatUsd(netOf(movement))])),
      entries: historyView(lines),
    }
  })
  const text = csv ? historyCsv(view.entries) : html ? page(view) : renderStatement(view)
  print(context, { json: view, text })
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

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}

// An account's statement from the journal, as a table, CSV or JSON.

interface HistoryView {
  readonly at: string
  readonly transaction: number
  readonly kind: HistoryEntry['kind']
  readonly pool: HistoryEntry['pool']
  readonly usd: string
  readonly balance: string
  readonly lot: string | null
  readonly call: string | null
  readonly model: string | null
  readonly source: string | null
}

/** Amounts as decimal strings of US dollars, moments as ISO text. */
export function historyView(entries: readonly HistoryEntry[]): HistoryView[] {
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
export function historyCsv(history: readonly HistoryView[]): string {
  return csvOf(columns, history).slice(0, -'\r\n'.length)
}

export function renderHistory(history: readonly HistoryView[]): string {
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
