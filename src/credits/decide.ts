// What a ledger command does to a wallet. Pure and synchronous: reads nothing, writes nothing, `now` is a parameter. A
// store loads the wallet, calls this, and writes the change as a whole; the rules are only here.

import { GatewayError } from '../errors/errors.ts'
import { creditIn, freeIn, type PoolCredit } from './balance.ts'
import { withRepayment } from './debt.ts'
import { decideAdjust, decideExpiry, decideGrant, decideRefund } from './decide-credit.ts'
import type { Command, Results, Decision, CommandOf } from './decision.ts'
import type {
  HoldAmounts,
  HoldRefusal,
  HoldResult,
  KeyLimit,
  KeySpend,
  SettleResult,
} from './ledger/ledger.ts'
import { larger, largestLot, smaller, type Pico } from './money.ts'
import type { Pool } from './pool.ts'
import {
  type CallChange,
  type Change,
  freeOf,
  type Leg,
  loanPrefix,
  type Lot,
  type LotChange,
  noChange,
  type OpenCall,
  type Pin,
  type Wallet,
} from './wallet.ts'

/**
 * Decides one command. Expected refusals are results. A command out of bounds (a lot or balance that is too large, a
 * negative amount) throws GatewayError `invalid_request`.
 */
export function decide<Kind extends Command['kind']>(
  wallet: Wallet,
  command: CommandOf<Kind>,
  now: number,
): Decision<Results[Kind]> {
  const decider: (wallet: Wallet, command: CommandOf<Kind>, now: number) => Decision<Results[Kind]> =
    deciders[command.kind as Kind]
  const decision = decider(wallet, command, now)
  const { change } = decision
  if (change === null || wallet.debt + change.debt === 0n || takesCredit[command.kind]) return decision
  return { result: decision.result, change: withRepayment(wallet, change, now) }
}

/** Commands that reserve credit. After any other, freed credit repays the debt first. */
const takesCredit: Readonly<Partial<Record<Command['kind'], true>>> = {
  hold: true,
  extend: true,
  checkpoint: true,
}

const deciders: {
  readonly [Kind in Command['kind']]: (
    wallet: Wallet,
    command: CommandOf<Kind>,
    now: number,
  ) => Decision<Results[Kind]>
} = {
  hold: decideHold,
  extend: decideExtend,
  checkpoint: decideCheckpoint,
  settle: decideSettle,
  release: decideRelease,
  grant: decideGrant,
  expire: decideExpiry,
  refund: decideRefund,
  adjust: decideAdjust,
}

/** What the limit of a key leaves of it, picodollars. */
type KeyRoom = Pick<PoolCredit, 'free' | 'held' | 'freeLater'>

function roomOf(keyLimit: KeyLimit | null, { spent, held }: KeySpend): KeyRoom | null {
  if (keyLimit === null) return null
  const freeLater = larger(keyLimit.limit - spent, 0n)
  return { free: larger(freeLater - held, 0n), held, freeLater }
}

/**
 * A call may take this part of what is free beyond all that is held already. One call leaves most of the credit to
 * others, and however many begin, half of the credit is left to those that take no more than they need.
 */
const fairPart = 4n

function fairShare({ free, held }: Pick<PoolCredit, 'free' | 'held'>): Pico {
  return larger(free - held, 0n) / fairPart
}

/**
 * How much a call gets of the credit of its funding and of its key's limit; `least` is there. What it would leave is not
 * left if it is too little for another such call.
 */
function amountOf({ least, want, most }: HoldAmounts, credit: PoolCredit, room: KeyRoom | null): Pico {
  const needed = larger(smaller(want, largestLot), least)
  const share = fairShare(credit)
  const fair = room === null ? share : smaller(share, fairShare(room))
  const highest = larger(needed, smaller(most, largestLot))
  const amount = larger(needed, smaller(highest, fair))
  const free = room === null ? credit.free : smaller(credit.free, room.free)
  return smaller(free, free - amount < needed ? highest : amount)
}

/** Holds as much of `want` as is free, at least `least`; of `most` as much as is fair. */
function decideHold(
  wallet: Wallet,
  { hold, keySpend }: CommandOf<'hold'>,
  now: number,
): Decision<HoldResult> {
  if (hold.least < 0n) throw new GatewayError('internal_error', { message: 'a hold cannot be negative' })
  if (wallet.calls.has(hold.call)) throw new GatewayError('idempotency_in_progress')
  const credit = creditIn(wallet, hold.funding, now)
  const room = roomOf(hold.keyLimit, keySpend)
  const { least } = hold
  // What no call in flight will give back comes first: only the rest is worth another try.
  if (room !== null && room.freeLater < least) return refusalOf('key-limit', room.freeLater, room.held)
  if (credit.freeLater < least) return refusalOf('insufficient', credit.free, credit.held)
  if (room !== null && room.free < least) return refusalOf('key-reserved', room.free, room.held)
  if (credit.free < least) return refusalOf('reserved', credit.free, credit.held)
  const amount = amountOf(hold, credit, room)
  const { pins, loan } = takeFrom(wallet, hold, [], amount, now)
  const open: OpenCall = {
    call: hold.call,
    key: hold.key,
    keyLimit: hold.keyLimit,
    funding: hold.funding,
    hold: amount,
    pins,
    owner: hold.owner,
    leaseUntil: hold.leaseUntil,
    checkpoint: null,
    model: hold.model,
    priceVersion: hold.priceVersion,
    openedAt: now,
  }
  return { result: { kind: 'held', amount }, change: reserving(pins, loan, { kind: 'opened', open }) }
}

function refusalOf(reason: HoldRefusal, available: Pico, held: Pico): Decision<HoldResult> {
  return { result: { kind: 'refused', reason, available, held }, change: null }
}

/** Holds more by the rule of a hold, from the call's own funding and within its key's limit. */
function decideExtend(
  wallet: Wallet,
  { extend, keySpend }: CommandOf<'extend'>,
  now: number,
): Decision<Pico> {
  const nothing = { result: 0n, change: null }
  const open = openCallOf(wallet, extend.call, extend.owner)
  if (!open) return nothing
  if (extend.least < 0n) throw new GatewayError('internal_error', { message: 'a hold cannot shrink' })
  // A lot that had expired when the call began stays expired for it, even if the clock went back since.
  const at = Math.max(now, open.openedAt)
  const credit = creditIn(wallet, open.funding, at)
  const room = roomOf(open.keyLimit, keySpend)
  const overLimit = room !== null && room.free < extend.least
  if (overLimit || credit.free < extend.least) return nothing
  const more = amountOf(extend, credit, room)
  if (more === 0n) return nothing
  const { pins, loan } = takeFrom(wallet, open, open.pins, more, at)
  const extended: OpenCall = { ...open, hold: open.hold + more, pins: mergePins(open.pins, pins) }
  return { result: more, change: reserving(pins, loan, { kind: 'kept', open: extended }) }
}

function decideCheckpoint(wallet: Wallet, { checkpoint }: CommandOf<'checkpoint'>): Decision<boolean> {
  const open = openCallOf(wallet, checkpoint.call, checkpoint.owner)
  if (!open) return { result: false, change: null }
  const reached = { usage: checkpoint.usage, cost: larger(checkpoint.cost, 0n) }
  const kept: OpenCall = { ...open, leaseUntil: checkpoint.leaseUntil, checkpoint: reached }
  return { result: true, change: { ...noChange, call: { kind: 'kept', open: kept } } }
}

/**
 * Charges the cost to the lots that the call has pinned, in order, and unpins the rest. A cost above the hold takes
 * free credit of the same funding, but an estimate is charged up to the hold only. The rest, and anything above the
 * caller's own limit, is absorbed by the operator.
 */
function decideSettle(
  wallet: Wallet,
  { settle, keySpend }: CommandOf<'settle'>,
  now: number,
): Decision<SettleResult> {
  const open = openCallOf(wallet, settle.call, settle.owner)
  if (!open) return { result: { kind: 'already-ended' }, change: null }
  if (settle.cost < 0n) throw new GatewayError('internal_error', { message: 'a cost cannot be negative' })
  // A provider that reports 10^15 tokens must not overflow the ledger; no call can cost more than one lot can hold.
  const cost = smaller(settle.cost, largestLot)
  // One per pin of the call, usually a single one: an array is cheaper than a map.
  const lots: LotChange[] = []
  const payable = smaller(cost, settle.most ?? cost)
  let due = payable
  for (const pin of open.pins) {
    const paid = smaller(due, pin.amount)
    due -= paid
    lots.push({ lot: pin.lot, remaining: -paid, pinned: -pin.amount, expired: 0n, refunded: 0n })
  }
  if (due > 0n && !settle.estimated) {
    for (const more of take(
      wallet,
      open.funding,
      smaller(due, freeIn({ ...wallet, creditLine: 0n }, open.funding, now)),
      now,
    )) {
      due -= more.amount
      const at = lots.findIndex((change) => change.lot === more.lot)
      const before = lots[at]
      if (before) lots[at] = { ...before, remaining: before.remaining - more.amount }
      else lots.push({ lot: more.lot, remaining: -more.amount, pinned: 0n, expired: 0n, refunded: 0n })
    }
  }
  const charged = payable - due
  const absorbed = cost - charged
  const spent = keySpend.spent + keySpend.held - open.hold + charged
  const overLimit = charged > open.hold && open.keyLimit !== null && spent > open.keyLimit.limit
  return {
    result: { kind: 'settled', charged, absorbed, overLimit },
    change: {
      lots,
      newLot: null,
      debt: 0n,
      repayment: null,
      lastAllowance: null,
      call: { kind: 'ended', open, state: 'settled', cost, charged, absorbed },
      transaction:
        cost === 0n
          ? null
          : { kind: 'settle', legs: settleLegs(wallet, lots, cost, absorbed, settle.provider) },
    },
  }
}

function settleLegs(
  wallet: Wallet,
  lots: readonly LotChange[],
  cost: Pico,
  absorbed: Pico,
  provider: string,
): Leg[] {
  const legs: Leg[] = []
  for (const { lot, remaining } of lots) {
    if (remaining !== 0n) legs.push({ account: creditAccount(wallet, lot), lot, amount: remaining })
  }
  if (absorbed > 0n) legs.push({ account: 'absorbed', lot: null, amount: -absorbed })
  legs.push({ account: `provider:${provider}`, lot: null, amount: cost })
  return legs
}

function creditAccount(wallet: Wallet, lot: string): string {
  for (const { id, pool } of wallet.lots) if (id === lot) return `wallet:${wallet.account}:${pool}`
  throw new Error(`the lot ${lot} is not in the wallet`)
}

/** Returns the whole hold: nothing was served. */
function decideRelease(wallet: Wallet, { release }: CommandOf<'release'>): Decision<SettleResult> {
  const open = openCallOf(wallet, release.call, release.owner)
  if (!open) return { result: { kind: 'already-ended' }, change: null }
  const lots = open.pins.map((pin) => ({
    lot: pin.lot,
    remaining: 0n,
    pinned: -pin.amount,
    expired: 0n,
    refunded: 0n,
  }))
  return {
    result: { kind: 'settled', charged: 0n, absorbed: 0n, overLimit: false },
    change: {
      ...noChange,
      lots,
      call: { kind: 'ended', open, state: 'voided', cost: 0n, charged: 0n, absorbed: 0n },
    },
  }
}

/** The call if it is open and belongs to `owner`; otherwise recovery has ended it. */
function openCallOf(wallet: Wallet, call: string, owner: string): OpenCall | undefined {
  const open = wallet.calls.get(call)
  return open?.owner === owner ? open : undefined
}

/** Credit lent to a call on the credit line: a lot of its own, with a debt of its size. */
interface Loan {
  readonly lot: Lot
  readonly legs: readonly Leg[]
}

/**
 * Reserves `amount` for a call: free credit first, the rest as a loan on the credit line, whose pin is the last one.
 * Whatever the call leaves of a loan repays it.
 */
function takeFrom(
  wallet: Wallet,
  { call, funding }: Pick<OpenCall, 'call' | 'funding'>,
  before: readonly Pin[],
  amount: Pico,
  now: number,
): { readonly pins: readonly Pin[]; readonly loan: Loan | null } {
  const pins = take(wallet, funding, amount, now)
  let lent = amount
  for (const pin of pins) lent -= pin.amount
  if (lent === 0n) return { pins, loan: null }
  if (lent > wallet.creditLine - wallet.debt) throw new Error('the free credit was counted wrongly')
  const loans = before.filter(({ lot }) => lot.startsWith(loanPrefix)).length
  const id = `${loanPrefix}${call}_${loans}`
  const lot: Lot = {
    ...emptyLot,
    id,
    granted: lent,
    remaining: lent,
    pinned: lent,
    grantedAt: now,
  }
  const credit = `wallet:${wallet.account}:purchased`
  const legs: Leg[] = [
    { account: credit, lot: id, amount: lent },
    { account: credit, lot: null, amount: -lent },
  ]
  return { pins: [...pins, { lot: id, amount: lent }], loan: { lot, legs } }
}

/** The change of a call that reserves more; a loan's lot begins with its pin. */
function reserving(pins: readonly Pin[], loan: Loan | null, call: CallChange): Change {
  const lots: LotChange[] = []
  for (const { lot, amount } of pins) {
    if (lot !== loan?.lot.id) lots.push({ lot, remaining: 0n, pinned: amount, expired: 0n, refunded: 0n })
  }
  return {
    lots,
    newLot: loan && loan.lot,
    debt: loan ? loan.lot.granted : 0n,
    call,
    transaction: loan && { kind: 'borrow', legs: loan.legs },
    repayment: null,
    lastAllowance: null,
  }
}

const emptyLot = { pool: 'purchased', expired: 0n, refunded: 0n, expiresAt: null } as const

/** Takes `amount` of free credit, or all there is: pool by pool in funding order, soonest expiry first, then oldest. */
function take(wallet: Wallet, funding: readonly Pool[], amount: Pico, now: number): Pin[] {
  const pins: Pin[] = []
  let rest = amount
  for (const pool of funding) {
    for (const lot of wallet.lots) {
      if (rest === 0n) return pins
      if (lot.pool !== pool) continue
      const part = smaller(rest, freeOf(lot, now))
      if (part <= 0n) continue
      pins.push({ lot: lot.id, amount: part })
      rest -= part
    }
  }
  return pins
}

/** One pin per lot; extending a pinned lot adds to its pin. */
function mergePins(pins: readonly Pin[], added: readonly Pin[]): Pin[] {
  const all = pins.map((pin) => ({
    lot: pin.lot,
    amount: pin.amount + (added.find((more) => more.lot === pin.lot)?.amount ?? 0n),
  }))
  return [...all, ...added.filter((more) => !pins.some((pin) => pin.lot === more.lot))]
}
