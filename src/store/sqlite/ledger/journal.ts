// The journal's writer: transactions are numbered without gaps and every line carries the hash of the one before.

import type { Database, SQLQueryBindings, Statement } from 'bun:sqlite'
import type { AdjustCommand, RefundCommand } from '../../../credits/ledger/ledger.ts'
import { formatUsd, type Pico } from '../../../credits/money.ts'
import type { Leg, TransactionKind } from '../../../credits/wallet.ts'
import type { CommitFault, LogSync, NeededRows, Transactions } from '../../commits/durability.ts'
import { doneBy, genesis, hashOf, isDone } from '../../ledger-rows.ts'
import type { Head } from '../audit/anchors.ts'
import { isBusy, isFailedSync, isOutage } from '../database/sqlite.ts'
import type { Row } from '../../schema.ts'

export class Journal {
  readonly #rows: BulkInsert
  readonly #last: Statement<Pick<Row<'journal'>, 'tx' | 'hash'>, []>
  #head: { tx: number; hash: Uint8Array } | null = null

  constructor(database: Database) {
    this.#rows = new BulkInsert(
      database,
      'journal',
      'tx, leg, kind, account, lot, amount, at, prev_hash, hash',
    )
    this.#last = database.prepare('SELECT tx, hash FROM journal ORDER BY tx DESC, leg DESC LIMIT 1')
  }

  /** Forgets the head and what was not written: another process has written, or our transaction was undone. */
  forget(): void {
    this.#rows.forget()
    this.#head = null
  }

  /** The last transaction that was appended or read; null when nothing has been asked of it since it was forgotten. */
  get head(): Head | null {
    return this.#head
  }

  /** The last transaction, read from the file if need be. */
  readHead(): Head {
    return (this.#head ??= this.#load())
  }

  /** Appends one transaction, to be written with the group, and returns its number. Its legs must sum to zero. */
  append(kind: TransactionKind, legs: readonly Leg[], at: number): number {
    const head = (this.#head ??= this.#load())
    let total = 0n
    for (const leg of legs) total += leg.amount
    if (total !== 0n) throw new Error(`the legs of a ${kind} do not sum to zero`)
    const tx = head.tx + 1
    for (let leg = 0; leg < legs.length; leg++) {
      const { account, lot, amount } = legs[leg]!
      const hash = hashOf(head.hash, { tx, leg, kind, account, lot, amount, at })
      this.#rows.add([tx, leg, kind, account, lot, amount, at, head.hash, hash])
      head.hash = hash
    }
    head.tx = tx
    return tx
  }

  /** Writes what has been appended so far. */
  write(): void {
    this.#rows.write()
  }

  #load(): { tx: number; hash: Uint8Array } {
    const last = this.#last.get()
    return last ? { tx: Number(last.tx), hash: last.hash } : { tx: 0, hash: genesis }
  }
}

// A group's transaction on SQLite: begun with the lock to write, committed with one sync to disk or, where the log is
// synced on another thread, with none.

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
    this.sync = log && (() => this.#sync(log))
    this.#begin = database.prepare('BEGIN IMMEDIATE')
    this.#commit = database.prepare('COMMIT')
    this.#rollback = database.prepare('ROLLBACK')
  }

  /** Commands load what they need when they ask for it. */
  commit<T>(_needs: readonly NeededRows[], run: () => T): T {
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

  async #sync(log: Pick<LogSync, 'sync'>): Promise<void> {
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

// Rows gathered in a group and written together: a statement for sixteen rows costs half of sixteen statements.

/** How many rows the statements take; the largest that fits is used. */
const sizes = [16, 8, 4, 2, 1] as const

interface Insert {
  readonly statement: Statement
  /**
   * Of all its rows. As one array, because spreading some hundreds of arguments takes longer than binding them; and the
   * same one each time, because it would be a tenth of all that a call allocates.
   */
  readonly values: SQLQueryBindings[]
}

export class BulkInsert {
  readonly #database: Database
  readonly #table: string
  readonly #head: string
  readonly #columns: number
  readonly #inserts = new Map<number, Insert>()
  #last: Statement<{ last: bigint | null }, []> | undefined
  #rows: (readonly SQLQueryBindings[])[] = []

  /** `columns` is a list of names, separated by commas. */
  constructor(database: Database, table: string, columns: string) {
    this.#database = database
    this.#table = table
    // A failure undoes the whole group; without FAIL each statement would keep a journal of its own to undo itself.
    this.#head = `INSERT OR FAIL INTO ${table} (${columns}) VALUES `
    this.#columns = columns.split(',').length
  }

  /** One value for each column. */
  add(row: readonly SQLQueryBindings[]): void {
    this.#rows.push(row)
  }

  /** Writes what has been added, in its order. Throws what the database throws; then nothing may be trusted. */
  write(): void {
    if (this.#rows.length === 0) return
    const rows = this.#rows
    this.#rows = []
    let at = 0
    for (const size of sizes) for (; rows.length - at >= size; at += size) this.#insert(rows, at, size)
  }

  /**
   * The same, where a row that the database refuses is left out: `refused` gets its place among those that were added.
   * What `refused` throws ends the writing. For tables with a rowid.
   */
  writeEach(refused: (error: unknown, place: number) => void): void {
    const rows = this.#rows
    this.#rows = []
    let last = this.#lastRow()
    let at = 0
    /** Up to here each row goes alone: one of them is at fault. */
    let alone = 0
    while (at < rows.length) {
      const size = at < alone ? 1 : sizes.find((most) => most <= rows.length - at)!
      try {
        this.#insert(rows, at, size)
        at += size
        last += size
      } catch (error) {
        if (size === 1) refused(error, at++)
        else {
          alone = at + size
          // The rows before the refused one have stayed; SQLite does not count them for every error.
          const stayed = this.#lastRow() - last
          at += stayed
          last += stayed
        }
      }
    }
  }

  #lastRow(): number {
    this.#last ??= this.#database.prepare<{ last: bigint | null }, []>(
      `SELECT max(rowid) AS last FROM ${this.#table}`,
    )
    return Number(this.#last.get()?.last ?? 0n)
  }

  #insert(rows: readonly (readonly SQLQueryBindings[])[], from: number, count: number): void {
    const { statement, values } = this.#insertOf(count)
    let at = 0
    for (let n = from; n < from + count; n++) for (const value of rows[n]!) values[at++] = value
    statement.run(values)
    // What a row holds may be large.
    values.fill(null)
  }

  forget(): void {
    if (this.#rows.length > 0) this.#rows = []
  }

  #insertOf(size: number): Insert {
    let insert = this.#inserts.get(size)
    if (!insert) {
      const row = `(${Array(this.#columns).fill('?').join(',')})`
      insert = {
        statement: this.#database.prepare(this.#head + Array(size).fill(row).join(',')),
        values: Array<SQLQueryBindings>(size * this.#columns).fill(null),
      }
      this.#inserts.set(size, insert)
    }
    return insert
  }
}

// The table of refunds and adjustments: each once for its id, with the answer that was given.

export class Corrections {
  readonly #find: Statement<Row<'correction', 'account' | 'kind' | 'lot' | 'taken' | 'debt'>, [string]>
  readonly #ofLot: Statement<{ refunded: bigint }, [string]>
  readonly #insert: Statement
  readonly #log: Statement

  constructor(database: Database) {
    this.#find = database.prepare('SELECT account, kind, lot, taken, debt FROM correction WHERE id = ?')
    this.#ofLot = database.prepare(
      'SELECT coalesce(sum(taken + debt), 0) AS refunded FROM correction WHERE lot = ?',
    )
    this.#insert = database.prepare(
      'INSERT INTO correction (id, account, kind, taken, debt, at, lot) VALUES (?,?,?,?,?,?,?)',
    )
    this.#log = database.prepare(
      `INSERT INTO act (at, operator, what, subject, before, after) VALUES (?, ?, 'credits.adjust', ?, NULL, ?)`,
    )
  }

  findRefund(command: RefundCommand) {
    return doneBy(command, this.#find.get(command.id))
  }

  hasAdjusted(command: AdjustCommand): boolean {
    return isDone(command, this.#find.get(command.id))
  }

  refundedOf(lot: string): Pico {
    return this.#ofLot.get(lot)?.refunded ?? 0n
  }

  noteRefund(
    { id, account, lot }: RefundCommand,
    { taken, debt }: { readonly taken: Pico; readonly debt: Pico },
    now: number,
  ): void {
    this.#insert.run(id, account, 'refund', taken, debt, now, lot)
  }

  noteAdjustment({ id, account, pool, amount, refundOf, operator }: AdjustCommand, now: number): void {
    this.#insert.run(id, account, 'adjust', -amount, 0n, now, refundOf ?? null)
    // An act that was logged by itself could be missing: the audit takes an adjustment without one for forged.
    if (operator !== undefined)
      this.#log.run(now, operator, account, JSON.stringify({ id, pool, usd: formatUsd(amount) }))
  }
}
