// Drives work on SQLite: at once, so that nothing else runs between the statements of a transaction.

import type { Database, SQLQueryBindings, Statement as Prepared } from 'bun:sqlite'
import type { Awaitable } from '../../../async/async.ts'
import {
  AlreadyThere,
  type StepResult,
  type OrderedTables,
  type Statement,
  type Tables,
  type Work,
} from '../../sql/work.ts'
import { inTransaction, orUnavailable, sqliteCode } from './sqlite.ts'

export class SqliteTables implements Tables {
  readonly database: Database
  readonly #prepared = new WeakMap<Statement<unknown>, Prepared<unknown, SQLQueryBindings[]>>()
  #version: Prepared | undefined
  #dataVersion: unknown

  constructor(database: Database) {
    this.database = database
  }

  do<T>(work: () => Work<T>): T {
    return orUnavailable(() => this.drive(work()))
  }

  together<T>(work: () => Work<T>): T {
    return inTransaction(this.database, () => this.drive(work()))
  }

  changedElsewhere(): boolean {
    this.#version ??= this.database.prepare('PRAGMA data_version')
    const version = orUnavailable(() => this.#version!.values()[0]?.[0])
    const changed = version !== this.#dataVersion
    this.#dataVersion = version
    return changed
  }

  /** In the transaction that the caller is in, if any. */
  drive<T>(work: Work<T>): T {
    let next = work.next()
    while (!next.done) {
      const { statement, values, wants } = next.value
      let answer: StepResult
      try {
        const prepared = this.#prepare(statement)
        const bound = values as SQLQueryBindings[]
        if (wants === 'count') answer = Number(prepared.run(...bound).changes)
        else if (wants === 'rows') answer = prepared.all(...bound)
        else {
          const row = prepared.get(...bound)
          answer = row === null ? [] : [row]
        }
      } catch (error) {
        const isTaken = sqliteCode(error).startsWith('SQLITE_CONSTRAINT')
        next = work.throw(isTaken ? new AlreadyThere('there is such a row', { cause: error }) : error)
        continue
      }
      next = work.next(answer)
    }
    return next.value
  }

  #prepare(statement: Statement<unknown>): Prepared<unknown, SQLQueryBindings[]> {
    const known = this.#prepared.get(statement)
    if (known) return known
    const text = statement.text.replaceAll(/\bLIST\((\?\d*)\)/g, '(SELECT value FROM json_each($1))')
    const prepared = this.database.prepare<unknown, SQLQueryBindings[]>(text)
    this.#prepared.set(statement, prepared)
    return prepared
  }
}

/** What the ledger's queue offers to others that write the same file. */
interface Queue {
  admit<T>(run: () => T): Promise<T>
  persist<T>(run: () => T): Promise<T>
  whenDurable<T>(value: T): Awaitable<T>
}

/** Work that shares the ledger's commits, which puts it in order with the ends of calls. */
export class QueuedTables extends SqliteTables implements OrderedTables {
  readonly #queue: Queue

  constructor(database: Database, queue: Queue) {
    super(database)
    this.#queue = queue
  }

  admit<T>(work: () => Work<T>): Promise<T> {
    return this.#queue.admit(() => this.drive(work()))
  }

  async persist(...works: readonly (() => Work<unknown>)[]): Promise<void> {
    await Promise.all(works.map((work) => this.#queue.persist(() => this.drive(work()))))
  }

  whenDurable<T>(value: T): Awaitable<T> {
    return this.#queue.whenDurable(value)
  }
}
