// A database connection that does what the simulation says: it is busy, the disk is full, or the process dies in it.

import type { Database, Statement } from 'bun:sqlite'

/** The process died at this statement; nothing of it may run any more. */
export class ProcessDied extends Error {}

class SqliteFault extends Error {
  readonly code: string

  constructor(code: string) {
    super(code)
    this.code = code
  }
}

export interface Faults {
  /** How many more times BEGIN finds the file locked. */
  busy: number
  /** Every write finds the disk full. `undoes` is whether SQLite rolls back by itself, as it may. */
  full: { readonly undoes: boolean } | null
  /** The process dies before the write that many writes from now; COMMIT is a write. */
  dieAtWrite: number | null
  /** The process dies right after its next COMMIT. */
  dieAfterCommit: boolean
}

export const noFaults = (): Faults => ({ busy: 0, full: null, dieAtWrite: null, dieAfterCommit: false })

const statements = new WeakMap<Database, Map<string, Statement>>()

/** Compiled once for each connection: a process that starts again finds its statements there. */
function compiled(database: Database, sql: string): Statement {
  let own = statements.get(database)
  if (!own) statements.set(database, (own = new Map()))
  let statement = own.get(sql)
  if (!statement) own.set(sql, (statement = database.prepare(sql)))
  return statement
}

export interface TransactionWatch {
  began(): void
  /** `durably`: the commit has waited for its sync, which covers all commits before it. */
  committed(durably: boolean): void
  rolledBack(): void
  /** Whether the sync of a commit fails now: the transaction is undone. */
  syncFails(): boolean
}

/**
 * Wraps a connection for the life of one process. What it gives is used as a Database by the ledger, which knows no
 * difference; the connection itself outlives it, since a new one for every process is what would take the time.
 */
export class FaultyDatabase {
  readonly faults = noFaults()
  readonly #real: Database
  readonly #watch: TransactionWatch
  #dead = false
  #syncs = true

  constructor(real: Database, watch: TransactionWatch) {
    real.run('PRAGMA synchronous = FULL')
    this.#real = real
    this.#watch = watch
  }

  /** The connection as the ledger takes it. */
  get asDatabase(): Database {
    return this as unknown as Database
  }

  get inTransaction(): boolean {
    return !this.#dead && this.#real.inTransaction
  }

  get dead(): boolean {
    return this.#dead
  }

  /** Ends the process: an open transaction is gone with it. */
  die(): void {
    if (this.#dead) return
    this.#dead = true
    if (this.#real.inTransaction) this.#real.run('ROLLBACK')
  }

  run(sql: string): unknown {
    if (/^pragma synchronous/i.test(sql)) {
      if (this.#dead) throw new ProcessDied()
      this.#syncs = sql.endsWith('FULL')
      return this.#real.run(sql)
    }
    return this.#guarded(sql, () => this.#real.run(sql))
  }

  prepare(sql: string): unknown {
    const statement = compiled(this.#real, sql)
    if (/^\s*(select|pragma)/i.test(sql)) return statement
    return {
      run: (...values: never[]) => this.#guarded(sql, () => statement.run(...values)),
      finalize: () => statement.finalize(),
    }
  }

  #guarded(sql: string, write: () => unknown): unknown {
    if (this.#dead) throw new ProcessDied()
    if (sql === 'ROLLBACK') {
      this.#watch.rolledBack()
      return write()
    }
    if (sql === 'BEGIN IMMEDIATE') {
      if (this.faults.busy > 0) {
        this.faults.busy--
        throw new SqliteFault('SQLITE_BUSY')
      }
      const begun = write()
      this.#watch.began()
      return begun
    }
    this.#strike()
    if (sql === 'COMMIT' && this.#syncs && this.#watch.syncFails()) {
      this.#real.run('ROLLBACK')
      this.#watch.rolledBack()
      throw new SqliteFault('SQLITE_IOERR_FSYNC')
    }
    const result = write()
    if (sql === 'COMMIT') this.#committed()
    return result
  }

  #strike(): void {
    if (this.faults.dieAtWrite !== null && this.faults.dieAtWrite-- <= 0) {
      this.#watch.rolledBack()
      this.die()
      throw new ProcessDied()
    }
    if (!this.faults.full) return
    if (this.faults.full.undoes && this.#real.inTransaction) {
      this.#real.run('ROLLBACK')
      this.#watch.rolledBack()
    }
    throw new SqliteFault('SQLITE_FULL')
  }

  #committed(): void {
    this.#watch.committed(this.#syncs)
    if (!this.faults.dieAfterCommit) return
    this.die()
    throw new ProcessDied()
  }
}
