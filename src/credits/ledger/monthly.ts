// The monthly statement of an account: opening balance, changes by day and kind, closing balance and debt.

import type { Awaitable } from '../../async/async.ts'
import type { Pico } from '../money.ts'
import type { Pool } from '../pool.ts'
import type { TransactionKind } from './ledger.ts'

export interface Month {
  /** As `2026-11`. */
  readonly name: string
  /** Milliseconds since 1970, UTC; `to` is the first moment after it. */
  readonly from: number
  readonly to: number
}

/** The UTC month with this name, such as `2026-11`; undefined if it is not one. */
export function monthNamed(name: string): Month | undefined {
  if (!/^\d{4}-(0[1-9]|1[0-2])$/.test(name)) return undefined
  const from = Date.parse(`${name}-01`)
  const begins = new Date(from)
  return { name, from, to: Date.UTC(begins.getUTCFullYear(), begins.getUTCMonth() + 1) }
}

/** The sum of some entries: credit added or removed, debt made or repaid. */
export interface Movement extends StatementBalance {
  readonly entries: number
}

interface MovementOfKind extends Movement {
  readonly kind: TransactionKind
}

interface MovementOfDay extends MovementOfKind {
  /** As `2026-11-30`, UTC. */
  readonly day: string
  readonly pool: Pool
}

export const nothing: StatementBalance = { credit: 0n, owed: 0n }

export function plus(a: StatementBalance, b: StatementBalance): StatementBalance {
  return { credit: a.credit + b.credit, owed: a.owed + b.owed }
}

/** The change of an entry. One without a lot is debt, which grows when the entry is negative. */
export function changeOf({ lot, amount }: Pick<StatementEntry, 'lot' | 'amount'>): StatementBalance {
  return lot === null ? { credit: 0n, owed: -amount } : { credit: amount, owed: 0n }
}

/** Credit minus debt. */
export function netOf({ credit, owed }: StatementBalance): Pico {
  return credit - owed
}

/** Sums entries in any order. */
export class MonthlySums {
  readonly #days = new Map<string, MovementOfDay>()

  /** An entry, or so many `entries` of one day, kind and pool, all of credit or all of debt. */
  add(entry: Pick<StatementEntry, 'at' | 'kind' | 'pool' | 'lot' | 'amount'> & { entries?: number }): void {
    const day = new Date(entry.at).toISOString().slice(0, 10)
    const { kind, pool } = entry
    const key = `${day} ${kind} ${pool}`
    const before = this.#days.get(key)
    const sum = plus(before ?? nothing, changeOf(entry))
    this.#days.set(key, { day, kind, pool, ...sum, entries: (before?.entries ?? 0) + (entry.entries ?? 1) })
  }

  /** By day, kind and pool, in order of time. */
  get days(): readonly MovementOfDay[] {
    return [...this.#days].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, movement]) => movement)
  }

  get kinds(): readonly MovementOfKind[] {
    const kinds = new Map<TransactionKind, MovementOfKind>()
    for (const { kind, entries, ...change } of this.days) {
      const before = kinds.get(kind)
      const sum = plus(before ?? nothing, change)
      kinds.set(kind, { kind, ...sum, entries: (before?.entries ?? 0) + entries })
    }
    return [...kinds.values()]
  }
}

// Reads of the ledger: account statements, debts, and the calls that a provider will bill.

/** One line of an account's statement. */
export interface HistoryEntry {
  /** Orders the bookings of the account, and is no other booking's of it; one may have several lines. */
  readonly tx: number
  readonly at: number
  readonly kind: TransactionKind
  readonly pool: Pool
  /** null if debt was made or repaid. */
  readonly lot: string | null
  readonly amount: Pico
  /** The account's credit after this line, all pools minus debt. */
  readonly balance: Pico
  /** The call and its model, if this is a charge. */
  readonly call: string | null
  readonly model: string | null
  /** The idempotency key of a grant. */
  readonly source: string | null
}

export type StatementEntry = Omit<HistoryEntry, 'balance'>

export interface StatementPage {
  /** Newest first. May be shorter than requested, even empty, although more follow. */
  readonly entries: readonly StatementEntry[]
  /** The `before` of the next page; null at the beginning of the journal. */
  readonly next: number | null
}

/** An account's credit in all pools, and its debt. */
export interface StatementBalance {
  readonly credit: Pico
  readonly owed: Pico
}

/** The balance before and after a time span. */
export interface Span {
  readonly opening: StatementBalance
  readonly closing: StatementBalance
}

/** An entry of a statement by itself, or the charges of a day to one pool: `lot` is one of those that they were drawn from. */
export interface StatementSum extends Pick<
  StatementEntry,
  'at' | 'kind' | 'pool' | 'lot' | 'amount' | 'source'
> {
  readonly entries: number
}

/** Of which account, and from when until before when: midnights, UTC. */
export interface StatementQuery {
  readonly account: string
  readonly from: number
  readonly to: number
}

export interface StatementSums extends Span {
  /** In order of time. */
  readonly sums: readonly StatementSum[]
}

/** Reads statements while calls are served: no page blocks the event loop for long. */
export interface StatementReader {
  /** Entries before booking `before` and not earlier than `since`, if given. */
  page(account: string, limit: number, before?: number, since?: number): Promise<StatementPage>
  /** Everything of the account at or after this time has this number or a higher one, and everything before a lower one. */
  firstSince(account: string, at: number): Awaitable<number>
  /** Calls `each` with every entry from `from` until before `to`, newest first, all from one consistent snapshot. */
  span(
    account: string,
    between: { readonly from: number; readonly to: number },
    each: (entry: StatementEntry) => void,
  ): Promise<Span>
  /** The same with the charges of each day added up, beside the calls where they are many. */
  sums(query: StatementQuery, signal?: AbortSignal): Promise<StatementSums>
}

export interface Debt {
  readonly account: string
  readonly debt: Pico
}

/** A request to a provider that has an id there. */
export interface ProviderCall {
  readonly call: string
  readonly upstreamId: string
  readonly model: string
  readonly at: number
  /** `served`: charged to the account. `failed`: an attempt that charged nobody. */
  readonly outcome: 'served' | 'failed'
  readonly charged: Pico
  readonly absorbed: Pico
  readonly estimated: boolean
}

/** What the ledger has booked of one provider, day (UTC), upstream model and service tier. */
export interface BookedSum {
  readonly day: string
  /** The provider's name of it. */
  readonly model: string
  /** The service tier that served; null for the standard one. */
  readonly tier: string | null
  readonly calls: number
  readonly cost: Pico
  readonly tokens: number
  /** Calls whose tokens were counted here, and what they cost. */
  readonly estimated: number
  readonly estimatedCost: Pico
  /** Calls charged at the standard rate because the catalog has no rate for something they used. */
  readonly unpriced: number
  /** Attempts without an answer, which charged nobody. */
  readonly failed: number
}

/** What a provider billed since some time beyond what was held for it. */
export interface Unpaid {
  readonly provider: string
  /** Calls with an absorbed part, and the sum of these parts. */
  readonly absorbedCalls: number
  readonly absorbed: Pico
  /** Calls that took their key beyond its limit. */
  readonly overLimitCalls: number
}

/** Reports from one consistent snapshot of the ledger; read-only. */
export interface LedgerReports {
  /** Every journal line of the account, oldest first. */
  history(account: string): Awaitable<readonly HistoryEntry[]>
  /** Accounts with debt, largest first. */
  debts(): Awaitable<readonly Debt[]>
  /** Calls that this provider has an id for, oldest first. */
  callsOf(provider: string): Awaitable<readonly ProviderCall[]>
  /** What was booked of this provider, by UTC day, upstream model and service tier; of a half-open interval. */
  sumsOf(provider: string, from: number, until: number): Awaitable<readonly BookedSum[]>
  /** By provider, largest amount first; providers without any are left out. */
  unpaid(since: number): Awaitable<readonly Unpaid[]>
  /** What all accounts have together, a row for each pool that any account has had. */
  poolTotals(): Awaitable<readonly PoolTotal[]>
}

/** Picodollars of all accounts together. */
export interface PoolTotal {
  readonly pool: Pool
  readonly credit: Pico
  /** Of the credit, what calls in flight hold. */
  readonly held: Pico
  readonly owed: Pico
}
