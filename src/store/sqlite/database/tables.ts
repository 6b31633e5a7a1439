// Drives work on SQLite: at once, so that nothing else runs between the statements of a transaction.

import type { Database, SQLQueryBindings, Statement as Prepared } from 'bun:sqlite'
import type { Awaitable } from '../../../async/async.ts'
import {
  AlreadyThere,
  type Changes,
  type StepResult,
  type OrderedTables,
  type PieceWork,
  type Statement,
  type Step,
  type Tables,
  type Work,
} from '../../sql/work.ts'
import type { WriteAheadLog } from '../../sql/retention.ts'
import { inTransaction, isBusy, orUnavailable, sqliteCode, withoutWaiting } from './sqlite.ts'

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

  /** The file says that another process has written, and not what. */
  changedElsewhere(): Changes {
    this.#version ??= this.database.prepare('PRAGMA data_version')
    const version = orUnavailable(() => this.#version!.values()[0]?.[0])
    const changed = version !== this.#dataVersion
    this.#dataVersion = version
    return changed ? 'everything' : 'nothing'
  }

  /** At once, as everything here: no other work of this process comes in between. */
  reads<T>(work: () => Work<T>): T {
    if (this.database.inTransaction) return this.do(work)
    return orUnavailable(() => this.database.transaction(() => this.drive(work())).deferred())
  }

  async *pieces(work: () => PieceWork): AsyncGenerator<string, void> {
    const steps = this.steps(work(), Number.POSITIVE_INFINITY)
    for (;;) {
      const step = orUnavailable(() => steps.next())
      if (step.done) return
      if (step.value !== undefined) yield step.value
    }
  }

  withoutWaiting<T>(work: () => Work<T>): T {
    return orUnavailable(() => withoutWaiting(this.database, () => this.drive(work())))
  }

  /** In the transaction that the caller is in, if any. */
  drive<T>(work: Work<T>): T {
    let next = work.next()
    while (!next.done) next = this.#answer(work, next.value)
    return next.value
  }

  /** The same for whoever does other things meanwhile: stops after `stepMs` milliseconds of statements, and at each piece. */
  *steps<T>(work: Generator<Step | string, T, StepResult>, stepMs: number): Generator<string | undefined, T> {
    let since = performance.now()
    let next = work.next()
    try {
      while (!next.done) {
        if (typeof next.value === 'string') {
          yield next.value
          next = work.next([])
        } else next = this.#answer(work, next.value)
        if (performance.now() - since < stepMs) continue
        yield undefined
        since = performance.now()
      }
    } finally {
      work.return(undefined as never)
    }
    return next.value
  }

  /** Goes on with what the database says to a statement. */
  #answer<S, T>(work: Generator<S, T, StepResult>, { statement, values, wants }: Step): IteratorResult<S, T> {
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
      return work.throw(isTaken ? new AlreadyThere('there is such a row', { cause: error }) : error)
    }
    return work.next(answer)
  }

  #prepare(statement: Statement<unknown>): Prepared<unknown, SQLQueryBindings[]> {
    const known = this.#prepared.get(statement)
    if (known) return known
    const text = statement.text
      .replaceAll(/\b(?:LIST|NUMBERS)\((\?\d*)\)/g, '(SELECT value FROM json_each($1))')
      .replaceAll(/\bFLAG\(/g, '(')
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

  async persist(_of: string, ...works: readonly (() => Work<unknown>)[]): Promise<void> {
    await Promise.all(works.map((work) => this.#queue.persist(() => this.drive(work()))))
  }

  whenDurable<T>(value: T): Awaitable<T> {
    return this.#queue.whenDurable(value)
  }
}

/** The write-ahead log of a database, for whoever makes it long. */
export function logOf(database: Database): WriteAheadLog {
  const checkpoint = database.prepare<{ log: bigint; checkpointed: bigint }, []>(
    'PRAGMA wal_checkpoint(PASSIVE)',
  )
  return {
    writeBack() {
      const { log, checkpointed } = checkpoint.get()!
      return checkpointed >= log
    },
    isBusy: (error) => error instanceof Error && isBusy(error.cause),
  }
}
