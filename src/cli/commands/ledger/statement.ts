// `weir credits statement`: an account's credit and usage of a month, as a table, CSV or a page to print.

import { formatCreditLine } from '../../../credits/credit-line.ts'
import { MonthlySums, monthNamed, netOf } from '../../../credits/ledger/monthly.ts'
import type { StatementEntry } from '../../../credits/ledger/statements.ts'
import { formatUsd } from '../../../credits/money.ts'
import { type Context, type Invocation, print, usageFault } from '../../context.ts'
import { accountOf, withStore } from '../../with-store.ts'
import { type HistoryView, historyCsv, historyView, renderHistory } from './history.ts'

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
