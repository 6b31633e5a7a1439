// When what was committed is safe from a power cut. A commit leaves its pages with the operating system, where they
// survive this process; a sync on another thread takes them to the disk, and only then are answers given. What is
// committed while a sync is under way shares the next one. A lone command has nobody to share with, and handing its sync
// to another thread and back costs as much as the sync itself: this thread does that one, if the disk has been quick and
// no other call is open that a slow one would hold up.

import type { Transactions } from './group.ts'

interface Batch {
  readonly answers: (() => void)[]
  durable: PromiseWithResolvers<void> | undefined
  commands: number
}

export interface DurabilityEvents {
  /**
   * Called after each sync, when its answers are given. It says whether a commit follows in this turn: then the next
   * sync waits for it, until `go` at the latest.
   */
  ended(): boolean
  /** A sync has failed: the process has to end. */
  failed(error: unknown): void
  /** Whether nothing would be held up: no command waits for its commit, and at most one call is open. */
  idle(): boolean
}

const already = Promise.resolve()
/** A disk that is only busy has been seen to take a few hundred milliseconds. */
const longestSyncMs = 5_000
/** The longest a sync usually takes that this thread may wait for. */
const quickSyncMs = 1
/** How much of the usual time the last sync makes. */
const lastSyncPart = 1 / 8

/**
 * Runs the syncs, one at a time, and the answers that wait for them, in the order of their commits.
 *
 * A sync that fails is never repeated: the kernel has reported the pages as lost and would call the next sync a success.
 * Then nothing more is answered, and `failed` has to end the process; the next one reads what the disk has.
 */
export class Durability {
  readonly #sync: Transactions['sync']
  readonly #syncNow: Transactions['syncNow']
  readonly #events: DurabilityEvents
  /** Committed, and not covered by the sync under way. */
  #next: Batch | undefined
  #syncing: Promise<void> | undefined
  #since = 0
  #usualMs = 0
  #lost = false

  /** Without a `sync` commits are durable by themselves. */
  constructor({ sync, syncNow }: Pick<Transactions, 'sync' | 'syncNow'>, events: DurabilityEvents) {
    this.#sync = sync
    this.#syncNow = syncNow
    this.#events = events
  }

  /** Whether a sync has failed: what this process says from now on may not be true. */
  get lost(): boolean {
    return this.#lost
  }

  /** Whether the sync under way has taken so long that the disk may never answer. */
  get stalled(): boolean {
    return this.#syncing !== undefined && performance.now() - this.#since > longestSyncMs
  }

  get syncing(): boolean {
    return this.#syncing !== undefined
  }

  /** Whether commits wait for the sync after the one that is under way. */
  get waiting(): boolean {
    return this.#next !== undefined
  }

  /** Runs `answer` when everything that is committed by now, with so many `commands`, is durable: at once where commits are. */
  answerAfter(commands: number, answer: () => void): void {
    if (!this.#sync) answer()
    else this.#join(commands).answers.push(answer)
  }

  /** Resolves when everything that is committed by now is durable. Never rejects: see `lost`. */
  afterCommit(): Promise<void> {
    if (!this.#sync) return already
    return (this.#join(0).durable ??= Promise.withResolvers()).promise
  }

  /** The same for what others have committed before; undefined when nothing waits for a sync. */
  get settled(): Promise<void> | undefined {
    if (this.#next) return (this.#next.durable ??= Promise.withResolvers()).promise
    return this.#syncing
  }

  #join(commands: number): Batch {
    const batch = (this.#next ??= { answers: [], durable: undefined, commands: 0 })
    batch.commands += commands
    this.go()
    return batch
  }

  /**
   * Begins a sync if commits wait for one and none is under way. It begins in a microtask: what has been committed by
   * then is covered by it.
   */
  go(): void {
    if (!this.#next || this.#syncing || this.#lost) return
    this.#since = performance.now()
    this.#syncing = this.#run()
  }

  async #run(): Promise<void> {
    await already
    // A hold that was decided asks its provider first, which works while this thread waits for the disk.
    if (this.#next!.durable && this.#mayWait(this.#next!)) await turn()
    const batch = this.#next!
    this.#next = undefined
    this.#since = performance.now()
    try {
      if (this.#mayWait(batch)) this.#syncNow!()
      else await this.#sync!()
    } catch (error) {
      this.#lost = true
      this.#events.failed(error)
      return new Promise(() => undefined)
    }
    this.#usualMs += (performance.now() - this.#since - this.#usualMs) * lastSyncPart
    this.#syncing = undefined
    for (const answer of batch.answers) answer()
    batch.durable?.resolve()
    if (!this.#events.ended()) this.go()
  }

  /** Whether this thread may wait for the sync of a batch: it is a lone command's, the disk is quick, nobody else waits. */
  #mayWait({ commands }: Batch): boolean {
    return commands === 1 && this.#syncNow !== undefined && this.#usualMs < quickSyncMs && this.#events.idle()
  }
}

/** Lets everything run that is ready to. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
