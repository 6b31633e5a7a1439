// The ledger as a reader sees it: statements of an account, debts, and the calls that a provider will bill.

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
  /** null for debt that was made or repaid. */
  readonly lot: string | null
  readonly amount: Pico
  /** What the account has after this line, all pools, less its debt. */
  readonly balance: Pico
  /** Of a charge: the call and its model. */
  readonly call: string | null
  readonly model: string | null
  /** Of a grant: the id under which it was made. */
  readonly source: string | null
}

export type StatementEntry = Omit<HistoryEntry, 'balance'>

export interface StatementPage {
  /** Newest first; fewer than asked for, or none, also where more may follow. */
  readonly entries: readonly StatementEntry[]
  /** Go on with what is before this transaction; null at the beginning of the journal. */
  readonly next: number | null
}

/** What an account has in lots of all pools, and what it owes. */
export interface Standing {
  readonly credit: Pico
  readonly owed: Pico
}

/** What an account had before a span of time, and had after it. */
export interface Span {
  readonly opening: Standing
  readonly closing: Standing
}

/** Reads statements beside calls that are served: no page takes the event loop for long. */
export interface StatementReader {
  /** Of what is before transaction `before` and not before the moment `since`, where they are given. */
  page(account: string, limit: number, before?: number, since?: number): Promise<StatementPage>
  /** The first transaction at this moment or later; one after the last where there is none. */
  firstSince(at: number): Awaitable<number>
  /** Gives every entry from `from` until before `to` to `each`, the newest first. All of it is of one moment. */
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

/** What was sent to a provider under an id of the provider's own. */
export interface ProviderCall {
  readonly call: string
  readonly upstreamId: string
  readonly model: string
  readonly at: number
  /** `served` is what the account was charged for; a `failed` attempt was charged to nobody. */
  readonly outcome: 'served' | 'failed'
  readonly charged: Pico
  readonly absorbed: Pico
  readonly estimated: boolean
}

/** What a provider billed since some moment that was not charged as the hold of its call said. */
export interface Unpaid {
  readonly provider: string
  /** Calls of which a part was absorbed, and that part. */
  readonly absorbedCalls: number
  readonly absorbed: Pico
  /** Calls that took their key beyond its limit. */
  readonly overLimitCalls: number
}

/** Reads one moment of the books; nothing here changes them. */
export interface LedgerReports {
  /** Every line of the account's journal, oldest first. */
  history(account: string): Awaitable<readonly HistoryEntry[]>
  /** The accounts that owe something, the largest debt first. */
  debts(): Awaitable<readonly Debt[]>
  /** The calls that went to this provider and have an id there, oldest first. */
  callsOf(provider: string): Awaitable<readonly ProviderCall[]>
  /** By provider, the largest amount first; providers of which there is nothing to tell are left out. */
  unpaid(since: number): Awaitable<readonly Unpaid[]>
}
