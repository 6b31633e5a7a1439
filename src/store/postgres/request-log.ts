// The request log on PostgreSQL: many rows in one statement of their own, at the latest a quarter of a second after a row.

import { GatewayError } from '../../errors/errors.ts'
import type { RequestLogRow } from '../../observe/call-log.ts'
import { cellsOfRequest, KeyUses, RequestBuffer, Soon, sql, type Tables } from '../sql/work.ts'
import { GroupRows, writeOnly } from './group.ts'
import { usageParts, UsageRows } from './usage-rows.ts'

const rowsTogether = 256
/** Refused calls are in no chain; usage that is summed by chain has their own under this number. */
const chainOfRefusals = 0n
/** Names the lock under which rows are numbered and committed; any number that nobody else uses. */
const lockName = 0x57656c6f

// Whoever follows the log reads on from the last number that it has seen: no lower one may be committed after it.
const inOrder = `SELECT pg_advisory_xact_lock(${lockName})::text`
const served = writeOnly(['requests'], inOrder)
const withRefusals = writeOnly([...usageParts, 'requests'], inOrder)

const used = sql(
  `WITH given AS (SELECT * FROM json_to_recordset(?::text::json) AS t (id text COLLATE "C", at bigint)),
   locked AS MATERIALIZED (
     SELECT api_key.id, given.at FROM given JOIN api_key ON api_key.id = given.id ORDER BY api_key.id FOR UPDATE OF api_key)
   UPDATE api_key SET used_at = greatest(coalesce(used_at, 0), locked.at) FROM locked WHERE api_key.id = locked.id`,
)

export class PostgresRequestLog extends RequestBuffer {
  readonly #tables: Tables
  readonly #uses = new KeyUses()
  readonly #soon: Soon

  constructor(tables: Tables) {
    const soon = new Soon(() => this.#flush())
    super(() => {
      soon.ask()
      if (this.size === rowsTogether) void soon.now()
    })
    this.#tables = tables
    this.#soon = soon
  }

  /** Writes what waits; what cannot be written is lost. */
  async close(): Promise<void> {
    await this.#soon.now()
    this.#soon.forget()
  }

  async #flush(): Promise<void> {
    while (this.size > 0) {
      const rows = this.first(rowsTogether)
      if (!(await this.#isDone(rows))) {
        this.#soon.ask()
        return
      }
      this.remove(rows.length)
    }
  }

  /** Whether these rows are written, or never will be; false where the database was not there to be asked. */
  async #isDone(rows: readonly RequestLogRow[]): Promise<boolean> {
    let isAsked = false
    try {
      await this.#tables.do(() => {
        isAsked = true
        return this.#write(rows)
      })
    } catch (error) {
      if (!isAsked) return false
      const isOutage = error instanceof GatewayError && error.code === 'store_unavailable'
      // No answer has come: written once more, rows that are there would be there twice.
      if (isOutage || rows.length === 1) this.dropped += rows.length
      else for (const row of rows) if (!(await this.#isDone([row]))) this.dropped++
      return true
    }
    await this.#noteUses(rows)
    return true
  }

  *#write(rows: readonly RequestLogRow[]) {
    const written = new GroupRows()
    const usage = new UsageRows()
    for (const row of rows) {
      written.add('requests', cellsOfRequest(row))
      const added = this.usageOf(row)
      if (added !== undefined) usage.add(added, chainOfRefusals)
    }
    usage.addTo(written)
    if (usage.isEmpty) yield* served.run(written.textOf('requests'))
    else {
      const ofUsage = usageParts.map((part) => written.textOf(part))
      yield* withRefusals.run(...ofUsage, written.textOf('requests'))
    }
  }

  async #noteUses(rows: readonly RequestLogRow[]): Promise<void> {
    const uses = [...this.#uses.among(rows)].map(([id, at]) => ({ id, at }))
    if (uses.length === 0) return
    try {
      await this.#tables.do(() => used.run(JSON.stringify(uses)))
      this.#uses.onWritten()
    } catch {
      // The next use is written.
    }
  }
}
