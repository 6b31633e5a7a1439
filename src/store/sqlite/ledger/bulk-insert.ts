// Rows gathered in a group and written together: a statement for sixteen rows costs half of sixteen statements.

import type { Database, SQLQueryBindings, Statement } from 'bun:sqlite'

/** How many rows the statements take; the largest that fits is used. */
const sizes = [16, 4, 1] as const

export class BulkInsert {
  readonly #database: Database
  readonly #head: string
  readonly #columns: number
  readonly #statements = new Map<number, Statement>()
  #rows: (readonly SQLQueryBindings[])[] = []

  /** `columns` is a list of names, separated by commas. */
  constructor(database: Database, table: string, columns: string) {
    this.#database = database
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
    for (const size of sizes) {
      for (; rows.length - at >= size; at += size) {
        // As one array: spreading some hundreds of arguments takes longer than binding them.
        const values: SQLQueryBindings[] = []
        for (let n = at; n < at + size; n++) for (const value of rows[n]!) values.push(value)
        this.#statementOf(size).run(values)
      }
    }
  }

  forget(): void {
    if (this.#rows.length > 0) this.#rows = []
  }

  #statementOf(size: number): Statement {
    let statement = this.#statements.get(size)
    if (!statement) {
      const row = `(${Array(this.#columns).fill('?').join(',')})`
      statement = this.#database.prepare(this.#head + Array(size).fill(row).join(','))
      this.#statements.set(size, statement)
    }
    return statement
  }
}
