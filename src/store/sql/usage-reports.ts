// Reports of usage, as work: on SQLite by whoever runs it, on the event loop if it is small, else in a thread.

import type { Awaitable } from '../../async/async.ts'
import { groupTag } from '../../conversation/request.ts'
import { dayMs, startOfDay, startOfMonth } from '../../credits/calendar.ts'
import { csvLine, csvLines } from '../../text/text.ts'
import {
  type UsageReader,
  usageColumns,
  type UsageGroup,
  type UsageOfDay,
  type UsageQuery,
  type UsageReport,
  type UsageSum,
} from '../../observe/call-log.ts'
import {
  byCost,
  cellsOf,
  daysOf,
  daysWithin,
  figuresOf,
  costIn,
  type FiguresRow,
  reportOf,
  totalOf,
  withoutTag,
} from './usage-figures.ts'
import { type LongReports, rowsOfSmall } from '../long-reports.ts'
import { keyIsIn, keyOfMode, keysOfLine } from './request-reader.ts'
import { composedSql, type PieceWork, type Step, type StepResult, type Tables, type Work } from './work.ts'

/** Groups of a day that are read at once. Those of a month are sorted for each such page. */
const groupsAtOnce = 1_000
const groupsOfMonthAtOnce = 50_000
/** Groups that cost the same as the last one shown, and are looked at for their calls. */
const boundsLookedAt = 2_000
/** Names of keys and accounts that one report remembers. */
const labelsRemembered = 50_000

type Value = string | number | bigint
type Condition = readonly [text: string, value: Value]

function where(...conditions: Condition[]): { text: string; values: Value[] } {
  return {
    text: conditions.map(([text]) => text).join(' AND '),
    values: conditions.map(([, value]) => value),
  }
}

type DayRow = FiguresRow & { readonly day: bigint }
type GroupRow = FiguresRow & { readonly name: string; readonly account: string }

/** A day, or a month as far as it is asked for: a half-open interval, and what its rows call it. */
interface Period {
  readonly name: number
  readonly from: number
  readonly until: number
}

/** A sum of integers is one, on either database. */
const sumOf = (column: string) => `CAST(sum(${column}) AS bigint) AS ${column}`
const figures = ['calls', 'errors', 'input_tokens', 'output_tokens', 'cost', 'charged', 'timed', 'ms']
const sums = figures.map(sumOf).join(', ')
const costAndCalls = `${sumOf('cost')}, ${sumOf('calls')}`
/** Days of a month that are not asked for, and whether any is that is: each by a mask. */
const otherDays = 'days & CAST(? AS bigint)'
const hasDays = 'days & CAST(? AS bigint) <> 0'

/** A group, and what it came to. */
interface Ranked {
  readonly group: string
  /** Undefined for the app of all accounts. */
  readonly account: string | undefined
  readonly cost: bigint
  readonly calls: bigint
}

/** A group, and what the days that are asked for cost. `other` has days that are not: their calls are in `calls`. */
interface Bound {
  readonly account: string
  readonly key: string
  readonly cost: bigint
  readonly calls: bigint
  readonly other: bigint
}

/** A month, with a bit for every day of it that is asked for. */
type AskedMonth = readonly [month: number, mask: number]

type Table = 'usage_day' | 'usage_provider' | 'usage_tag' | 'usage_tag_total' | 'usage_total'

const columnsOfDay = {
  day: "''",
  model: 'model',
  key: 'key',
  channel: "CASE key WHEN '' THEN 'app' ELSE 'api' END",
  account: 'account',
  provider: "''",
  tag: "''",
}
const columnsOfTotal = {
  day: "''",
  model: 'model',
  channel: 'channel',
  key: "''",
  account: "''",
  provider: "''",
  tag: "''",
}
/** How a day is divided in each of the tables. */
const namesIn: Readonly<Record<Table, Readonly<Record<UsageGroup, string>>>> = {
  usage_day: columnsOfDay,
  usage_provider: { ...columnsOfTotal, provider: 'provider' },
  usage_tag: { ...columnsOfDay, tag: 'value' },
  usage_tag_total: { ...columnsOfTotal, tag: 'value' },
  usage_total: columnsOfTotal,
}

const labelsOf: Readonly<Partial<Record<UsageGroup | 'group', string>>> = {
  key: 'SELECT name AS label FROM api_key WHERE id = ?',
  account: 'SELECT email AS label FROM account WHERE id = ?',
  group: 'SELECT name AS label FROM account_group WHERE id = ?',
}

/** Reports of usage where statements are waited for: those that read little are made among all other work. */
export class SqlUsage implements UsageReader {
  readonly #tables: Tables
  readonly #long: LongReports

  constructor(tables: Tables, long: LongReports) {
    this.#tables = tables
    this.#long = long
  }

  async report(query: UsageQuery, most: number, signal?: AbortSignal): Promise<UsageReport> {
    if (!(await this.#isSmall(query))) return this.#long.report(query, most, signal)
    return this.#tables.reads(() => usageReport(query, most), signal)
  }

  async *csv(query: UsageQuery, signal?: AbortSignal): AsyncGenerator<string, void> {
    const isSmall = await this.#isSmall(query)
    yield* isSmall ? this.#tables.pieces(() => usageCsv(query), signal) : this.#long.csv(query, signal)
  }

  #isSmall(query: UsageQuery): Awaitable<boolean> {
    return this.#tables.do(() => isSmall(query, rowsOfSmall))
  }
}

export function* usageReport(query: UsageQuery, most: number): Work<UsageReport> {
  const source = yield* UsageSource.of(query)
  if (tagOf(query) !== undefined) return yield* source.rankTags(most)
  return source.hasManyGroups ? yield* source.rank(most) : yield* source.small(most)
}

/** Every day and group as CSV. */
export function* usageCsv(query: UsageQuery): PieceWork {
  const source = yield* UsageSource.of(query)
  yield csvLine(usageColumns)
  const cells = cellsOf(query.per)
  for (const period of periodsOf(query)) {
    const pages = source.pagesOf(period)
    for (let next = pages.next(); !next.done;)
      next = isPage(next.value)
        ? (yield csvLines(usageColumns, next.value.map(cells)), pages.next([]))
        : pages.next(yield next.value)
  }
}

/** Work that gives pages of rows between its statements. */
type Pages = Generator<Step | readonly UsageSum[], void, StepResult>

function isPage(given: Step | readonly UsageSum[]): given is readonly UsageSum[] {
  return Array.isArray(given)
}

/** The rows of all pages. */
function* allOf(pages: Pages): Work<UsageSum[]> {
  const rows: UsageSum[] = []
  for (let next = pages.next(); !next.done;) {
    const given = next.value
    if (isPage(given)) {
      rows.push(...given)
      next = pages.next([])
    } else next = pages.next(yield given)
  }
  return rows
}

function all<Row>(text: string, values: readonly Value[]): Work<readonly Row[]> {
  return composedSql<Row>(text).all(...values)
}

/** Whether a report reads few rows: it needs no thread of its own. */
export function* isSmall(query: UsageQuery, rows: number): Work<boolean> {
  const { from, until, account, key, line } = query
  const tag = tagOf(query)
  const [who, whose] = account === undefined ? ['', []] : ['account = ? AND ', [account]]
  if (tag !== undefined) {
    const [tagged] = yield* all<{ count: bigint }>(
      `SELECT count(*) AS count FROM (SELECT 1 FROM ${tableOf(query)} WHERE ${who}tag = ? AND day >= ? AND day < ? LIMIT ?) AS counted`,
      [...whose, tag, from, until, rows + 1],
    )
    if (Number(tagged!.count) > rows) return false
  }
  if (key !== undefined || line !== undefined) return true
  const isTotal = isOfTotals(query)
  const table = isTotal ? (isOfProviders(query) ? 'usage_provider' : 'usage_total') : 'usage_day'
  const [counted] = yield* all<{ count: bigint }>(
    `SELECT count(*) AS count FROM (SELECT 1 FROM ${table} WHERE ${isTotal ? '' : who}day >= ? AND day < ? LIMIT ?) AS counted`,
    [...(isTotal ? [] : whose), from, until, rows + 1],
  )
  return Number(counted!.count) <= rows
}

/** The name of the tag that a query is about. */
function tagOf({ by, tagName, tag }: UsageQuery): string | undefined {
  return by === 'tag' ? (tagName ?? '') : tag?.name
}

/** The days of a query, or its months; the first and the last as far as they are asked for. */
function periodsOf({ from, until, per }: UsageQuery): Period[] {
  const periods: Period[] = []
  for (let at = startOfDay(from); at < until;) {
    const name = per === 'month' ? startOfMonth(at) : at
    const end = per === 'month' ? Math.min(until, startOfMonth(name + 31 * dayMs)) : at + dayMs
    periods.push({ name, from: at, until: end })
    at = end
  }
  return periods
}

function tableOf(query: UsageQuery): Table {
  const isOfTags = tagOf(query) !== undefined
  if (isOfProviders(query)) return 'usage_provider'
  if (isOfTotals(query)) return isOfTags ? 'usage_tag_total' : 'usage_total'
  return isOfTags ? 'usage_tag' : 'usage_day'
}

/** What the totals of the installation answer. */
function isOfTotals({ account, key, by }: UsageQuery): boolean {
  return account === undefined && key === undefined && by !== 'key' && by !== 'account'
}

/** Only of the whole installation. */
function isOfProviders({ by, provider }: UsageQuery): boolean {
  return by === 'provider' || provider !== undefined
}

class UsageSource {
  readonly #query: UsageQuery
  readonly #table: Table
  /** Whose days are read; undefined for everybody's. */
  readonly #account: string | undefined
  /** Further conditions of the query. */
  readonly #filter: readonly Condition[]
  readonly #labels = new Map<string, string | null>()

  static *of(query: UsageQuery): Work<UsageSource> {
    const account = query.account ?? (query.key === undefined ? undefined : yield* ownerOf(query.key))
    return new UsageSource(query, account, yield* filterOf(query))
  }

  private constructor(query: UsageQuery, account: string | undefined, filter: readonly Condition[]) {
    this.#query = { ...query, from: startOfDay(query.from) }
    this.#table = tableOf(query)
    this.#account = account
    this.#filter = filter
  }

  get hasManyGroups(): boolean {
    const { by, key, line } = this.#query
    return (
      key === undefined &&
      line === undefined &&
      (by === 'key' || (by === 'account' && this.#account === undefined))
    )
  }

  /** Whether it is of all calls with a tag, and not of those of certain keys. */
  get #isOfAll(): boolean {
    const { key, line, mode } = this.#query
    return [this.#account, key, line, mode].every((asked) => asked === undefined)
  }

  /** Reads every group of every day. */
  *small(most: number): Work<UsageReport> {
    const rows: UsageSum[] = []
    for (const period of periodsOf(this.#query)) {
      rows.push(...(yield* allOf(this.pagesOf(period))))
    }
    const { only } = this.#query
    const ofGroup = new Map<string, { cost: bigint; calls: number }>()
    for (const { group, cost, calls } of rows) {
      const sum = ofGroup.get(group)
      if (sum === undefined) ofGroup.set(group, { cost, calls })
      else {
        sum.cost += cost
        sum.calls += calls
      }
    }
    const best = [...ofGroup]
      .filter(([group]) => only === undefined || only.includes(group))
      .toSorted(([a, x], [b, y]) => byCost(x.cost, y.cost) || y.calls - x.calls || (a < b ? -1 : 1))
    const shown = new Set(best.slice(0, most).map(([group]) => group))
    return reportOf(
      rows.filter(({ group }) => shown.has(group)),
      daysOf(rows),
      ofGroup.size - shown.size,
    )
  }

  /** Ranks the groups first, so that only those are read that are shown. */
  *rank(most: number): Work<UsageReport> {
    const { from, until } = this.#query
    const days = this.#byPeriod(
      this.#account === undefined ? yield* this.#totalDays() : yield* this.#daysOf(this.#account, undefined),
    )
    const { only } = this.#query
    let { top, groups } =
      only === undefined
        ? ((yield* this.#rankMonths(most)) ?? (yield* this.#rankDays(most)))
        : yield* this.#rankOf(only)
    const app = this.#account === undefined && this.#query.by === 'key' ? yield* this.#totalDays('app') : []
    if (app.length > 0 && (only === undefined || only.includes(''))) {
      const { cost, calls } = totalOf(app)
      top = [...top, { group: '', account: undefined, cost, calls: BigInt(calls) }]
      groups += 1
    }
    const rows: UsageSum[] = []
    top = top.toSorted(rank).slice(0, most)
    for (const { group, account } of top) {
      const own =
        account === undefined
          ? app
          : yield* this.#daysOf(account, this.#query.by === 'key' ? group : undefined, [from, until])
      for (const day of this.#byPeriod(own)) rows.push({ ...day, group, label: yield* this.#labelOf(group) })
    }
    rows.sort((a, b) => a.day - b.day || (a.group < b.group ? -1 : 1))
    return reportOf(rows, days, groups - top.length)
  }

  /** Groups that are asked for by name, for a comparison: they are ranked already. */
  *#rankOf(only: readonly string[]): Work<{ readonly top: readonly Ranked[]; readonly groups: number }> {
    const byKey = this.#query.by === 'key'
    const top: Ranked[] = []
    for (const group of only) {
      if (group === '' && !(byKey && this.#account !== undefined)) continue
      const account = byKey ? (this.#account ?? (yield* ownerOf(group))) : group
      top.push({ group, account: account ?? '', cost: 0n, calls: 0n })
    }
    return { top, groups: top.length }
  }

  /** Looks at every day of every account. */
  *#rankDays(most: number): Work<{ readonly top: readonly Ranked[]; readonly groups: number }> {
    let top: Ranked[] = []
    let groups = 0
    let account = this.#account ?? (yield* this.#accountAfter(''))
    while (account !== undefined) {
      const found: { readonly top: readonly Ranked[]; readonly groups: number } = yield* this.#rank(
        account,
        most,
      )
      groups += found.groups
      top.push(...found.top)
      if (top.length > 4 * most) top = top.toSorted(rank).slice(0, most)
      account = this.#account === undefined ? yield* this.#accountAfter(account) : undefined
    }
    return { top, groups }
  }

  /**
   * The same by the months that the days stand in, which have the cost of each day. Of the calls a month that is asked
   * for in part tells only how many they are at most, so groups of one cost are looked at from the highest number on, and
   * no further than the last of the best. Undefined where too many groups cost the same.
   */
  *#rankMonths(most: number): Work<{ readonly top: readonly Ranked[]; readonly groups: number } | undefined> {
    const { by, from, until } = this.#query
    const byKey = by === 'key'
    const limit = most + boundsLookedAt
    const { bounds, groups } = yield* this.#boundsOf(monthsWithin(from, until), limit)
    let top: Ranked[] = []
    for (const { account, key, other, ...bound } of bounds) {
      const group = byKey ? key : account
      const last = top.length >= most ? top.at(-1) : undefined
      if (last !== undefined && rank(last, { ...bound, group, account }) < 0) return { top, groups }
      const sum =
        other === 0n ? bound : totalOf(yield* this.#daysOf(account, byKey ? key : undefined, [from, until]))
      top.push({ group, account, cost: sum.cost, calls: BigInt(sum.calls) })
      top = top.toSorted(rank).slice(0, most)
    }
    return bounds.length < limit ? { top, groups } : undefined
  }

  /** The groups that cost most in these months, as far as they are asked for, and how many there are. */
  *#boundsOf(
    months: readonly AskedMonth[],
    limit: number,
  ): Work<{ bounds: readonly Bound[]; groups: number }> {
    const byKey = this.#query.by === 'key'
    const columns = byKey ? 'account, key' : 'account'
    const named = byKey ? columns : "account, '' AS key"
    const noApp = byKey && this.#account === undefined ? [`key <> ''`] : []
    const asked = months.map(([month, mask]) => {
      const { text, values } = this.#where(['month = ?', month], [hasDays, BigInt(mask)])
      return { mask, values, rows: `FROM usage_month AS m WHERE ${[text, ...noApp].join(' AND ')}` }
    })
    const rowsOfMonths = asked.map(
      ({ mask, rows }) =>
        `SELECT ${columns}, ${costIn('m', mask)} AS cost, calls, ${otherDays} AS other ${rows}`,
    )
    // Grouped once for both: counting the groups by themselves took half as long again.
    const bounds = yield* all<Bound & { readonly groups: bigint }>(
      `WITH every AS MATERIALIZED (
         SELECT ${named}, ${costAndCalls}, max(other) AS other FROM (${rowsOfMonths.join(' UNION ALL ')}) AS months
         GROUP BY ${columns})
       SELECT every.*, (SELECT count(*) FROM every) AS groups FROM every
       ORDER BY cost DESC, calls DESC, ${this.#query.by} LIMIT ?`,
      [...asked.flatMap(({ mask, values }) => [~BigInt(mask), ...values]), limit],
    )
    return { bounds, groups: Number(bounds[0]?.groups ?? 0n) }
  }

  /** Of the calls with a tag. The database ranks them, since there may be a value for each person. */
  *rankTags(most: number): Work<UsageReport> {
    const { by, from, until, tag } = this.#query
    const days = JSON.stringify(daysWithin(from, until))
    // Of one value each day is a range of the index; of all values the days are one.
    const { text, values } = this.#where(...(tag === undefined ? within(from, until) : among(days)))
    // Of the whole installation there are sums of fewer rows.
    const table = this.#isOfAll ? 'usage_tag_total' : this.#table
    const tagged = this.#byPeriod(
      yield* this.#days(`FROM ${table} WHERE ${text} GROUP BY day ORDER BY day`, values),
    )
    // In the same moment: a call that is counted in between would have no tag.
    const whole = by === 'tag' && tag === undefined ? yield* this.#wholeDays() : undefined
    const named = namesIn[this.#table][by]
    const { only } = this.#query
    const asked = only === undefined ? '' : `AND ${named} IN LIST(?)`
    const whose = this.#table === 'usage_tag' ? 'min(account)' : "''"
    const top = yield* all<{ named: string; account: string; groups: bigint }>(
      `SELECT ${named} AS named, ${whose} AS account, ${costAndCalls}, count(*) OVER () AS groups FROM ${this.#table}
       WHERE ${text} ${asked} GROUP BY named ORDER BY cost DESC, calls DESC, named LIMIT ?`,
      [...values, ...(only === undefined ? [] : [JSON.stringify(only)]), most],
    )
    const rows: UsageSum[] = []
    for (const { named: group, account } of top) {
      const [table, one] = this.#taggedOf(group, account)
      const own = yield* this.#days(
        `FROM ${table} WHERE day IN NUMBERS(?) AND ${one.text} GROUP BY day ORDER BY day`,
        [days, ...one.values],
      )
      for (const day of this.#byPeriod(own)) rows.push({ ...day, group, label: yield* this.#labelOf(group) })
    }
    const hidden = Number(top[0]?.groups ?? 0n) - top.length
    if (whole !== undefined) rows.push(...withoutTag(whole, tagged))
    rows.sort((a, b) => a.day - b.day || (a.group < b.group ? -1 : 1))
    return reportOf(rows, whole ?? tagged, hidden)
  }

  /**
   * Where the calls with a tag of one group are: a key or an account is found below its account, since of a tag there may
   * be as many rows as there are keys.
   */
  #taggedOf(group: string, account: string): readonly [Table, ReturnType<typeof where>] {
    const { by } = this.#query
    const one: Condition = [`${namesIn[this.#table][by]} = ?`, group]
    if (!this.#isOfAll || (by !== 'key' && by !== 'account')) return [this.#table, this.#where(one)]
    if (group === '') return ['usage_tag_total', this.#where(['channel = ?', 'app'])]
    return [this.#table, this.#where(one, ['account = ?', account])]
  }

  /** All calls that the query would be about without its tag. */
  *#wholeDays(period?: Period): Work<readonly UsageOfDay[]> {
    const { from, until } = period ?? this.#query
    const query: UsageQuery = { ...this.#query, from, until, by: 'day', tagName: undefined }
    const source = yield* UsageSource.of(query)
    return (yield* source.small(1)).rows
  }

  /** The groups of a day or a month, a page at a time. */
  *pagesOf(period: Period): Pages {
    const { by } = this.#query
    if (tagOf(this.#query) !== undefined) {
      yield* this.#pagesOfTags(period)
      return
    }
    if (!this.hasManyGroups) {
      if (this.#account === undefined && this.#table === 'usage_day') return
      const { text, values } = this.#where(...during(period))
      const rows = yield* all<GroupRow>(
        `SELECT ${namesIn[this.#table][by]} AS name, '' AS account, ${sums} FROM ${this.#table} WHERE ${text}
         GROUP BY name ORDER BY name`,
        values,
      )
      const found = yield* this.#sumsOf(rows, period)
      if (found.length > 0) yield found
      if (by === 'provider' && this.#query.provider === undefined)
        yield withoutTag(yield* this.#wholeDays(period), daysOf(found))
      return
    }
    if (this.#account === undefined && by === 'key') {
      const app = this.#byPeriod(yield* this.#totalDays('app', [period.from, period.until]))
      if (app.length > 0) yield app.map((figures) => ({ ...figures, group: '', label: null }))
    }
    // In the order of the index: a page of it is found at once, and nothing is sorted.
    const columns = this.#account === undefined && by === 'key' ? ['account', 'key'] : [by]
    const after = columns.length === 1 ? `${columns[0]} > ?` : '(account, key) > (?, ?)'
    const noApp = this.#account === undefined && by === 'key' ? "key <> ''" : 'true'
    // Nothing comes before the app's own calls, whose key is empty.
    let place = this.#account === undefined ? columns.map(() => '') : undefined
    const month = yield* this.#wholeMonth(period)
    const [table, days] =
      month === undefined
        ? (['usage_day', during(period)] as const)
        : (['usage_month', [['month = ?', month]] as Condition[]] as const)
    const isInOrder = isOneDay(period) || month !== undefined
    const atOnce = isInOrder ? groupsAtOnce : groupsOfMonthAtOnce
    for (;;) {
      const { text, values } = this.#where(...days)
      const rows = yield* all<GroupRow>(
        `SELECT ${by} AS name, ${columns.includes('account') ? 'account' : 'min(account) AS account'}, ${sums} FROM ${table} WHERE ${text} AND ${noApp}
         ${place === undefined ? '' : `AND ${after}`}
         GROUP BY ${columns.join(', ')} ORDER BY ${columns.join(', ')} LIMIT ?`,
        [...values, ...(place ?? []), atOnce],
      )
      if (rows.length > 0) yield yield* this.#sumsOf(rows, period)
      const last = rows.at(-1)
      if (rows.length < atOnce || last === undefined) return
      place = columns.length === 1 ? [last.name] : [last.account, last.name]
    }
  }

  /** The month of which all days with calls are asked for: what it came to is written already. */
  *#wholeMonth(period: Period): Work<number | undefined> {
    if (isOneDay(period)) return undefined
    const [asked, ...more] = monthsWithin(period.from, period.until)
    if (asked === undefined || more.length > 0) return undefined
    const [month, mask] = asked
    const { text, values } = this.#where(['month = ?', month])
    const others = yield* all<unknown>(
      `SELECT 1 AS one FROM usage_month WHERE ${text} AND ${hasDays} LIMIT 1`,
      [...values, ~BigInt(mask)],
    )
    return others.length === 0 ? month : undefined
  }

  *#pagesOfTags(period: Period): Pages {
    const { by, tag } = this.#query
    const { text, values } = this.#where(...during(period))
    if (by === 'tag' && tag === undefined) {
      const [whole] = yield* this.#wholeDays(period)
      const tagged = yield* this.#days(`FROM ${this.#table} WHERE ${text} GROUP BY day`, values)
      if (whole !== undefined) yield withoutTag([whole], this.#byPeriod(tagged))
    }
    const named = namesIn[this.#table][by]
    const atOnce = isOneDay(period) ? groupsAtOnce : groupsOfMonthAtOnce
    let after: string | undefined
    for (;;) {
      const rows: readonly GroupRow[] = yield* all<GroupRow>(
        `SELECT ${named} AS named, ${named} AS name, '' AS account, ${sums} FROM ${this.#table} WHERE ${text}
         ${after === undefined ? '' : `AND ${named} > ?`} GROUP BY named ORDER BY named LIMIT ?`,
        [...values, ...(after === undefined ? [] : [after]), atOnce],
      )
      if (rows.length > 0) yield yield* this.#sumsOf(rows, period)
      after = rows.at(-1)?.name
      if (rows.length < atOnce) return
    }
  }

  *#rank(account: string, most: number): Work<{ readonly top: readonly Ranked[]; readonly groups: number }> {
    const { by } = this.#query
    const { text, values } = this.#ofAccount(account)
    if (by === 'account') {
      const [row] = yield* all<{ cost: bigint | null; calls: bigint | null }>(
        `SELECT ${costAndCalls} FROM usage_day WHERE ${text}`,
        values,
      )
      if (!row || row.cost === null || row.calls === null) return { top: [], groups: 0 }
      return { top: [{ group: account, account, cost: row.cost, calls: row.calls }], groups: 1 }
    }
    const noApp = this.#account === undefined ? "AND key <> ''" : ''
    const rows = yield* all<{ name: string; cost: bigint; calls: bigint; groups: bigint }>(
      `SELECT key AS name, ${costAndCalls}, count(*) OVER () AS groups FROM usage_day
       WHERE ${text} ${noApp} GROUP BY key ORDER BY cost DESC, calls DESC, key
       LIMIT ?`,
      [...values, most],
    )
    return {
      top: rows.map(({ name, cost, calls }) => ({ group: name, account, cost, calls })),
      groups: Number(rows[0]?.groups ?? 0n),
    }
  }

  /** The next account that has ever called anything. */
  *#accountAfter(account: string): Work<string | undefined> {
    const [row] = yield* all<{ account: string }>(
      'SELECT account FROM usage_day WHERE account > ? ORDER BY account LIMIT 1',
      [account],
    )
    return row?.account
  }

  /** The days of an account, or of one of its keys: where the days are named, each is found by itself. */
  *#daysOf(account: string, key: string | undefined, span?: readonly [number, number]): Work<UsageOfDay[]> {
    if (key === undefined || span === undefined) {
      const { text, values } = this.#ofAccount(account)
      return yield* this.#days(`FROM usage_day WHERE ${text} GROUP BY day ORDER BY day`, values)
    }
    const named = daysWithin(...span)
    const { text, values } = where(['account = ?', account], ['usage_day.key = ?', key], ...this.#filter)
    return yield* this.#days(`FROM usage_day WHERE day IN NUMBERS(?) AND ${text} GROUP BY day ORDER BY day`, [
      JSON.stringify(named),
      ...values,
    ])
  }

  /** The days of the whole installation, or of the app of all accounts alone. */
  *#totalDays(
    channel?: 'app',
    [from, until]: readonly [number, number] = [this.#query.from, this.#query.until],
  ): Work<UsageOfDay[]> {
    const conditions: Condition[] = [
      ['day >= ?', from],
      ['day < ?', until],
    ]
    if (channel !== undefined) conditions.push(['channel = ?', channel])
    if (this.#query.model !== undefined) conditions.push(['model = ?', this.#query.model])
    const { text, values } = where(...conditions)
    return yield* this.#days(`FROM usage_total WHERE ${text} GROUP BY day ORDER BY day`, values)
  }

  *#days(from: string, values: readonly Value[]): Work<UsageOfDay[]> {
    return (yield* all<DayRow>(`SELECT day, ${sums} ${from}`, values)).map((row) => ({
      day: Number(row.day),
      ...figuresOf(row),
    }))
  }

  /** The same by month, where that is asked for. */
  #byPeriod(days: readonly UsageOfDay[]): UsageOfDay[] {
    return this.#query.per === 'month'
      ? daysOf(days.map((row) => ({ ...row, day: startOfMonth(row.day) })))
      : [...days]
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

  *#sumsOf(rows: readonly GroupRow[], { name: day }: Period): Work<UsageSum[]> {
    const found: UsageSum[] = []
    for (const row of rows)
      found.push({ day, group: row.name, label: yield* this.#labelOf(row.name), ...figuresOf(row) })
    return found
  }

  *#labelOf(group: string): Work<string | null> {
    const { by, tagName } = this.#query
    const source = by === 'tag' && tagName === groupTag ? labelsOf.group : labelsOf[by]
    if (group === '' || source === undefined) return null
    const known = this.#labels.get(group)
    if (known !== undefined) return known
    const [row] = yield* all<{ label: string }>(source, [group])
    const label = row?.label ?? null
    if (this.#labels.size < labelsRemembered) this.#labels.set(group, label)
    return label
  }
}

function* filterOf(query: UsageQuery): Work<readonly Condition[]> {
  const { key, line, mode, model, tag } = query
  const filter: Condition[] = []
  if (query.provider !== undefined) filter.push(['provider = ?', query.provider])
  const name = tagOf(query)
  if (name !== undefined) filter.push(['tag = ?', name])
  if (tag !== undefined) filter.push(['value = ?', tag.value])
  if (key !== undefined) filter.push(['key = ?', key])
  if (line !== undefined) {
    const keys = yield* keysOfLine.all(line)
    filter.push([keyIsIn, JSON.stringify(keys.map(({ id }) => id))])
  }
  if (mode !== undefined) filter.push([keyOfMode, mode])
  if (model !== undefined) filter.push(['model = ?', model])
  return filter
}

function* ownerOf(key: string): Work<string | undefined> {
  return (yield* all<{ account: string }>('SELECT account FROM api_key WHERE id = ?', [key]))[0]?.account
}

function within(from: number, until: number): Condition[] {
  return [
    ['day >= ?', from],
    ['day < ?', until],
  ]
}

function among(days: string): Condition[] {
  return [['day IN NUMBERS(?)', days]]
}

/** Of one day the index gives the groups in order. */
function during(period: Period): Condition[] {
  return isOneDay(period) ? [['day = ?', period.from]] : within(period.from, period.until)
}

function isOneDay({ from, until }: Period): boolean {
  return until - from === dayMs
}

function monthsWithin(from: number, until: number): AskedMonth[] {
  const masks = new Map<number, number>()
  for (const day of daysWithin(from, until)) {
    const month = startOfMonth(day)
    masks.set(month, (masks.get(month) ?? 0) + 2 ** ((day - month) / dayMs))
  }
  return [...masks]
}

function rank(a: Ranked, b: Ranked): number {
  return byCost(a.cost, b.cost) || byCost(a.calls, b.calls) || (a.group < b.group ? -1 : 1)
}
