// The request log on PostgreSQL: many rows in one statement of their own, at the latest a quarter of a second after a row.

import { groupTag, tagsOf } from '../../conversation/request.ts'
import { startOfDay, startOfMonth } from '../../credits/calendar.ts'
import type { Pico } from '../../credits/money.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { RequestLogRow } from '../../observe/call-log.ts'
import { bitOfDay, costColumnOf, type UsageAdded } from '../ledger-rows.ts'
import { cellsOfRequest, KeyUses, RequestBuffer, Soon, sql, type Tables } from '../sql/work.ts'
import { GroupRows, type PartName, writeOnly } from './group.ts'

// What calls add to the usage of their days: a row of each table for what comes together in one statement.

const usageParts = [
  'usageDays',
  'usageMonths',
  'usageTotals',
  'usageProviders',
  'usageTags',
  'usageTagTotals',
] as const satisfies readonly PartName[]

interface UsageSums {
  readonly table: (typeof usageParts)[number]
  readonly key: Readonly<Record<string, string | number | bigint>>
  calls: number
  errors: number
  input_tokens: number
  output_tokens: number
  cost: Pico
  charged: Pico
  timed: number
  ms: number
}

export class UsageRows {
  readonly #sums = new Map<string, UsageSums>()
  /** The days of each row of `usage_month` and what they cost, by its name among those. */
  readonly #daysOfMonths = new Map<string, { days: number; readonly costs: Record<string, Pico> }>()

  /** Tables with a row for each chain add it to that of `chain`. */
  add(added: UsageAdded, chain: bigint): void {
    const { account, at, model, tags, group, provider } = added
    const day = startOfDay(at)
    const key = added.key ?? ''
    const channel = added.key === null ? 'app' : 'api'
    this.#sum('usageDays', { account, day, key, model }, added)
    this.#sum('usageTotals', { day, channel, model, chain }, added)
    if (provider !== '') this.#sum('usageProviders', { day, provider, channel, model, chain }, added)
    const ofMonth = this.#sum('usageMonths', { month: startOfMonth(at), account, key, model }, added)
    const month = this.#daysOfMonths.get(ofMonth) ?? { days: 0, costs: {} }
    const cost = costColumnOf(at)
    month.days |= bitOfDay(at)
    month.costs[cost] = (month.costs[cost] ?? 0n) + added.cost
    this.#daysOfMonths.set(ofMonth, month)
    const divided = Object.entries(tagsOf(tags))
    if (group !== null) divided.push([groupTag, group])
    for (const [tag, value] of divided) {
      this.#sum('usageTags', { account, tag, day, value, key, model }, added)
      this.#sum('usageTagTotals', { tag, day, value, channel, model, chain }, added)
    }
  }

  get isEmpty(): boolean {
    return this.#sums.size === 0
  }

  addTo(rows: GroupRows): void {
    for (const [name, { table, key, ...sums }] of this.#sums) {
      const month = this.#daysOfMonths.get(name)
      rows.add(table, { ...key, ...sums, ...(month && { days: month.days, ...month.costs }) })
    }
  }

  /** Gives the name of the row that it was added to. */
  #sum(table: UsageSums['table'], key: UsageSums['key'], added: UsageAdded): string {
    // None of the texts has a NUL.
    const name = `${table}\0${Object.values(key).join('\0')}`
    let sums = this.#sums.get(name)
    if (!sums) {
      const tokens = { input_tokens: 0, output_tokens: 0 }
      sums = { table, key, calls: 0, errors: 0, ...tokens, cost: 0n, charged: 0n, timed: 0, ms: 0 }
      this.#sums.set(name, sums)
    }
    sums.calls += added.calls
    sums.errors += added.errors
    sums.input_tokens += Math.round(added.inputTokens)
    sums.output_tokens += Math.round(added.outputTokens)
    sums.cost += added.cost
    sums.charged += added.charged
    sums.timed += added.timed
    sums.ms += Math.round(added.ms)
    return name
  }
}

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
