// When what was committed is safe from a power cut. A commit leaves its pages with the operating system, where they
// survive this process; a sync on another thread takes them to the disk, and only then are answers given. What is
// committed while a sync is under way shares the next one.

import type { Haste } from '../../credits/ledger/ledger.ts'

/** Makes durable what has been committed when it is called. Rejects when that cannot be known. */
export type Sync = () => Promise<void>

interface Batch {
  readonly answers: (() => void)[]
  durable: PromiseWithResolvers<void> | undefined
  /** Somebody waits for its sync. Otherwise it only has to come soon, and shares the next one that is waited for. */
  awaited: boolean
}

export interface DurabilityEvents {
  /**
   * Called after each sync, when its answers are given. It says whether a commit follows in this turn: then the next
   * sync waits for it, until `go` at the latest.
   */
  hasEnded(): boolean
  /** A sync has failed: the process has to end. */
  onFailed(error: unknown): void
}

const already = Promise.resolve()
/** A disk that is only busy has been seen to take a few hundred milliseconds. */
const longestSyncMs = 5_000
/** The longest that a commit without anybody waiting for it is left to the operating system before its sync begins. */
const soonMs = 2
/** How much of the usual time the last sync makes. */
const lastSyncPart = 1 / 8

/**
 * Runs the syncs, one at a time, and the answers that wait for them, in the order of their commits.
 *
 * A sync that fails is never repeated: the kernel has reported the pages as lost and would call the next sync a success.
 * Then nothing more is answered, and `failed` has to end the process; the next one reads what the disk has.
 */
export class Durability {
  readonly #sync: Sync | undefined
  readonly #events: DurabilityEvents
  /** Committed, and not covered by the sync under way. */
  #next: Batch | undefined
  #soon: ReturnType<typeof setTimeout> | undefined
  #syncing: Promise<void> | undefined
  #since = 0
  #usualMs = 0
  #lost = false

  /** Without a `sync` commits are durable by themselves. */
  constructor(sync: Sync | undefined, events: DurabilityEvents) {
    this.#sync = sync
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

  /** Whether nobody waits for a sync, and one has usually taken less than that, milliseconds. */
  isQuick(mostMs: number): boolean {
    if (this.#sync === undefined || this.#syncing || this.#lost) return false
    return !this.#next?.awaited && this.#usualMs < mostMs
  }

  /** Runs a commit that syncs by itself, and so all that was committed before. Notes how long that takes. */
  timeCommit(commit: () => void): void {
    const since = performance.now()
    commit()
    this.#took(performance.now() - since)
    const covered = this.#take()
    if (covered) answer(covered)
  }

  #took(ms: number): void {
    this.#usualMs += (ms - this.#usualMs) * lastSyncPart
  }

  /** A sync has failed, one of these or a commit's own. */
  lose(error: unknown): void {
    this.#lost = true
    this.#events.onFailed(error)
  }

  /** Runs `answer` when everything that is committed by now is durable: at once where commits are. */
  answerAfter(answer: () => void): void {
    if (!this.#sync) answer()
    else this.#join('at-once').answers.push(answer)
  }

  /** Resolves when everything that is committed by now is durable. Never rejects: see `lost`. */
  afterCommit(haste: Haste): Promise<void> {
    if (!this.#sync) return already
    return (this.#join(haste).durable ??= Promise.withResolvers()).promise
  }

  /** The same for what others have committed before; undefined when all of that is durable. */
  get settled(): Promise<void> | undefined {
    return this.#next ? this.afterCommit('at-once') : this.#syncing
  }

  #join(haste: Haste): Batch {
    const batch = (this.#next ??= { answers: [], durable: undefined, awaited: false })
    if (haste === 'at-once') this.#await(batch)
    else if (!batch.awaited) this.#soon ??= setTimeout(() => this.#await(this.#next), soonMs)
    return batch
  }

  #await(batch: Batch | undefined): void {
    if (batch) batch.awaited = true
    this.go()
  }

  /** What is committed and not durable, to whoever makes it durable now. */
  #take(): Batch | undefined {
    const batch = this.#next
    this.#next = undefined
    if (this.#soon !== undefined) clearTimeout(this.#soon)
    this.#soon = undefined
    return batch
  }

  /**
   * Begins a sync if somebody waits for one and none is under way. It begins in a microtask: what has been committed by
   * then is covered by it.
   */
  go(): void {
    if (!this.#next?.awaited || this.#syncing || this.#lost) return
    this.#since = performance.now()
    this.#syncing = this.#run()
  }

  async #run(): Promise<void> {
    await already
    const batch = this.#take()!
    try {
      await this.#sync!()
    } catch (error) {
      this.lose(error)
      return new Promise(() => undefined)
    }
    this.#took(performance.now() - this.#since)
    this.#syncing = undefined
    answer(batch)
    if (!this.#events.hasEnded()) this.go()
  }
}

function answer({ answers, durable }: Batch): void {
  for (const each of answers) each()
  durable?.resolve()
}

/** Throws where nobody catches it, which ends the process. */
export function uncaught(error: unknown): void {
  queueMicrotask(() => {
    throw error
  })
}
