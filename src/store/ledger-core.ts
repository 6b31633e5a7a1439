// The ledger's commands for any database: each is decided by credits/decide.ts from wallets in memory, inside a group
// that commits as one. What a database has to bring is in the interfaces below.

import { randomBytes } from 'node:crypto'
import type { Awaitable } from '../async/async.ts'
import type { Usage } from '../conversation/usage.ts'
import { decide, type PriorGrant } from '../credits/decide.ts'
import type {
  AdjustCommand,
  AdjustResult,
  Attempt,
  CheckpointCommand,
  ExtendCommand,
  GrantCommand,
  GrantResult,
  GroupCall,
  Haste,
  HoldCommand,
  HoldResult,
  KeySpend,
  LedgerUpkeep,
  RefundCommand,
  RefundResult,
  ReleaseCommand,
  Served,
  SettleCommand,
  SettleResult,
  StartedHold,
  TransactionKind,
} from '../credits/ledger/ledger.ts'
import type { CostLine } from '../credits/price.ts'
import { largestBalance, type Pico } from '../credits/money.ts'
import {
  type CallChange,
  type Change,
  type Leg,
  loanPrefix,
  type OpenCall,
  type Wallet,
} from '../credits/wallet.ts'
import { GatewayError } from '../errors/errors.ts'
import type { Decided, NeededRows } from './commits/durability.ts'
import type { Row } from './schema.ts'

/** How far the clock may be behind the ledger's time, milliseconds, where nothing else is set. */
export const defaultClockBackMs = 3_600_000
/** What an operator is told when the clock is behind the ledger's time. */
export const clockMessage = 'the clock went back; the time of the ledger stands still until it has caught up'

/** The wallets that the commands of a group need, each exactly as the database has it. `Entry` is one of them. */
export interface WalletSet<Entry> {
  of(account: string): Entry
  /** The wallet in which the call is open, or nothing when it has ended or never was. */
  ofOpenCall(call: string): Entry | undefined
  /** Brings a lot of which nothing is left into the wallet, for a refund. */
  admitLot(entry: Entry, lot: string): void
  /** Carries out a change in memory; it is written at the end of the group. `source` is a new lot's. */
  apply(entry: Entry, change: Change, source: string | null): void
  setLine(entry: Entry, most: Pico): void
  onOpened(entry: Entry, call: string): void
  onEnded(call: string): void
  /** What the key of a call has spent and holds in the window of its limit; nothing where it has none. */
  spendOf(call: Pick<OpenCall, 'key' | 'keyLimit' | 'inGroup'> | undefined): KeySpend
  /** What is spent and held of each budget of a call, in their order; loads them, as `loadKey` does. */
  budgetSpendOf(call: Pick<OpenCall, 'inGroup'> | undefined): readonly KeySpend[]
  /** Adds to what the budgets of a call hold, and to what is spent of them. */
  chargeBudgets(inGroup: GroupCall, held: Pico, spent: Pico): void
  /** Loads the key's figures; to be called before anything of the key is written in the same transaction. */
  loadKey(key: string): void
  keyHolds(key: string, more: Pico): void
  keySpent(key: string, amount: Pico, now: number): void
  /** Writes what has changed so far, for the commands of this group that look for it in the database. */
  flush(): void
}

export interface CallEnd {
  readonly at: number
  /** How it ended; for a call that was released, why. */
  readonly ending: string
  /** The transaction that charged it; null when nothing was charged. */
  readonly tx: number | null
  readonly receipt: (ReceiptFacts & Pick<SettleCommand, 'estimated'>) | null
  readonly attempts: readonly Attempt[]
}

/** The parts of a receipt that are neither sums nor keys, stored in one JSON column. */
export interface ReceiptFacts {
  readonly usage: Usage
  readonly lines: readonly CostLine[]
  readonly served: Served | null
  readonly overLimit: boolean
}

/** Writes of a group other than wallets. */
export interface GroupWrites {
  readonly calls: {
    /** Opens a call; false when its id has been used before. */
    open(account: string, open: OpenCall): boolean
    keep(open: OpenCall): void
    end(account: string, ended: Extract<CallChange, { kind: 'ended' }>, end: CallEnd): void
  }
  readonly journal: {
    /** Appends one transaction and returns its number. Its legs must sum to zero. */
    append(kind: TransactionKind, legs: readonly Leg[], at: number): number
  }
  readonly lines: {
    /** How much the account may owe from now on. */
    put(account: string, most: Pico, now: number): void
    /** A call has spent so much of what it was lent. */
    onSpent(account: string, amount: Pico): void
  }
  readonly sources: {
    /** The grant that was made under this source before. */
    priorGrant(source: string): PriorGrant | null
    logGrant(command: GrantCommand, lot: string, now: number): void
  }
  readonly corrections: {
    /** What this refund has done before. Throws `idempotency_conflict` when its id stands for another one. */
    findRefund(command: RefundCommand): { readonly taken: Pico; readonly debt: Pico } | undefined
    /** Whether this correction was made before. Throws `idempotency_conflict` when its id stands for another one. */
    hasAdjusted(command: AdjustCommand): boolean
    /** What all refunds of this lot have taken back, out of what was left of it or as debt, less what has failed. */
    refundedOf(lot: string): Pico
    noteRefund(command: RefundCommand, done: { readonly taken: Pico; readonly debt: Pico }, now: number): void
    noteAdjustment(command: AdjustCommand, now: number): void
  }
}

/** What a command runs in: see CommitQueue. */
export interface Commands {
  admit<T>(need: NeededRows, run: () => T): Promise<T>
  decide<T>(need: NeededRows, haste: Haste, run: () => T): Promise<Decided<T>>
  conclude<T>(need: NeededRows, run: () => T, record: unknown): Promise<T>
}

/** What is known for certain of processes and their calls, whatever their leases say. */
export interface Lives {
  readonly isDead: (owner: string) => boolean
  /** Whether a call of this owner runs in a process that is not dead. */
  readonly isRunning: (call: string, owner: string) => boolean
}

interface AbandonedCall {
  readonly call: string
  readonly account: string
}

export interface LedgerCoreParts<Entry> extends Lives {
  readonly wallets: WalletSet<Entry>
  readonly writes: GroupWrites
  readonly time: {
    /** The ledger's time, milliseconds since 1970: no earlier than anything that is booked. */
    now(): number
    /** The same for what may be refused. Throws `store_unavailable` while the clock is too far behind. */
    admitting(): number
  }
  readonly commands: Commands
  /** Commands that read tables of their own, and find in them all that the group has done so far. */
  readonly written: Pick<Commands, 'admit'>
  /** Accounts with a lot whose time is over at `now`. */
  readonly expiring: (now: number) => Awaitable<readonly string[]>
  /** Open calls that their owner has left, at `now`. */
  readonly abandoned: (now: number) => Awaitable<readonly AbandonedCall[]>
}

/** What the spill file keeps of a command that must not be lost. */
export type SpillRecord =
  | { readonly kind: 'settle'; readonly command: SettleCommand }
  | { readonly kind: 'release'; readonly command: ReleaseCommand }
  | { readonly kind: 'checkpoint'; readonly command: CheckpointCommand }

export class LedgerCore<Entry extends { readonly wallet: Wallet }> implements LedgerUpkeep {
  readonly #parts: LedgerCoreParts<Entry>
  readonly #wallets: WalletSet<Entry>
  readonly #writes: GroupWrites

  constructor(parts: LedgerCoreParts<Entry>) {
    this.#parts = parts
    this.#wallets = parts.wallets
    this.#writes = parts.writes
  }

  hold(command: HoldCommand): Promise<HoldResult> {
    return this.#parts.commands.admit(command, () => this.#hold(command))
  }

  startHold(command: HoldCommand, haste: Haste): Promise<StartedHold> {
    return this.#parts.commands.decide(command, haste, () => this.#hold(command))
  }

  #hold(command: HoldCommand): HoldResult {
    const now = this.#parts.time.admitting()
    const entry = this.#wallets.of(command.account)
    const { key } = command
    if (key !== null) this.#wallets.loadKey(key)
    const hold = { kind: 'hold', hold: command, ...this.#spendsOf(command) } as const
    const { result, change } = decide<'hold'>(entry.wallet, hold, now)
    if (change) this.#open(entry, change)
    return result
  }

  #spendsOf(call: Pick<OpenCall, 'key' | 'keyLimit' | 'inGroup'> | undefined) {
    return { keySpend: this.#wallets.spendOf(call), budgetSpend: this.#wallets.budgetSpendOf(call) }
  }

  extend(command: ExtendCommand): Promise<Pico> {
    const { call } = command
    return this.#parts.commands.admit({ call }, () => {
      const now = this.#parts.time.now()
      const entry = this.#wallets.ofOpenCall(call)
      const open = entry?.wallet.calls.get(call)
      if (!entry || !open) return 0n
      const extend = { kind: 'extend', extend: command, ...this.#spendsOf(open) } as const
      const { result, change } = decide<'extend'>(entry.wallet, extend, now)
      if (change) this.#keep(entry, open, change, now)
      return result
    })
  }

  checkpoint(command: CheckpointCommand): Promise<void> {
    return this.queue({ kind: 'checkpoint', command })
  }

  settle(command: SettleCommand): Promise<SettleResult> {
    return this.#parts.commands.conclude(command, () => this.#settle(command), { kind: 'settle', command })
  }

  release(command: ReleaseCommand): Promise<SettleResult> {
    return this.#parts.commands.conclude(command, () => this.#release(command), { kind: 'release', command })
  }

  /** Queues a command as it stands in a spill file. One whose call has ended has no effect. */
  queue(record: SpillRecord): Promise<void> {
    return this.#parts.commands.conclude(record.command, () => this.carryOut(record), record)
  }

  /** Carries a command of a spill file out, inside a transaction. */
  carryOut(record: SpillRecord): void {
    if (record.kind === 'settle') this.#settle(record.command)
    else if (record.kind === 'release') this.#release(record.command)
    else this.#checkpoint(record.command)
  }

  #checkpoint(command: CheckpointCommand): void {
    const entry = this.#wallets.ofOpenCall(command.call)
    const open = entry?.wallet.calls.get(command.call)
    if (!entry || !open) return
    const { change } = decide<'checkpoint'>(entry.wallet, { kind: 'checkpoint', checkpoint: command }, 0)
    if (change) this.#keep(entry, open, change, 0)
  }

  #settle(command: SettleCommand): SettleResult {
    const now = this.#parts.time.now()
    const entry = this.#wallets.ofOpenCall(command.call)
    if (!entry) return { kind: 'already-ended' }
    const { call, owner, cost, most, estimated, usage, lines, served } = command
    const settle = { call, owner, cost, most, estimated, provider: served.provider }
    const spends = this.#spendsOf(entry.wallet.calls.get(call))
    const { result, change } = decide<'settle'>(entry.wallet, { kind: 'settle', settle, ...spends }, now)
    if (change) {
      const overLimit = result.kind === 'settled' && result.overLimit
      this.#end(
        entry,
        change,
        now,
        command.ending,
        { usage, lines, served, estimated, overLimit },
        served.attempts,
      )
    }
    return result
  }

  #release(command: ReleaseCommand): SettleResult {
    const now = this.#parts.time.now()
    const entry = this.#wallets.ofOpenCall(command.call)
    if (!entry) return { kind: 'already-ended' }
    const { result, change } = decide<'release'>(entry.wallet, { kind: 'release', release: command }, now)
    if (change) this.#end(entry, change, now, command.reason, null, command.attempts)
    return result
  }

  #open(entry: Entry, change: Change): void {
    if (change.call?.kind !== 'opened') throw new Error('a hold opens a call')
    const { open } = change.call
    // The id is the idempotency key of the command: a call that has ended is not opened again.
    if (!this.#writes.calls.open(entry.wallet.account, open))
      throw new GatewayError('idempotency_conflict', { message: 'This call id has been used.' })
    this.#lend(entry, change, open.openedAt)
    this.#wallets.onOpened(entry, open.call)
    if (open.key !== null) this.#wallets.keyHolds(open.key, open.hold)
    if (open.inGroup !== null) this.#wallets.chargeBudgets(open.inGroup, open.hold, 0n)
  }

  /** Carries out what sets credit aside, with the loan that it may have taken on the credit line. */
  #lend(entry: Entry, change: Change, now: number): void {
    const { transaction, newLot } = change
    if (transaction) this.#writes.journal.append(transaction.kind, transaction.legs, now)
    this.#wallets.apply(entry, change, newLot === null ? null : `line:${newLot.id}`)
  }

  #keep(entry: Entry, before: OpenCall, change: Change, now: number): void {
    if (change.call?.kind !== 'kept') throw new Error('the call stays open')
    const { open } = change.call
    if (open.key !== null) this.#wallets.loadKey(open.key)
    if (open.inGroup !== null) this.#wallets.budgetSpendOf(open)
    this.#writes.calls.keep(open)
    this.#lend(entry, change, now)
    if (open.key !== null) this.#wallets.keyHolds(open.key, open.hold - before.hold)
    if (open.inGroup !== null) this.#wallets.chargeBudgets(open.inGroup, open.hold - before.hold, 0n)
  }

  #end(
    entry: Entry,
    change: Change,
    now: number,
    ending: string,
    receipt: CallEnd['receipt'],
    attempts: readonly Attempt[],
  ): void {
    if (change.call?.kind !== 'ended') throw new Error('the call ends')
    const { open, charged } = change.call
    const { calls, journal } = this.#writes
    if (open.key !== null) this.#wallets.loadKey(open.key)
    if (open.inGroup !== null) this.#wallets.budgetSpendOf(open)
    const tx = change.transaction
      ? journal.append(change.transaction.kind, change.transaction.legs, now)
      : null
    if (change.repayment) journal.append('repay', change.repayment, now)
    calls.end(entry.wallet.account, change.call, { at: now, ending, tx, receipt, attempts })
    this.#wallets.apply(entry, change, null)
    const spent = change.transaction ? spentOfLoans(change.transaction.legs) : 0n
    if (spent !== 0n) this.#writes.lines.onSpent(entry.wallet.account, spent)
    this.#wallets.onEnded(open.call)
    if (open.key !== null) {
      this.#wallets.keyHolds(open.key, -open.hold)
      this.#wallets.keySpent(open.key, charged, now)
    }
    // In the windows that it was held in: a call across midnight is the old day's.
    if (open.inGroup !== null) this.#wallets.chargeBudgets(open.inGroup, -open.hold, charged)
  }

  grant(command: GrantCommand): Promise<GrantResult> {
    const { account, source } = command
    return this.#parts.commands.admit({ account, source }, () => {
      const now = this.#parts.time.admitting()
      const entry = this.#wallets.of(account)
      const prior = this.#writes.sources.priorGrant(source)
      const grant = { kind: 'grant', grant: command, lot: newLotId(), prior } as const
      const { result, change } = decide<'grant'>(entry.wallet, grant, now)
      // Written at once, not with the group: the next command may ask for this source.
      if (change) this.#post(entry, change, now, source)
      if (result.granted) this.#writes.sources.logGrant(command, result.lot, now)
      return result
    })
  }

  refund(command: RefundCommand): Promise<RefundResult> {
    const { id, account, lot } = command
    const { corrections } = this.#writes
    return this.#parts.commands.admit({ account, lot, correction: id }, () => {
      const now = this.#parts.time.admitting()
      const done = corrections.findRefund(command)
      if (done) return { taken: done.taken, debt: done.debt, refunded: false }
      const entry = this.#wallets.of(account)
      this.#wallets.admitLot(entry, lot)
      const refund = { kind: 'refund', refund: command, refunded: corrections.refundedOf(lot) } as const
      const { result, change } = decide<'refund'>(entry.wallet, refund, now)
      corrections.noteRefund(command, result, now)
      if (change) this.#post(entry, change, now, null)
      return result
    })
  }

  adjust(command: AdjustCommand): Promise<AdjustResult> {
    const { id, account } = command
    const { corrections } = this.#writes
    return this.#parts.commands.admit({ account, correction: id }, () => {
      const now = this.#parts.time.admitting()
      if (corrections.hasAdjusted(command)) return { adjusted: false }
      const entry = this.#wallets.of(account)
      const adjust = { kind: 'adjust', adjust: command, lot: newLotId() } as const
      const { result, change } = decide<'adjust'>(entry.wallet, adjust, now)
      corrections.noteAdjustment(command, now)
      if (change) this.#post(entry, change, now, `adjust:${id}`)
      return result
    })
  }

  setCreditLine(account: string, most: Pico): Promise<void> {
    if (most < 0n || most > largestBalance) throw new GatewayError('invalid_request')
    return this.#parts.commands.admit({ account }, () => {
      this.#writes.lines.put(account, most, this.#parts.time.now())
      this.#wallets.setLine(this.#wallets.of(account), most)
    })
  }

  async expire(now: number): Promise<number> {
    return inPortions(this.#parts.expiring(now), async (account) => {
      return (await this.#parts.written.admit({ account }, () => this.#expire(account))) > 0n
    })
  }

  #expire(account: string): Pico {
    const now = this.#parts.time.now()
    const entry = this.#wallets.of(account)
    const { result, change } = decide<'expire'>(entry.wallet, { kind: 'expire' }, now)
    if (change) this.#post(entry, change, now, null)
    return result
  }

  #post(entry: Entry, change: Change, now: number, source: string | null): void {
    const { journal } = this.#writes
    if (change.transaction) journal.append(change.transaction.kind, change.transaction.legs, now)
    if (change.repayment) journal.append('repay', change.repayment, now)
    this.#wallets.apply(entry, change, source)
    if (change.newLot) this.#wallets.flush()
  }

  async recover(now: number): Promise<number> {
    return inPortions(this.#parts.abandoned(now), ({ call, account }) =>
      this.#parts.written.admit({ account, call }, () => this.#recover(call, account, now)),
    )
  }

  /** Ends one abandoned call; false when its owner has ended it, or shown a sign of life, in the meantime. */
  #recover(call: string, account: string, now: number): boolean {
    const at = this.#parts.time.now()
    const entry = this.#wallets.of(account)
    const open = entry.wallet.calls.get(call)
    if (!open || !isAbandoned(open, this.#parts, now)) return false
    if (open.checkpoint === null) {
      const { change } = decide<'release'>(entry.wallet, { kind: 'release', release: open }, at)
      if (change) this.#end(entry, change, at, 'recovered', null, [lostAttempt])
      return change !== null
    }
    const { usage, cost } = open.checkpoint
    const settle = { call, owner: open.owner, cost, most: null, estimated: true, provider: 'unreconciled' }
    const { change } = decide<'settle'>(entry.wallet, { kind: 'settle', settle, ...this.#spendsOf(open) }, at)
    const receipt = { usage, lines: [], served: null, estimated: true, overLimit: false }
    if (change) this.#end(entry, change, at, 'recovered', receipt, [lostAttempt])
    return change !== null
  }
}

/** How many commands of one sweep wait at once. At midnight every account may have one, and the queue is for the calls. */
const sweptAtOnce = 64

/** Carries out a command for each; resolves with how many gave true. */
async function inPortions<T>(
  found: Awaitable<readonly T[]>,
  act: (one: T) => Promise<boolean>,
): Promise<number> {
  // Where the database has answered at once the commands are queued at once, before what comes in meanwhile.
  const all = found instanceof Promise ? await found : found
  let count = 0
  for (let at = 0; at < all.length; at += sweptAtOnce) {
    const done = await Promise.all(all.slice(at, at + sweptAtOnce).map(act))
    count += done.filter(Boolean).length
  }
  return count
}

/**
 * Whether an open call is to be ended for its owner, which is dead, or has let its lease end. The lease is a moment of
 * the machine's clock, which may be set forward: what is known to run is left alone.
 */
function isAbandoned(
  { call, owner, leaseUntil }: Pick<OpenCall, 'call' | 'owner' | 'leaseUntil'>,
  { isDead, isRunning }: Lives,
  now: number,
): boolean {
  return isDead(owner) || (leaseUntil <= now && !isRunning(call, owner))
}

/** Those of the open calls that are to be ended for their owners at `now`. */
export function abandonedAmong(
  open: readonly Row<'openCall', 'id' | 'account' | 'owner' | 'lease_until'>[],
  lives: Lives,
  now: number,
): readonly AbandonedCall[] {
  return open
    .map(({ id: call, account, owner, lease_until }) => ({
      call,
      account,
      owner,
      leaseUntil: Number(lease_until),
    }))
    .filter((each) => isAbandoned(each, lives, now))
}

function spentOfLoans(legs: readonly Leg[]): Pico {
  let spent = 0n
  for (const { lot, amount } of legs) if (lot?.startsWith(loanPrefix)) spent -= amount
  return spent
}

/** What is known of the attempts of a call whose process died: that there may have been one. */
const lostAttempt: Attempt = {
  provider: 'unreconciled',
  outcome: 'failed',
  code: null,
  upstreamId: null,
  ms: 0,
  status: null,
  reason: 'the gateway stopped while the call ran',
}

function newLotId(): string {
  return `lot_${randomBytes(12).toString('hex')}`
}

// The ledger's time: the clock's, but never earlier than anything that is booked. A lot that was over stays over, and no
// day begins twice, whatever happens to the clock.

/** NTP corrections stay below this and need not be reported. */
const unnoticedMs = 1_000

export interface ClockParts {
  /** Milliseconds since 1970. */
  readonly clock: () => number
  /** The furthest the clock may be behind the ledger's time, milliseconds, before nothing more is admitted. */
  readonly backMs: number
  /** Called once when the clock is found to be behind, with how far. */
  readonly stepped: (behindMs: number) => void
}

export class LedgerClock {
  readonly #time: ClockParts
  readonly #booked: () => number
  #latest = 0
  #lastClock = 0
  #loaded = false
  #warned = false

  /** `booked`: the latest time in the database, asked again when it may have changed. */
  constructor(time: ClockParts, booked: () => number) {
    this.#time = time
    this.#booked = booked
  }

  /** Another process may have written, or our own transaction was undone: the file is asked again. */
  forget(): void {
    this.#loaded = false
  }

  /** Milliseconds since 1970, no less than the last time it was asked and no less than anything in the file. */
  now(): number {
    if (!this.#loaded) {
      this.#latest = Math.max(this.#latest, this.#booked())
      this.#loaded = true
    }
    const clock = (this.#lastClock = this.#time.clock())
    if (clock >= this.#latest) {
      this.#warned = false
      return (this.#latest = clock)
    }
    if (!this.#warned && this.#latest - clock >= unnoticedMs) {
      this.#warned = true
      this.#time.stepped(this.#latest - clock)
    }
    return this.#latest
  }

  /** The same for what may be refused. Throws `store_unavailable` while the clock is further behind than it may be. */
  admitting(): number {
    const now = this.now()
    if (!this.tooFarBehind) return now
    const seconds = Math.round((now - this.#lastClock) / 1000)
    throw new GatewayError('store_unavailable', {
      message: `The clock of this machine is ${seconds} s behind the time of the ledger.`,
      retryAfterMs: 60_000,
    })
  }

  get tooFarBehind(): boolean {
    return this.#latest - this.#lastClock > this.#time.backMs
  }
}
