// A group's transaction on SQLite: begun with the lock to write, committed with one sync to disk.

import type { Database, Statement } from 'bun:sqlite'
import type { Need, Transactions } from '../../commit-queue.ts'
import { isBusy, isOutage } from '../database/outage.ts'

/** What a group needs from the ledger, around its commands. All of it is synchronous. */
export interface GroupHooks {
  /** In the transaction, before the first command. */
  begin(): void
  /** In the transaction, after the last: writes what the commands have changed in memory. */
  finish(): void
  /** After COMMIT. */
  committed(): void
  /** After a rollback: nothing in memory may be trusted. */
  abandon(): void
}

export class SqliteTransactions implements Transactions {
  readonly #database: Database
  readonly #hooks: GroupHooks
  readonly #begin: Statement
  readonly #commit: Statement
  readonly #rollback: Statement

  constructor(database: Database, hooks: GroupHooks) {
    this.#database = database
    this.#hooks = hooks
    this.#begin = database.prepare('BEGIN IMMEDIATE')
    this.#commit = database.prepare('COMMIT')
    this.#rollback = database.prepare('ROLLBACK')
  }

  /** Commands load what they need when they ask for it. */
  commit<T>(_needs: readonly Need[], run: () => T): T {
    this.#begin.run()
    try {
      this.#hooks.begin()
      const value = run()
      this.#hooks.finish()
      this.#commit.run()
      this.#hooks.committed()
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

  faultOf(error: unknown): 'busy' | 'outage' | 'bug' {
    if (isBusy(error)) return 'busy'
    return isOutage(error) ? 'outage' : 'bug'
  }

  forget(): void {
    this.#hooks.abandon()
  }

  close(): void {
    for (const statement of [this.#begin, this.#commit, this.#rollback]) statement.finalize()
  }
}
