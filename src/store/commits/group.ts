// What a group of commands is made of, and the transaction it runs in.

import type { Awaitable } from '../../awaitable.ts'
import type { Haste } from '../../credits/ledger/ledger.ts'
import { GatewayError } from '../../errors.ts'

export interface GroupLimits {
  /** The most commands in one transaction. */
  readonly max: number
  /** The longest one transaction gathers, milliseconds. */
  readonly waitMs: number
  /** The most commands that wait; beyond it admissions are refused. */
  readonly queue: number
  /** How quick the disk must have been for the queue's thread to wait for it with a lone command, milliseconds; 0: never. */
  readonly loneSyncMs: number
}

export const defaultGroupLimits: GroupLimits = { max: 64, waitMs: 2, queue: 4096, loneSyncMs: 1 }

/**
 * What a command will look for, said before it runs. A database in this process loads it when the command asks; one
 * across the network loads it for a whole group beforehand. A key's figures come with its account's wallet.
 */
export interface Need {
  readonly account?: string
  /** The id of a call: open, ended or new. */
  readonly call?: string
  readonly source?: string
  /** The id of a refund or an adjustment. */
  readonly correction?: string
  readonly lot?: string
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
  commit<T>(needs: readonly Need[], run: () => T): Awaitable<T>
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
  /** Whether nobody minds that: at most one call is open. */
  quiet?(): boolean
  /** Writes a little, to see whether the database can be written. */
  touch(): void
  faultOf(error: unknown): CommitFault
  /** Nothing in memory may be trusted. */
  forget(): void
  close(): void
}

/** What the queue tells of its disk. */
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

/** A command that waits, or was committed and waits for its answer. */
export interface Entry {
  readonly need: Need
  readonly run: () => unknown
  resolve: (value: never) => void
  reject: (error: unknown) => void
  /** What the spill file keeps; null for what is kept in memory alone, undefined for an admission, which is refused. */
  readonly record: unknown
  readonly queuedAt: number
  /** When its sync begins, if it is answered when it is decided, with a promise of its durability. */
  readonly early: Haste | undefined
  /** Whether the spill file has it. */
  kept: boolean
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
