// Usage per day. A call's figures are written in the transaction that ends it, so they always agree with the ledger.

import type { Database, Statement } from 'bun:sqlite'
import { startOfDay } from '../../../credits/calendar.ts'
import { isOutage } from '../database/sqlite.ts'

/** What one call, or several of one key and model, adds to a day. */
export interface UsageAdded {
  readonly account: string
  /** Milliseconds since 1970. */
  readonly at: number
  readonly key: string | null
  readonly model: string
  readonly calls: number
  /** Calls that were refused, got no answer, or were broken off by the provider. */
  readonly errors: number
  readonly inputTokens: number
  readonly outputTokens: number
  readonly cost: bigint
  readonly charged: bigint
}

/** How many refused additions are kept for another try; the rest are only logged. */
const mostKept = 1_000
/** How long until the next try, milliseconds. */
const patienceMs = 60_000

/** A row of an account's day, or of the whole installation's. */
type Table = 'usage_day' | 'usage_total'

interface Refused {
  readonly table: Table
  readonly added: UsageAdded
  readonly error: unknown
}

/**
 * Adds usage within a transaction of the caller, to the days of the account and to those of the whole installation.
 * What the database refuses must not undo the charge in the same transaction: it is passed to `refused` for the log,
 * and tried again with a later commit.
 */
export class UsageDays {
  readonly #upserts: Readonly<Record<Table, Statement>>
  readonly #onRefused: (added: UsageAdded, error: unknown) => void
  readonly #retryMs: number
  #added: Writable<UsageAdded>[] = []
  /** In the transaction under way: what was refused for the first time, and what is in at last. */
  #refused: Refused[] = []
  #done = new Set<Refused>()
  /** Refused earlier. */
  #kept: Refused[] = []
  #triedAt = Number.NEGATIVE_INFINITY

  constructor(
    database: Database,
    refused: (added: UsageAdded, error: unknown) => void = () => undefined,
    retryMs = patienceMs,
  ) {
    this.#onRefused = refused
    this.#retryMs = retryMs
    const sums = `ON CONFLICT DO UPDATE SET calls = calls + ?1, errors = errors + ?2, input_tokens = input_tokens + ?3,
       output_tokens = output_tokens + ?4, cost = cost + ?5, charged = charged + ?6`
    this.#upserts = {
      usage_day: database.prepare(
        `INSERT INTO usage_day (calls, errors, input_tokens, output_tokens, cost, charged, day, key, model, account)
         VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10) ${sums}`,
      ),
      usage_total: database.prepare(
        `INSERT INTO usage_total (calls, errors, input_tokens, output_tokens, cost, charged, day, channel, model)
         VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9) ${sums}`,
      ),
    }
  }

  /** The object is kept, and what comes next for the same row is added to it. */
  add(added: UsageAdded): void {
    const last = this.#added.at(-1)
    if (last !== undefined && isSameRow(last, added)) addTo(last, added)
    else this.#added.push(added)
  }

  /** May run several times in one transaction. */
  write(): void {
    const written: UsageAdded[] = []
    for (const added of this.#added.length > 1 ? together(this.#added, rowOfDay) : this.#added)
      if (this.#tryAdd('usage_day', added)) written.push(added)
    this.#added = []
    if (this.#kept.length > 0 && performance.now() - this.#triedAt >= this.#retryMs) this.#retry(written)
    const copies = written.length > 1 ? together(written.map(copyOf), rowOfTotal) : written
    for (const added of copies) this.#tryAdd('usage_total', added)
  }

  onCommitted(): void {
    if (this.#done.size > 0) this.#kept = this.#kept.filter((kept) => !this.#done.has(kept))
    this.#done = new Set()
    for (const refused of this.#refused.splice(0)) {
      if (this.#kept.length === 0) this.#triedAt = performance.now()
      if (this.#kept.length < mostKept) this.#kept.push(refused)
      this.#onRefused(refused.added, refused.error)
    }
  }

  /** Forgets what has not been written: those who added it will do so again. */
  forget(): void {
    this.#added = []
    this.#refused = []
    this.#done = new Set()
  }

  #retry(written: UsageAdded[]): void {
    this.#triedAt = performance.now()
    for (const kept of this.#kept) {
      if (this.#refusal(kept.table, kept.added) !== undefined) continue
      this.#done.add(kept)
      if (kept.table === 'usage_day') written.push(kept.added)
    }
  }

  /** Whether it is in. */
  #tryAdd(table: Table, added: UsageAdded): boolean {
    const error = this.#refusal(table, added)
    if (error !== undefined) this.#refused.push({ table, added, error })
    return error === undefined
  }

  /** Why the database refuses it; undefined where it is in. Throws when the database cannot be written at all. */
  #refusal(table: Table, added: UsageAdded): unknown {
    const { account, at, key, model, calls, errors, cost, charged } = added
    const [input, output] = [Math.round(added.inputTokens), Math.round(added.outputTokens)]
    const day = startOfDay(at)
    const upsert = this.#upserts[table]
    try {
      if (table === 'usage_day')
        upsert.run(calls, errors, input, output, cost, charged, day, key ?? '', model, account)
      else upsert.run(calls, errors, input, output, cost, charged, day, key === null ? 'app' : 'api', model)
      return undefined
    } catch (thrown) {
      if (isOutage(thrown)) throw thrown
      return thrown
    }
  }
}

/** What several calls add to one row, added up: calls that end together are often of one key and model. */
function together(
  added: readonly Writable<UsageAdded>[],
  rowOf: (added: UsageAdded) => string,
): Iterable<UsageAdded> {
  const rows = new Map<string, Writable<UsageAdded>>()
  for (const one of added) {
    const name = rowOf(one)
    const row = rows.get(name)
    if (row === undefined) rows.set(name, one)
    else addTo(row, one)
  }
  return rows.values()
}

function rowOfDay({ account, at, key, model }: UsageAdded): string {
  return `${account} ${startOfDay(at)} ${key ?? ''} ${model}`
}

function rowOfTotal({ at, key, model }: UsageAdded): string {
  return `${startOfDay(at)} ${key === null ? 'app' : 'api'} ${model}`
}

function copyOf(added: UsageAdded): Writable<UsageAdded> {
  return { ...added }
}

function isSameRow(one: UsageAdded, other: UsageAdded): boolean {
  return (
    one.key === other.key &&
    one.model === other.model &&
    one.account === other.account &&
    startOfDay(one.at) === startOfDay(other.at)
  )
}

function addTo(row: Writable<UsageAdded>, one: UsageAdded): void {
  row.calls += one.calls
  row.errors += one.errors
  row.inputTokens += one.inputTokens
  row.outputTokens += one.outputTokens
  row.cost += one.cost
  row.charged += one.charged
}

type Writable<T> = { -readonly [Field in keyof T]: T[Field] }
