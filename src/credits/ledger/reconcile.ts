// Compares a provider's bill with the ledger, call by call and to the picodollar. Pure.

import type { ProviderCall } from './monthly.ts'
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
