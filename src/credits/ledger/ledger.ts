// The types and interface of the ledger. Amounts are in picodollars, times in milliseconds since 1970.
//
// decide() is pure and synchronous; a store loads, decides and appends in its own way.

import type { Awaitable } from '../../async/async.ts'
import type { Tags } from '../../conversation/request.ts'
import type { Usage } from '../../conversation/usage.ts'
import type { Pico } from '../money.ts'
import type { Pool } from '../pool.ts'
import type { CostLine } from '../price.ts'

/** What a transaction of the journal is booked for. */
export const transactionKinds = ['grant', 'settle', 'expire', 'refund', 'adjust', 'repay', 'borrow'] as const
export type TransactionKind = (typeof transactionKinds)[number]

export interface LotBalance {
  readonly id: string
  readonly pool: Pool
  readonly granted: Pico
  /** What is left, holds included. */
  readonly remaining: Pico
  /** The part of `remaining` held by calls in flight. */
  readonly pinned: Pico
  readonly grantedAt: number
  /** null if it does not expire. */
  readonly expiresAt: number | null
}

/** An account's credit now. Expired lots are left out unless a hold still pins a part of them. */
export interface Balance {
  readonly account: string
  readonly lots: readonly LotBalance[]
  /**
   * Refunds beyond the remaining credit, plus loans on the credit line, including those of calls in flight. Freed
   * credit repays it before anything else.
   */
  readonly debt: Pico
  /** How much the account may owe; zero without a credit line. */
  readonly creditLine: Pico
}

/** Over the life of an account: what it bought, and what its calls used of all pools. */
export interface Totals {
  readonly purchased: Pico
  readonly used: Pico
}

/** How much is to be held, picodollars. */
export interface HoldAmounts {
  /** With less than this nothing is held. */
  readonly least: Pico
  /** As much of this as is free. */
  readonly want: Pico
  /** Up to this, beyond `want`, as far as a fair share of the free credit goes: see `decide.ts`. */
  readonly most: Pico
}

/** Reserves credit. Nothing goes to a provider before it is decided, or to the client before it is durable. */
export interface HoldCommand extends HoldAmounts {
  readonly call: string
  /** Whose credit pays: an account, or a group that has credit of its own. */
  readonly account: string
  /** The API key that made the call; null for the app. */
  readonly key: string | null
  /** Pools that may pay, in order of spending. */
  readonly funding: readonly Pool[]
  readonly keyLimit: KeyLimit | null
  /** For a key of a group; null for any other call. */
  readonly inGroup: GroupCall | null
  readonly model: string
  /** What the call is for, as `tagsText` writes it; undefined without tags. */
  readonly tags?: string | undefined
  readonly priceVersion: string
  /** The process that owns the call; only it, or recovery after the lease, may end it. */
  readonly owner: string
  readonly leaseUntil: number
}

/** A key's spending limit in the current window. */
export interface KeyLimit {
  readonly limit: Pico
  readonly windowStart: number
}

/** Who calls with a key of a group, and every budget that the call spends from. */
export interface GroupCall {
  readonly group: string
  /** The account of the person; the credit may be the group's. */
  readonly person: string
  /** From the person's own up to that of the outermost group. The call stays on them, wherever its person is moved. */
  readonly budgets: readonly Budget[]
}

/** What may be spent in one window by a group, or by one member of it, all groups below included. */
export interface Budget {
  /** The group's id; of a member's budget with the account's behind a slash. */
  readonly scope: string
  /** null where all is counted and nothing limited: a limit that is set later knows what was spent before. */
  readonly limit: Pico | null
  /** Milliseconds since 1970; 0 for a budget that never begins anew. */
  readonly windowStart: number
  /** null for a budget that never begins anew. */
  readonly windowEnd: number | null
}

/** Enlarges the hold of an open call, from its own funding and within the limits of its key and its budgets. */
export interface ExtendCommand extends HoldAmounts {
  readonly call: string
  readonly owner: string
}

/**
 * What has been spent of a limit in its window, and what calls in flight hold of it now. That of a key counts those it
 * was rotated from and to.
 */
export interface KeySpend {
  readonly spent: Pico
  readonly held: Pico
}

/** One budget in one window, which is what is counted. */
export type CountedBudget = Pick<Budget, 'scope' | 'windowStart'>

export type HoldResult =
  | { readonly kind: 'held'; readonly amount: Pico }
  | {
      readonly kind: 'refused'
      readonly reason: HoldRefusal
      readonly available: Pico
      readonly held: Pico
    }
  | RefusedByBudget

/** The tightest budget leaves too little: `budget`, for what is spent of it; `budget-reserved`, for what is held alone. */
export interface RefusedByBudget {
  readonly kind: 'refused'
  readonly reason: 'budget' | 'budget-reserved'
  readonly available: Pico
  readonly held: Pico
  readonly spent: Pico
  readonly limit: Pico
  readonly budget: Budget
}

/**
 * When a hold that is decided goes to the disk. `at-once`; or `soon`, for an answer that is passed on when it is settled:
 * with the settle where that comes first, and after two milliseconds at the latest.
 */
export type Haste = 'at-once' | 'soon'

/** A hold that is decided: the end of this process does not undo it, a power cut may until it is durable. */
export interface StartedHold {
  readonly result: HoldResult
  /**
   * Resolves when a power cut would not undo it either. To be awaited before the first byte of an answer goes to the
   * client, whatever the answer is. Never rejects: where the disk has failed it never resolves, and the process ends.
   */
  readonly durable: Promise<void>
}

export type HoldRefusal =
  /** The credit that may pay is below `least`, even without any holds. */
  | 'insufficient'
  /** Only the holds of calls in flight prevent it. */
  | 'reserved'
  /** What the key has spent leaves less than `least` of its limit. */
  | 'key-limit'
  /** Only what calls of the key in flight hold prevents it. */
  | 'key-reserved'

/** Charges what a call cost and returns the rest of its hold. */
export interface SettleCommand {
  readonly call: string
  readonly owner: string
  readonly cost: Pico
  /** The caller's own limit; costs above it are absorbed. null for no limit. */
  readonly most: Pico | null
  readonly usage: Usage
  readonly lines: readonly CostLine[]
  /** The usage was counted here, not reported by the provider. */
  readonly estimated: boolean
  readonly ending: Ending
  readonly served: Served
}

export type Ending =
  | 'finished'
  /** The client disconnected; the answer was cut off or drained. */
  | 'client-gone'
  /** The provider broke off after delivering something. */
  | 'provider-cut'
  /** The gateway stopped it: deadline, max_cost or shutdown. */
  | 'stopped'
  /** The process died; recovery settled at the last checkpoint. */
  | 'recovered'

/** Who served the call and how long it took, for the receipt. */
export interface Served {
  readonly provider: string
  /** Missing where it is the model that the call was held for. */
  readonly model?: string | undefined
  readonly upstreamModel: string
  readonly upstreamId: string | null
  readonly priceVersion: string
  readonly stream: boolean
  readonly attempts: readonly Attempt[]
  /** Milliseconds from the request's arrival to the first byte sent, and to the end. */
  readonly firstByteMs: number | null
  readonly totalMs: number
  readonly finishReason: string | null
  /** Charged at the standard rate for want of its own (`Cost.unpriced`); missing in calls of older versions. */
  readonly unpriced?: readonly string[]
  /** The virtual model that was asked for; missing where none was. */
  readonly route?: RouteNote
  /** What the guards have decided; missing where none was asked. */
  readonly guards?: readonly GuardNote[]
}

/** What a guard has decided of the texts of a call, as often. */
export interface GuardNote {
  /** The mask, or the host of the hook. */
  readonly guard: string
  readonly on: string
  readonly decision: string
  /** The hook's own code of a denial. */
  readonly code?: string
  readonly times: number
}

/** How a virtual model came to the model that served a call. */
export interface RouteNote {
  readonly id: string
  /** The model that served. */
  readonly model: string
  /** What decided who is first: order, weight, price, latency, or the session. */
  readonly reason: string
  /** Members that ranked before it or might not serve, and why: an error code, `cooling` or `not_sold`. */
  readonly passedOver: readonly { readonly model: string; readonly reason: string }[]
}

export interface Attempt {
  readonly provider: string
  readonly outcome: 'served' | 'failed'
  /** Our error code for a failed attempt. */
  readonly code: string | null
  readonly upstreamId: string | null
  readonly ms: number
  /** The provider's HTTP status, if it sent one. */
  readonly status: number | null
  /** Why it failed, in a text that the account may read. */
  readonly reason: string | null
}

export type SettleResult =
  /**
   * `charged`: what the account paid. `absorbed`: what it did not, beyond the hold and free credit or beyond `most`.
   * `overLimit`: the charge exceeded the key's limit or a budget because the provider billed more than was held.
   */
  | {
      readonly kind: 'settled'
      readonly charged: Pico
      readonly absorbed: Pico
      readonly overLimit: boolean
    }
  /** The call has ended already or belongs to another owner: nothing is charged. */
  | { readonly kind: 'already-ended' }

/** Returns the whole hold: nothing was served. */
export interface ReleaseCommand {
  readonly call: string
  readonly owner: string
  readonly reason: string
  readonly attempts: readonly Attempt[]
}

/** What has been delivered so far; recovery charges this much. Durable every 2 s or 1,000 tokens. */
export interface CheckpointCommand {
  readonly call: string
  readonly owner: string
  readonly usage: Usage
  readonly cost: Pico
  readonly leaseUntil: number
}

export interface GrantCommand {
  /** The caller's idempotency key: each source grants once in the whole ledger. */
  readonly source: string
  readonly account: string
  readonly pool: Pool
  readonly amount: Pico
  /** null for the default of the pool: purchased 12 months, daily the UTC day, welcome without end. */
  readonly expiresAt: number | 'never' | null
  /** The journal account that the credit comes from: `grant`, `cash:<processor>`. */
  readonly from: string
  /** What was paid beyond the amount and lost to rounding of the exchange rate, booked to `fx_rounding`. */
  readonly rounding?: Pico
  /** Whoever grants it, if it is an operator, and why: the act is logged in the same transaction. */
  readonly operator?: { readonly id: string; readonly note: string | null }
}

export interface GrantResult {
  readonly lot: string
  /** False if this source had granted before and nothing was added. */
  readonly granted: boolean
}

/**
 * Refunds a payment. The unspent rest of its lot is taken first, then what expired of it; what is spent or held becomes
 * debt, which free credit of other payments repays at once.
 */
export interface RefundCommand {
  /** The caller's idempotency key: each id refunds once in the whole ledger. */
  readonly id: string
  readonly account: string
  readonly lot: string
  readonly amount: Pico
}

export interface RefundResult {
  /** With what had expired of the lot. */
  readonly taken: Pico
  readonly debt: Pico
  /** False if this id had refunded before and nothing changed. */
  readonly refunded: boolean
}

/** An operator's correction of one pool; a negative amount takes free credit away. */
export interface AdjustCommand {
  /** The caller's idempotency key: each id corrects once in the whole ledger. */
  readonly id: string
  readonly account: string
  readonly pool: Pool
  readonly amount: Pico
  /** The only lot that a negative amount is taken from; without it, in the order of consumption. */
  readonly lot?: string
  /** When credit that is added expires, milliseconds since 1970; without it, as the pool's default. */
  readonly expiresAt?: number
  /** The lot whose refund failed: the amount comes back from the refunds, and may be refunded again. */
  readonly refundOf?: string
  /** Whoever asks for it, if it is an operator: the act is logged in the same transaction. */
  readonly operator?: string
}

export interface AdjustResult {
  /** False if this id had corrected before and nothing changed. */
  readonly adjusted: boolean
}

/** One call with everything for its receipt. */
export interface CallRecord {
  readonly call: string
  /** Whose credit pays. */
  readonly account: string
  readonly key: string | null
  readonly inGroup: GroupCall | null
  readonly model: string
  readonly state: 'open' | 'settled' | 'voided'
  readonly tags: Tags
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
  /** The provider's bill took the key beyond its limit, or a group beyond a budget. */
  readonly overLimit: boolean
  /** Every attempt, including those of a call that served nothing. */
  readonly attempts: readonly Attempt[]
  readonly drawn: readonly { readonly lot: string; readonly pool: Pool; readonly amount: Pico }[]
}

export interface AuditReport {
  readonly ok: boolean
  readonly journalEntries: number
  readonly headHash: string
  /** Each invariant with the first thing that breaks it, if any does. */
  readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly detail: string | null }[]
  /** Deliberate breaks of the history, by a restore or by hand, oldest first. */
  readonly replaced: readonly Replacement[]
}

/** A history ends, and another continues from transaction `tx` of the journal. */
export interface Replacement {
  readonly at: string
  readonly kind: 'restored' | 'accepted'
  readonly tx: number
  /** The restored file, or the reason given. */
  readonly note: string
}

/** The audit of one UTC day. Its duration depends on that day alone, not on the length of the journal. */
export interface DayAudit extends Pick<AuditReport, 'ok' | 'journalEntries' | 'checks'> {
  readonly calls: number
  /** The journal entries read, of each hash chain in which something was booked that day; without any, an empty list. */
  readonly journal: readonly AuditedSpan[]
  /** What only an audit of the whole journal can check. */
  readonly notChecked: readonly string[]
}

export interface AuditedSpan {
  /** The number of its chain: SQLite has the first alone, PostgreSQL one for each process that has written. */
  readonly chain: number
  readonly firstTransaction: number
  readonly lastTransaction: number
  /** The hash of the entry before the first, which is not verified. */
  readonly givenHash: string
  readonly headHash: string
}

/**
 * Everything that changes the ledger. Promises resolve when the change is durable. They reject with GatewayError
 * `store_unavailable` if the database cannot be written, or while the clock is too far behind the ledger's time if the
 * command may be refused. An accepted settle is never dropped.
 */
export interface LedgerCommands {
  /** The ledger's time: the clock, but never before the last booking. Milliseconds since 1970. */
  now(): number
  hold(command: HoldCommand): Promise<HoldResult>
  /** The same, as soon as it is decided: the provider may be called while the hold is on its way to the disk. */
  startHold(command: HoldCommand, haste: Haste): Promise<StartedHold>
  /** Enlarges an open hold. Resolves with the picodollars added; none if `least` is not there. */
  extend(command: ExtendCommand): Promise<Pico>
  checkpoint(command: CheckpointCommand): Promise<void>
  settle(command: SettleCommand): Promise<SettleResult>
  release(command: ReleaseCommand): Promise<SettleResult>
  /**
   * Rejects with `idempotency_conflict` if the source granted another amount, pool or account before, or an operator's
   * grant ended at another time.
   */
  grant(command: GrantCommand): Promise<GrantResult>
  /** Sets how much the account may owe. Zero removes the line; existing debt stays. */
  setCreditLine(account: string, most: Pico): Promise<void>
  /** Records the price permanently, once per version. */
  recordPrice(version: string, model: string, price: string): void
  /** Ends calls of dead owners: released, or settled at the checkpoint. Returns their number. */
  recover(now: number): Promise<number>
  /** Whether the store can be written now: at most once a second a byte is written to find out. */
  writable(): Promise<boolean>
  close(): Promise<void>
}

/**
 * What is read of the ledger: everything that is committed. What is not durable yet, a few milliseconds' worth, may be in
 * sums: a power cut takes it back, and nobody can have used what they show, since the calls and grants behind them have
 * not been answered. A single call is shown when it is durable.
 */
export interface LedgerReader {
  balance(account: string): Awaitable<Balance>
  /** What the key has spent since `windowStart`, and holds. */
  keySpend(key: string, windowStart: number): Awaitable<KeySpend>
  /** What is spent and held of each budget in its window, in their order. */
  budgetSpend(budgets: readonly CountedBudget[]): Awaitable<readonly KeySpend[]>
  totals(account: string): Awaitable<Totals>
  /** Whether the account has had the credit of the month that ends at `until`, by whatever address it had then. */
  hasMonthly(account: string, until: number): Awaitable<boolean>
  /**
   * By our call id or the provider's id of the answer; undefined if neither `account` paid for it nor a person of this
   * account made it.
   */
  call(account: string, id: string): Awaitable<CallRecord | undefined>
}

export interface LedgerProof {
  audit(): Awaitable<AuditReport>
  /** Checks the bookings of the UTC day that begins at `day`. */
  auditDay(day: number): Awaitable<DayAudit>
}

export interface LedgerStore extends LedgerCommands, LedgerReader, LedgerProof {}

/** What serving a call needs. */
export type CallLedger = Pick<
  LedgerStore,
  | 'startHold'
  | 'extend'
  | 'checkpoint'
  | 'settle'
  | 'release'
  | 'recordPrice'
  | 'balance'
  | 'keySpend'
  | 'budgetSpend'
>

/** Commands of operators, payments and the sweep; calls need none of them. */
export interface LedgerUpkeep {
  /** Both reject with `idempotency_conflict` if their id was used for another refund or correction. */
  refund(command: RefundCommand): Promise<RefundResult>
  adjust(command: AdjustCommand): Promise<AdjustResult>
  /** Expires all lots past their end. Returns how many accounts lost credit. */
  expire(now: number): Promise<number>
}

// Idempotency keys: a request sent twice under one key is served and charged once.

/** A request with a key, before anything is done for it. */
export interface ClaimCommand {
  readonly account: string
  readonly key: string
  /** SHA-256 of what makes two requests the same: endpoint, mode and body. */
  readonly bodyHash: Uint8Array
  /** The id of the call that would serve this request. */
  readonly call: string
  /** Milliseconds since 1970. */
  readonly expiresAt: number
}

export type ClaimedCall = Pick<ClaimCommand, 'account' | 'key' | 'call'>

export type Claim =
  /** The key is now reserved for this call. */
  | { readonly kind: 'fresh' }
  /** The key belongs to a request with another body. */
  | { readonly kind: 'conflict' }
  | { readonly kind: 'running' }
  | { readonly kind: 'answered'; readonly answer: KeptAnswer; readonly of: AnsweredCall }
  /** The call was charged, but its answer was not kept: too large, or cut short by its client or a crash. */
  | { readonly kind: 'lost'; readonly call: string }

/** The call that a kept answer is the answer of. */
export interface AnsweredCall {
  readonly model: string
  /** The line of the key that made it; null for the app. */
  readonly line: string | null
}

/** A call that was made under a key. */
export type KeyedCall = Pick<ClaimCommand, 'key' | 'bodyHash' | 'call'>

export interface KeptAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** null if it was too large to keep. */
  readonly body: Uint8Array<ArrayBuffer> | null
}

export interface IdempotencyStore {
  /**
   * Claims a key; resolves when the claim is durable. If the key's call was charged nothing, the key is free again; a
   * charged call never runs a second time under its key. Rejects with `store_unavailable` or `overloaded`, and then
   * nothing is claimed.
   */
  claim(command: ClaimCommand): Promise<Claim>
  /**
   * Keeps the answer of a call. Called right before its settle, it is durable no later than that. The answer is only
   * returned if that settle, not recovery, ends the call.
   */
  keep(claim: ClaimedCall, answer: KeptAnswer): Promise<void>
  /** Marks the claimed call as over, however it ended. */
  finish(claim: ClaimedCall): Promise<void>
  /** Those of the calls that were made under a key which is still known. */
  claimsOf(calls: readonly string[]): Awaitable<readonly KeyedCall[]>
  /** Deletes expired claims in small steps. Resolves with their number. */
  sweep(now: number): Promise<number>
}
