// Reads of the ledger: account statements, debts, and the calls that a provider will bill.

import type { Awaitable } from '../../awaitable.ts'
import type { Pico } from '../money.ts'
import type { Pool } from '../pool.ts'
import type { TransactionKind } from '../wallet.ts'

/** One line of an account's statement. */
export interface HistoryEntry {
  /** The transaction in the journal; one may have several lines. */
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
export interface Standing {
  readonly credit: Pico
  readonly owed: Pico
}

/** The balance before and after a time span. */
export interface Span {
  readonly opening: Standing
  readonly closing: Standing
}

/** Reads statements while calls are served: no page blocks the event loop for long. */
export interface StatementReader {
  /** Entries before transaction `before` and not earlier than `since`, if given. */
  page(account: string, limit: number, before?: number, since?: number): Promise<StatementPage>
  /** The first transaction at or after this time; one past the last if there is none. */
  firstSince(at: number): Awaitable<number>
  /** Calls `each` with every entry from `from` until before `to`, newest first, all from one consistent snapshot. */
  span(
    account: string,
    between: { readonly from: number; readonly to: number },
    each: (entry: StatementEntry) => void,
  ): Promise<Span>
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
  /** By provider, largest amount first; providers without any are left out. */
  unpaid(since: number): Awaitable<readonly Unpaid[]>
}
