// `weir credits statement`: what a month has brought to an account and what it has used, as a table, CSV or a page to print.

import { formatUsd, type Pico } from '../../../credits/money.ts'
import { CommandFailure, type Context, type Invocation, print, usageFault } from '../../context.ts'
import { accountOf, withStore } from '../../with-store.ts'
import { type HistoryView, historyCsv, historyView, renderHistory } from './history.ts'

interface StatementView {
  readonly account: string
  readonly email: string
  readonly month: string
  readonly currency: 'USD'
  /** What the account had before the month and has after it, all pools, less what it owes. */
  readonly opening: string
  readonly closing: string
  /** By kind of entry; opening and all of them are closing. */
  readonly totals: Readonly<Record<string, string>>
  readonly entries: readonly HistoryView[]
}

export async function monthlyStatement(context: Context, invocation: Invocation): Promise<void> {
  const month = invocation.option('month') ?? new Date(context.io.clock()).toISOString().slice(0, 7)
  const from = /^\d{4}-(0[1-9]|1[0-2])$/.test(month) ? Date.parse(`${month}-01`) : Number.NaN
  if (Number.isNaN(from))
    throw usageFault(`--month takes a month such as 2026-11, not ${JSON.stringify(month)}`)
  const begins = new Date(from)
  const to = Date.UTC(begins.getUTCFullYear(), begins.getUTCMonth() + 1)
  const [csv, html] = [invocation.flag('csv'), invocation.flag('html')]
  if (csv && html) throw usageFault('a statement is either --csv or --html')
  const view = await withStore(context, async (store): Promise<StatementView> => {
    const account = await accountOf(store, invocation.option('account') ?? '')
    const history = await store.books.history(account.id)
    const opening = history.findLast(({ at }) => at < from)?.balance ?? 0n
    const closing = history.findLast(({ at }) => at < to)?.balance ?? 0n
    const entries = history.filter(({ at }) => at >= from && at < to)
    const totals = new Map<string, Pico>()
    for (const { kind, amount } of entries) totals.set(kind, (totals.get(kind) ?? 0n) + amount)
    if ([...totals.values()].reduce((sum, amount) => sum + amount, opening) !== closing)
      throw new CommandFailure('the entries of the month do not add up: weir ledger audit')
    return {
      account: account.id,
      email: account.email,
      month,
      currency: 'USD',
      opening: formatUsd(opening),
      closing: formatUsd(closing),
      totals: Object.fromEntries([...totals].map(([kind, amount]) => [kind, formatUsd(amount)])),
      entries: historyView(entries),
    }
  })
  const text = csv ? historyCsv(view.entries) : html ? page(view) : rendered(view)
  print(context, { json: view, text })
}

function rendered(view: StatementView): string {
  const totals = Object.entries(view.totals).map(([kind, amount]) => `${kind} ${amount}`)
  const sums = [`opening ${view.opening}`, ...totals, `closing ${view.closing}`].join(', ')
  return `${view.email}, ${view.month}, US dollars: ${sums}\n\n${renderHistory(view.entries)}`
}

/** A page of its own, without scripts or anything from elsewhere, for a browser to print. */
function page(view: StatementView): string {
  const cells = (values: readonly string[], tag = 'td') =>
    `<tr>${values.map((value) => `<${tag}>${escaped(value)}</${tag}>`).join('')}</tr>`
  const totals = Object.entries(view.totals).map(([kind, amount]) => cells([kind, amount]))
  const entries = view.entries.map(({ at, kind, pool, usd, balance, call, source, lot }) =>
    cells([at, kind, pool, usd, balance, call ?? source ?? lot ?? 'debt']),
  )
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Statement ${escaped(view.month)}, ${escaped(view.email)}</title>
<style>
  body { font: 12px/1.5 system-ui, sans-serif; margin: 2em; color: #111 }
  table { border-collapse: collapse; width: 100%; margin: 1em 0 }
  th, td { text-align: left; padding: 2px 8px; border-bottom: 1px solid #ddd; font-variant-numeric: tabular-nums }
  thead { display: table-header-group } tr { break-inside: avoid }
</style>
<h1>Statement for ${escaped(view.month)}</h1>
<p>${escaped(view.email)} (${escaped(view.account)}). Amounts in US dollars; what is owed is negative.</p>
<table><tbody>${cells(['Opening', view.opening])}${totals.join('')}${cells(['Closing', view.closing])}</tbody></table>
<table><thead>${cells(['When', 'What', 'Pool', 'USD', 'Balance', 'For'], 'th')}</thead><tbody>${entries.join('\n')}</tbody></table>
</html>`
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}
