// The ledger on SQLite. Commands are decided in memory by credits/decide.ts, inside a transaction that many share.

import { randomBytes } from 'node:crypto'
import type { Database, Statement } from 'bun:sqlite'
import { decide, type PriorGrant } from '../../credits/decide.ts'
import type {
  AdjustCommand,
  AdjustResult,
  Attempt,
  AuditReport,
  Balance,
  CallRecord,
  CheckpointCommand,
  DayAudit,
  GrantCommand,
  GrantResult,
  HoldCommand,
  HoldResult,
  LedgerStore,
  LedgerUpkeep,
  RefundCommand,
  RefundResult,
  ReleaseCommand,
  SettleCommand,
  SettleResult,
} from '../../credits/ledger.ts'
import type { Pico } from '../../credits/money.ts'
import { balanceOf, type Change, type OpenCall } from '../../credits/wallet.ts'
import { GatewayError } from '../../errors.ts'
import type { Head } from './anchors.ts'
import { auditFile } from './audit.ts'
import { auditDay } from './audit-day.ts'
import { type CallEnd, CallTable } from './call-table.ts'
import { Corrections } from './corrections.ts'
import { GroupCommit } from './group-commit.ts'
import { Journal } from './journal.ts'
import { LedgerClock } from './ledger-clock.ts'
import type { LedgerParts, SpillRecord } from './ledger-parts.ts'
import { isOutage, reading } from './outage.ts'
import { PriceRecords } from './price-records.ts'
import { lostAttempt, recoverable } from './recovery.ts'
import { Wallets, type CachedWallet } from './wallets.ts'

export class SqliteLedger implements LedgerStore, LedgerUpkeep {
  readonly group: GroupCommit
  readonly #parts: LedgerParts
  readonly #time: LedgerClock
  readonly #wallets: Wallets
  readonly #journal: Journal
  readonly #calls: CallTable
  readonly #corrections: Corrections
  readonly #sql: ReturnType<typeof statements>
  readonly #prices: PriceRecords
  #lastWriteCheck = Number.NEGATIVE_INFINITY

  constructor(parts: LedgerParts) {
    this.#parts = parts
    this.#time = new LedgerClock(parts.database, parts.time)
    this.#wallets = new Wallets(parts.database)
    this.#journal = new Journal(parts.database)
    this.#calls = new CallTable(parts.database)
    this.#corrections = new Corrections(parts.database)
    this.#prices = new PriceRecords(parts.database, parts.time.clock)
    this.#sql = statements(parts.database)
    this.group = new GroupCommit(
      parts.database,
      {
        begin: () => {
          this.#validate()
        },
        finish: () => {
          this.#write()
          this.#wallets.flush()
          this.#wallets.trim()
          this.#prices.write()
          for (const rider of parts.riders) rider.write()
        },
        committed: () => {
          this.#prices.committed()
          for (const rider of parts.riders) rider.committed()
          if (this.#journal.head) parts.committed(this.#journal.head)
        },
        abandon: () => {
          this.#wallets.forget()
          this.#journal.forget()
          this.#calls.forget()
          this.#time.forget()
        },
      },
      parts.limits,
    )
  }

  /** A command that shares the commits and reads the tables: it finds calls, and leaves them, as the last one has. */
  admit<T>(run: () => T): Promise<T> {
    return this.group.admit(() => {
      this.#write()
      const value = run()
      this.#write()
      return value
    })
  }

  /** A command that is kept and retried while this process lives, in its order among the ends of calls. */
  persist<T>(run: () => T): Promise<T> {
    return this.group.conclude(run, null)
  }

  /** Writes what holds and ends of calls have left for the end of the group. */
  #write(): void {
    this.#journal.write()
    this.#calls.write()
  }

  /** The end of the journal as the file has it. */
  head(): Head {
    return reading(() => {
      this.#validate()
      return this.#journal.readHead()
    })
  }

  now(): number {
    return reading(() => this.#time.now())
  }

  hold(command: HoldCommand): Promise<HoldResult> {
    return this.group.admit(() => {
      const now = this.#time.admitting()
      const entry = this.#wallets.of(command.account)
      const { key } = command
      if (key !== null) this.#wallets.keyOf(key)
      const keySpend = this.#wallets.spendOf(command)
      const { result, change } = decide<'hold'>(entry.wallet, { kind: 'hold', hold: command, keySpend }, now)
      if (change) this.#open(entry, change)
      return result
    })
  }

  extend(call: string, owner: string, more: Pico): Promise<boolean> {
    return this.group.admit(() => {
      const now = this.#time.now()
      const entry = this.#wallets.ofOpenCall(call)
      const open = entry?.wallet.calls.get(call)
      if (!entry || !open) return false
      const command = { kind: 'extend', call, owner, more, keySpend: this.#wallets.spendOf(open) } as const
      const { result, change } = decide<'extend'>(entry.wallet, command, now)
      if (change) this.#keep(entry, open, change)
      return result
    })
  }

  async checkpoint(command: CheckpointCommand): Promise<void> {
    await this.group.conclude(() => this.#checkpoint(command), { kind: 'checkpoint', command })
  }

  settle(command: SettleCommand): Promise<SettleResult> {
    return this.group.conclude(() => this.#settle(command), { kind: 'settle', command })
  }

  release(command: ReleaseCommand): Promise<SettleResult> {
    return this.group.conclude(() => this.#release(command), { kind: 'release', command })
  }

  /**
   * Carries out the commands of the spill file; those whose call has ended have no effect. False when the database
   * cannot be written now: then they wait like any other end of a call.
   */
  replay(records: readonly SpillRecord[]): boolean {
    try {
      this.group.immediately(() => {
        for (const record of records) this.#replay(record)
      })
      return true
    } catch (error) {
      if (!isOutage(error)) throw error
      for (const record of records) {
        // Whoever waited for the answer is gone with its process.
        this.group.conclude(() => this.#replay(record), record).catch(() => undefined)
      }
      return false
    }
  }

  #replay(record: SpillRecord): void {
    if (record.kind === 'settle') this.#settle(record.command)
    else if (record.kind === 'release') this.#release(record.command)
    else this.#checkpoint(record.command)
  }

  #checkpoint(command: CheckpointCommand): void {
    const entry = this.#wallets.ofOpenCall(command.call)
    const open = entry?.wallet.calls.get(command.call)
    if (!entry || !open) return
    const { change } = decide<'checkpoint'>(entry.wallet, { kind: 'checkpoint', checkpoint: command }, 0)
    if (change) this.#keep(entry, open, change)
  }

  #settle(command: SettleCommand): SettleResult {
    const now = this.#time.now()
    const entry = this.#wallets.ofOpenCall(command.call)
    if (!entry) return { kind: 'already-ended' }
    const settle = { ...command, provider: command.served.provider }
    const keySpend = this.#wallets.spendOf(entry.wallet.calls.get(command.call))
    const { result, change } = decide<'settle'>(entry.wallet, { kind: 'settle', settle, keySpend }, now)
    const receipt = { ...command, overLimit: result.kind === 'settled' && result.overLimit }
    if (change) this.#end(entry, change, now, command.ending, receipt, command.served.attempts)
    return result
  }

  #release(command: ReleaseCommand): SettleResult {
    const now = this.#time.now()
    const entry = this.#wallets.ofOpenCall(command.call)
    if (!entry) return { kind: 'already-ended' }
    const { result, change } = decide<'release'>(entry.wallet, { kind: 'release', release: command }, now)
    if (change) this.#end(entry, change, now, command.reason, null, command.attempts)
    return result
  }

  #open(entry: CachedWallet, change: Change): void {
    if (change.call?.kind !== 'opened') throw new Error('a hold opens a call')
    const { open } = change.call
    // The id is the idempotency key of the command: a call that has ended is not opened again.
    if (!this.#calls.open(entry.wallet.account, open))
      throw new GatewayError('idempotency_conflict', { message: 'This call id has been used.' })
    this.#wallets.apply(entry, change, null)
    this.#wallets.opened(entry, open.call)
    if (open.key !== null) this.#wallets.keyHolds(open.key, open.hold)
  }

  #keep(entry: CachedWallet, before: OpenCall, change: Change): void {
    if (change.call?.kind !== 'kept') throw new Error('the call stays open')
    const { open } = change.call
    if (open.key !== null) this.#wallets.keyOf(open.key)
    this.#calls.keep(open)
    this.#wallets.apply(entry, change, null)
    if (open.key !== null) this.#wallets.keyHolds(open.key, open.hold - before.hold)
  }

  #end(
    entry: CachedWallet,
    change: Change,
    now: number,
    ending: string,
    receipt: CallEnd['receipt'],
    attempts: readonly Attempt[],
  ): void {
    if (change.call?.kind !== 'ended') throw new Error('the call ends')
    const { open, charged } = change.call
    if (open.key !== null) this.#wallets.keyOf(open.key)
    const tx = change.transaction
      ? this.#journal.append(change.transaction.kind, change.transaction.legs, now)
      : null
    if (change.repayment) this.#journal.append('repay', change.repayment, now)
    this.#calls.end(entry.wallet.account, change.call, { at: now, ending, tx, receipt, attempts })
    this.#wallets.apply(entry, change, null)
    this.#wallets.ended(open.call)
    if (open.key !== null) {
      this.#wallets.keyHolds(open.key, -open.hold)
      this.#wallets.keySpent(open.key, charged, now)
    }
  }

  grant(command: GrantCommand): Promise<GrantResult> {
    return this.group.admit(() => {
      const now = this.#time.admitting()
      const entry = this.#wallets.of(command.account)
      const prior = this.#sql.lotBySource.get(command.source) ?? null
      const grant = { kind: 'grant', grant: command, lot: newLotId(), prior } as const
      const { result, change } = decide<'grant'>(entry.wallet, grant, now)
      // Written at once, not with the group: the next command may ask for this source.
      if (change) this.#post(entry, change, now, command.source)
      return result
    })
  }

  refund(command: RefundCommand): Promise<RefundResult> {
    return this.group.admit(() => {
      const now = this.#time.admitting()
      const done = this.#corrections.findRefund(command)
      if (done) return { taken: done.taken, debt: done.debt, refunded: false }
      const entry = this.#wallets.of(command.account)
      this.#wallets.admitLot(entry, command.lot)
      const refund = {
        kind: 'refund',
        refund: command,
        refunded: this.#corrections.refundedOf(command.lot),
      } as const
      const { result, change } = decide<'refund'>(entry.wallet, refund, now)
      this.#corrections.noteRefund(command, result, now)
      if (change) this.#post(entry, change, now, null)
      return result
    })
  }

  adjust(command: AdjustCommand): Promise<AdjustResult> {
    return this.group.admit(() => {
      const now = this.#time.admitting()
      if (this.#corrections.hasAdjusted(command)) return { adjusted: false }
      const entry = this.#wallets.of(command.account)
      const adjust = { kind: 'adjust', adjust: command, lot: newLotId() } as const
      const { result, change } = decide<'adjust'>(entry.wallet, adjust, now)
      this.#corrections.noteAdjustment(command, now)
      if (change) this.#post(entry, change, now, `adjust:${command.id}`)
      return result
    })
  }

  async expire(now: number): Promise<number> {
    const accounts = reading(() => this.#sql.expiring.all(now))
    const booked = accounts.map(({ account }) =>
      this.admit(() => {
        const at = this.#time.now()
        const entry = this.#wallets.of(account)
        const { result, change } = decide<'expire'>(entry.wallet, { kind: 'expire' }, at)
        if (change) this.#post(entry, change, at, null)
        return result
      }),
    )
    return (await Promise.all(booked)).filter((amount) => amount > 0n).length
  }

  #post(entry: CachedWallet, change: Change, now: number, source: string | null): void {
    if (change.transaction) this.#journal.append(change.transaction.kind, change.transaction.legs, now)
    if (change.repayment) this.#journal.append('repay', change.repayment, now)
    this.#wallets.apply(entry, change, source)
    if (change.newLot) this.#wallets.flush()
  }

  async recover(now: number): Promise<number> {
    const { isDead } = this.#parts
    const candidates = reading(() => recoverable(this.#calls.listOpen(), isDead, now))
    const ended = candidates.map(({ call, account }) => this.admit(() => this.#recover(call, account, now)))
    return (await Promise.all(ended)).filter(Boolean).length
  }

  /** Ends one abandoned call; false when its owner has ended it, or shown a sign of life, in the meantime. */
  #recover(call: string, account: string, now: number): boolean {
    const at = this.#time.now()
    const entry = this.#wallets.of(account)
    const open = entry.wallet.calls.get(call)
    if (!open || (open.leaseUntil > now && !this.#parts.isDead(open.owner))) return false
    if (open.progress === null) {
      const { change } = decide<'release'>(entry.wallet, { kind: 'release', release: open }, at)
      if (change) this.#end(entry, change, at, 'recovered', null, [lostAttempt])
      return change !== null
    }
    const { usage, cost } = open.progress
    const settle = { call, owner: open.owner, cost, most: null, estimated: true, provider: 'unreconciled' }
    // An estimate is charged within its hold, and a hold is within the limit of its key.
    const { change } = decide<'settle'>(entry.wallet, { kind: 'settle', settle, keySpend: 0n }, at)
    const receipt = { usage, lines: [], served: null, estimated: true, overLimit: false }
    if (change) this.#end(entry, change, at, 'recovered', receipt, [lostAttempt])
    return change !== null
  }

  balance(account: string): Balance {
    return reading(() => {
      this.#validate()
      return balanceOf(this.#wallets.of(account).wallet, this.#time.now())
    })
  }

  /** Keys are loaded again: one of them has got a successor, with which it shares its limit. */
  forgetKeys(): void {
    this.#wallets.forgetKeys()
  }

  keySpend(key: string, windowStart: number): Pico {
    return reading(() => {
      this.#validate()
      return this.#wallets.keySpend(key, windowStart)
    })
  }

  /** Drops what was read of the file when another process has written since. */
  #validate(): void {
    if (!this.#wallets.validate()) return
    this.#journal.forget()
    this.#time.forget()
  }

  totals(account: string): { purchased: Pico; used: Pico } {
    let purchased = 0n
    let used = 0n
    // Added up here: a lifetime of top-ups may exceed what SQLite's integers hold.
    for (const lot of reading(() => this.#sql.lotsOf.all(account))) {
      if (lot.pool === 'purchased') purchased += lot.granted
      used += lot.granted - lot.remaining - lot.expired - lot.refunded
    }
    return { purchased, used }
  }

  call(account: string, id: string): CallRecord | undefined {
    return reading(() => this.#calls.record(account, id))
  }

  recordPrice(version: string, model: string, price: string): void {
    this.#prices.note(version, model, price)
  }

  audit(): AuditReport {
    return auditFile(this.#parts.path)
  }

  auditDay(day: number): DayAudit {
    return auditDay(this.#parts.path, day)
  }

  /** Writes a byte when nothing has been asked for a second: a full disk shows before the first call meets it. */
  writable(): boolean {
    const now = performance.now()
    if (now - this.#lastWriteCheck > 1000) {
      this.#lastWriteCheck = now
      this.group.probe(() => this.#sql.touch.run(this.#parts.time.clock()))
    }
    return this.group.writable && !this.#time.tooFarBehind
  }

  close(): Promise<void> {
    return this.group.close()
  }
}

function newLotId(): string {
  return `lot_${randomBytes(12).toString('hex')}`
}

function statements(database: Database) {
  return {
    lotBySource: database.prepare<PriorGrant, [string]>(
      'SELECT id AS lot, account, pool, granted AS amount FROM lot WHERE source = ?',
    ),
    expiring: database.prepare<{ account: string }, [number]>(
      'SELECT DISTINCT account FROM lot WHERE live = 1 AND expires_at <= ? AND remaining > pinned',
    ),
    lotsOf: database.prepare<
      { pool: string; granted: bigint; remaining: bigint; expired: bigint; refunded: bigint },
      [string]
    >('SELECT pool, granted, remaining, expired, refunded FROM lot WHERE account = ?'),
    touch: database.prepare(
      `INSERT INTO server (owner, started_at) VALUES ('', ?) ON CONFLICT (owner) DO UPDATE SET started_at = excluded.started_at`,
    ) as Statement,
  }
}
