// What the ledger should do, written a second time from its rules alone and as plainly as possible: loops over arrays,
// no cache, no store, nothing shared with the code it judges but the types of commands.

import type {
  AdjustCommand,
  Budget,
  CheckpointCommand,
  CountedBudget,
  ExtendCommand,
  GrantCommand,
  HoldAmounts,
  HoldCommand,
  RefundCommand,
  ReleaseCommand,
  SettleCommand,
} from '../../src/credits/ledger/ledger.ts'

const dayMs = 86_400_000
const largestLot = 10n ** 18n
const largestBalance = 4n * 10n ** 18n

/** One command as it was carried out in a committed transaction. */
export type Carried =
  | { readonly kind: 'hold'; readonly command: HoldCommand }
  | { readonly kind: 'extend'; readonly command: ExtendCommand }
  | { readonly kind: 'checkpoint'; readonly command: CheckpointCommand }
  | { readonly kind: 'settle'; readonly command: SettleCommand }
  | { readonly kind: 'release'; readonly command: ReleaseCommand }
  | { readonly kind: 'grant'; readonly command: GrantCommand }
  | { readonly kind: 'refund'; readonly command: RefundCommand }
  | { readonly kind: 'adjust'; readonly command: AdjustCommand }
  | { readonly kind: 'line'; readonly command: { account: string; most: bigint } }
  | { readonly kind: 'expire'; readonly command: { account: string } }
  | { readonly kind: 'recover'; readonly command: { call: string; now: number; dead: boolean } }

/** The answer of a command: its value, or the code of the error it was refused with. */
export type Answer = { readonly value: unknown } | { readonly error: string }

export interface OracleLot {
  readonly id: string
  readonly account: string
  readonly pool: string
  readonly granted: bigint
  remaining: bigint
  pinned: bigint
  consumed: bigint
  expired: bigint
  refunded: bigint
  /** By refunds, out of what was left or as debt. */
  paidBack: bigint
  readonly grantedAt: number
  readonly expiresAt: number
}

export interface OracleCall {
  readonly id: string
  readonly account: string
  readonly key: string | null
  readonly keyLimit: HoldCommand['keyLimit']
  readonly inGroup: HoldCommand['inGroup']
  readonly funding: readonly string[]
  readonly owner: string
  readonly openedAt: number
  leaseUntil: number
  pins: { readonly lot: OracleLot; amount: bigint }[]
  state: 'open' | 'settled' | 'voided'
  checkpoint: bigint | null
  cost: bigint
  charged: bigint
  drawn: { readonly lot: string; readonly amount: bigint }[]
}

/** When a command is carried out. */
export interface Moment {
  /** The ledger's time. */
  readonly now: number
  /** The clock is so far behind it that nothing is admitted. */
  readonly tooFarBehind: boolean
}

interface Correction {
  readonly kind: 'refund' | 'adjust'
  readonly account: string
  readonly lot: string
  readonly amount: bigint
  readonly taken: bigint
  readonly debt: bigint
}

export class Oracle {
  readonly lots: OracleLot[] = []
  readonly calls = new Map<string, OracleCall>()
  readonly debts = new Map<string, bigint>()
  /** How much accounts may owe. */
  readonly lines = new Map<string, bigint>()
  /** Whether the last command has lent something, which is booked at its time. */
  lent = false
  readonly #sources = new Map<string, OracleLot>()
  readonly #corrections = new Map<string, Correction>()
  /** The first key of each chain of rotations, by the keys that came after it. */
  readonly #lineages = new Map<string, string>()
  readonly #spent: { readonly key: string; readonly day: number; readonly amount: bigint }[] = []

  /** The answer the ledger owes for this command at this moment. `newLot` is the id it gave the lot it made, if any. */
  carryOut({ kind, command }: Carried, { now, tooFarBehind }: Moment, newLot: string): Answer {
    this.lent = false
    if (tooFarBehind && ['hold', 'grant', 'refund', 'adjust'].includes(kind))
      return { error: 'store_unavailable' }
    switch (kind) {
      case 'hold':
        return this.#hold(command, now)
      case 'extend':
        return this.#extend(command, now)
      case 'checkpoint':
        return this.#checkpoint(command)
      case 'settle':
        return this.#settle(this.#open(command), command, now)
      case 'release':
        return this.#void(this.#open(command), now)
      case 'grant':
        return this.#grant(command, now, newLot)
      case 'refund':
        return this.#refund(command, now)
      case 'adjust':
        return this.#adjust(command, now, newLot)
      case 'line':
        this.lines.set(command.account, command.most)
        return { value: undefined }
      case 'expire':
        return this.#expire(command.account, now)
      case 'recover':
        return this.#recover(command, now)
    }
  }

  keySpend(key: string, windowStart: number): { spent: bigint; held: bigint } {
    const first = windowStart - (windowStart % dayMs)
    const ofOneLimit = (other: string | null) => other !== null && this.#firstOf(other) === this.#firstOf(key)
    const spent = this.#spent.filter((entry) => ofOneLimit(entry.key) && entry.day >= first)
    const open = [...this.calls.values()].filter((call) => ofOneLimit(call.key) && call.state === 'open')
    return { spent: sum(spent.map((entry) => entry.amount)), held: sum(open.map(holdOf)) }
  }

  /** Of all calls that were held on this budget in this window, wherever their people have been moved since. */
  budgetSpend({ scope, windowStart }: CountedBudget): { spent: bigint; held: bigint } {
    const on = [...this.calls.values()].filter(({ inGroup }) =>
      inGroup?.budgets.some((budget) => budget.scope === scope && budget.windowStart === windowStart),
    )
    return {
      spent: sum(on.map((call) => call.charged)),
      held: sum(on.filter(({ state }) => state === 'open').map(holdOf)),
    }
  }

  /** What each limit leaves: after all that is spent of it, and after what calls hold as well. */
  #leftOf({ key, keyLimit, inGroup }: Pick<HoldCommand, 'key' | 'keyLimit' | 'inGroup'>): Left[] {
    const left = (limit: bigint, { spent, held }: { spent: bigint; held: bigint }, budget: Budget | null) => {
      const unspent = limit > spent ? limit - spent : 0n
      return { limit, spent, held, unspent, free: unspent > held ? unspent - held : 0n, budget }
    }
    const ofKey =
      key === null || keyLimit === null
        ? []
        : [left(keyLimit.limit, this.keySpend(key, keyLimit.windowStart), null)]
    const ofGroup = inGroup?.budgets ?? []
    return [
      ...ofKey,
      ...ofGroup.flatMap((budget) =>
        budget.limit === null ? [] : [left(budget.limit, this.budgetSpend(budget), budget)],
      ),
    ]
  }

  /** One key replaces another: from now on both share one limit. */
  rotated(key: string, successor: string): void {
    this.#lineages.set(successor, this.#firstOf(key))
  }

  #firstOf(key: string): string {
    return this.#lineages.get(key) ?? key
  }

  debtOf(account: string): bigint {
    return this.debts.get(account) ?? 0n
  }

  #hold(command: HoldCommand, now: number): Answer {
    const { call: id, account, key, keyLimit, inGroup, funding, least } = command
    const known = this.calls.get(id)
    if (known?.state === 'open' && known.account === account) return { error: 'idempotency_in_progress' }
    const lots = this.#spendable(account, funding, now)
    const free = this.#worth(account, lots, freeOf, this.#lineOf(account))
    const held = sum(lots.map((lot) => lot.pinned))
    const freeLater = this.#worth(account, lots, (lot) => lot.remaining, this.#lineOf(account))
    const refused = (reason: string, available: bigint) => ({
      value: { kind: 'refused', reason, available, held },
    })
    const left = this.#leftOf(command)
    const short = left.toSorted((a, b) => Number(a.unspent - b.unspent))[0]
    if (short && short.unspent < least) return refusedBy(short, 'key-limit', 'budget', short.unspent)
    if (freeLater < least) return refused('insufficient', free)
    const busy = left.toSorted((a, b) => Number(a.free - b.free))[0]
    if (busy && busy.free < least) return refusedBy(busy, 'key-reserved', 'budget-reserved', busy.free)
    if (free < least) return refused('reserved', free)
    if (known) return { error: 'idempotency_conflict' }
    const amount = shareOf(command, { free, held }, ...left)
    const { owner, leaseUntil } = command
    const facts = { id, account, key, keyLimit, inGroup, funding, owner, openedAt: now, leaseUntil }
    const pins = this.#pin(lots, amount)
    this.#lend(account, id, [], pins, amount, now)
    const state = 'open' as const
    this.calls.set(id, { ...facts, pins, state, checkpoint: null, cost: 0n, charged: 0n, drawn: [] })
    return { value: { kind: 'held', amount } }
  }

  #extend(command: ExtendCommand, now: number): Answer {
    const { call, least } = command
    const open = this.#open(command)
    if (!open) return { value: 0n }
    const left = this.#leftOf(open)
    const lots = this.#spendable(open.account, open.funding, Math.max(now, open.openedAt))
    const free = this.#worth(open.account, lots, freeOf, this.#lineOf(open.account))
    if (free < least || left.some((limit) => limit.free < least)) return { value: 0n }
    const more = shareOf(command, { free, held: sum(lots.map((lot) => lot.pinned)) }, ...left)
    if (more === 0n) return { value: 0n }
    const pins = this.#pin(lots, more)
    this.#lend(open.account, call, open.pins, pins, more, Math.max(now, open.openedAt))
    for (const { lot, amount } of pins) {
      const pin = open.pins.find((other) => other.lot === lot)
      if (pin) pin.amount += amount
      else open.pins.push({ lot, amount })
    }
    return { value: more }
  }

  #checkpoint(command: CheckpointCommand): Answer {
    const open = this.#open(command)
    if (open) {
      open.leaseUntil = command.leaseUntil
      open.checkpoint = command.cost
    }
    return { value: undefined }
  }

  #settle(
    open: OracleCall | undefined,
    { cost: wanted, most, estimated }: Pick<SettleCommand, 'cost' | 'most' | 'estimated'>,
    now: number,
  ): Answer {
    if (!open) return { value: { kind: 'already-ended' } }
    const cost = wanted < largestLot ? wanted : largestLot
    const payable = most !== null && most < cost ? most : cost
    const others = this.#leftOf(open).map(({ limit, spent, held }) => ({
      limit,
      used: spent + held - holdOf(open),
    }))
    let due = payable
    const draw = (lot: OracleLot, upTo: bigint) => {
      const part = due < upTo ? due : upTo
      if (part === 0n) return
      lot.remaining -= part
      lot.consumed += part
      due -= part
      const before = open.drawn.findIndex((drawn) => drawn.lot === lot.id)
      if (before < 0) open.drawn.push({ lot: lot.id, amount: part })
      else open.drawn[before] = { lot: lot.id, amount: open.drawn[before]!.amount + part }
    }
    for (const { lot, amount } of open.pins) {
      lot.pinned -= amount
      draw(lot, amount)
    }
    // What was pinned by this very call and not needed cannot be there: the cost is above the whole hold.
    if (!estimated) {
      const lots = this.#spendable(open.account, open.funding, now)
      // What a provider bills beyond the hold is not lent.
      let free = this.#worth(open.account, lots, freeOf, 0n)
      for (const lot of lots) {
        const part = freeOf(lot) < free ? freeOf(lot) : free
        draw(lot, part)
        free -= part
      }
    }
    open.state = 'settled'
    open.cost = cost
    open.charged = payable - due
    const overLimit =
      open.charged > holdOf(open) && others.some(({ limit, used }) => used + open.charged > limit)
    if (open.key !== null) this.#spent.push({ key: open.key, day: now - (now % dayMs), amount: open.charged })
    this.#repay(open.account, now)
    return { value: { kind: 'settled', charged: open.charged, absorbed: cost - open.charged, overLimit } }
  }

  #void(open: OracleCall | undefined, now: number): Answer {
    if (!open) return { value: { kind: 'already-ended' } }
    for (const { lot, amount } of open.pins) lot.pinned -= amount
    open.state = 'voided'
    this.#repay(open.account, now)
    return { value: { kind: 'settled', charged: 0n, absorbed: 0n, overLimit: false } }
  }

  #grant(command: GrantCommand, now: number, id: string): Answer {
    const { account, pool, amount, source } = command
    const prior = this.#sources.get(source)
    if (prior) {
      const gift = source.startsWith('daily:') || source.startsWith('welcome:')
      if (prior.account === account && prior.pool === pool && (gift || prior.granted === amount))
        return { value: { lot: prior.id, granted: false } }
      return { error: 'idempotency_conflict' }
    }
    const expiresAt = command.expiresAt === 'never' ? Infinity : (command.expiresAt ?? lifeOf(pool, now))
    if (source.startsWith('daily:')) {
      const last = this.lots
        .filter((lot) => lot.account === account && this.#sourceOf(lot).startsWith('daily:'))
        .toSorted((a, b) => b.expiresAt - a.expiresAt)[0]
      if (last && expiresAt <= last.expiresAt) return { value: { lot: last.id, granted: false } }
    }
    const posted = sum(this.#of(account).map((lot) => lot.remaining))
    if (amount <= 0n || amount > largestLot || posted + amount > largestBalance || expiresAt <= now)
      return { error: 'invalid_request' }
    this.#sources.set(source, this.#newLot({ account, pool, amount, expiresAt }, now, id))
    return { value: { lot: id, granted: true } }
  }

  #newLot(
    {
      account,
      pool,
      amount,
      expiresAt,
    }: Pick<OracleLot, 'account' | 'pool' | 'expiresAt'> & { amount: bigint },
    now: number,
    id: string,
  ): OracleLot {
    const lot: OracleLot = {
      id,
      account,
      pool,
      granted: amount,
      remaining: amount,
      pinned: 0n,
      consumed: 0n,
      expired: 0n,
      refunded: 0n,
      paidBack: 0n,
      grantedAt: now,
      expiresAt,
    }
    this.lots.push(lot)
    this.#repay(account, now)
    return lot
  }

  /** What is free and was paid for goes to the debt first. */
  #repay(account: string, now: number): void {
    const lots = this.#spendable(account, ['purchased'], now)
    for (const lot of [...lots.filter(isLoan), ...lots.filter((other) => !isLoan(other))]) {
      const debt = this.debtOf(account)
      const part = debt < freeOf(lot) ? debt : freeOf(lot)
      lot.remaining -= part
      lot.refunded += part
      this.debts.set(account, debt - part)
    }
  }

  #lineOf(account: string): bigint {
    return this.lines.get(account) ?? 0n
  }

  /** What these lots' `part` can pay for: of the purchased what a debt leaves, and as much as the account may still owe. */
  #worth(
    account: string,
    lots: readonly OracleLot[],
    part: (lot: OracleLot) => bigint,
    line: bigint,
  ): bigint {
    const bought = sum(lots.filter((lot) => lot.pool === 'purchased').map(part))
    const given = sum(lots.filter((lot) => lot.pool !== 'purchased').map(part))
    const rest = bought + line - this.debtOf(account)
    return given + (rest > 0n ? rest : 0n)
  }

  /** What the lots lack of the amount is a lot of its own, and a debt beside it. */
  #lend(
    account: string,
    call: string,
    before: OracleCall['pins'],
    pins: OracleCall['pins'],
    amount: bigint,
    now: number,
  ): void {
    const lent = amount - sum(pins.map((pin) => pin.amount))
    if (lent === 0n) return
    const lot: OracleLot = {
      id: `line_${call}_${before.filter(({ lot }) => isLoan(lot)).length}`,
      account,
      pool: 'purchased',
      granted: lent,
      remaining: lent,
      pinned: lent,
      consumed: 0n,
      expired: 0n,
      refunded: 0n,
      paidBack: 0n,
      grantedAt: now,
      expiresAt: Infinity,
    }
    this.lots.push(lot)
    this.debts.set(account, this.debtOf(account) + lent)
    pins.push({ lot, amount: lent })
    this.lent = true
  }

  #refund({ id, account, lot: lotId, amount }: RefundCommand, now: number): Answer {
    const done = this.#corrections.get(id)
    if (
      done &&
      (done.kind !== 'refund' || done.account !== account || done.lot !== lotId || done.amount !== amount)
    )
      return { error: 'idempotency_conflict' }
    if (done) return { value: { taken: done.taken, debt: done.debt, refunded: false } }
    const lot = this.#of(account).find((other) => other.id === lotId)
    if (!lot) return { error: 'not_found' }
    if (lot.pool !== 'purchased' || isLoan(lot) || amount <= 0n || lot.paidBack + amount > lot.granted)
      return { error: 'invalid_request' }
    const left = amount < freeOf(lot) ? amount : freeOf(lot)
    const expired = amount - left < lot.expired ? amount - left : lot.expired
    const taken = left + expired
    const debt = amount - taken
    if (this.debtOf(account) + debt > largestBalance) return { error: 'invalid_request' }
    lot.remaining -= left
    lot.expired -= expired
    lot.refunded += taken
    lot.paidBack += amount
    this.debts.set(account, this.debtOf(account) + debt)
    this.#corrections.set(id, { kind: 'refund', account, lot: lotId, amount, taken, debt })
    this.#repay(account, now)
    return { value: { taken, debt, refunded: true } }
  }

  #adjust({ id, account, pool, amount }: AdjustCommand, now: number, newLot: string): Answer {
    const done = this.#corrections.get(id)
    if (done && (done.kind !== 'adjust' || done.account !== account || done.amount !== amount))
      return { error: 'idempotency_conflict' }
    if (done) return { value: { adjusted: false } }
    if (amount >= 0n) {
      const posted = sum(this.#of(account).map((lot) => lot.remaining))
      const impossible = pool === 'subscription'
      if (impossible || amount === 0n || amount > largestLot || posted + amount > largestBalance)
        return { error: 'invalid_request' }
      this.#newLot({ account, pool, amount, expiresAt: lifeOf(pool, now) }, now, newLot)
    } else {
      const lots = this.#spendable(account, [pool], now)
      let rest = -amount
      if (sum(lots.map(freeOf)) < rest) return { error: 'invalid_request' }
      for (const lot of lots) {
        const part = rest < freeOf(lot) ? rest : freeOf(lot)
        lot.remaining -= part
        lot.refunded += part
        rest -= part
      }
      this.#repay(account, now)
    }
    this.#corrections.set(id, { kind: 'adjust', account, lot: '', amount, taken: 0n, debt: 0n })
    return { value: { adjusted: true } }
  }

  #expire(account: string, now: number): Answer {
    let total = 0n
    for (const lot of this.#of(account)) {
      if (lot.expiresAt > now) continue
      total += freeOf(lot)
      lot.expired += freeOf(lot)
      lot.remaining = lot.pinned
    }
    this.#repay(account, now)
    return { value: total }
  }

  #recover({ call, now: asked, dead }: { call: string; now: number; dead: boolean }, now: number): Answer {
    const open = this.calls.get(call)
    if (open?.state !== 'open' || (open.leaseUntil > asked && !dead)) return { value: false }
    if (open.checkpoint === null) this.#void(open, now)
    else this.#settle(open, { cost: open.checkpoint, most: null, estimated: true }, now)
    return { value: true }
  }

  #sourceOf(lot: OracleLot): string {
    for (const [source, other] of this.#sources) if (other === lot) return source
    return ''
  }

  #open({ call, owner }: { call: string; owner: string }): OracleCall | undefined {
    const known = this.calls.get(call)
    return known?.state === 'open' && known.owner === owner ? known : undefined
  }

  #of(account: string): OracleLot[] {
    return this.lots.filter((lot) => lot.account === account)
  }

  /** Lots that may pay now, in the order of spending: pool by pool, soonest expiry, then oldest. */
  #spendable(account: string, funding: readonly string[], now: number): OracleLot[] {
    return funding.flatMap((pool) =>
      this.#of(account)
        .filter((lot) => lot.pool === pool && lot.expiresAt > now && lot.remaining > 0n)
        .toSorted((a, b) =>
          a.expiresAt !== b.expiresAt
            ? a.expiresAt < b.expiresAt
              ? -1
              : 1
            : a.grantedAt - b.grantedAt || (a.id < b.id ? -1 : 1),
        ),
    )
  }

  #pin(lots: readonly OracleLot[], amount: bigint): OracleCall['pins'] {
    const pins: OracleCall['pins'] = []
    let rest = amount
    for (const lot of lots) {
      const part = rest < freeOf(lot) ? rest : freeOf(lot)
      if (part === 0n) continue
      lot.pinned += part
      rest -= part
      pins.push({ lot, amount: part })
    }
    return pins
  }
}

/**
 * What a call gets: what it wants, or its share where that is more, or all that it can use where the rest would not be
 * enough for another like it; never more than there is.
 */
function shareOf(
  { least, want, most }: HoldAmounts,
  ...credits: readonly { readonly free: bigint; readonly held: bigint }[]
): bigint {
  const shares = credits.map(({ free, held }) => (free > held ? (free - held) / 4n : 0n))
  const fair = lowest([most, largestLot, ...shares])
  const wanted = lowest([want, largestLot])
  const needed = least > wanted ? least : wanted
  const free = lowest(credits.map((credit) => credit.free))
  const usable = most < largestLot ? most : largestLot
  const amount = needed > fair ? needed : fair
  if (free - amount >= needed) return amount
  return lowest([free, usable > needed ? usable : needed])
}

/** What one limit of a call leaves. */
interface Left {
  readonly limit: bigint
  readonly spent: bigint
  readonly held: bigint
  readonly unspent: bigint
  readonly free: bigint
  readonly budget: Budget | null
}

function refusedBy(
  { budget, limit, held, spent }: Left,
  ofKey: string,
  ofBudget: string,
  available: bigint,
): Answer {
  const facts = { kind: 'refused', available, held }
  if (budget === null) return { value: { ...facts, reason: ofKey } }
  return { value: { ...facts, reason: ofBudget, spent, limit, budget } }
}

function lowest(amounts: readonly bigint[]): bigint {
  return amounts.reduce((a, b) => (a < b ? a : b))
}

export function holdOf(call: OracleCall): bigint {
  return sum(call.pins.map((pin) => pin.amount))
}

function isLoan({ id }: OracleLot): boolean {
  return id.startsWith('line_')
}

function freeOf(lot: OracleLot): bigint {
  return lot.remaining - lot.pinned
}

/** Purchased credit lives twelve months, an allowance its day, the rest for ever. */
function lifeOf(pool: string, now: number): number {
  if (pool === 'daily') return now - (now % dayMs) + dayMs
  if (pool !== 'purchased') return Infinity
  const date = new Date(now)
  const then = new Date(now)
  then.setUTCFullYear(date.getUTCFullYear() + 1)
  // A 29th of February has no namesake in the year after.
  if (then.getUTCDate() !== date.getUTCDate()) then.setUTCDate(0)
  return then.getTime()
}

export function sum(amounts: readonly bigint[]): bigint {
  return amounts.reduce((total, amount) => total + amount, 0n)
}
