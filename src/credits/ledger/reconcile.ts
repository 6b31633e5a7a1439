// Compares a provider's bill with the ledger, call by call and to the picodollar. Pure.

import type { BookedSum, ProviderCall } from './monthly.ts'
import type { Pico } from '../money.ts'

/** One line of a provider's usage export. */
export interface BilledLine {
  /** The provider's id of its answer; empty if the line has none, such as a monthly fee. */
  readonly upstreamId: string
  readonly cost: Pico
}

/** An id that both sides have with different amounts. */
export interface Drift {
  readonly upstreamId: string
  readonly calls: readonly string[]
  /** Charged plus absorbed: what the ledger expects the provider to bill. */
  readonly booked: Pico
  readonly billed: Pico
  readonly estimated: boolean
}

export interface Reconciliation {
  /** Ids on both sides. Failed attempts are counted separately, because the ledger expects no bill for them. */
  readonly matched: {
    readonly ids: number
    readonly charged: Pico
    readonly absorbed: Pico
    readonly billed: Pico
  }
  /** Attempts that failed here and charged nobody, but were billed. */
  readonly failed: { readonly ids: number; readonly billed: Pico }
  /** Billed, but unknown to the ledger. */
  readonly billedOnly: {
    readonly ids: number
    readonly billed: Pico
    readonly lines: readonly BilledLine[]
  }
  /** In the ledger, but not on the bill. */
  readonly bookedOnly: {
    readonly ids: number
    readonly charged: Pico
    readonly absorbed: Pico
    readonly calls: readonly ProviderCall[]
  }
  readonly drifts: readonly Drift[]
  /** Totals of both sides, and the difference: positive if the provider bills more. */
  readonly billed: Pico
  readonly booked: Pico
  readonly drift: Pico
}

/** Matches by the provider's id. Lines with the same id are added up, and so are calls. */
export function reconcile(calls: readonly ProviderCall[], lines: readonly BilledLine[]): Reconciliation {
  const bill = Map.groupBy(lines, ({ upstreamId }) => upstreamId)
  const books = Map.groupBy(calls, ({ upstreamId }) => upstreamId)
  const matched = { ids: 0, charged: 0n, absorbed: 0n, billed: 0n }
  const failed = { ids: 0, billed: 0n }
  const bookedOnly: ProviderCall[] = []
  const drifts: Drift[] = []
  for (const [upstreamId, ours] of books) {
    const theirs = bill.get(upstreamId)
    const served = ours.filter(({ outcome }) => outcome === 'served')
    if (theirs === undefined) {
      bookedOnly.push(...served)
      continue
    }
    const billed = sum(theirs.map(({ cost }) => cost))
    if (served.length === 0) {
      failed.ids++
      failed.billed += billed
      continue
    }
    const charged = sum(served.map((call) => call.charged))
    const absorbed = sum(served.map((call) => call.absorbed))
    matched.ids++
    matched.charged += charged
    matched.absorbed += absorbed
    matched.billed += billed
    if (billed === charged + absorbed) continue
    drifts.push({
      upstreamId,
      calls: served.map(({ call }) => call),
      booked: charged + absorbed,
      billed,
      estimated: served.some(({ estimated }) => estimated),
    })
  }
  const unknown = [...bill].filter(([upstreamId]) => !books.has(upstreamId))
  const billed = sum(lines.map(({ cost }) => cost))
  const booked = sum(calls.map(({ charged, absorbed }) => charged + absorbed))
  return {
    matched,
    failed,
    billedOnly: {
      ids: unknown.length,
      billed: sum(unknown.flatMap(([, group]) => group.map(({ cost }) => cost))),
      lines: unknown.map(([upstreamId, group]) => ({ upstreamId, cost: sum(group.map(({ cost }) => cost)) })),
    },
    bookedOnly: {
      ids: new Set(bookedOnly.map(({ upstreamId }) => upstreamId)).size,
      charged: sum(bookedOnly.map(({ charged }) => charged)),
      absorbed: sum(bookedOnly.map(({ absorbed }) => absorbed)),
      calls: bookedOnly,
    },
    drifts: drifts.toSorted((a, b) => compare(size(b.billed - b.booked), size(a.billed - a.booked))),
    billed,
    booked,
    drift: billed - booked,
  }
}

function sum(amounts: readonly Pico[]): Pico {
  return amounts.reduce((total, amount) => total + amount, 0n)
}

function size(amount: Pico): Pico {
  return amount < 0n ? -amount : amount
}

function compare(a: Pico, b: Pico): number {
  return a < b ? -1 : a > b ? 1 : 0
}

// An invoice by model and day: sums against sums, and what may explain that they differ.

/** One line of such an invoice. */
export interface InvoiceLine {
  /** As `2026-11-28`, as the provider counts days. */
  readonly day: string
  /** As the provider names it. */
  readonly model: string
  readonly cost: Pico
  /** The last digit that the cost was written with: a cent is 10¹⁰ picodollars. */
  readonly unit: Pico
  /** Tokens of prompts and answers together; null where the line has none. */
  readonly tokens: number | null
}

/** Why an invoice may differ from the books, the most certain first. */
export type Reason =
  | 'rounding'
  | 'another_day'
  | 'not_booked'
  | 'not_billed'
  | 'failed_attempts'
  | 'unpriced'
  | 'tier'
  | 'tokens'
  | 'estimated'
  | 'price'
  | 'unknown'

export interface DayOfModel {
  readonly day: string
  readonly model: string
  readonly billed: Pico
  readonly booked: Pico
  readonly calls: number
  readonly billedTokens: number | null
  readonly bookedTokens: number
  /** By service tier, where others than the standard one served. */
  readonly tiers: Readonly<Record<string, Pico>>
  /** Empty where both sides agree to the picodollar. */
  readonly reasons: readonly Reason[]
}

export interface InvoiceReconciliation {
  /** By day, then by model. */
  readonly days: readonly DayOfModel[]
  readonly billed: Pico
  readonly booked: Pico
  readonly drift: Pico
}

/**
 * Holds an invoice by model and day against the ledger. `names` maps models of the invoice to those of the ledger; others
 * are found by their name, without the date of a snapshot and what stands before a slash.
 */
export function reconcileDays(
  booked: readonly BookedSum[],
  lines: readonly InvoiceLine[],
  names: ReadonlyMap<string, string> = new Map(),
): InvoiceReconciliation {
  const modelOf = modelNames(
    booked.map(({ model }) => model),
    names,
  )
  const bill = Map.groupBy(lines, (line) => `${line.day} ${modelOf(line.model)}`)
  const books = Map.groupBy(booked, (sum) => `${sum.day} ${sum.model}`)
  const cells = [...new Set([...bill.keys(), ...books.keys()])]
    .toSorted()
    .map((name) => cellOf(name, bill.get(name) ?? [], books.get(name) ?? []))
  const shifted = shiftedDays(cells)
  const [billed, bookedInAll] = [sum(lines.map(({ cost }) => cost)), sum(booked.map(({ cost }) => cost))]
  return {
    days: cells.map((cell) => {
      const { slack: _slack, sums: _sums, ...day } = cell
      return { ...day, reasons: reasonsOf(cell, shifted.has(`${cell.day} ${cell.model}`)) }
    }),
    billed,
    booked: bookedInAll,
    drift: billed - bookedInAll,
  }
}

interface Cell extends Omit<DayOfModel, 'reasons'> {
  /** By how much the invoice may be off for the digits that it has. */
  readonly slack: Pico
  readonly sums: readonly BookedSum[]
}

function cellOf(name: string, lines: readonly InvoiceLine[], sums: readonly BookedSum[]): Cell {
  const [day = '', ...model] = name.split(' ')
  const tokens = lines.flatMap((line) => line.tokens ?? [])
  const tiers = sums.some(({ tier }) => tier !== null)
    ? Object.fromEntries(
        [...Map.groupBy(sums, ({ tier }) => tier ?? 'standard')].map(([tier, of]) => [
          tier,
          sum(of.map(({ cost }) => cost)),
        ]),
      )
    : {}
  return {
    day,
    model: model.join(' '),
    billed: sum(lines.map(({ cost }) => cost)),
    booked: sum(sums.map(({ cost }) => cost)),
    calls: sums.reduce((calls, each) => calls + each.calls, 0),
    billedTokens: tokens.length === 0 ? null : tokens.reduce((all, each) => all + each, 0),
    bookedTokens: sums.reduce((all, each) => all + each.tokens, 0),
    tiers,
    slack: sum(lines.map(({ unit }) => (unit + 1n) / 2n)),
    sums,
  }
}

/** Days of a model that differ, while the days in a row agree together: the provider's day begins at another hour. */
function shiftedDays(cells: readonly Cell[]): ReadonlySet<string> {
  const shifted = new Set<string>()
  for (const of of Map.groupBy(cells, ({ model }) => model).values()) {
    let run: Cell[] = []
    for (const cell of of) {
      const last = run.at(-1)
      const follows = last === undefined || Date.parse(cell.day) - Date.parse(last.day) === dayMs
      run = follows && isOff(cell) ? [...run, cell] : isOff(cell) ? [cell] : []
      const [drift, slack] = [
        sum(run.map(({ billed, booked }) => billed - booked)),
        sum(run.map((each) => each.slack)),
      ]
      if (run.length < 2 || size(drift) > slack) continue
      for (const { day, model } of run) shifted.add(`${day} ${model}`)
      run = []
    }
  }
  return shifted
}

const dayMs = 86_400_000

function isOff({ billed, booked, slack }: Cell): boolean {
  return size(billed - booked) > slack
}

function reasonsOf(cell: Cell, isShifted: boolean): readonly Reason[] {
  const { billed, booked, calls, billedTokens, bookedTokens, sums } = cell
  const drift = billed - booked
  if (drift === 0n) return []
  if (!isOff(cell)) return ['rounding']
  if (isShifted) return ['another_day']
  const failed = sums.some((each) => each.failed > 0)
  const unpriced = sums.some((each) => each.unpriced > 0)
  const estimated = sum(sums.map((each) => each.estimatedCost))
  const differs = billedTokens !== null && billedTokens !== bookedTokens
  const found: Reason[] = []
  if (calls === 0) found.push(failed ? 'failed_attempts' : 'not_booked')
  else if (billed === 0n) found.push('not_billed')
  else {
    if (unpriced) found.push('unpriced')
    if (mayBeTier(cell)) found.push('tier')
    if (differs) found.push('tokens')
    if (failed && drift > 0n) found.push('failed_attempts')
    if (estimated > 0n && size(drift) <= estimated) found.push('estimated')
    if (billedTokens !== null && !differs && !unpriced) found.push('price')
  }
  return found.length === 0 ? ['unknown'] : found
}

/** Tiers cost half, or a multiple, of one another: what one of them would make at another's price is the difference. */
const tierFactors = [
  [1n, 2n],
  [2n, 1n],
  [4n, 1n],
  [1n, 4n],
  [5n, 2n],
  [2n, 5n],
  [5n, 1n],
  [1n, 5n],
  [5n, 4n],
  [4n, 5n],
  [7n, 4n],
  [4n, 7n],
] as const

function mayBeTier({ billed, booked, slack, tiers, sums }: Cell): boolean {
  const drift = billed - booked
  const costs = Object.keys(tiers).length === 0 ? [sum(sums.map(({ cost }) => cost))] : Object.values(tiers)
  return costs.some((cost) =>
    tierFactors.some(([over, under]) => size((cost * over) / under - cost - drift) <= slack + 1n),
  )
}

/** Finds the ledger's name of a model on an invoice; its own where the ledger knows none like it. */
function modelNames(known: readonly string[], given: ReadonlyMap<string, string>): (name: string) => string {
  const exact = new Map(known.map((name) => [name.toLowerCase(), name]))
  const bare = new Map(known.map((name) => [bareName(name), name]))
  const wanted = new Map([...given].map(([name, ours]) => [name.toLowerCase(), ours]))
  return (name) => {
    const lower = name.toLowerCase()
    const asked = wanted.get(lower) ?? name
    return exact.get(asked.toLowerCase()) ?? bare.get(bareName(asked)) ?? asked
  }
}

/** `openai/gpt-5-2025-08-07` is gpt-5. */
function bareName(name: string): string {
  return name
    .toLowerCase()
    .replace(/^.*\//, '')
    .replace(/[-@]?(latest|\d{4}-?\d{2}-?\d{2})$/, '')
}
