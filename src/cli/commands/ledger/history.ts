// An account's statement from the journal, as a table, CSV or JSON.

import type { HistoryEntry } from '../../../credits/ledger/statements.ts'
import { formatUsd } from '../../../credits/money.ts'
import { csvOf } from '../../../csv.ts'
import { table } from '../../context.ts'

export interface HistoryView {
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
