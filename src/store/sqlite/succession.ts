// Who serves this data directory: a lock that the operating system drops with its process, so that a successor knows
// for certain that its predecessors are dead and need not wait for their leases.

import { join } from 'node:path'
import { Database, type Statement } from 'bun:sqlite'
import { isBusy } from './outage.ts'

export class Succession {
  readonly #owner: string
  readonly #lock: Database
  readonly #register: Statement
  readonly #others: Statement<{ owner: string }, [string]>
  #held = false

  constructor(database: Database, dataDir: string, owner: string) {
    this.#owner = owner
    // A lock on a file of its own: one on the database would keep the command line out.
    this.#lock = new Database(join(dataDir, 'serve.lock'), { create: true, readwrite: true })
    this.#lock.run('PRAGMA busy_timeout = 0')
    this.#register = database.prepare(
      'INSERT INTO server (owner, started_at) VALUES (?, ?) ON CONFLICT (owner) DO NOTHING',
    )
    this.#others = database.prepare('SELECT owner FROM server WHERE owner <> ?')
  }

  get alone(): boolean {
    return this.#held
  }

  /**
   * Notes that this server has held the lock. One that has not is not noted: nobody could tell whether it still lives,
   * and its calls are recovered when their leases end.
   */
  register(now: number): void {
    this.#register.run(this.#owner, now)
  }

  /** Takes the lock if it is free. Two servers may overlap for the time of an upgrade: the later one tries again. */
  claim(): boolean {
    if (this.#held) return true
    try {
      this.#lock.run('BEGIN EXCLUSIVE')
      this.#held = true
    } catch (error) {
      if (!isBusy(error)) throw error
    }
    return this.#held
  }

  /** Every server that held the lock before this one: none of them lives, or the lock would still be its own. */
  deadOwners(): ReadonlySet<string> {
    if (!this.#held) return new Set()
    return new Set(this.#others.all(this.#owner).map((row) => row.owner))
  }

  close(): void {
    this.#lock.close()
  }
}
