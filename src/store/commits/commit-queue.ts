// Many commands, one commit: what arrives in one turn of the event loop shares one transaction and one sync to disk.
// Promises resolve when the commit is durable. Admissions are refused while the disk cannot be written; ends of calls
// never are.

import type { Haste } from '../../credits/ledger/ledger.ts'
import { GatewayError } from '../../errors/errors.ts'
import { Histogram } from '../../observe/call-log.ts'
import {
  type CommitFault,
  type Decided,
  deliver,
  Durability,
  type Entry,
  type GroupLimits,
  type Kept,
  type NeededRows,
  outcomeOf,
  type QueueEvents,
  SpillKeeper,
  type SpillTarget,
  type Transactions,
  unavailable,
  uncaught,
} from './durability.ts'

const busyRetryMs = 5
/** How long a lock of another process may last before it counts as an outage. */
const busyPatienceMs = 1000
const outageRetryMs = 250
/** A commit under way for longer is as good as an outage to whoever can be refused: the database may never answer. */
const slowCommitMs = 1000
/** How long the end of a call waits for the disk before its caller gets an error; the command itself is kept. */
export const endPatienceMs = 5000
/** Each may be as large as an answer. */
const mostPutOff = 64

/**
 * The commit path. A group is committed at once to the log of the database, which a sync then takes to the disk, mostly on
 * another thread (see Durability); the next group gathers meanwhile. Groups reach the disk in the order of their commits, so a
 * power cut leaves all of them up to one, and none after it.
 *
 * What a power cut can take is what no sync had covered: at most the groups since the beginning of the sync under way, or
 * the holds of the last two milliseconds. Nobody has had an answer to any of it, except that a hold was *decided*
 * (`decide`): its provider may have been asked, and nothing passed on to its client. So it costs the operator what the
 * provider bills for a question whose answer nobody has seen, and never a charge for an answer that was delivered.
 */
export class CommitQueue {
  readonly #transactions: Transactions
  readonly #limits: GroupLimits
  readonly #durability: Durability
  readonly #unwritable: QueueEvents['unwritable']
  readonly #gathering: Gathering
  readonly #spill = new SpillKeeper()
  /** How many commands of the spill file are committed and not durable yet. */
  #keptUndurable = 0
  #queue: Entry[] = []
  /** Ends of calls that are not queued yet. */
  readonly #behind = new Set<Kept>()
  /** Commands without a record that found no room on the disk. */
  #later: Entry[] = []
  #laterTimer: ReturnType<typeof setTimeout> | undefined
  /** The commit that is under way. */
  #committing: Promise<void> | undefined
  /** Whether that has taken too long. */
  #slow = false
  #busySince: number | null = null
  #down = false
  #retry: ReturnType<typeof setTimeout> | undefined
  #closing = false
  #closed = false
  readonly #commitTimes = new Histogram()

  constructor(transactions: Transactions, limits: GroupLimits, { lost, unwritable }: QueueEvents = {}) {
    this.#transactions = transactions
    this.#limits = limits
    this.#unwritable = unwritable
    this.#gathering = new Gathering(
      () => this.#queue.length,
      limits,
      () => void this.#commitGathered(),
    )
    const sync = transactions.sync && (() => transactions.sync!())
    this.#durability = new Durability(sync, limits.soonMs, {
      hasEnded: () => {
        this.#clearSpill()
        this.#goOn()
        return this.#gathering.isUnderWay
      },
      onFailed: lost ?? uncaught,
    })
  }

  get writable(): boolean {
    return this.#admits && this.#queue.length < this.#limits.queue
  }

  /** Resolves when everything that is committed now is durable; undefined when it is. */
  get durable(): Promise<void> | undefined {
    return this.#durability.settled
  }

  get waiting(): number {
    return this.#queue.length
  }

  /** How long commits and syncs have taken; a lone command's commit is its sync. */
  get times(): Readonly<Record<'commits' | 'syncs', Histogram>> {
    return { commits: this.#commitTimes, syncs: this.#durability.times }
  }

  spillTo(target: SpillTarget): void {
    this.#spill.spillTo(target)
  }

  /**
   * A command that may be refused when the store is in trouble: `overloaded` when too many wait, `store_unavailable`
   * when the disk cannot be written. It is answered when it is durable.
   */
  admit<T>(need: NeededRows, run: () => T): Promise<T> {
    return this.#refusal() ?? this.#enqueue<T>(need, run, undefined)
  }

  /** The same, answered when it is decided; `haste` says when its sync begins. A refusal is final: nothing of it has to become durable. */
  decide<T>(need: NeededRows, haste: Haste, run: () => T): Promise<Decided<T>> {
    return this.#refusal() ?? this.#enqueue<Decided<T>>(need, run, undefined, haste)
  }

  /** A disk that answers no sync is as good as none, though commits still get as far as the kernel. */
  get #admits(): boolean {
    return !this.#down && !this.#slow && !this.#closing && !this.#durability.lost && !this.#durability.stalled
  }

  #refusal(): Promise<never> | undefined {
    if (!this.#admits) return Promise.reject(unavailable(undefined))
    if (this.#queue.length < this.#limits.queue) return undefined
    return Promise.reject(new GatewayError('overloaded', { retryAfterMs: 1000 }))
  }

  /**
   * A command that must not be lost: the end of a call, or its progress. It is kept and retried for as long as the
   * process lives, and `record` goes to the spill file. The promise rejects with `store_unavailable` when the disk
   * has not come back in five seconds; the command is carried out all the same when it does. A `record` of null is
   * for what may die with the process: the space of the file is for the money. With `after` it is queued when that has
   * resolved, which may never reject.
   */
  conclude<T>(need: NeededRows, run: () => T, record: unknown, after?: Promise<unknown>): Promise<T> {
    if (this.#closed || this.#durability.lost) return Promise.reject(unavailable(undefined))
    const done =
      after === undefined
        ? this.#enqueue<T>(need, run, record)
        : this.#enqueueAfter<T>(after, { need, run, record })
    if (this.#down || this.#slow) this.#spill.keep([...this.#behind, ...this.#queue])
    return done
  }

  /** What stands behind other work for long is in the spill file before it is in the queue. */
  async #enqueueAfter<T>(
    after: Promise<unknown>,
    { need, run, record }: Pick<Entry, 'need' | 'run' | 'record'>,
  ): Promise<T> {
    const waiting: Kept = { record, kept: false }
    this.#behind.add(waiting)
    const late = setTimeout(() => this.#spill.keep([waiting]), outageRetryMs)
    await after
    clearTimeout(late)
    this.#behind.delete(waiting)
    return this.#enqueue<T>(need, run, record, undefined, waiting.kept)
  }

  /** Admits nothing more, writes what is queued and stops. Rejects when ends of calls were not written; the spill file has them. */
  async close(): Promise<void> {
    this.#closing = true
    // Whoever is answered here may have the next command to conclude.
    do await this.#writeAll()
    while (this.#queue.length > 0 && !this.#down && !this.#durability.lost)
    this.#closed = true
    clearTimeout(this.#laterTimer)
    for (const entry of this.#later.splice(0)) entry.reject(unavailable(undefined))
    const lost = this.#queue.splice(0)
    for (const entry of lost) entry.reject(unavailable(undefined))
    this.#transactions.close()
    if (lost.length > 0 || this.#durability.lost) throw unavailable(undefined)
  }

  async #writeAll(): Promise<void> {
    clearTimeout(this.#retry)
    await this.#committing
    while (this.#queue.length > 0 && !this.#down) {
      await this.#flush()
      if (this.#busySince !== null) await new Promise((resolve) => setTimeout(resolve, busyRetryMs))
    }
    clearTimeout(this.#retry)
    if (this.#down) await this.#retryQueue()
    clearTimeout(this.#retry)
    await this.#committing
    while (this.#durability.settled && !this.#durability.lost) await this.#durability.settled
  }

  /** Makes sure that the disk can be written, by writing. Never rejects; a commit under way shows as much. */
  async probe(write: () => void): Promise<void> {
    if (this.#down || this.#closed || this.#committing) return
    try {
      await this.#commit([], write)
    } catch (error) {
      if (this.#faultOf(error) !== 'busy') this.#outage(error)
    }
    this.#goOn()
  }

  #enqueue<T>(
    need: NeededRows,
    run: () => unknown,
    record: unknown,
    early?: Haste,
    kept = false,
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({
        need,
        run,
        resolve,
        reject,
        record,
        queuedAt: performance.now(),
        early,
        kept,
        outcome: null,
      })
      if (!this.#down && this.#busySince === null && !this.#committing && this.#mayGo(early))
        this.#gathering.begin()
    })
  }

  /**
   * While a sync is under way nothing becomes durable any sooner for being committed now, and larger groups cost less.
   * What is answered when it is decided need not wait for all of that: one group is committed meanwhile.
   */
  #mayGo(early: Haste | undefined): boolean {
    return !this.#durability.syncing || (early !== undefined && !this.#durability.waiting)
  }

  async #commitGathered(): Promise<void> {
    if (!this.#closed && !this.#down && this.#busySince === null) await this.#flush()
    // The holds that were committed during the last sync have waited for this group, to share its sync.
    this.#durability.go()
  }

  /** Commits the head of the queue, unless a commit is under way: that one goes on with the queue when it has ended. */
  async #flush(): Promise<void> {
    if (this.#committing) return this.#committing
    const group = this.#queue.splice(0, this.#limits.max)
    if (group.length === 0) return
    try {
      await this.#commitGroup(group)
    } catch (error) {
      await this.#fail(group, error)
      this.#goOn()
    }
  }

  /** Runs a transaction, the only one at its time, for these commands. */
  async #commit(group: readonly Entry[], work: () => void): Promise<void> {
    while (this.#committing) await this.#committing
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#committing = promise
    const since = performance.now()
    let watch: ReturnType<typeof setTimeout> | undefined
    try {
      const needs = group.map(({ need }) => need)
      const committed = this.#transactions.commit(needs, work)
      if (committed instanceof Promise) watch = setTimeout(() => (watch = this.#onSlow(group)), slowCommitMs)
      await committed
      this.#commitTimes.observe(performance.now() - since)
    } finally {
      clearInterval(watch)
      this.#slow = false
      this.#committing = undefined
      resolve()
    }
  }

  /**
   * The database does not answer a commit. Until it does nothing more is admitted, and whoever waits gets an error when
   * their patience is over. Ends of calls are kept, and so is what the commit under way has decided: a hold of which
   * nobody knows is ended by recovery when its lease is over.
   */
  #onSlow(group: readonly Entry[]): ReturnType<typeof setInterval> {
    this.#slow = true
    this.#refuseAdmissions()
    this.#spill.keep([...group, ...this.#behind, ...this.#queue])
    return setInterval(() => this.#giveUpLate([...group, ...this.#queue]), outageRetryMs)
  }

  #goOn(): void {
    if (this.#queue.length > 0 && !this.#down && this.#busySince === null) this.#gathering.begin()
  }

  /** One transaction for the group. What did not fit into the time goes back to the head of the queue. */
  async #commitGroup(group: Entry[]): Promise<void> {
    let taken = 0
    const work = () => {
      taken = 0
      const until = performance.now() + this.#limits.decideMs
      for (const entry of group) {
        if (taken > 0 && performance.now() > until) break
        taken++
        entry.outcome = outcomeOf(entry.run)
      }
    }
    const [first] = group
    if (first && group.length === 1 && this.#syncsItself(first)) {
      this.#durability.timeCommit(() => this.#transactions.commitDurably!(work))
      this.#busySince = null
      return deliver(first)
    }
    await this.#commit(group, work)
    this.#busySince = null
    this.#queue.unshift(...group.slice(taken))
    // Before the answers: commands that follow an answer wait for the sync under way.
    this.#goOn()
    this.#answer(group.slice(0, taken))
  }

  /**
   * Whether this thread waits for the disk with a lone command. It has nobody to share a sync with, and handing that to
   * another thread and back costs as much as the sync. Not while other calls are open, which would stand still; not where
   * the disk has been slow; and a hold that is answered when it is decided has its provider asked meanwhile.
   */
  #syncsItself({ early, kept }: Entry): boolean {
    const isAlone = this.#queue.length === 0 && (this.#transactions.quiet?.() ?? true)
    return early === undefined && !kept && isAlone && this.#durability.isQuick(this.#limits.loneSyncMs)
  }

  /** To the commands of a group that was committed. */
  #answer(done: readonly Entry[]): void {
    const later: Entry[] = []
    for (const entry of done) {
      if (entry.early === undefined) later.push(entry)
      else deliver(entry, this.#durability.afterCommit(entry.early))
    }
    if (later.length === 0) return
    const kept = later.filter((entry) => entry.kept).length
    this.#keptUndurable += kept
    this.#durability.answerAfter(() => {
      this.#keptUndurable -= kept
      for (const entry of later) deliver(entry)
      if (kept > 0) this.#clearSpill()
    })
  }

  /** After a failed sync nothing is answered; ends of calls are kept like in any other outage, for the next process. */
  #faultOf(error: unknown): CommitFault {
    const fault = this.#transactions.faultOf(error)
    if (fault === 'lost') this.#durability.lose(error)
    return fault
  }

  async #fail(group: Entry[], error: unknown): Promise<void> {
    for (const entry of group) entry.outcome = null
    const fault = this.#faultOf(error)
    if (fault === 'busy' && this.#waitForLock()) {
      this.#queue.unshift(...group)
      return
    }
    if (fault !== 'bug') {
      const money = group.filter((entry) => entry.record !== null)
      this.#queue.unshift(...money)
      if (money.length === group.length) this.#outage(error)
      else for (const entry of group) if (entry.record === null) this.#putOff(entry)
      return
    }
    if (group.length === 1) {
      group[0]!.reject(new GatewayError('internal_error', { cause: error }))
      return
    }
    await this.#oneByOne(group)
  }

  /** One command of the group is at fault. Each gets a transaction of its own, so that only that one fails. */
  async #oneByOne(group: Entry[]): Promise<void> {
    for (const [at, entry] of group.entries()) {
      try {
        await this.#commitGroup([entry])
      } catch (error) {
        if (this.#faultOf(error) !== 'bug') return this.#fail(group.slice(at), error)
        await this.#fail([entry], error)
      }
    }
  }

  /** A command without a record, such as a stored response, may be too large for the room left: charges go before it. */
  #putOff(entry: Entry): void {
    if (this.#later.length >= mostPutOff) entry.reject(unavailable(undefined))
    else this.#later.push(entry)
    this.#laterTimer ??= setTimeout(() => {
      this.#laterTimer = undefined
      void this.#tryEach(this.#later.splice(0))
    }, outageRetryMs)
  }

  /** Each alone; none stands in the way of a commit that is under way. */
  async #tryEach(entries: Entry[]): Promise<void> {
    for (const entry of entries) {
      if (this.#closed) entry.reject(unavailable(undefined))
      else if (this.#down || this.#committing) this.#putOff(entry)
      else await this.#tryAlone(entry)
    }
  }

  async #tryAlone(entry: Entry): Promise<void> {
    try {
      await this.#commitGroup([entry])
    } catch (error) {
      if (this.#closed) entry.reject(error)
      else if (this.#down || this.#faultOf(error) !== 'bug') this.#putOff(entry)
      else entry.reject(new GatewayError('internal_error', { cause: error }))
      this.#goOn()
    }
  }

  /** Leaves the loop to others and tries again; false when the lock has lasted too long. */
  #waitForLock(): boolean {
    const now = performance.now()
    this.#busySince ??= now
    if (now - this.#busySince > busyPatienceMs) {
      this.#busySince = null
      return false
    }
    this.#retry = setTimeout(() => void this.#flush(), busyRetryMs)
    return true
  }

  /** Refuses the admissions, keeps the rest, and tries again four times a second. */
  #outage(error?: unknown): void {
    this.#down = true
    if (error !== undefined) this.#unwritable?.(error)
    this.#busySince = null
    this.#refuseAdmissions()
    this.#spill.keep([...this.#behind, ...this.#queue])
    this.#giveUpLate(this.#queue)
    clearTimeout(this.#retry)
    this.#retry = setTimeout(() => void this.#retryQueue(), outageRetryMs)
  }

  /** Of what waits. */
  #refuseAdmissions(): void {
    const admissions = this.#queue.filter((entry) => entry.record === undefined)
    this.#queue = this.#queue.filter((entry) => entry.record !== undefined)
    for (const entry of admissions) entry.reject(unavailable(undefined))
  }

  /** An error for those who have waited for long enough. Their commands are kept. */
  #giveUpLate(entries: readonly Entry[]): void {
    const late = performance.now() - endPatienceMs
    for (const entry of entries) if (entry.queuedAt < late) entry.reject(unavailable(undefined))
  }

  async #retryQueue(): Promise<void> {
    if (this.#committing) return this.#committing
    try {
      await this.#commit([], () => this.#transactions.touch())
      this.#down = false
    } catch (error) {
      // Whatever the fault is, it is not over; a fault of ours here would be one of the database as well.
      this.#unwritable?.(error)
      if (this.#faultOf(error) === 'bug') this.#transactions.forget()
    }
    while (!this.#down && this.#busySince === null && this.#queue.length > 0) {
      await this.#flush()
      // Before the next group, whose callers may look at the file.
      this.#clearSpill()
    }
    if (this.#down) this.#outage()
    else this.#clearSpill()
  }

  /** Clears the spill file once all of it is durable in the database. */
  #clearSpill(): void {
    if (!this.#spill.used || this.#down || this.#keptUndurable > 0) return
    if ([...this.#behind, ...this.#queue].some(({ kept }) => kept)) return
    this.#spill.clear()
  }
}

// When a group of commands has gathered, and is committed.

class Gathering {
  readonly #waiting: () => number
  readonly #limits: Pick<GroupLimits, 'max' | 'waitMs'>
  readonly #commit: () => void
  #underWay = false

  /** `waiting`: how many commands wait now. `commit` is called once for each `begin` that starts a gathering. */
  constructor(waiting: () => number, limits: Pick<GroupLimits, 'max' | 'waitMs'>, commit: () => void) {
    this.#waiting = waiting
    this.#limits = limits
    this.#commit = commit
  }

  get isUnderWay(): boolean {
    return this.#underWay
  }

  /**
   * Commits when every callback of this turn of the loop has run: a lone command does not wait, and what has arrived while
   * the last group was being synced is in this one. While each turn brings more, that is waited for, up to `max` commands
   * and `waitMs`: calls that are held, asked and ended together cost each of them less.
   */
  begin(): void {
    if (this.#underWay) return
    this.#underWay = true
    const before = this.#waiting()
    setImmediate(() => this.#look(before, performance.now()))
  }

  /** `before`: how many waited a turn ago. */
  #look(before: number, since: number): void {
    const { max, waitMs } = this.#limits
    const waiting = this.#waiting()
    if (waiting > before && waiting < max && performance.now() - since < waitMs) {
      setImmediate(() => this.#look(waiting, since))
      return
    }
    this.#underWay = false
    this.#commit()
  }
}
