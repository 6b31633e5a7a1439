// Many commands, one commit: what arrives in one turn of the event loop shares one transaction and one sync to disk.
// Promises resolve after COMMIT. Admissions are refused while the disk cannot be written; ends of calls never are.

import { type Awaitable, whenDone } from '../awaitable.ts'
import { GatewayError } from '../errors.ts'

export interface GroupLimits {
  /** The most commands in one transaction. */
  readonly max: number
  /** The longest one transaction gathers, milliseconds. */
  readonly waitMs: number
  /** The most commands that wait; beyond it admissions are refused. */
  readonly queue: number
}

export const defaultGroupLimits: GroupLimits = { max: 64, waitMs: 2, queue: 4096 }

const busyRetryMs = 5
/** How long a lock of another process may last before it counts as an outage. */
const busyPatienceMs = 1000
const outageRetryMs = 250
/** How long the end of a call waits for the disk before its caller gets an error; the command itself is kept. */
const endPatienceMs = 5000
/** Each may be as large as an answer. */
const mostPutOff = 64

/**
 * What a command will look for, said before it runs. A database in this process loads it when the command asks; one
 * across the network loads it for a whole group beforehand. A key's figures come with its account's wallet.
 */
export interface Need {
  readonly account?: string
  /** The id of a call: open, ended or new. */
  readonly call?: string
  /** The source of a grant. */
  readonly source?: string
  /** The id of a refund or an adjustment. */
  readonly correction?: string
  readonly lot?: string
}

/** One transaction of the database, as the queue needs it. */
export interface Transactions {
  /**
   * Commits what `run` does, and gives what it gives: at once, or later where the database is across a network. When it
   * throws or rejects, nothing was done. The queue never begins a second one before the first has ended.
   */
  commit<T>(needs: readonly Need[], run: () => T): Awaitable<T>
  /** Writes a little, to see whether the database can be written. */
  touch(): void
  /** What an error of a commit says: another process is writing, or the disk cannot be written; else a bug. */
  faultOf(error: unknown): 'busy' | 'outage' | 'bug'
  /** Nothing in memory may be trusted. */
  forget(): void
  close(): void
}

/** Where commands are kept when the disk is full. */
export interface SpillTarget {
  append(record: unknown): void
  /** Makes what was appended durable. */
  sync(): void
  clear(): void
}

interface Entry {
  readonly need: Need
  readonly run: () => unknown
  resolve: (value: never) => void
  reject: (error: unknown) => void
  /** What the spill file keeps; null for what is kept in memory alone, undefined for an admission, which is refused. */
  readonly record: unknown
  readonly queuedAt: number
  /** Whether the spill file has it. */
  kept: boolean
  outcome: { readonly value: unknown } | { readonly error: unknown } | null
}

export class CommitQueue {
  readonly #transactions: Transactions
  readonly #limits: GroupLimits
  #spill: SpillTarget | null = null
  #spilled = false
  #queue: Entry[] = []
  /** Of those that are kept in memory alone: what found no room. */
  #later: Entry[] = []
  #laterTimer: ReturnType<typeof setTimeout> | undefined
  #scheduled = false
  /** The commit that is under way, where the database takes its time. */
  #committing: Promise<void> | undefined
  #busySince: number | null = null
  #down = false
  #retry: ReturnType<typeof setTimeout> | undefined
  #closed = false

  constructor(transactions: Transactions, limits: GroupLimits) {
    this.#transactions = transactions
    this.#limits = limits
  }

  get writable(): boolean {
    return !this.#down && !this.#closed && this.#queue.length < this.#limits.queue
  }

  get waiting(): number {
    return this.#queue.length
  }

  spillTo(target: SpillTarget): void {
    this.#spill = target
  }

  /**
   * A command that may be refused when the store is in trouble: `overloaded` when too many wait, `store_unavailable`
   * when the disk cannot be written.
   */
  admit<T>(need: Need, run: () => T): Promise<T> {
    if (this.#down || this.#closed) return Promise.reject(unavailable(undefined))
    if (this.#queue.length >= this.#limits.queue) {
      return Promise.reject(new GatewayError('overloaded', { retryAfterMs: 1000 }))
    }
    return this.#enqueue(need, run, undefined)
  }

  /**
   * A command that must not be lost: the end of a call, or its progress. It is kept and retried for as long as the
   * process lives, and `record` goes to the spill file. The promise rejects with `store_unavailable` when the disk
   * has not come back in five seconds; the command is carried out all the same when it does. A `record` of null is
   * for what may die with the process: the space of the file is for the money.
   */
  conclude<T>(need: Need, run: () => T, record: unknown): Promise<T> {
    if (this.#closed) return Promise.reject(unavailable(undefined))
    const done = this.#enqueue(need, run, record)
    if (this.#down) this.#keepQueue()
    return done
  }

  /** Writes what is queued and stops. Rejects when the ends of calls could not be written; the spill file has them. */
  async close(): Promise<void> {
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
    this.#closed = true
    clearTimeout(this.#laterTimer)
    for (const entry of this.#later.splice(0)) entry.reject(unavailable(undefined))
    const lost = this.#queue.splice(0)
    for (const entry of lost) entry.reject(unavailable(undefined))
    this.#transactions.close()
    if (lost.length > 0) throw unavailable(undefined)
  }

  /** Makes sure that the disk can be written, by writing. Never throws or rejects; a commit under way shows as much. */
  probe(write: () => void): Awaitable<void> {
    if (this.#down || this.#closed || this.#committing) return
    return this.#alone(() =>
      whenDone(
        () => this.#transactions.commit([], write),
        () => undefined,
        (error) => {
          if (this.#transactions.faultOf(error) !== 'busy') this.#outage()
        },
      ),
    )
  }

  #enqueue<T>(need: Need, run: () => T, record: unknown): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({
        need,
        run,
        resolve,
        reject,
        record,
        queuedAt: performance.now(),
        kept: false,
        outcome: null,
      })
      if (!this.#down && this.#busySince === null && !this.#committing) this.#schedule()
    })
  }

  // setImmediate runs when every callback of this turn has run: a lone command does not wait, and what has arrived
  // while the last group was being synced is gathered into the next.
  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      if (!this.#closed && !this.#down && this.#busySince === null) void this.#flush()
    })
  }

  /** Commits the head of the queue, unless a commit is under way: that one goes on with the queue when it has ended. */
  #flush(): Awaitable<void> {
    if (this.#committing) return this.#committing
    const group = this.#queue.splice(0, this.#limits.max)
    if (group.length === 0) return
    const done = this.#alone(() =>
      whenDone(
        () => this.#commitGroup(group),
        () => {
          this.#busySince = null
        },
        (error) => this.#failed(group, error),
      ),
    )
    if (!(done instanceof Promise)) this.#goOn()
    return done
  }

  /** Notes that a commit which takes its time is under way; then goes on with what has been queued meanwhile. */
  #alone(commit: () => Awaitable<void>): Awaitable<void> {
    const done = commit()
    if (!(done instanceof Promise)) return
    this.#committing = done.finally(() => {
      this.#committing = undefined
      this.#goOn()
    })
    return this.#committing
  }

  #goOn(): void {
    if (this.#queue.length > 0 && !this.#down && this.#busySince === null) this.#schedule()
  }

  /** One transaction for the group. What did not fit into the time goes back to the head of the queue. */
  #commitGroup(group: Entry[]): Awaitable<void> {
    let taken = 0
    const needs = group.map(({ need }) => need)
    const work = () => {
      taken = 0
      const until = performance.now() + this.#limits.waitMs
      for (const entry of group) {
        if (taken > 0 && performance.now() > until) break
        taken++
        entry.outcome = outcomeOf(entry.run)
      }
    }
    const commit = () => this.#transactions.commit(needs, work)
    return whenDone(commit, () => {
      if (taken < group.length) this.#queue.unshift(...group.slice(taken))
      for (const entry of group.slice(0, taken)) deliver(entry)
    })
  }

  #failed(group: Entry[], error: unknown): Awaitable<void> {
    for (const entry of group) entry.outcome = null
    const fault = this.#transactions.faultOf(error)
    if (fault === 'busy' && this.#waitForLock()) {
      this.#queue.unshift(...group)
      return
    }
    if (fault !== 'bug') {
      const money = group.filter((entry) => entry.record !== null)
      this.#queue.unshift(...money)
      if (money.length === group.length) this.#outage()
      else for (const entry of group) if (entry.record === null) this.#putOff(entry)
      return
    }
    if (group.length === 1) {
      group[0]!.reject(new GatewayError('internal_error', { cause: error }))
      return
    }
    return this.#oneByOne(group)
  }

  /** One command of the group is at fault. Each gets a transaction of its own, so that only that one fails. */
  #oneByOne(group: Entry[]): Awaitable<void> {
    const [first, ...rest] = group
    if (!first) return
    return whenDone(
      () => this.#commitGroup([first]),
      () => this.#oneByOne(rest),
      (error) => {
        if (this.#transactions.faultOf(error) !== 'bug') return this.#failed(group, error)
        return whenDone(
          () => this.#failed([first], error),
          () => this.#oneByOne(rest),
        )
      },
    )
  }

  /** What is kept for a client alone may be too large for what room there is: it must not stand before the money. */
  #putOff(entry: Entry): void {
    if (this.#later.length >= mostPutOff) entry.reject(unavailable(undefined))
    else this.#later.push(entry)
    this.#laterTimer ??= setTimeout(() => {
      this.#laterTimer = undefined
      void this.#tryEach(this.#later.splice(0))
    }, outageRetryMs)
  }

  /** Each alone; none stands in the way of a commit that is under way. */
  #tryEach(entries: Entry[]): Awaitable<void> {
    const [first, ...rest] = entries
    if (!first) return
    if (this.#closed) first.reject(unavailable(undefined))
    else if (this.#down || this.#committing) this.#putOff(first)
    else
      return whenDone(
        () => this.#alone(() => this.#tryAlone(first)),
        () => this.#tryEach(rest),
      )
    return this.#tryEach(rest)
  }

  #tryAlone(entry: Entry): Awaitable<void> {
    return whenDone(
      () => this.#commitGroup([entry]),
      () => undefined,
      (error) => {
        if (this.#closed) entry.reject(error)
        else if (this.#down || this.#transactions.faultOf(error) !== 'bug') this.#putOff(entry)
        else entry.reject(new GatewayError('internal_error', { cause: error }))
      },
    )
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
  #outage(): void {
    this.#down = true
    this.#busySince = null
    const admissions = this.#queue.filter((entry) => entry.record === undefined)
    this.#queue = this.#queue.filter((entry) => entry.record !== undefined)
    for (const entry of admissions) entry.reject(unavailable(undefined))
    this.#keepQueue()
    const late = performance.now() - endPatienceMs
    for (const entry of this.#queue) if (entry.queuedAt < late) entry.reject(unavailable(undefined))
    clearTimeout(this.#retry)
    this.#retry = setTimeout(() => void this.#retryQueue(), outageRetryMs)
  }

  #keepQueue(): void {
    if (!this.#spill) return
    for (const entry of this.#queue) {
      if (entry.kept || entry.record === null) continue
      this.#spill.append(entry.record)
      entry.kept = true
      this.#spilled = true
    }
    this.#spill.sync()
  }

  #retryQueue(): Awaitable<void> {
    if (this.#committing) return this.#committing
    const touched = () =>
      whenDone(
        () => this.#transactions.commit([], () => this.#transactions.touch()),
        () => {
          this.#down = false
        },
        (error) => {
          // Whatever the fault is, it is not over; a fault of ours here would be one of the database as well.
          if (this.#transactions.faultOf(error) === 'bug') this.#transactions.forget()
        },
      )
    return whenDone(
      () => this.#alone(touched),
      () =>
        whenDone(
          () => this.#drain(),
          () => this.#afterRetry(),
        ),
    )
  }

  /** Commits what waits, group by group. */
  #drain(): Awaitable<void> {
    while (!this.#down && this.#busySince === null && this.#queue.length > 0) {
      const flushed = this.#flush()
      if (flushed instanceof Promise) return flushed.then(() => this.#drain())
    }
  }

  #afterRetry(): void {
    if (this.#down) {
      this.#outage()
      return
    }
    if (this.#spilled && this.#queue.length === 0) {
      this.#spill?.clear()
      this.#spilled = false
    }
  }
}

/** The answer to a caller: never a refusal of credit, whatever broke. */
export function unavailable(cause: unknown): GatewayError {
  return new GatewayError('store_unavailable', { retryAfterMs: 1000, cause })
}

/** A refusal is an answer: it leaves the group alone. Anything else undoes the group. */
function outcomeOf(run: () => unknown): Entry['outcome'] {
  try {
    return { value: run() }
  } catch (error) {
    if (error instanceof GatewayError) return { error }
    throw error
  }
}

function deliver(entry: Entry): void {
  if (!entry.outcome) throw new Error('a command was committed without an outcome')
  if ('error' in entry.outcome) entry.reject(entry.outcome.error)
  else entry.resolve(entry.outcome.value as never)
}
