// The ledger's words and its one door. Every figure is in picodollars, every time in milliseconds since 1970.
//
// decide() (below the types) is pure and synchronous; a store loads, decides and appends in its own way.

import type { Awaitable } from '../../awaitable.ts'
import type { Usage } from '../../conversation/usage.ts'
import type { Pico } from '../money.ts'
import type { Pool } from '../pool.ts'
import type { CostLine } from '../price.ts'

export interface LotBalance {
  readonly id: string
  readonly pool: Pool
  readonly granted: Pico
  /** What is left of it, holds included. */
  readonly remaining: Pico
  /** The part of `remaining` that calls in flight have set aside. */
  readonly pinned: Pico
  readonly grantedAt: number
  /** null for credit that does not expire. */
  readonly expiresAt: number | null
}

/** An account's credit at one moment. Expired lots are not in it, unless a hold still pins a part of them. */
export interface Balance {
  readonly account: string
  readonly lots: readonly LotBalance[]
  /**
   * What a refund took beyond the credit there was, and what calls have been lent on the credit line, those in flight
   * included; whatever becomes free repays it before anything else.
   */
  readonly debt: Pico
  /** How much the account may owe; zero for those without a credit line. */
  readonly creditLine: Pico
}

/** Over the whole life of an account: what it has bought, and what its calls have used of all pools. */
export interface Totals {
  readonly purchased: Pico
  readonly used: Pico
}

/** Set credit aside for a call. Nothing may be sent to a provider before this is durable. */
export interface HoldCommand {
  readonly call: string
  readonly account: string
  /** The API key that made the call; null for the app. */
  readonly key: string | null
  /** Pools that may pay, in order of spending. */
  readonly funding: readonly Pool[]
  /** What the call may cost at the most, and the least that lets it start at all. */
  readonly want: Pico
  readonly least: Pico
  readonly keyLimit: KeyLimit | null
  readonly model: string
  readonly priceVersion: string
  /** The process that owns the call; only it, or recovery after the lease, may end it. */
  readonly owner: string
  readonly leaseUntil: number
}

/** A key's spend limit in the window that is open now. */
export interface KeyLimit {
  readonly limit: Pico
  readonly windowStart: number
}

export type HoldResult =
  | { readonly kind: 'held'; readonly amount: Pico }
  | { readonly kind: 'refused'; readonly reason: HoldRefusal; readonly available: Pico; readonly held: Pico }

export type HoldRefusal =
  /** The credit that may pay is below `least`, even without any hold. */
  | 'insufficient'
  /** Only holds of calls in flight stand in the way. */
  | 'reserved'
  | 'key-limit'

/** Post what a call really cost and return the rest of its hold. */
export interface SettleCommand {
  readonly call: string
  readonly owner: string
  readonly cost: Pico
  /** The most that the caller may be charged, by its own word; the rest of the cost is absorbed. null: no such word. */
  readonly most: Pico | null
  readonly usage: Usage
  readonly lines: readonly CostLine[]
  /** The usage was not reported by the provider but counted here from what was delivered. */
  readonly estimated: boolean
  readonly ending: Ending
  readonly served: Served
}

/** How a call ended, for ever. */
export type Ending =
  | 'finished'
  /** The client left; the answer was cut off or drained. */
  | 'client-gone'
  /** The provider broke off after it had delivered something. */
  | 'provider-cut'
  /** The gateway stopped it: a deadline, max_cost, a shutdown. */
  | 'stopped'
  /** The process died; recovery settled it at the last checkpoint. */
  | 'recovered'

/** Who served the call and how long it took: the receipt's facts. */
export interface Served {
  readonly provider: string
  readonly upstreamModel: string
  readonly upstreamId: string | null
  readonly priceVersion: string
  readonly stream: boolean
  readonly attempts: readonly Attempt[]
  /** Milliseconds from the request's arrival to the first byte sent, and to the end. */
  readonly firstByteMs: number | null
  readonly totalMs: number
  readonly finishReason: string | null
  /** What was charged at the standard rate for want of its own (`Cost.unpriced`); missing in calls of older versions. */
  readonly unpriced?: readonly string[]
}

export interface Attempt {
  readonly provider: string
  readonly outcome: 'served' | 'failed'
  /** Our error code for a failed attempt. */
  readonly code: string | null
  readonly upstreamId: string | null
  readonly ms: number
  /** The provider's HTTP status, where it failed with one. */
  readonly status: number | null
  /** Why it failed, in words that the account may read. */
  readonly reason: string | null
}

export type SettleResult =
  /**
   * `charged` is what the account paid, `absorbed` what it did not: beyond the hold and the free credit, or beyond
   * `most`. `overLimit`: the charge has taken the key beyond its limit, because the provider billed more than was held.
   */
  | {
      readonly kind: 'settled'
      readonly charged: Pico
      readonly absorbed: Pico
      readonly overLimit: boolean
    }
  /** The call had ended before, or belongs to another owner: nothing is charged now. */
  | { readonly kind: 'already-ended' }

/** Return the whole hold: nothing was served. */
export interface ReleaseCommand {
  readonly call: string
  readonly owner: string
  readonly reason: string
  readonly attempts: readonly Attempt[]
}

/** What has been delivered so far, durable every 2 s or 1,000 tokens: recovery charges this much. */
export interface CheckpointCommand {
  readonly call: string
  readonly owner: string
  readonly usage: Usage
  readonly cost: Pico
  readonly leaseUntil: number
}

export interface GrantCommand {
  /** The caller's idempotency key: one source is one grant in the whole ledger. */
  readonly source: string
  readonly account: string
  readonly pool: Pool
  readonly amount: Pico
  /** null for the life its pool gives it: purchased 12 months, daily the UTC day, welcome no end. */
  readonly expiresAt: number | 'never' | null
  /** The journal account that the credit comes from: `grant`, `cash:<processor>`. */
  readonly from: string
  /** What was paid beyond the amount and lost to the rounding of an exchange, booked to `fx_rounding`; none when left out. */
  readonly rounding?: Pico
}

export interface GrantResult {
  readonly lot: string
  /** False when this source had granted before and nothing was added. */
  readonly granted: boolean
}

/**
 * Takes a payment back. The unspent rest of its lot goes first; what is spent, or held, becomes debt, which free
 * credit of other payments repays at once.
 */
export interface RefundCommand {
  /** The caller's idempotency key: one id is one refund in the whole ledger. */
  readonly id: string
  readonly account: string
  readonly lot: string
  readonly amount: Pico
}

export interface RefundResult {
  readonly taken: Pico
  readonly debt: Pico
  /** False when this id had refunded before and nothing changed. */
  readonly refunded: boolean
}

/** An operator's correction of one pool; negative takes free credit away. */
export interface AdjustCommand {
  /** The caller's idempotency key: one id is one correction in the whole ledger. */
  readonly id: string
  readonly account: string
  readonly pool: Pool
  readonly amount: Pico
}

export interface AdjustResult {
  /** False when this id had adjusted before and nothing changed. */
  readonly adjusted: boolean
}

/** One call with everything a receipt tells. */
export interface CallRecord {
  readonly call: string
  readonly account: string
  readonly key: string | null
  readonly model: string
  readonly state: 'open' | 'settled' | 'voided'
  readonly priceVersion: string
  readonly hold: Pico
  readonly openedAt: number
  readonly endedAt: number | null
  readonly cost: Pico
  readonly charged: Pico
  readonly absorbed: Pico
  readonly estimated: boolean
  readonly usage: Usage | null
  readonly lines: readonly CostLine[]
  readonly ending: Ending | null
  /** Why a call that served nothing was released: an error code, or `recovered`. */
  readonly released: string | null
  readonly served: Served | null
  /** What its provider billed has taken its key beyond the limit. */
  readonly overLimit: boolean
  /** Every attempt, also of a call that served nothing. */
  readonly attempts: readonly Attempt[]
  /** What each lot paid. */
  readonly drawn: readonly { readonly lot: string; readonly pool: Pool; readonly amount: Pico }[]
}

export interface AuditReport {
  readonly ok: boolean
  readonly journalEntries: number
  readonly headHash: string
  /** Each invariant with the first thing that breaks it, if any. */
  readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly detail: string | null }[]
  /** Where the history was replaced on purpose, by a restore or by hand, oldest first. */
  readonly replaced: readonly Replacement[]
}

/** A history that ends, and another that goes on from transaction `tx` of the journal. */
export interface Replacement {
  readonly at: string
  readonly kind: 'restored' | 'accepted'
  readonly tx: number
  /** The file that was restored, or the reason that was given. */
  readonly note: string
}

/** What an audit of one UTC day has found. It takes as long as the day was busy, whatever the journal has grown to. */
export interface DayAudit extends Pick<AuditReport, 'ok' | 'journalEntries' | 'checks'> {
  /** Calls that ended that day. */
  readonly calls: number
  /** What was read of the journal; null when nothing was booked that day. */
  readonly journal: {
    readonly firstTransaction: number
    readonly lastTransaction: number
    /** The hash of the entry before the first: taken as given. */
    readonly givenHash: string
    readonly headHash: string
  } | null
  /** What only an audit of the whole journal can tell. */
  readonly notChecked: readonly string[]
}

/**
 * What changes the ledger. Promises resolve when the change is durable. They reject with GatewayError
 * `store_unavailable` when the database cannot be written, and what may be refused also while the clock is too far behind
 * the ledger's time; a settle that was accepted is never dropped.
 */
export interface LedgerCommands {
  /** The ledger's time: the clock's, but never earlier than anything that is booked. Milliseconds since 1970. */
  now(): number
  hold(command: HoldCommand): Promise<HoldResult>
  /** Enlarges an open hold by `more`; false (and nothing changes) when the credit is not there. */
  extend(call: string, owner: string, more: Pico): Promise<boolean>
  checkpoint(command: CheckpointCommand): Promise<void>
  settle(command: SettleCommand): Promise<SettleResult>
  release(command: ReleaseCommand): Promise<SettleResult>
  /** Rejects with `idempotency_conflict` when the source has granted another amount, pool or account before. */
  grant(command: GrantCommand): Promise<GrantResult>
  /** From now on the account may owe so much; zero takes the line away, and leaves what is owed. */
  setCreditLine(account: string, most: Pico): Promise<void>
  /** Makes the price a permanent, dated record, once per version. */
  recordPrice(version: string, model: string, price: string): void
  /** Ends the calls whose owner died: void without progress, else settle at the checkpoint. Returns how many. */
  recover(now: number): Promise<number>
  /** Whether the store can be written at this moment. */
  writable(): boolean
  close(): Promise<void>
}

/** What is read of the ledger: everything that is durable, and nothing else. */
export interface LedgerReader {
  /** The balance now, read from what is durable. */
  balance(account: string): Awaitable<Balance>
  /** Sum of what the key has spent or holds since `windowStart`. */
  keySpend(key: string, windowStart: number): Awaitable<Pico>
  totals(account: string): Awaitable<Totals>
  /** By our call id or by the id the provider gave its answer; undefined for another account's. */
  call(account: string, id: string): Awaitable<CallRecord | undefined>
}

/** What proves that the ledger holds. */
export interface LedgerProof {
  audit(): Awaitable<AuditReport>
  /** Checks what was booked on the UTC day that begins at `day`. */
  auditDay(day: number): Awaitable<DayAudit>
}

/** The one door to the money. */
export interface LedgerStore extends LedgerCommands, LedgerReader, LedgerProof {}

/** What operators, payments and the sweep do to the ledger; calls need none of it. */
export interface LedgerUpkeep {
  /** Both reject with `idempotency_conflict` when their id stands for another refund or correction. */
  refund(command: RefundCommand): Promise<RefundResult>
  adjust(command: AdjustCommand): Promise<AdjustResult>
  /** Books the expiry of every lot whose time is over. Returns how many accounts lost credit. */
  expire(now: number): Promise<number>
}
