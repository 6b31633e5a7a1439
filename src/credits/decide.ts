// What a ledger command does to a wallet. Pure and synchronous: reads nothing, writes nothing, `now` is a parameter. A
// store loads the wallet, calls decide(), and writes the change as a whole; the rules are only here. A new command
// begins in `Command` and `Results`: the compiler then asks for its decider, and for its place in the simulation. Its
// verb, and what it books its transactions for, are in ledger/ledger.ts, and store/ledger-core.ts carries it out for
// both databases.

import { GatewayError } from '../errors/errors.ts'
import {
  dayMs,
  isAllowance,
  isMonthly,
  isWelcome,
  lifeFault,
  startOfDay,
  twelveMonthsAfter,
} from './calendar.ts'
import type {
  AdjustCommand,
  AdjustResult,
  Budget,
  CheckpointCommand,
  ExtendCommand,
  GrantCommand,
  GrantResult,
  HoldAmounts,
  HoldCommand,
  HoldRefusal,
  HoldResult,
  KeySpend,
  RefundCommand,
  RefundResult,
  ReleaseCommand,
  SettleCommand,
  SettleResult,
} from './ledger/ledger.ts'
import { formatUsd, larger, largestBalance, largestLot, type Pico, smaller } from './money.ts'
import { type Pool, rulesOf } from './pool.ts'
import {
  addLot,
  type CallChange,
  type Change,
  creditIn,
  freeIn,
  freeOf,
  isExpired,
  type Leg,
  loanPrefix,
  type Lot,
  type LotChange,
  noChange,
  type OpenCall,
  type Pin,
  type PoolCredit,
  type Wallet,
} from './wallet.ts'

/** A caller's command with the facts from outside the wallet that decide() needs. */
export type Command =
  | ({ readonly kind: 'hold'; readonly hold: HoldCommand } & LimitSpends)
  /** The sums include what this call holds. */
  | ({ readonly kind: 'extend'; readonly extend: ExtendCommand } & LimitSpends)
  | { readonly kind: 'checkpoint'; readonly checkpoint: CheckpointCommand }
  /** The sums as for an extension. */
  | ({ readonly kind: 'settle'; readonly settle: Settlement } & LimitSpends)
  | { readonly kind: 'release'; readonly release: Pick<ReleaseCommand, 'call' | 'owner'> }
  /** `lot`: id of the new lot. `prior`: the lot of an earlier grant with the same source. */
  | {
      readonly kind: 'grant'
      readonly grant: GrantCommand
      readonly lot: string
      readonly prior: PriorGrant | null
    }
  | { readonly kind: 'expire' }
  /** The lot is in the wallet even if nothing is left of it. `refunded`: the sum of its earlier refunds. */
  | { readonly kind: 'refund'; readonly refund: RefundCommand; readonly refunded: Pico }
  | { readonly kind: 'adjust'; readonly adjust: AdjustCommand; readonly lot: string }

interface LimitSpends {
  /** Of the key, in the current window of its limit. */
  readonly keySpend: KeySpend
  /** Of each budget of the call, in its order. */
  readonly budgetSpend: readonly KeySpend[]
}

type Settlement = Pick<SettleCommand, 'call' | 'owner' | 'cost' | 'most' | 'estimated'> & {
  readonly provider: string
}

export interface PriorGrant {
  readonly lot: string
  readonly account: string
  readonly pool: Pool
  readonly amount: Pico
  readonly grantedAt: number
  readonly expiresAt: number | null
}

/** The result type of each command. */
interface Results {
  hold: HoldResult
  extend: Pico
  checkpoint: boolean
  settle: SettleResult
  release: SettleResult
  grant: GrantResult
  expire: Pico
  refund: RefundResult
  adjust: AdjustResult
}

/** The result for the caller, and the change that the store must write; null if nothing changes. */
interface Decision<Result> {
  readonly result: Result
  readonly change: Change | null
}

type CommandOf<Kind extends Command['kind']> = Extract<Command, { kind: Kind }>

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

/** What a limit leaves, picodollars: that of a key, or a budget. */
interface Room extends Pick<PoolCredit, 'free' | 'held' | 'freeLater'> {
  readonly limit: Pico
  readonly spent: Pico
  /** null for the limit of a key. */
  readonly budget: Budget | null
}

const noRooms: readonly Room[] = []

/** What each limit of a call leaves: its key's first, then its budgets from the person's own upwards. */
function roomsOf(
  { keyLimit, inGroup }: Pick<OpenCall, 'keyLimit' | 'inGroup'>,
  { keySpend, budgetSpend }: LimitSpends,
): readonly Room[] {
  if (keyLimit === null && inGroup === null) return noRooms
  const rooms = keyLimit === null ? [] : [roomOf(keyLimit.limit, keySpend, null)]
  inGroup?.budgets.forEach((budget, at) => {
    if (budget.limit !== null) rooms.push(roomOf(budget.limit, budgetSpend[at]!, budget))
  })
  return rooms
}

function roomOf(limit: Pico, { spent, held }: KeySpend, budget: Budget | null): Room {
  const freeLater = larger(limit - spent, 0n)
  return { limit, spent, held, free: larger(freeLater - held, 0n), freeLater, budget }
}

/** The first of those that leave least; undefined where nothing is limited. */
function tightest(rooms: readonly Room[], what: 'free' | 'freeLater'): Room | undefined {
  let least = rooms[0]
  for (const room of rooms) if (room[what] < least![what]) least = room
  return least
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
 * How much a call gets of the credit of its funding and within all its limits; `least` is there. What it would leave is
 * not left if it is too little for another such call.
 */
function amountOf({ least, want, most }: HoldAmounts, credit: PoolCredit, rooms: readonly Room[]): Pico {
  const needed = larger(smaller(want, largestLot), least)
  let { free } = credit
  let fair = fairShare(credit)
  for (const room of rooms) {
    free = smaller(free, room.free)
    fair = smaller(fair, fairShare(room))
  }
  const highest = larger(needed, smaller(most, largestLot))
  const amount = larger(needed, smaller(highest, fair))
  return smaller(free, free - amount < needed ? highest : amount)
}

/** Holds as much of `want` as is free, at least `least`; of `most` as much as is fair. */
function decideHold(
  wallet: Wallet,
  { hold, ...spends }: CommandOf<'hold'>,
  now: number,
): Decision<HoldResult> {
  if (hold.least < 0n) throw new GatewayError('internal_error', { message: 'a hold cannot be negative' })
  if (wallet.calls.has(hold.call)) throw new GatewayError('idempotency_in_progress')
  const credit = creditIn(wallet, hold.funding, now)
  const rooms = roomsOf(hold, spends)
  const { least } = hold
  // What no call in flight will give back comes first: only the rest is worth another try.
  const spent = tightest(rooms, 'freeLater')
  if (spent !== undefined && spent.freeLater < least) return refusalBy(spent, 'freeLater')
  if (credit.freeLater < least) return refusalOf('insufficient', credit.free, credit.held)
  const reserved = tightest(rooms, 'free')
  if (reserved !== undefined && reserved.free < least) return refusalBy(reserved, 'free')
  if (credit.free < least) return refusalOf('reserved', credit.free, credit.held)
  const amount = amountOf(hold, credit, rooms)
  const { pins, loan } = takeFrom(wallet, hold, [], amount, now)
  const open: OpenCall = {
    call: hold.call,
    key: hold.key,
    keyLimit: hold.keyLimit,
    inGroup: hold.inGroup,
    funding: hold.funding,
    hold: amount,
    pins,
    owner: hold.owner,
    leaseUntil: hold.leaseUntil,
    checkpoint: null,
    model: hold.model,
    tags: hold.tags ?? null,
    priceVersion: hold.priceVersion,
    openedAt: now,
  }
  return { result: { kind: 'held', amount }, change: reserving(pins, loan, { kind: 'opened', open }) }
}

function refusalOf(reason: HoldRefusal, available: Pico, held: Pico): Decision<HoldResult> {
  return { result: { kind: 'refused', reason, available, held }, change: null }
}

/** Refuses a hold for what a limit leaves: later, of what is not spent; or now, of what is not held either. */
function refusalBy(room: Room, what: 'free' | 'freeLater'): Decision<HoldResult> {
  const { budget, held, spent, limit } = room
  const available = room[what]
  const isSpent = what === 'freeLater'
  if (budget === null) return refusalOf(isSpent ? 'key-limit' : 'key-reserved', available, held)
  const reason = isSpent ? 'budget' : 'budget-reserved'
  return { result: { kind: 'refused', reason, available, held, spent, limit, budget }, change: null }
}

/** Holds more by the rule of a hold, from the call's own funding and within its limits. */
function decideExtend(
  wallet: Wallet,
  { extend, ...spends }: CommandOf<'extend'>,
  now: number,
): Decision<Pico> {
  const nothing = { result: 0n, change: null }
  const open = openCallOf(wallet, extend.call, extend.owner)
  if (!open) return nothing
  if (extend.least < 0n) throw new GatewayError('internal_error', { message: 'a hold cannot shrink' })
  // A lot that had expired when the call began stays expired for it, even if the clock went back since.
  const at = Math.max(now, open.openedAt)
  const credit = creditIn(wallet, open.funding, at)
  const rooms = roomsOf(open, spends)
  const overLimit = rooms.some((room) => room.free < extend.least)
  if (overLimit || credit.free < extend.least) return nothing
  const more = amountOf(extend, credit, rooms)
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
  { settle, ...spends }: CommandOf<'settle'>,
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
  const overLimit =
    charged > open.hold &&
    roomsOf(open, spends).some(({ limit, spent, held }) => spent + held - open.hold + charged > limit)
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

// The commands that add or remove credit: grants, expiry, refunds, corrections.

/** Adds a lot, once per source. */
function decideGrant(
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
  // The amount of an allowance or welcome may change with the program, a month's with its operator; each is still granted only once.
  const sameAmount =
    prior.amount === grant.amount || isAllowance(grant) || isWelcome(grant) || isMonthly(grant)
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

/** When a lot expires; if the grant does not say, by the rules of its pool. */
function expiryOf(grant: GrantCommand, now: number): number | null {
  const { pool, expiresAt } = grant
  if (typeof expiresAt === 'number') return expiresAt
  const fault = lifeFault(pool, expiresAt, now)
  if (fault !== undefined) throw invalid(fault)
  if (expiresAt === 'never') return null
  switch (rulesOf(pool).life) {
    case '12 months':
      return twelveMonthsAfter(now)
    case 'day':
      return startOfDay(now) + dayMs
    case 'endless':
    case 'named':
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
function decideExpiry(wallet: Wallet, _command: CommandOf<'expire'>, now: number): Decision<Pico> {
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
function decideRefund(wallet: Wallet, { refund, refunded }: CommandOf<'refund'>): Decision<RefundResult> {
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
function decideAdjust(
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

// Free purchased credit repays debt before it pays for anything else. Pure, like decide.ts.

/**
 * The change plus the repayment of debt from the purchased credit that it leaves free, in order of consumption. Credit
 * of other pools was never paid for and repays nothing.
 */
function withRepayment(wallet: Wallet, change: Change, now: number): Change {
  let debt = wallet.debt + change.debt
  if (debt === 0n) return change
  const credit = `wallet:${wallet.account}:purchased`
  const lots = [...change.lots]
  let byNewLot = 0n
  let repaid = 0n
  const legs: Leg[] = []
  for (const lot of purchasedAfter(wallet, change)) {
    const part = smaller(debt, freeOf(lot, now))
    if (part <= 0n) continue
    debt -= part
    repaid += part
    legs.push({ account: credit, lot: lot.id, amount: -part }, { account: credit, lot: null, amount: part })
    if (change.newLot?.id === lot.id) byNewLot = part
    else takeRefund(lots, lot.id, part)
  }
  if (repaid === 0n) return change
  const newLot = change.newLot && {
    ...change.newLot,
    remaining: change.newLot.remaining - byNewLot,
    refunded: byNewLot,
  }
  return { ...change, lots, newLot, debt: change.debt - repaid, repayment: legs }
}

/** The purchased lots as the change leaves them, in the order of consumption. */
function purchasedAfter(wallet: Wallet, change: Change): Lot[] {
  const lots: Lot[] = []
  for (const lot of wallet.lots) {
    if (lot.pool !== 'purchased') continue
    const { remaining = 0n, pinned = 0n } = change.lots.find((delta) => delta.lot === lot.id) ?? {}
    lots.push({ ...lot, remaining: lot.remaining + remaining, pinned: lot.pinned + pinned })
  }
  if (change.newLot?.pool === 'purchased') addLot(lots, change.newLot)
  // Loans are returned before purchased credit.
  return lots.toSorted((a, b) => Number(isLoan(b)) - Number(isLoan(a)))
}

function isLoan({ id }: Lot): boolean {
  return id.startsWith(loanPrefix)
}

function takeRefund(lots: LotChange[], lot: string, part: Pico): void {
  const at = lots.findIndex((delta) => delta.lot === lot)
  const before = lots[at]
  if (before) lots[at] = { ...before, remaining: before.remaining - part, refunded: before.refunded + part }
  else lots.push({ lot, remaining: -part, pinned: 0n, expired: 0n, refunded: part })
}
