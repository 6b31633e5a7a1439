// Rows gathered in a group and written together: a statement for sixteen rows costs half of sixteen statements.

import type { Database, SQLQueryBindings, Statement } from 'bun:sqlite'

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
