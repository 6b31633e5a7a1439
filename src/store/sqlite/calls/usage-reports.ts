// Reports of usage, made in short steps by whoever runs them: on the event loop if they are small, else in a thread.

import type { Database, Statement } from 'bun:sqlite'
import { dayMs, startOfDay } from '../../../credits/calendar.ts'
import { formatUsd } from '../../../credits/money.ts'
import { csvLine, csvLines } from '../../../text/csv.ts'
import {
  usageColumns,
  type UsageFigures,
  type UsageGroup,
  type UsageOfDay,
  type UsageQuery,
  type UsageReport,
  type UsageSum,
} from '../../../observe/call-log.ts'
import { one } from '../database/sqlite.ts'
import { keyIsIn, keyOfMode, keysOfLine } from './request-reader.ts'

/** After so long a report gives way to others, milliseconds. */
const stepMs = 4
/** Groups of a day that are read at once. */
const groupsAtOnce = 1_000
/** Names of keys and accounts that one report remembers. */
const labelsRemembered = 50_000

type Value = string | number
type Condition = readonly [text: string, value: Value]

function where(...conditions: Condition[]): { text: string; values: Value[] } {
  return {
    text: conditions.map(([text]) => text).join(' AND '),
    values: conditions.map(([, value]) => value),
  }
}

interface FiguresRow {
  readonly calls: bigint
  readonly errors: bigint
  readonly input_tokens: bigint
  readonly output_tokens: bigint
  readonly cost: bigint
  readonly charged: bigint
}
type DayRow = FiguresRow & { readonly day: bigint }
type GroupRow = FiguresRow & { readonly name: string; readonly account: string }

const sums = `sum(calls) AS calls, sum(errors) AS errors, sum(input_tokens) AS input_tokens,
  sum(output_tokens) AS output_tokens, sum(cost) AS cost, sum(charged) AS charged`

/** A group, and what it came to. */
interface Ranked {
  readonly group: string
  /** Undefined for the app of all accounts. */
  readonly account: string | undefined
  readonly cost: bigint
  readonly calls: bigint
}

/** How a day is divided in each of the two tables. */
const namesIn: Readonly<Record<'usage_day' | 'usage_total', Readonly<Record<UsageGroup, string>>>> = {
  usage_day: {
    day: "''",
    model: 'model',
    key: 'key',
    channel: "CASE key WHEN '' THEN 'app' ELSE 'api' END",
    account: 'account',
  },
  usage_total: { day: "''", model: 'model', channel: 'channel', key: "''", account: "''" },
}

/** The report, at the end of its steps. */
export function* reportSteps(
  database: Database,
  query: UsageQuery,
  most: number,
): Generator<undefined, UsageReport> {
  const source = new UsageSource(database, query)
  try {
    return source.hasManyGroups ? yield* source.rank(most) : yield* source.small(most)
  } finally {
    source.close()
  }
}

/** Every day and group as CSV. Each step is a piece of it, which may be empty. */
export function* csvSteps(database: Database, query: UsageQuery): Generator<string, void> {
  const source = new UsageSource(database, query)
  try {
    yield csvLine(usageColumns)
    for (let day = startOfDay(query.from); day < query.until; day += dayMs)
      for (const rows of source.pagesOfDay(day)) yield csvLines(usageColumns, rows.map(cellsOf))
  } finally {
    source.close()
  }
}

/** Whether a report reads few rows: it needs no thread of its own. */
export function isSmall(database: Database, query: UsageQuery, rows: number): boolean {
  const { from, until, account, key, line } = query
  if (key !== undefined || line !== undefined) return true
  const [table, who] = isOfTotals(query)
    ? ['usage_total', '']
    : ['usage_day', account === undefined ? '' : 'account = ? AND ']
  const bounds = account === undefined ? [from, until, rows + 1] : [account, from, until, rows + 1]
  const counted = one(
    database,
    `SELECT count(*) FROM (SELECT 1 FROM ${table} WHERE ${who}day >= ? AND day < ? LIMIT ?)`,
    ...bounds,
  )
  return Number(counted) <= rows
}

/** What the totals of the installation answer. */
function isOfTotals({ account, key, by }: UsageQuery): boolean {
  return account === undefined && key === undefined && by !== 'key' && by !== 'account'
}

class UsageSource {
  readonly #database: Database
  readonly #query: UsageQuery
  readonly #table: 'usage_day' | 'usage_total'
  /** Whose days are read; undefined for everybody's. */
  readonly #account: string | undefined
  /** Further conditions of the query. */
  readonly #filter: readonly Condition[]
  readonly #statements = new Map<string, Statement<unknown, Value[]>>()
  readonly #labels = new Map<string, string | null>()
  #since = performance.now()

  constructor(database: Database, query: UsageQuery) {
    this.#database = database
    this.#query = { ...query, from: startOfDay(query.from) }
    this.#table = isOfTotals(query) ? 'usage_total' : 'usage_day'
    this.#account = query.account ?? (query.key === undefined ? undefined : this.#ownerOf(query.key))
    this.#filter = this.#filterOf(query)
  }

  close(): void {
    for (const statement of this.#statements.values()) statement.finalize()
    this.#statements.clear()
  }

  get hasManyGroups(): boolean {
    const { by, key, line } = this.#query
    return (
      key === undefined &&
      line === undefined &&
      (by === 'key' || (by === 'account' && this.#account === undefined))
    )
  }

  /** Reads every group of every day. */
  *small(most: number): Generator<undefined, UsageReport> {
    const { from, until } = this.#query
    const rows: UsageSum[] = []
    for (let day = from; day < until; day += dayMs) {
      for (const page of this.pagesOfDay(day)) rows.push(...page)
      if (this.#isLong()) yield
    }
    const ofGroup = new Map<string, { cost: bigint; calls: number }>()
    for (const { group, cost, calls } of rows) {
      const sum = ofGroup.get(group)
      if (sum === undefined) ofGroup.set(group, { cost, calls })
      else {
        sum.cost += cost
        sum.calls += calls
      }
    }
    const shown = new Set(
      [...ofGroup]
        .toSorted(([a, x], [b, y]) => byCost(x.cost, y.cost) || y.calls - x.calls || (a < b ? -1 : 1))
        .slice(0, most)
        .map(([group]) => group),
    )
    return reportOf(
      rows.filter(({ group }) => shown.has(group)),
      daysOf(rows),
      ofGroup.size - shown.size,
    )
  }

  /** Ranks the groups first, so that only those are read that are shown. */
  *rank(most: number): Generator<undefined, UsageReport> {
    const { from, until } = this.#query
    const days = this.#account === undefined ? this.#totalDays() : this.#daysOf(this.#account, undefined)
    if (this.#isLong()) yield
    let top: Ranked[] = []
    let groups = 0
    const best = () => (top = top.toSorted(rank).slice(0, most))
    for (const account of this.#account === undefined ? this.#accounts() : [this.#account]) {
      const found = this.#rank(account, most)
      groups += found.groups
      top.push(...found.top)
      if (top.length > 4 * most) best()
      if (this.#isLong()) yield
    }
    const app = this.#account === undefined && this.#query.by === 'key' ? this.#totalDays('app') : []
    if (app.length > 0) {
      const { cost, calls } = totalOf(app)
      top.push({ group: '', account: undefined, cost, calls: BigInt(calls) })
      groups += 1
    }
    const rows: UsageSum[] = []
    for (const { group, account } of best()) {
      const own =
        account === undefined
          ? app
          : this.#daysOf(account, this.#query.by === 'key' ? group : undefined, [from, until])
      for (const day of own) rows.push({ ...day, group, label: this.#labelOf(group) })
      if (this.#isLong()) yield
    }
    rows.sort((a, b) => a.day - b.day || (a.group < b.group ? -1 : 1))
    return reportOf(rows, days, groups - top.length)
  }

  /** The groups of a day, a page at a time. */
  *pagesOfDay(day: number): Generator<readonly UsageSum[]> {
    const { by } = this.#query
    if (!this.hasManyGroups) {
      if (this.#account === undefined && this.#table === 'usage_day') return
      const { text, values } = this.#where(['day = ?', day])
      const rows = this.#all<GroupRow>(
        `SELECT ${namesIn[this.#table][by]} AS name, '' AS account, ${sums} FROM ${this.#table} WHERE ${text}
         GROUP BY name ORDER BY name`,
        values,
      )
      if (rows.length > 0) yield rows.map((row) => this.#sumOf(row, day))
      return
    }
    if (this.#account === undefined && by === 'key') {
      const app = this.#totalDays('app', [day, day + dayMs])
      if (app.length > 0) yield app.map((figures) => ({ ...figures, group: '', label: null }))
    }
    // In the order of the index: a page of it is found at once, and nothing is sorted.
    const columns = this.#account === undefined && by === 'key' ? ['account', 'key'] : [by]
    const after = columns.length === 1 ? `${columns[0]} > ?` : '(account, key) > (?, ?)'
    const noApp = this.#account === undefined && by === 'key' ? "key <> ''" : 'true'
    // Nothing comes before the app's own calls, whose key is empty.
    let place = this.#account === undefined ? columns.map(() => '') : undefined
    for (;;) {
      const { text, values } = this.#where(['day = ?', day])
      const rows = this.#all<GroupRow>(
        `SELECT ${by} AS name, account, ${sums} FROM usage_day WHERE ${text} AND ${noApp}
         ${place === undefined ? '' : `AND ${after}`}
         GROUP BY ${columns.join(', ')} ORDER BY ${columns.join(', ')} LIMIT ${groupsAtOnce}`,
        [...values, ...(place ?? [])],
      )
      if (rows.length > 0) yield rows.map((row) => this.#sumOf(row, day))
      const last = rows.at(-1)
      if (rows.length < groupsAtOnce || last === undefined) return
      place = columns.length === 1 ? [last.name] : [last.account, last.name]
    }
  }

  #rank(account: string, most: number): { readonly top: readonly Ranked[]; readonly groups: number } {
    const { by } = this.#query
    const { text, values } = this.#ofAccount(account)
    if (by === 'account') {
      const [row] = this.#all<{ cost: bigint | null; calls: bigint | null }>(
        `SELECT sum(cost) AS cost, sum(calls) AS calls FROM usage_day WHERE ${text}`,
        values,
      )
      if (!row || row.cost === null || row.calls === null) return { top: [], groups: 0 }
      return { top: [{ group: account, account, cost: row.cost, calls: row.calls }], groups: 1 }
    }
    const noApp = this.#account === undefined ? "AND key <> ''" : ''
    const rows = this.#all<{ name: string; cost: bigint; calls: bigint; groups: bigint }>(
      `SELECT key AS name, sum(cost) AS cost, sum(calls) AS calls, count(*) OVER () AS groups FROM usage_day
       WHERE ${text} ${noApp} GROUP BY key ORDER BY cost DESC, calls DESC, key
       LIMIT ${most}`,
      values,
    )
    return {
      top: rows.map(({ name, cost, calls }) => ({ group: name, account, cost, calls })),
      groups: Number(rows[0]?.groups ?? 0n),
    }
  }

  /** Those that have ever called anything. */
  *#accounts(): Generator<string> {
    let last: string | undefined = ''
    while (last !== undefined) {
      const [row]: { account: string }[] = this.#all<{ account: string }>(
        'SELECT account FROM usage_day WHERE account > ? ORDER BY account LIMIT 1',
        [last],
      )
      last = row?.account
      if (last !== undefined) yield last
    }
  }

  /** The days of an account, or of one of its keys: where the days are named, each is found by itself. */
  #daysOf(account: string, key: string | undefined, span?: readonly [number, number]): UsageOfDay[] {
    if (key === undefined || span === undefined) {
      const { text, values } = this.#ofAccount(account)
      return this.#days(`FROM usage_day WHERE ${text} GROUP BY day ORDER BY day`, values)
    }
    const named: number[] = []
    for (let day = span[0]; day < span[1]; day += dayMs) named.push(day)
    const { text, values } = where(['account = ?', account], ['usage_day.key = ?', key], ...this.#filter)
    return this.#days(
      `FROM (SELECT value AS named FROM json_each(?)) CROSS JOIN usage_day ON usage_day.day = named
       WHERE ${text} GROUP BY day ORDER BY day`,
      [JSON.stringify(named), ...values],
    )
  }

  /** The days of the whole installation, or of the app of all accounts alone. */
  #totalDays(
    channel?: 'app',
    [from, until]: readonly [number, number] = [this.#query.from, this.#query.until],
  ): UsageOfDay[] {
    const conditions: Condition[] = [
      ['day >= ?', from],
      ['day < ?', until],
    ]
    if (channel !== undefined) conditions.push(['channel = ?', channel])
    if (this.#query.model !== undefined) conditions.push(['model = ?', this.#query.model])
    const { text, values } = where(...conditions)
    return this.#days(`FROM usage_total WHERE ${text} GROUP BY day ORDER BY day`, values)
  }

  #days(from: string, values: readonly Value[]): UsageOfDay[] {
    return this.#all<DayRow>(`SELECT day, ${sums} ${from}`, values).map((row) => ({
      day: Number(row.day),
      ...figuresOf(row),
    }))
  }

  /** Of the rows that are asked for, those that also fulfil this. */
  #where(...given: Condition[]): { text: string; values: Value[] } {
    const own: Condition[] = this.#account === undefined ? [] : [['account = ?', this.#account]]
    return where(...given, ...own, ...this.#filter)
  }

  /** The rows of an account that are asked for. */
  #ofAccount(account: string): { text: string; values: Value[] } {
    const { from, until } = this.#query
    return where(['account = ?', account], ['day >= ?', from], ['day < ?', until], ...this.#filter)
  }

  #filterOf({ key, line, mode, model }: UsageQuery): Condition[] {
    const filter: Condition[] = []
    if (key !== undefined) filter.push(['key = ?', key])
    if (line !== undefined) {
      const keys = this.#all<{ id: string }>(keysOfLine, [line])
      filter.push([keyIsIn, JSON.stringify(keys.map(({ id }) => id))])
    }
    if (mode !== undefined) filter.push([keyOfMode, mode])
    if (model !== undefined) filter.push(['model = ?', model])
    return filter
  }

  #sumOf(row: GroupRow, day: number): UsageSum {
    return { day, group: row.name, label: this.#labelOf(row.name), ...figuresOf(row) }
  }

  #labelOf(group: string): string | null {
    const { by } = this.#query
    if (group === '' || (by !== 'key' && by !== 'account')) return null
    const known = this.#labels.get(group)
    if (known !== undefined) return known
    const [row] = this.#all<{ label: string }>(
      by === 'key'
        ? 'SELECT name AS label FROM api_key WHERE id = ?'
        : 'SELECT email AS label FROM account WHERE id = ?',
      [group],
    )
    const label = row?.label ?? null
    if (this.#labels.size < labelsRemembered) this.#labels.set(group, label)
    return label
  }

  #ownerOf(key: string): string | undefined {
    return this.#all<{ account: string }>('SELECT account FROM api_key WHERE id = ?', [key])[0]?.account
  }

  #all<Row>(sql: string, values: readonly Value[]): Row[] {
    let statement = this.#statements.get(sql)
    if (!statement) this.#statements.set(sql, (statement = this.#database.prepare<unknown, Value[]>(sql)))
    return statement.all(...values) as Row[]
  }

  #isLong(): boolean {
    const now = performance.now()
    if (now - this.#since < stepMs) return false
    this.#since = now
    return true
  }
}

function figuresOf(row: FiguresRow): UsageFigures {
  return {
    calls: Number(row.calls),
    errors: Number(row.errors),
    inputTokens: Number(row.input_tokens),
    outputTokens: Number(row.output_tokens),
    cost: row.cost,
    charged: row.charged,
  }
}

const nothing: UsageFigures = { calls: 0, errors: 0, inputTokens: 0, outputTokens: 0, cost: 0n, charged: 0n }

function totalOf(rows: readonly UsageFigures[]): UsageFigures {
  return rows.reduce(plus, nothing)
}

function plus(a: UsageFigures, b: UsageFigures): UsageFigures {
  return combine(a, b, 1)
}

function combine(a: UsageFigures, b: UsageFigures, sign: 1 | -1): UsageFigures {
  return {
    calls: a.calls + sign * b.calls,
    errors: a.errors + sign * b.errors,
    inputTokens: a.inputTokens + sign * b.inputTokens,
    outputTokens: a.outputTokens + sign * b.outputTokens,
    cost: a.cost + BigInt(sign) * b.cost,
    charged: a.charged + BigInt(sign) * b.charged,
  }
}

function daysOf(rows: readonly UsageSum[]): UsageOfDay[] {
  const days = new Map<number, UsageFigures>()
  for (const row of rows) days.set(row.day, plus(days.get(row.day) ?? nothing, row))
  return [...days].map(([day, figures]) => ({ day, ...figures }))
}

/** `days` are of all groups, and `hidden` is how many of them have no rows. */
function reportOf(rows: readonly UsageSum[], days: readonly UsageOfDay[], hidden: number): UsageReport {
  const shown = new Map(daysOf(rows).map((day) => [day.day, day]))
  const rest = days
    .map(({ day, ...figures }) => ({ day, ...combine(figures, shown.get(day) ?? nothing, -1) }))
    .filter(({ calls }) => calls > 0)
  return { rows, totals: totalOf(days), rest: hidden > 0 ? { groups: hidden, days: rest } : null }
}

function byCost(a: bigint, b: bigint): number {
  return a === b ? 0 : a < b ? 1 : -1
}

function rank(a: Ranked, b: Ranked): number {
  return byCost(a.cost, b.cost) || byCost(a.calls, b.calls) || (a.group < b.group ? -1 : 1)
}

function cellsOf({ day, group, label, calls, errors, cost, charged, inputTokens, outputTokens }: UsageSum) {
  return {
    day: new Date(day).toISOString().slice(0, 10),
    group,
    label,
    calls,
    errors,
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    cost: formatUsd(cost),
    charged: formatUsd(charged),
  }
}
