// Decides the commands that add or remove credit: grants, expiry, refunds, corrections. Pure, like decide.ts.

import { GatewayError } from '../errors/errors.ts'
import { isAllowance, isWelcome, lifeFault, startOfDay, dayMs, twelveMonthsAfter } from './calendar.ts'
import type { Command, Decision, PriorGrant } from './decision.ts'
import type { AdjustResult, GrantCommand, GrantResult, RefundResult } from './ledger/ledger.ts'
import { formatUsd, largestBalance, largestLot, smaller, type Pico } from './money.ts'
import {
  type Change,
  freeOf,
  isExpired,
  type Leg,
  loanPrefix,
  type Lot,
  type LotChange,
  noChange,
  type Wallet,
} from './wallet.ts'

type CommandOf<Kind extends Command['kind']> = Extract<Command, { kind: Kind }>

/** Adds a lot, once per source. */
export function decideGrant(
  wallet: Wallet,
  { grant, lot: id, prior }: CommandOf<'grant'>,
  now: number,
): Decision<GrantResult> {
  if (prior) return decideRepeated(wallet.account, grant, prior)
  const allowance = isAllowance(grant)
  const expiresAt = expiryOf(grant, now)
  // A later allowance exists, so the clock has gone back: today's was granted already.
  if (
    allowance &&
    wallet.lastAllowance &&
    expiresAt !== null &&
    expiresAt <= wallet.lastAllowance.expiresAt
  ) {
    return grantedBefore(wallet.lastAllowance.lot)
  }
  requireBounds(wallet, grant.amount)
  if (expiresAt !== null && expiresAt <= now) throw invalid('The expiry date lies in the past.')
  const credit = `wallet:${wallet.account}:${grant.pool}`
  const rounding = grant.rounding ?? 0n
  const legs: Leg[] = [
    { account: grant.from, lot: null, amount: -grant.amount - rounding },
    { account: credit, lot: id, amount: grant.amount },
  ]
  if (rounding > 0n) legs.push({ account: 'fx_rounding', lot: null, amount: rounding })
  const newLot: Lot = {
    id,
    pool: grant.pool,
    granted: grant.amount,
    remaining: grant.amount,
    pinned: 0n,
    expired: 0n,
    refunded: 0n,
    grantedAt: now,
    expiresAt,
  }
  return {
    result: { lot: id, granted: true },
    change: {
      ...noChange,
      newLot,
      transaction: { kind: 'grant', legs },
      lastAllowance: allowance && expiresAt !== null ? { lot: id, expiresAt } : null,
    },
  }
}

/** The same source again: an identical grant is answered without effect, any other is a conflict. */
function decideRepeated(account: string, grant: GrantCommand, prior: PriorGrant): Decision<GrantResult> {
  // The amount of an allowance or welcome may change with the program; each is still granted only once.
  const sameAmount = prior.amount === grant.amount || isAllowance(grant) || isWelcome(grant)
  if (prior.account === account && prior.pool === grant.pool && sameAmount && hasSameEnd(grant, prior))
    return grantedBefore(prior.lot)
  const whom = prior.account === account ? 'this account' : `the account ${prior.account}`
  const end =
    prior.expiresAt === null ? 'never expires' : `expires at ${new Date(prior.expiresAt).toISOString()}`
  throw new GatewayError('idempotency_conflict', {
    message: `The source ${grant.source} has granted ${formatUsd(prior.amount)} USD (${prior.pool}) to ${whom} before. That lot ${end}.`,
    metadata: { lot: prior.lot },
  })
}

/** Only operators choose the end. That of a payment or a period follows from settings, which may have changed since. */
function hasSameEnd(grant: GrantCommand, prior: PriorGrant): boolean {
  return grant.operator === undefined || expiryOf(grant, prior.grantedAt) === prior.expiresAt
}

function grantedBefore(lot: string): Decision<GrantResult> {
  return { result: { lot, granted: false }, change: null }
}

/** When a lot expires if the grant does not say: purchased after 12 months, daily at midnight UTC, welcome never. */
function expiryOf(grant: GrantCommand, now: number): number | null {
  const { pool, expiresAt } = grant
  if (typeof expiresAt === 'number') return expiresAt
  const fault = lifeFault(pool, expiresAt, now)
  if (fault !== undefined) throw invalid(fault)
  if (expiresAt === 'never') return null
  switch (pool) {
    case 'purchased':
      return twelveMonthsAfter(now)
    case 'daily':
      return startOfDay(now) + dayMs
    case 'welcome':
    case 'subscription':
      return null
  }
}

function requireBounds(wallet: Wallet, amount: Pico): void {
  if (amount <= 0n) throw invalid('The amount must be positive.')
  if (amount > largestLot) throw invalid(`One grant is at most ${formatUsd(largestLot)} USD.`)
  const posted = wallet.lots.reduce((sum, lot) => sum + lot.remaining, 0n)
  if (posted + amount > largestBalance)
    throw invalid(`A balance is at most ${formatUsd(largestBalance)} USD.`)
}

/** Expires the free part of every lot that is past its end. Credit pinned by a call stays until the call ends. */
export function decideExpiry(wallet: Wallet, _command: CommandOf<'expire'>, now: number): Decision<Pico> {
  const lots: LotChange[] = []
  const legs: Leg[] = []
  let total = 0n
  for (const lot of wallet.lots) {
    const gone = lot.remaining - lot.pinned
    if (!isExpired(lot, now) || gone === 0n) continue
    lots.push({ lot: lot.id, remaining: -gone, pinned: 0n, expired: gone, refunded: 0n })
    legs.push({ account: `wallet:${wallet.account}:${lot.pool}`, lot: lot.id, amount: -gone })
    total += gone
  }
  if (total === 0n) return { result: 0n, change: null }
  legs.push({ account: 'expired', lot: null, amount: total })
  return { result: total, change: { ...noChange, lots, transaction: { kind: 'expire', legs } } }
}

/**
 * Refunds a payment: takes the unspent rest of its lot first, then what expired of it, whose expiry is undone. Only what
 * was spent becomes debt: who gets money back for credit that he never used must not owe it too.
 */
export function decideRefund(
  wallet: Wallet,
  { refund, refunded }: CommandOf<'refund'>,
): Decision<RefundResult> {
  const lot = wallet.lots.find((other) => other.id === refund.lot)
  if (!lot) throw new GatewayError('not_found', { message: 'This account has no such lot.' })
  if (lot.pool !== 'purchased' || lot.id.startsWith(loanPrefix))
    throw invalid('Only purchased credit can be refunded.')
  if (refund.amount <= 0n) throw invalid('The amount must be positive.')
  // Includes what became debt: refunding a payment twice would leave the account owing money it never had.
  if (refunded + refund.amount > lot.granted) throw invalid('All refunds of a lot are at most what was paid.')
  const left = smaller(refund.amount, lot.remaining - lot.pinned)
  const expired = smaller(refund.amount - left, lot.expired)
  const taken = left + expired
  const debt = refund.amount - taken
  if (wallet.debt + debt > largestBalance)
    throw invalid(`A debt is at most ${formatUsd(largestBalance)} USD.`)
  const credit = `wallet:${wallet.account}:${lot.pool}`
  const legs: Leg[] = []
  if (expired > 0n) {
    legs.push({ account: 'expired', lot: null, amount: -expired })
    legs.push({ account: credit, lot: lot.id, amount: expired })
  }
  if (taken > 0n) legs.push({ account: credit, lot: lot.id, amount: -taken })
  if (debt > 0n) legs.push({ account: credit, lot: null, amount: -debt })
  legs.push({ account: 'refund', lot: null, amount: refund.amount })
  const lots = [{ lot: lot.id, remaining: -left, pinned: 0n, expired: -expired, refunded: taken }]
  const change: Change = { ...noChange, lots, debt, transaction: { kind: 'refund', legs } }
  return { result: { taken, debt, refunded: true }, change }
}

/** An operator's correction: adds credit as a lot of its own, or takes free credit from the pool. */
export function decideAdjust(
  wallet: Wallet,
  { adjust, lot }: CommandOf<'adjust'>,
  now: number,
): Decision<AdjustResult> {
  if (adjust.amount >= 0n) {
    const { id: source, account, pool, amount, expiresAt = null, refundOf } = adjust
    const from = refundOf === undefined ? 'grant' : 'refund'
    const grant: GrantCommand = { source, account, pool, amount, expiresAt, from }
    const { change } = decideGrant(wallet, { kind: 'grant', grant, lot, prior: null }, now)
    return { result: { adjusted: true }, change }
  }
  const lots: LotChange[] = []
  const legs: Leg[] = []
  let rest = -adjust.amount
  for (const held of wallet.lots) {
    if (adjust.lot !== undefined && held.id !== adjust.lot) continue
    const part = held.pool === adjust.pool ? smaller(rest, freeOf(held, now)) : 0n
    if (part === 0n) continue
    rest -= part
    lots.push({ lot: held.id, remaining: -part, pinned: 0n, expired: 0n, refunded: part })
    legs.push({ account: `wallet:${wallet.account}:${adjust.pool}`, lot: held.id, amount: -part })
  }
  if (rest > 0n) throw invalid('There is not so much free credit in this pool, or in the lot that was named.')
  legs.push({ account: 'grant', lot: null, amount: -adjust.amount })
  return { result: { adjusted: true }, change: { ...noChange, lots, transaction: { kind: 'adjust', legs } } }
}

function invalid(message: string): GatewayError {
  return new GatewayError('invalid_request', { message })
}
