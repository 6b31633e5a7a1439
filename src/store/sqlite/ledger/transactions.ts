// A group's transaction on SQLite: begun with the lock to write, committed with one sync to disk or, where the log is
// synced on another thread, with none.

import type { Database, Statement } from 'bun:sqlite'
import type { CommitFault, Need, Transactions } from '../../commits/group.ts'
import type { LogSync } from '../database/log-sync.ts'
import { isBusy, isFailedSync, isOutage } from '../database/outage.ts'

/** What a group needs from the ledger, around its commands. All of it is synchronous. */
export interface GroupHooks {
  /** In the transaction, before the first command. */
  begin(): void
  /** In the transaction, after the last: writes what the commands have changed in memory. */
  finish(): void
  onCommitted(): void
  /** After COMMIT; to be called when that commit and all before it are durable. */
  durable(): () => void
  /** Whether at most one call is open, as far as memory knows. */
  quiet(): boolean
  /** After a rollback: nothing in memory may be trusted. */
  abandon(): void
}

export class SqliteTransactions implements Transactions {
  readonly #database: Database
  readonly #hooks: GroupHooks
  readonly #begin: Statement
  readonly #commit: Statement
  readonly #rollback: Statement
  readonly sync: (() => Promise<void>) | undefined

  /** With a `log` commits of groups leave the sync to it. */
  constructor(database: Database, hooks: GroupHooks, log: Pick<LogSync, 'sync'> | undefined) {
    this.#database = database
    this.#hooks = hooks
    this.sync = log && (() => this.#synced(log))
    this.#begin = database.prepare('BEGIN IMMEDIATE')
    this.#commit = database.prepare('COMMIT')
    this.#rollback = database.prepare('ROLLBACK')
  }

  /** Commands load what they need when they ask for it. */
  commit<T>(_needs: readonly Need[], run: () => T): T {
    if (!this.sync) return this.commitDurably(run)
    // Set for this transaction alone: whoever else writes through this connection does not wait for our sync.
    this.#database.run('PRAGMA synchronous = NORMAL')
    try {
      return this.#transaction(run)
    } finally {
      this.#database.run('PRAGMA synchronous = FULL')
    }
  }

  /** Commits what `run` does, with a sync: it is durable when this returns, and so is all that was committed before. */
  commitDurably<T>(run: () => T): T {
    const value = this.#transaction(run)
    this.#hooks.durable()()
    return value
  }

  async #synced(log: Pick<LogSync, 'sync'>): Promise<void> {
    const durable = this.#hooks.durable()
    await log.sync()
    durable()
  }

  quiet(): boolean {
    return this.#hooks.quiet()
  }

  #transaction<T>(run: () => T): T {
    this.#begin.run()
    try {
      this.#hooks.begin()
      const value = run()
      this.#hooks.finish()
      this.#commit.run()
      this.#hooks.onCommitted()
      return value
    } catch (error) {
      // SQLite itself rolls back when the disk is full.
      if (this.#database.inTransaction) this.#rollback.run()
      this.#hooks.abandon()
      throw error
    }
  }

  touch(): void {
    this.#database.run('UPDATE server SET started_at = started_at')
  }

  faultOf(error: unknown): CommitFault {
    if (isBusy(error)) return 'busy'
    if (this.sync && isFailedSync(error)) return 'lost'
    return isOutage(error) ? 'outage' : 'bug'
  }

  forget(): void {
    this.#hooks.abandon()
  }

  close(): void {
    for (const statement of [this.#begin, this.#commit, this.#rollback]) statement.finalize()
  }
}
