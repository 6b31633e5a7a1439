// Usage per day. A call's figures are written in the transaction that ends it, so they always agree with the ledger.

import type { Database, Statement } from 'bun:sqlite'
import { dayMs, startOfDay } from '../../../credits/calendar.ts'
import type { UsageGroup, UsageQuery, UsageReader, UsageSum } from '../../../observe/usage.ts'
import { isOutage, reading } from '../database/outage.ts'
import { keyOfLine, keyOfMode } from './request-reader.ts'

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

/**
 * Adds usage within a transaction of the caller. What the database refuses must not undo the charge in the same
 * transaction: it is passed to `refused` for the log, and tried again with a later commit.
 */
export class UsageDays {
  readonly #upsert: Statement
  readonly #onRefused: (added: UsageAdded, error: unknown) => void
  readonly #retryMs: number
  #added: Writable<UsageAdded>[] = []
  /** In the transaction under way: what was refused for the first time, and what is in at last. */
  #refused: { readonly added: UsageAdded; readonly error: unknown }[] = []
  #done = new Set<UsageAdded>()
  /** Refused earlier. */
  #kept: UsageAdded[] = []
  #triedAt = Number.NEGATIVE_INFINITY

  constructor(
    database: Database,
    refused: (added: UsageAdded, error: unknown) => void = () => undefined,
    retryMs = patienceMs,
  ) {
    this.#onRefused = refused
    this.#retryMs = retryMs
    this.#upsert = database.prepare(
      `INSERT INTO usage_day (account, day, key, model, calls, errors, input_tokens, output_tokens, cost, charged)
       VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)
       ON CONFLICT DO UPDATE SET calls = calls + ?5, errors = errors + ?6, input_tokens = input_tokens + ?7,
       output_tokens = output_tokens + ?8, cost = cost + ?9, charged = charged + ?10`,
    )
  }

  /** The object is kept, and what comes next for the same row is added to it. */
  add(added: UsageAdded): void {
    const last = this.#added.at(-1)
    if (last !== undefined && isSameRow(last, added)) addTo(last, added)
    else this.#added.push(added)
  }

  /** May run several times in one transaction. */
  write(): void {
    for (const added of this.#added.length > 1 ? together(this.#added) : this.#added) {
      const error = this.#refusal(added)
      if (error !== undefined) this.#refused.push({ added, error })
    }
    this.#added = []
    if (this.#kept.length > 0 && performance.now() - this.#triedAt >= this.#retryMs) this.#retry()
  }

  committed(): void {
    if (this.#done.size > 0) this.#kept = this.#kept.filter((added) => !this.#done.has(added))
    this.#done = new Set()
    for (const { added, error } of this.#refused.splice(0)) {
      if (this.#kept.length === 0) this.#triedAt = performance.now()
      if (this.#kept.length < mostKept) this.#kept.push(added)
      this.#onRefused(added, error)
    }
  }

  /** Forgets what has not been written: those who added it will do so again. */
  forget(): void {
    this.#added = []
    this.#refused = []
    this.#done = new Set()
  }

  #retry(): void {
    this.#triedAt = performance.now()
    for (const added of this.#kept) if (this.#refusal(added) === undefined) this.#done.add(added)
  }

  /** Why the database refuses it; undefined where it is in. Throws when the database cannot be written at all. */
  #refusal(added: UsageAdded): unknown {
    const { account, at, key, model, calls, errors, cost, charged } = added
    const [input, output] = [Math.round(added.inputTokens), Math.round(added.outputTokens)]
    try {
      this.#upsert.run(account, startOfDay(at), key ?? '', model, calls, errors, input, output, cost, charged)
      return undefined
    } catch (thrown) {
      if (isOutage(thrown)) throw thrown
      return thrown
    }
  }
}

/** What several calls add to one row, added up: calls that end together are often of one key and model. */
function together(added: readonly Writable<UsageAdded>[]): Iterable<UsageAdded> {
  const rows = new Map<string, Writable<UsageAdded>>()
  for (const one of added) {
    const name = `${one.account} ${startOfDay(one.at)} ${one.key ?? ''} ${one.model}`
    const row = rows.get(name)
    if (row === undefined) rows.set(name, one)
    else addTo(row, one)
  }
  return rows.values()
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

interface SumRow {
  readonly name: string
  readonly calls: bigint
  readonly errors: bigint
  readonly input_tokens: bigint
  readonly output_tokens: bigint
  readonly cost: bigint
  readonly charged: bigint
}

const names: Readonly<Record<UsageGroup, string>> = {
  day: "''",
  model: 'model',
  key: 'key',
  channel: "CASE key WHEN '' THEN 'app' ELSE 'api' END",
  account: 'account',
}

/** How long the loop is held in one go, before others have their turn. */
const turnMs = 4
/** Rows of all accounts in one step: a day of many accounts is long. */
const rowsPerStep = 200

interface DayRow extends Omit<SumRow, 'name'> {
  readonly account: string
  readonly key: string
  readonly model: string
}

export class SqliteUsage implements UsageReader {
  readonly #database: Database
  readonly #statements = new Map<string, Statement<SumRow, (string | number)[]>>()
  readonly #ofAll: Statement<DayRow, [number, string, string, string, number]>

  constructor(database: Database) {
    this.#database = database
    this.#ofAll = database.prepare(
      `SELECT account, key, model, calls, errors, input_tokens, output_tokens, cost, charged FROM usage_day
       WHERE day = ? AND (account, key, model) > (?, ?, ?) ORDER BY account, key, model LIMIT ?`,
    )
  }

  async usage(query: UsageQuery): Promise<readonly UsageSum[]> {
    const sums: UsageSum[] = []
    const turn = new Turn()
    for (let day = startOfDay(query.from); day < query.until; day += dayMs) {
      const ofDay =
        query.account === undefined ? await this.#dayOfAll(query, day, turn) : this.#day(query, day)
      for (const sum of ofDay) sums.push(sum)
      await turn.over()
    }
    return sums
  }

  /** A day of all accounts, added up here in short steps. */
  async #dayOfAll(query: UsageQuery, day: number, turn: Turn): Promise<UsageSum[]> {
    const sums = new Map<string, UsageSum>()
    let last: Pick<DayRow, 'account' | 'key' | 'model'> | undefined = { account: '', key: '', model: '' }
    while (last) {
      const { account, key, model }: Pick<DayRow, 'account' | 'key' | 'model'> = last
      const rows: readonly DayRow[] = reading(() => this.#ofAll.all(day, account, key, model, rowsPerStep))
      for (const row of rows) {
        if (query.key !== undefined && row.key !== query.key) continue
        if (query.model !== undefined && row.model !== query.model) continue
        const group = groupOf(row, query.by)
        sums.set(group, added(sums.get(group), row, day, group))
      }
      last = rows.length === rowsPerStep ? rows.at(-1) : undefined
      await turn.over()
    }
    return [...sums.values()].toSorted((a, b) => (a.group < b.group ? -1 : 1))
  }

  #day({ account, key, model, line, mode, by }: UsageQuery, day: number): UsageSum[] {
    const filters = { account, key, model }
    const conditions = ['day = ?']
    const values: (string | number)[] = [day]
    for (const column of ['account', 'key', 'model'] as const) {
      const value = filters[column]
      if (value === undefined) continue
      conditions.push(`${column} = ?`)
      values.push(value)
    }
    for (const [condition, value] of [
      [keyOfLine, line],
      [keyOfMode, mode],
    ] as const) {
      if (value === undefined) continue
      conditions.push(condition)
      values.push(value)
    }
    const statement = this.#statement(
      `SELECT ${names[by]} AS name, sum(calls) AS calls, sum(errors) AS errors, sum(input_tokens) AS input_tokens,
       sum(output_tokens) AS output_tokens, sum(cost) AS cost, sum(charged) AS charged
       FROM usage_day WHERE ${conditions.join(' AND ')} GROUP BY name ORDER BY name`,
    )
    return reading(() => statement.all(...values)).map((row) => ({
      day,
      group: row.name,
      calls: Number(row.calls),
      errors: Number(row.errors),
      inputTokens: Number(row.input_tokens),
      outputTokens: Number(row.output_tokens),
      cost: row.cost,
      charged: row.charged,
    }))
  }

  #statement(sql: string): Statement<SumRow, (string | number)[]> {
    const known = this.#statements.get(sql)
    if (known) return known
    const made = this.#database.prepare<SumRow, (string | number)[]>(sql)
    this.#statements.set(sql, made)
    return made
  }
}

/** Leaves the event loop to others when its time is over. */
class Turn {
  #since = performance.now()

  async over(): Promise<void> {
    if (performance.now() - this.#since < turnMs) return
    await new Promise((resolve) => setImmediate(resolve))
    this.#since = performance.now()
  }
}

function groupOf({ account, key, model }: DayRow, by: UsageGroup): string {
  switch (by) {
    case 'day':
      return ''
    case 'model':
      return model
    case 'key':
      return key
    case 'channel':
      return key === '' ? 'app' : 'api'
    case 'account':
      return account
    default:
      return by satisfies never
  }
}

function added(sum: UsageSum | undefined, row: DayRow, day: number, group: string): UsageSum {
  return {
    day,
    group,
    calls: (sum?.calls ?? 0) + Number(row.calls),
    errors: (sum?.errors ?? 0) + Number(row.errors),
    inputTokens: (sum?.inputTokens ?? 0) + Number(row.input_tokens),
    outputTokens: (sum?.outputTokens ?? 0) + Number(row.output_tokens),
    cost: (sum?.cost ?? 0n) + row.cost,
    charged: (sum?.charged ?? 0n) + row.charged,
  }
}
