// When what was committed is safe from a power cut. A commit leaves its pages with the operating system, where they
// survive this process; a sync on another thread takes them to the disk, and only then are answers given. What is
// committed while a sync is under way shares the next one.

import {
  access,
  accessSync,
  closeSync,
  existsSync,
  fdatasync,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  readSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import type { Awaitable } from '../../async/async.ts'
import type { GroupCall, Haste, KeyLimit } from '../../credits/ledger/ledger.ts'
import { GatewayError } from '../../errors/errors.ts'
import { Histogram } from '../../observe/call-log.ts'

/** Makes durable what has been committed when it is called. Rejects when that cannot be known. */
type Sync = () => Promise<void>

interface Batch {
  readonly answers: (() => void)[]
  durable: PromiseWithResolvers<void> | undefined
  /** Somebody waits for its sync. Otherwise it only has to come soon, and shares the next one that is waited for. */
  awaited: boolean
}

interface DurabilityEvents {
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
/** How much of the usual time the last sync makes. */
const lastSyncPart = 1 / 8

/**
 * Runs the syncs, one at a time, and the answers that wait for them, in the order of their commits.
 *
 * A sync that fails is never repeated: the kernel has reported the pages as lost and would call the next sync a success.
 * Then nothing more is answered, and `onFailed` has to end the process; the next one reads what the disk has.
 */
export class Durability {
  readonly #sync: Sync | undefined
  readonly #soonMs: number
  readonly #events: DurabilityEvents
  /** Committed, and not covered by the sync under way. */
  #next: Batch | undefined
  #soon: ReturnType<typeof setTimeout> | undefined
  #syncing: Promise<void> | undefined
  #since = 0
  #usualMs = 0
  #lost = false
  /** How long syncs took, those of commits that synced by themselves included. */
  readonly times = new Histogram()

  /**
   * Without a `sync` commits are durable by themselves. A commit that nobody waits for is left to the operating system
   * for `soonMs` milliseconds at most before its sync begins.
   */
  constructor(sync: Sync | undefined, soonMs: number, events: DurabilityEvents) {
    this.#sync = sync
    this.#soonMs = soonMs
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

  /** Whether nobody waits for a sync, and syncs have usually taken less than `mostMs` milliseconds. */
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
    this.times.observe(ms)
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
    if (haste === 'at-once') this.#wantSync(batch)
    else if (!batch.awaited) this.#soon ??= setTimeout(() => this.#wantSync(this.#next), this.#soonMs)
    return batch
  }

  #wantSync(batch: Batch | undefined): void {
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

// Copies the ends of calls that wait to the spill file, in case this process dies before the disk is back.

/**
 * A read-only disk takes the spill file along. That must not end the process: the commands wait in memory, and the file is
 * tried again with the next command and with every try of the disk.
 */
export class SpillKeeper {
  #target: SpillTarget | null = null
  #used = false

  /** Whether the file may hold anything. */
  get used(): boolean {
    return this.#used
  }

  spillTo(target: SpillTarget): void {
    this.#target = target
  }

  /** Writes what the file has not got yet. */
  keep(queue: readonly Kept[]): void {
    const target = this.#target
    if (!target) return
    for (const entry of queue) {
      if (entry.kept || entry.record === null || entry.record === undefined) continue
      this.#used = true
      if (!succeeds(() => target.append(entry.record))) break
      entry.kept = true
    }
    succeeds(() => target.sync())
  }

  /** To be called once all of it is durable in the database. */
  clear(): void {
    if (succeeds(() => this.#target?.clear())) this.#used = false
  }
}

function succeeds(write: () => void): boolean {
  try {
    write()
    return true
  } catch {
    return false
  }
}

// What a group of commands is made of, and the transaction it runs in.

export interface GroupLimits {
  /** The most commands in one transaction. */
  readonly max: number
  /** The longest one transaction gathers, milliseconds. */
  readonly waitMs: number
  /** The longest that the commands of a group are decided, milliseconds; the rest go into the next one. */
  readonly decideMs: number
  /** The most commands that wait; beyond it admissions are refused. */
  readonly queue: number
  /** How quick the disk must have been for the queue's thread to wait for it with a lone command, milliseconds; 0: never. */
  readonly loneSyncMs: number
  /** The longest that a commit nobody waits for stays without a sync, milliseconds. */
  readonly soonMs: number
}

export const defaultGroupLimits: GroupLimits = {
  max: 64,
  waitMs: 2,
  decideMs: 2,
  queue: 4096,
  loneSyncMs: 1,
  soonMs: 2,
}

/**
 * The rows that a command will need, named before it runs. A database in this process loads it when the command asks; one
 * across the network loads it for a whole group beforehand. What an open call holds of its key and its budgets comes with
 * the wallet that it is open in.
 */
export interface NeededRows {
  readonly account?: string
  /** The id of a call: open, ended or new. */
  readonly call?: string
  readonly source?: string
  /** The id of a refund or an adjustment. */
  readonly correction?: string
  readonly lot?: string
  /** Of a hold: its key, whose spending counts where there is a limit, and its budgets. */
  readonly key?: string | null
  readonly keyLimit?: KeyLimit | null
  readonly inGroup?: GroupCall | null
}

/**
 * What an error of a commit says: another process is writing, the disk cannot be written, or it has failed to sync what
 * was written (`lost`); else a bug.
 */
export type CommitFault = 'busy' | 'outage' | 'lost' | 'bug'

/** One transaction of the database, as the queue needs it. */
export interface Transactions {
  /**
   * Commits what `run` does, and gives what it gives: at once, or later where the database is across a network. When it
   * throws or rejects, nothing was done. The queue never begins a second one before the first has ended.
   */
  commit<T>(needs: readonly NeededRows[], run: () => T): Awaitable<T>
  /**
   * Makes what has been committed durable, on another thread. Left out where a commit is durable when it ends. A
   * commit that is not survives this process all the same; a power cut takes it with all that came after it.
   */
  readonly sync?: (() => Promise<void>) | undefined
  /**
   * Like `commit`, but this thread waits for the disk: what `run` did is durable at the end, with all that was
   * committed before. Given where `sync` is.
   */
  commitDurably?<T>(run: () => T): T
  /** Whether at most one call is open, so that this thread may wait for the disk. */
  quiet?(): boolean
  /** Writes a little, to see whether the database can be written. */
  touch(): void
  faultOf(error: unknown): CommitFault
  /** Nothing in memory may be trusted. */
  forget(): void
  close(): void
}

/** What the queue reports of its disk. */
export interface QueueEvents {
  /**
   * Called when a sync has failed: nothing is answered from then on, and the process has to end. Left out, the error is
   * thrown where nobody catches it.
   */
  readonly lost?: ((error: unknown) => void) | undefined
  /** Called when the database cannot be written, and again with each try that fails. */
  readonly unwritable?: ((error: unknown) => void) | undefined
}

/** Where commands are kept when the disk is full. */
export interface SpillTarget {
  append(record: unknown): void
  /** Makes what was appended durable. */
  sync(): void
  clear(): void
}

/** What was decided, and committed: the end of this process does not undo it. */
export interface Decided<T> {
  readonly result: T
  /** Resolves when a power cut would not undo it either. Never rejects. */
  readonly durable: Promise<void>
}

/** A command, as far as the spill file is concerned. */
export interface Kept {
  /** What the spill file keeps; null for what is kept in memory alone, undefined for an admission, which is refused. */
  readonly record: unknown
  /** Whether the spill file has it. */
  kept: boolean
}

/** A command that waits, or was committed and waits for its answer. */
export interface Entry extends Kept {
  readonly need: NeededRows
  readonly run: () => unknown
  resolve: (value: never) => void
  reject: (error: unknown) => void
  readonly queuedAt: number
  /** When its sync begins, if it is answered when it is decided, with a promise of its durability. */
  readonly early: Haste | undefined
  outcome: { readonly value: unknown } | { readonly error: unknown } | null
}

/** The answer to a caller: never a refusal of credit, whatever broke. */
export function unavailable(cause: unknown): GatewayError {
  return new GatewayError('store_unavailable', { retryAfterMs: 1000, cause })
}

/** A refusal is an answer: it leaves the group alone. Anything else undoes the group. */
export function outcomeOf(run: () => unknown): Entry['outcome'] {
  try {
    return { value: run() }
  } catch (error) {
    if (error instanceof GatewayError) return { error }
    throw error
  }
}

/** Answers a command that was committed: with what it gave, and a promise of its durability where it was decided early. */
export function deliver(entry: Entry, durable?: Promise<void>): void {
  const { outcome } = entry
  if (!outcome) throw new Error('a command was committed without an outcome')
  if ('error' in outcome) entry.reject(outcome.error)
  else entry.resolve((durable ? { result: outcome.value, durable } : outcome.value) as never)
}

// Takes the write-ahead log to the disk, for commits that have left that to somebody else.

const syncFile = promisify(fdatasync)

/**
 * The log of a database, through a descriptor of its own. SQLite takes no locks on that file, so closing the descriptor
 * drops none. While a connection is open SQLite neither removes the log nor makes another one; a restart of the log
 * and `journal_size_limit` write and truncate the same file.
 *
 * SQLite sees to the rest with `synchronous = NORMAL`: a checkpoint syncs the log before it writes to the database, and
 * the database before the log may be written from its beginning again; a log that begins again has its header synced.
 */
export class LogSync {
  readonly #path: string
  #opened: number | undefined

  constructor(databasePath: string) {
    this.#path = `${databasePath}-wal`
  }

  /** Resolves when what has been written to the log so far is on the disk. Rejects if that is not certain. One at a time. */
  async sync(): Promise<void> {
    await syncFile(this.#descriptor())
  }

  /** Throws when somebody has removed the log: what is written to it would be gone with this process. */
  #descriptor(): number {
    // Not `stat`: of a file that is asked for its times Linux (6.13) notes the exact one of the next write, and on a file
    // system without a journal each sync then writes the inode, too.
    accessSync(this.#path)
    if (this.#opened !== undefined) return this.#opened
    this.#opened = openSync(this.#path, 'r+')
    // The name of a new file is durable with its directory.
    const directory = openSync(dirname(this.#path), 'r')
    fsyncSync(directory)
    closeSync(directory)
    return this.#opened
  }

  /** To be called when no sync is under way. */
  close(): void {
    if (this.#opened !== undefined) closeSync(this.#opened)
    this.#opened = undefined
  }
}

/**
 * What a store in memory has for a disk. As with one, another thread is asked before anything is answered, and commands of
 * other calls gather meanwhile: they take the same way as in a store that is kept.
 */
export const noDisk: Pick<LogSync, 'sync' | 'close'> = {
  sync: () => new Promise((resolve) => access('.', () => resolve())),
  close: () => undefined,
}

// Finds a database file that has lost its end, before anything is read from it or written to it.

const headerBytes = 100
const logHeaderBytes = 32
const frameHeaderBytes = 24

/**
 * How many pages of a database are neither in the file nor in its write-ahead log; 0 for one that is whole, for one
 * without a page, and for what is no SQLite file. Nobody may be writing meanwhile.
 */
export function missingPages(path: string): number {
  const file = openSync(path, 'r')
  try {
    const header = Buffer.alloc(headerBytes)
    if (readSync(file, header, 0, headerBytes, 0) < headerBytes) return 0
    if (!header.toString('latin1', 0, 16).startsWith('SQLite format 3')) return 0
    const declared = header.readUInt16BE(16)
    const pageBytes = declared === 1 ? 65_536 : declared
    // The count is only good where both of these say the same.
    if (header.readUInt32BE(24) !== header.readUInt32BE(92)) return 0
    const there = Math.floor(fstatSync(file).size / pageBytes)
    return pagesMissing(there, header.readUInt32BE(28), `${path}-wal`, pageBytes)
  } finally {
    closeSync(file)
  }
}

function pagesMissing(there: number, counted: number, logPath: string, pageBytes: number): number {
  const log = committedPages(logPath, pageBytes)
  const count = log.count ?? counted
  let missing = 0
  for (let page = there + 1; page <= count; page++) if (!log.pages.has(page)) missing++
  return missing
}

/** The pages that the log has, and how many pages its last commit has left the database with. */
function committedPages(path: string, pageBytes: number): { count: number | undefined; pages: Set<number> } {
  const pages = new Set<number>()
  let count: number | undefined
  if (!existsSync(path)) return { count, pages }
  const log = readFileSync(path)
  if (log.length < logHeaderBytes) return { count, pages }
  const salts = log.toString('latin1', 16, 24)
  const pending: number[] = []
  for (let at = logHeaderBytes; at + frameHeaderBytes + pageBytes <= log.length;) {
    // Frames of an earlier round of the log have other salts.
    if (log.toString('latin1', at + 8, at + 16) !== salts) break
    pending.push(log.readUInt32BE(at))
    const size = log.readUInt32BE(at + 4)
    if (size > 0) {
      count = size
      for (const page of pending.splice(0)) pages.add(page)
    }
    at += frameHeaderBytes + pageBytes
  }
  return { count, pages }
}
