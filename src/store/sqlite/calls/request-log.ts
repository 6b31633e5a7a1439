// The request log on SQLite: rows are written with the commit of a ledger group, once there are enough of them, or after a
// quarter of a second. Each batch writes the pages of four indexes, which is dear for the few rows of one group.

import type { Database, SQLQueryBindings, Statement } from 'bun:sqlite'
import type { RequestLogRow } from '../../../observe/call-log.ts'
import { cellsOfRequest, KeyUses, RequestBuffer, Soon } from '../../sql/buffered-rows.ts'
import { BulkInsert } from '../ledger/journal.ts'
import type { BufferedRows } from '../ledger/ledger-store.ts'
import { isOutage } from '../database/sqlite.ts'
import type { UsageDays } from '../ledger/calls.ts'

const rowsPerCommit = 256
/** So many go with the next commit, whoever makes it. */
const rowsTogether = 128

export class SqliteRequestLog extends RequestBuffer implements BufferedRows {
  readonly #inserts: BulkInsert
  readonly #used: Statement
  readonly #usage: UsageDays
  readonly #uses = new KeyUses()
  readonly #soon: Soon
  #writing = 0
  /** Whether the next commit takes along what there is. */
  #due = false

  /** `flush` makes a commit, 250 ms after a row that no commit has taken along. */
  constructor(database: Database, usage: UsageDays, flush: () => void) {
    const soon = new Soon(() => {
      this.hurry()
      flush()
    })
    super(() => soon.ask())
    this.#soon = soon
    this.#usage = usage
    this.#used = database.prepare('UPDATE api_key SET used_at = max(coalesce(used_at, 0), ?) WHERE id = ?')
    this.#inserts = new BulkInsert(
      database,
      'request_log',
      `request_id, at, account, key, model, provider, stream, status, code, ending, prompt_tokens, completion_tokens,
       cost, attempts, first_byte_ms, total_ms, detail, contents, tags`,
    )
  }

  /** Has the next commit take all rows along, or as many as it can. */
  hurry(): void {
    this.#due = true
  }

  get waiting(): boolean {
    return this.size > 0
  }

  write(): void {
    this.#writing = 0
    if (!this.#due && this.size < rowsTogether) return
    const rows = this.first(rowsPerCommit)
    this.#writing = rows.length
    this.#insert(rows)
    for (const [key, at] of this.#uses.among(rows)) this.#used.run(at, key)
  }

  onCommitted(): void {
    if (this.#writing === 0) return
    this.remove(this.#writing)
    this.#due = this.waiting && this.#due
    this.#uses.onWritten()
    this.#writing = 0
    this.close()
    if (this.waiting) this.#soon.ask()
  }

  // A row that the database refuses must not undo the charge in the same transaction.
  #insert(rows: readonly RequestLogRow[]): void {
    for (const row of rows) this.#inserts.add(Object.values(cellsOfRequest(row)) as SQLQueryBindings[])
    const refused = new Set<number>()
    this.#inserts.writeEach((error, place) => {
      if (isOutage(error)) throw error
      refused.add(place)
    })
    this.dropped += refused.size
    for (const [n, row] of rows.entries()) {
      const usage = refused.has(n) ? undefined : this.usageOf(row)
      if (usage === undefined) continue
      this.#usage.add(usage)
      this.#usage.write()
    }
  }

  close(): void {
    this.#soon.forget()
  }
}
