// An account's credit as decide() sees it, and the one function that changes it. The same for every database.

import { ShortLivedMap } from '../async/async.ts'
import type { Usage } from '../conversation/usage.ts'
import type { Balance, GroupCall, KeyLimit, LotBalance, TransactionKind } from './ledger/ledger.ts'
import { formatUsd, largestBalance, largestLot, parseUsd, type Pico } from './money.ts'
import type { Pool } from './pool.ts'

/** Credit with a source and an expiry. granted = remaining + consumed + expired + refunded, always. */
export interface Lot {
  readonly id: string
  readonly pool: Pool
  readonly granted: Pico
  readonly remaining: Pico
  /** The part of `remaining` held by open calls. */
  readonly pinned: Pico
  readonly expired: Pico
  /** Taken back by refunds and corrections, or used to repay debt. */
  readonly refunded: Pico
  readonly grantedAt: number
  readonly expiresAt: number | null
}

/** Prefix of the ids of lots that were lent on a credit line. */
export const loanPrefix = 'line_'

/** The part of a lot that a call holds. */
export interface Pin {
  readonly lot: string
  readonly amount: Pico
}

/** What recovery charges when the owner of the call dies. */
export interface Checkpoint {
  readonly usage: Usage
  readonly cost: Pico
}

export interface OpenCall {
  readonly call: string
  readonly key: string | null
  readonly keyLimit: KeyLimit | null
  readonly inGroup: GroupCall | null
  readonly funding: readonly Pool[]
  /** The sum of the pins. */
  readonly hold: Pico
  /** In order of consumption. */
  readonly pins: readonly Pin[]
  readonly owner: string
  readonly leaseUntil: number
  readonly checkpoint: Checkpoint | null
  readonly model: string
  /** As `tagsText` writes them; null without any. */
  readonly tags: string | null
  readonly priceVersion: string
  readonly openedAt: number
}

export interface Wallet {
  readonly account: string
  /** Lots with something left, soonest expiry first, then oldest. */
  readonly lots: Lot[]
  readonly debt: Pico
  /** How much the account may owe; zero without a credit line. */
  readonly creditLine: Pico
  readonly calls: ShortLivedMap<string, OpenCall>
  /** The daily allowance that expires last, spent or not: a clock that goes back must not grant another. */
  readonly lastAllowance: { readonly lot: string; readonly expiresAt: number } | null
}

export function emptyWallet(account: string): Wallet {
  return { account, lots: [], debt: 0n, creditLine: 0n, calls: new ShortLivedMap(), lastAllowance: null }
}

/** The amounts that a decision adds to one lot. */
export interface LotChange {
  readonly lot: string
  readonly remaining: Pico
  readonly pinned: Pico
  readonly expired: Pico
  readonly refunded: Pico
}

/** One line of the journal. Positive amounts are credit to the account named. */
export interface Leg {
  readonly account: string
  /** The lot if the line changes an account's credit; null for debt and for all other accounts. */
  readonly lot: string | null
  readonly amount: Pico
}

export type CallChange =
  | { readonly kind: 'opened'; readonly open: OpenCall }
  /** Its hold, its lease or its checkpoint changed. */
  | { readonly kind: 'kept'; readonly open: OpenCall }
  | {
      readonly kind: 'ended'
      readonly open: OpenCall
      readonly state: 'settled' | 'voided'
      readonly cost: Pico
      readonly charged: Pico
      readonly absorbed: Pico
    }

/** Everything that one accepted command changes. A store writes all of it or nothing. */
export interface Change {
  readonly lots: readonly LotChange[]
  readonly newLot: Lot | null
  readonly debt: Pico
  readonly call: CallChange | null
  /** Its legs add up to zero; null if no credit moved. */
  readonly transaction: { readonly kind: TransactionKind; readonly legs: readonly Leg[] } | null
  /** The legs of the transaction that follows: debt repaid from freed credit. */
  readonly repayment: readonly Leg[] | null
  readonly lastAllowance: Wallet['lastAllowance']
}

export const noChange: Change = {
  lots: [],
  newLot: null,
  debt: 0n,
  call: null,
  transaction: null,
  repayment: null,
  lastAllowance: null,
}

type Writable<T> = { -readonly [K in keyof T]: T[K] }

/** Applies a change to the wallet in place. Returns the lots it changed. */
export function apply(wallet: Wallet, change: Change): readonly Lot[] {
  const target: Writable<Wallet> = wallet
  const touched: Lot[] = []
  for (const delta of change.lots) {
    const at = placeOf(target.lots, delta.lot)
    const lot = target.lots[at]
    if (!lot) throw new Error(`the change names the lot ${delta.lot}, which is not in the wallet`)
    const next = changeLot(lot, delta)
    if (next.remaining === 0n) target.lots.splice(at, 1)
    else target.lots[at] = next
    touched.push(next)
  }
  if (change.newLot) {
    touched.push(change.newLot)
    if (change.newLot.remaining > 0n) addLot(target.lots, change.newLot)
  }
  target.debt += change.debt
  if (change.lastAllowance) target.lastAllowance = change.lastAllowance
  if (change.call?.kind === 'ended') target.calls.take(change.call.open.call)
  else if (change.call) target.calls.set(change.call.open.call, change.call.open)
  return touched
}

function placeOf(lots: readonly Lot[], id: string): number {
  for (let at = 0; at < lots.length; at++) if (lots[at]!.id === id) return at
  return -1
}

function changeLot(lot: Lot, delta: LotChange): Lot {
  return {
    id: lot.id,
    pool: lot.pool,
    granted: lot.granted,
    remaining: lot.remaining + delta.remaining,
    pinned: lot.pinned + delta.pinned,
    expired: lot.expired + delta.expired,
    refunded: lot.refunded + delta.refunded,
    grantedAt: lot.grantedAt,
    expiresAt: lot.expiresAt,
  }
}

/** Inserts a lot at its place in the order of consumption. */
export function addLot(lots: Lot[], lot: Lot): void {
  const at = lots.findIndex((other) => consumedBefore(lot, other) < 0)
  if (at < 0) lots.push(lot)
  else lots.splice(at, 0, lot)
}

/** Soonest expiry first, then oldest, then by id, so that the order is the same everywhere. */
export function consumedBefore(a: Lot, b: Lot): number {
  const expiry = (a.expiresAt ?? Infinity) - (b.expiresAt ?? Infinity)
  if (a.expiresAt !== b.expiresAt && expiry !== 0) return expiry
  if (a.grantedAt !== b.grantedAt) return a.grantedAt - b.grantedAt
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0
}

export function isExpired({ expiresAt }: Pick<Lot, 'expiresAt'>, now: number): boolean {
  return expiresAt !== null && expiresAt <= now
}

/** How much of a lot a new hold may take at `now`. */
export function freeOf(lot: Lot, now: number): Pico {
  return isExpired(lot, now) ? 0n : lot.remaining - lot.pinned
}

/** The wallet as its owner sees it: of an expired lot only what calls in flight hold. */
export function balanceOf(wallet: Wallet, now: number): Balance {
  const lots: LotBalance[] = []
  for (const lot of wallet.lots) {
    const remaining = isExpired(lot, now) ? lot.pinned : lot.remaining
    if (remaining === 0n) continue
    const { id, pool, granted, pinned, grantedAt, expiresAt } = lot
    lots.push({ id, pool, granted, remaining, pinned, grantedAt, expiresAt })
  }
  return { account: wallet.account, lots, debt: wallet.debt, creditLine: wallet.creditLine }
}

// What a balance can pay for. Debt is deducted from purchased credit first. An account with a credit line can also pay
// with what is left of the line.

type SpendableLot = Pick<LotBalance, 'pool' | 'remaining' | 'pinned' | 'expiresAt'>

/** An account's lots and what it owes: a balance, or the wallet that the ledger decides on. */
interface Credit {
  readonly lots: readonly SpendableLot[]
  readonly debt: Pico
  readonly creditLine: Pico
}

/** What is left in a pool at `now`, holds included and debt deducted, in picodollars. */
export function remainingIn(credit: Credit, pool: Pool, now: number): Pico {
  let remaining = 0n
  for (const lot of credit.lots) {
    if (lot.pool === pool && !isExpired(lot, now)) remaining += lot.remaining
  }
  return lessDebt(credit, pool, remaining)
}

/** Credit in these pools at `now` that may be held: unexpired, not pinned and not owed, in picodollars. */
export function freeIn(credit: Credit, funding: readonly Pool[], now: number): Pico {
  let free = 0n
  for (const pool of funding) {
    let unpinned = 0n
    for (const lot of credit.lots)
      if (lot.pool === pool && !isExpired(lot, now)) unpinned += lot.remaining - lot.pinned
    free += lessDebt(credit, pool, unpinned)
  }
  return free
}

/** What a set of pools can pay with, in picodollars; of unexpired lots alone. */
export interface PoolCredit {
  /** Free now, after debt. */
  readonly free: Pico
  /** Held by calls in flight. */
  readonly held: Pico
  /** Free if all of them returned their holds. */
  readonly freeLater: Pico
}

export function creditIn(credit: Credit, funding: readonly Pool[], now: number): PoolCredit {
  let free = 0n
  let held = 0n
  let freeLater = 0n
  for (const pool of funding) {
    let remaining = 0n
    let pinned = 0n
    for (const lot of credit.lots) {
      if (lot.pool !== pool || isExpired(lot, now)) continue
      remaining += lot.remaining
      pinned += lot.pinned
    }
    free += lessDebt(credit, pool, remaining - pinned)
    held += pinned
    freeLater += lessDebt(credit, pool, remaining)
  }
  return { free, held, freeLater }
}

function lessDebt({ debt, creditLine }: Credit, pool: Pool, amount: Pico): Pico {
  if (pool !== 'purchased') return amount
  const worth = amount + creditLine
  return worth > debt ? worth - debt : 0n
}

// Reads and writes the credit line of an account as text.

/** Reads `500`, `unlimited` (the most the ledger can hold) or `none`; undefined for anything else. */
export function parseCreditLine(text: string): Pico | undefined {
  if (text === 'unlimited') return largestBalance
  if (text === 'none') return 0n
  const amount = parseUsd(text)
  return amount !== undefined && amount >= 0n && amount <= largestLot ? amount : undefined
}

/** `500`, `unlimited`, or null for an account without a credit line. */
export function formatCreditLine(most: Pico): string | null {
  if (most === 0n) return null
  return most === largestBalance ? 'unlimited' : formatUsd(most)
}
