// Pages of the request log. An index has what every filter asks for, so that a page is found without reading the rows
// in between, in steps that leave the event loop to others.

import type {
  LoggedRequest,
  RequestFollower,
  RequestPage,
  RequestPlace,
  RequestQuery,
  RequestReader,
} from '../../observe/call-log.ts'
import type { Awaitable } from '../../async/async.ts'
import type { Row } from '../schema.ts'
import {
  composedSql,
  isSet,
  numberOrNull,
  recordReader,
  sql,
  type Statement,
  type Tables,
  type Work,
} from './work.ts'

/** Entries of an index that one step looks at: about 2 ms. */
const entriesPerStep = 10_000
/** In the first step, which is taken on the event loop: what is not there soon is looked for beside it. */
const firstEntries = 2_000
/** Steps of one page. A log that is longer than so many entries gives a short page. */
const stepsPerPage = 500
/** Where the row decides, or whether its key is for tests, each entry costs another look-up. */
const rowsPerStep = 2_000
/** Rows that are fetched at once where a condition is on the row. */
const rowsAtOnce = 200
/** Keys of a line that are read side by side; of a longer line, all that its account has called is looked at. */
const keysTogether = 32
/** Names of models that are looked through for a part of one, and those that are read side by side. */
const modelsLooked = 5_000
const modelsTogether = 64
/** A page is short rather than late, milliseconds. */
const longestPageMs = 200

/** Conditions on the keys whose calls a viewer may see. */
export const keyIsIn = 'key IN LIST(?)'
export const keyOfMode = 'EXISTS (SELECT 1 FROM api_key WHERE api_key.id = key AND api_key.mode = ?)'

/** The key and all that replaced it. */
export const keysOfLine = sql<{ readonly id: string }>(
  'SELECT id FROM api_key WHERE id = ?1 UNION SELECT id FROM api_key WHERE lineage = ?1',
)

type Value = string | number

export class SqlRequestReader implements RequestReader, RequestFollower {
  readonly #tables: Tables
  readonly #beside: ((query: RequestQuery, signal?: AbortSignal) => Promise<RequestPage>) | undefined
  readonly #perStep: number
  readonly #steps: number

  /** `beside` goes on with a page after its first step; the database itself, if left out. */
  constructor(
    tables: Tables,
    beside?: (query: RequestQuery, signal?: AbortSignal) => Promise<RequestPage>,
    perStep = entriesPerStep,
    steps = stepsPerPage,
  ) {
    this.#tables = tables
    this.#beside = beside
    this.#perStep = perStep
    this.#steps = steps
  }

  async page(query: RequestQuery, signal?: AbortSignal): Promise<RequestPage> {
    const { limit, after = null } = query
    if (!this.#beside) return this.#tables.reads(() => requestPage(query, this.#perStep, this.#steps), signal)
    const first = await this.#tables.do(() =>
      step(query, after, limit, Math.min(firstEntries, this.#perStep)),
    )
    if (first.next === null || first.rows.length === limit) return first
    const rest = { ...query, limit: limit - first.rows.length, after: first.next }
    const page = await this.#beside(rest, signal)
    return { rows: [...first.rows, ...page.rows], next: page.next }
  }

  find(requestId: string, account?: string): Awaitable<LoggedRequest | undefined> {
    return this.#tables.do(function* () {
      const row =
        account === undefined ? yield* found.first(requestId) : yield* foundOf.first(requestId, account)
      return row && rowOf(row)
    })
  }

  pageAfter(
    seq: number,
    limit: number,
    until = Number.MAX_SAFE_INTEGER,
  ): Awaitable<readonly LoggedRequest[]> {
    return this.#tables.do(function* () {
      return (yield* following.all(seq, until, limit)).map(rowOf)
    })
  }

  lastSeq(): Awaitable<number> {
    return this.#tables.do(function* () {
      return Number((yield* last.first())!.seq)
    })
  }
}

const found = sql<Row<'requestLog'>>(
  'SELECT * FROM request_log WHERE request_id = ? ORDER BY seq DESC LIMIT 1',
)
const foundOf = sql<Row<'requestLog'>>(
  'SELECT * FROM request_log WHERE request_id = ? AND account = ? ORDER BY seq DESC LIMIT 1',
)
const following = sql<Row<'requestLog'>>(
  'SELECT * FROM request_log WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?',
)
const last = sql<{ readonly seq: bigint }>('SELECT coalesce(max(seq), 0) AS seq FROM request_log')

/** A page, in steps that each look at `perStep` entries. */
export function* requestPage(
  query: RequestQuery,
  perStep = entriesPerStep,
  steps = stepsPerPage,
): Work<RequestPage> {
  const { limit } = query
  const rows: LoggedRequest[] = []
  let after = query.after ?? null
  const until = performance.now() + longestPageMs
  for (let taken = 1; ; taken++) {
    const found = yield* step(query, after, limit - rows.length, perStep)
    rows.push(...found.rows)
    after = found.next
    if (rows.length === limit || after === null || taken === steps || performance.now() > until)
      return { rows, next: after }
  }
}

type Place = { readonly seq: bigint; readonly at: bigint }

function* step(
  query: RequestQuery,
  after: RequestPlace | null,
  limit: number,
  entriesAtOnce: number,
): Work<RequestPage> {
  const keys = yield* keysIn(query)
  if (keys?.length === 0 || (keys !== undefined && query.channel === 'app')) return { rows: [], next: null }
  const source = yield* sourceOf(query, keys)
  if (source.ranges.length === 0) return { rows: [], next: null }
  const place = new Conditions()
  place.add('at >= ?', query.from ?? 0)
  if (query.until !== undefined) place.add('at < ?', query.until)
  if (after) place.add('(at, seq) < (?, ?)', after.at, after.seq)
  const [ofEntry, ofRow] = [new Conditions(), new Conditions()]
  for (const { column, text, values, isRange } of conditionsOf(query, keys)) {
    if (isRange && source.fulfils.includes(column)) continue
    const conditions = source.columns.includes(column) ? ofEntry : ofRow
    conditions.add(text, ...values)
  }
  const looksAtRows = query.mode !== undefined || ofRow.text !== ''
  const most = looksAtRows ? Math.min(entriesAtOnce, rowsPerStep) : entriesAtOnce
  const takesAll = ofEntry.text === '' && ofRow.text === ''
  const perStep = takesAll ? limit : most
  const entries = entriesOf(source, place, perStep)
  const places = yield* composedSql<Place>(
    `SELECT seq, at FROM (${entries.sql}) AS block ${ofEntry.text} LIMIT ?`,
  ).all(...entries.values, ...ofEntry.values, ofRow.text === '' ? limit : perStep)
  const rows = yield* rowsAt(places, ofRow, limit)
  const last = rows.at(-1)
  if (rows.length === limit && last) return { rows, next: { at: last.at, seq: last.seq } }
  if (takesAll) return { rows, next: null }
  const end = yield* composedSql<Place>(
    `SELECT seq, at FROM (${entries.sql}) AS block LIMIT 1 OFFSET ?`,
  ).first(...entries.values, perStep - 1)
  return { rows, next: end ? { at: Number(end.at), seq: Number(end.seq) } : null }
}

/** The rows of these entries that fulfil the conditions, in the same order, no more than `limit`. */
function* rowsAt(
  places: readonly Place[],
  { text, values }: Conditions,
  limit: number,
): Work<LoggedRequest[]> {
  const rows: LoggedRequest[] = []
  const atOnce = text === '' ? limit : rowsAtOnce
  const statement = composedSql<Row<'requestLog'>>(
    `SELECT * FROM request_log ${text === '' ? 'WHERE' : `${text} AND`} seq IN NUMBERS(?)`,
  )
  for (let at = 0; at < places.length && rows.length < limit; at += atOnce) {
    const asked = JSON.stringify(places.slice(at, at + atOnce).map(({ seq }) => Number(seq)))
    const found = (yield* statement.all(...values, asked)).map(rowOf)
    rows.push(...found.toSorted((a, b) => b.at - a.at || b.seq - a.seq))
  }
  return rows.slice(0, limit)
}

/** The index in which a query has the fewest entries, as far as that is known without reading any. */
function* sourceOf(
  { id, account, model, code, provider, outcome, tag }: RequestQuery,
  keys: readonly string[] | undefined,
): Work<Source> {
  const fails = outcome !== undefined && outcome !== 'served'
  if (id !== undefined) return source('request_log_request', [], [{ request_id: id }], ['id'])
  if (tag !== undefined)
    return source('request_tag', ['account'], [{ tag: tag.name, value: tag.value }], ['tag'])
  if (keys !== undefined && keys.length <= keysTogether)
    return source('request_log_key', ['key', 'account', 'model', 'code'], each('key', keys), ['key'])
  if (account !== undefined && (code !== undefined || fails)) {
    const codes = code === undefined ? yield* distinct(codesOf, [account], Number.POSITIVE_INFINITY) : [code]
    const ranges = codes.map((known) => ({ account, code: known }))
    return source('request_log_code', ['account', 'code', 'key', 'model'], ranges, ['account', 'code'])
  }
  if (account !== undefined)
    return source('request_log_account', ['account', 'key', 'model', 'code'], [{ account }], ['account'])
  if (code !== undefined) return source('request_log_fault', ['code'], [{ code }], ['code'])
  if (fails)
    return source(
      'request_log_outcome',
      [],
      each(isRefused, outcome === 'unserved' ? [0, 1] : [outcome === 'refused' ? 1 : 0]),
      ['outcome', 'code'],
    )
  const rare = provider !== undefined && (yield* isRare(provider))
  const models = model === undefined || rare ? undefined : yield* modelsLike(model)
  if (models !== undefined) return source('request_log_model', ['model'], each('model', models), ['model'])
  if (provider !== undefined)
    return source('request_log_provider', ['provider'], [{ provider }], ['provider'])
  return source('request_log_at', ['key', 'model', 'code'], [{}], [])
}

/** Whether a provider has been asked so seldom that its entries are few beside those of any model. */
function* isRare(provider: string): Work<boolean> {
  return Number((yield* entriesOfProvider.first(provider, rowsPerStep))!.n) < rowsPerStep
}

/** The names of models that are this one, or hold this part; undefined where there are too many to read them side by side. */
function* modelsLike(model: string): Work<readonly string[] | undefined> {
  if (!isPart(model)) return [model]
  const names = yield* distinct(modelsInLog, [], modelsLooked)
  const found = names.filter((name) => isLike(name, model))
  return found.length > modelsTogether || names.length === modelsLooked ? undefined : found
}

type Named = { readonly name: string | null }

const entriesOfProvider = sql<{ readonly n: bigint }>(
  `SELECT count(*) AS n FROM (SELECT 1 FROM request_log INDEXED BY request_log_provider WHERE provider = ? LIMIT ?) AS counted`,
)
/** The codes of the errors that an account's calls have had. */
const codesOf = sql<Named>(
  `SELECT min(code) AS name FROM request_log INDEXED BY request_log_code WHERE code IS NOT NULL AND account = ? AND code > ?`,
)
const modelsInLog = sql<Named>(
  'SELECT min(model) AS name FROM request_log INDEXED BY request_log_model WHERE model > ?',
)

/** Values of an index, each found from the one before. */
function* distinct(statement: Statement<Named>, given: readonly Value[], most: number): Work<string[]> {
  const found: string[] = []
  for (let last = ''; found.length < most;) {
    const name = (yield* statement.first(...given, last))?.name ?? null
    if (name === null) break
    found.push((last = name))
  }
  return found
}

/** The only keys whose calls are asked for; undefined for any. */
function* keysIn({ key, line }: RequestQuery): Work<readonly string[] | undefined> {
  if (line === undefined) return key === undefined ? undefined : [key]
  const ids = (yield* keysOfLine.all(line)).map(({ id }) => id)
  return key === undefined ? ids : ids.filter((id) => id === key)
}

type Column = 'id' | 'account' | 'key' | 'model' | 'code' | 'provider' | 'outcome' | 'tag'

/** Ranges of an index of the log, or of its tags, which are read side by side. */
interface Source {
  readonly index: string
  /** What an entry has besides time and number: these conditions are decided without the row. */
  readonly columns: readonly Column[]
  /** What is equal in each range. */
  readonly ranges: readonly Readonly<Record<string, Value>>[]
  /** The conditions that every entry of the ranges fulfils. */
  readonly fulfils: readonly Column[]
}

function source(
  index: string,
  columns: readonly Column[],
  ranges: Source['ranges'],
  fulfils: readonly Column[],
): Source {
  return { index, columns, ranges, fulfils }
}

function each(column: string, values: readonly Value[]): Source['ranges'] {
  return values.map((value) => ({ [column]: value }))
}

/** As in the index: that nobody was asked, and the fault was not the gateway's. */
const isRefused = 'FLAG(provider is null and status < 500)'

interface Condition {
  readonly column: Column
  readonly text: string
  readonly values: readonly Value[]
  /** Whether the range of an index may stand for it. */
  readonly isRange: boolean
}

function conditionsOf(query: RequestQuery, keys: readonly string[] | undefined): Condition[] {
  const { id, account, model, code, channel, mode, provider, outcome, tag } = query
  const conditions: Condition[] = []
  const range = (column: Column, text: string, ...values: readonly (Value | undefined)[]) => {
    if (values.every((value) => value !== undefined)) conditions.push({ column, text, values, isRange: true })
  }
  const other = (column: Column, text: string, ...values: readonly Value[]) =>
    void conditions.push({ column, text, values, isRange: false })
  range('id', 'request_id = ?', id)
  range('account', 'account = ?', account)
  range('key', keyIsIn, keys && JSON.stringify(keys))
  if (model !== undefined && isPart(model))
    range('model', "lower(model) LIKE ? ESCAPE '!'", likePattern(lowerCase(model)))
  else range('model', 'model = ?', model)
  range('code', 'code = ?', code)
  range('provider', 'provider = ?', provider)
  range('tag', hasTag, tag?.name, tag?.value)
  if (mode !== undefined) other('key', keyOfMode, mode)
  if (channel !== undefined) other('key', channel === 'app' ? 'key IS NULL' : 'key IS NOT NULL')
  if (outcome === 'served') other('code', 'code IS NULL')
  else if (outcome !== undefined) {
    range('code', 'code IS NOT NULL')
    if (outcome !== 'unserved') range('outcome', `${isRefused} = ${outcome === 'refused' ? 1 : 0}`)
  }
  return conditions
}

const hasTag = `EXISTS (SELECT 1 FROM request_tag WHERE tag = ? AND value = ? AND request_tag.at = request_log.at
  AND request_tag.seq = request_log.seq)`

/** Whether a model is asked for by a part of its name. */
function isPart(model: string): boolean {
  return model.includes('*')
}

function likePattern(model: string): string {
  return model.replace(/[%_!]/g, '!$&').replaceAll('*', '%')
}

/** The same as the database says of such a pattern: the case of A to Z is all one. */
function isLike(name: string, model: string): boolean {
  const parts = lowerCase(model).split('*')
  const text = lowerCase(name)
  let at = 0
  for (const [n, part] of parts.entries()) {
    const found = n === parts.length - 1 && n > 0 ? text.lastIndexOf(part) : text.indexOf(part, at)
    if (found < at || (n === 0 && found !== 0)) return false
    at = found + part.length
  }
  return at === text.length || parts.at(-1) === ''
}

function lowerCase(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase())
}

interface Entries {
  readonly sql: string
  readonly values: readonly Value[]
}

/** Entries of the ranges in one order, the newest first. */
function entriesOf({ index, columns, ranges }: Source, place: Conditions, most: number): Entries {
  const from = index === 'request_tag' ? index : `request_log INDEXED BY ${index}`
  const shown = ['seq', 'at', ...columns].join(', ')
  const found = ranges.map((range) => {
    const conditions = new Conditions()
    for (const [column, value] of Object.entries(range)) conditions.add(`${column} = ?`, value)
    const partial = partialIndexes[index]
    if (partial !== undefined) conditions.add(partial)
    const whole = conditions.and(place)
    return {
      sql: `SELECT ${shown} FROM ${from} ${whole.text} ORDER BY at DESC, seq DESC LIMIT ?`,
      values: [...whole.values, most],
    }
  })
  const [only] = found
  if (found.length === 1 && only) return only
  return {
    sql: `${found.map((range, n) => `SELECT * FROM (${range.sql}) AS range${n}`).join(' UNION ALL ')} ORDER BY at DESC, seq DESC LIMIT ?`,
    values: [...found.flatMap(({ values }) => values), most],
  }
}

/** What an index is of, where no range says so. */
const partialIndexes: Readonly<Record<string, string>> = {
  request_log_code: 'code IS NOT NULL',
  request_log_fault: 'code IS NOT NULL',
  request_log_outcome: 'code IS NOT NULL',
  request_log_key: 'key IS NOT NULL',
  request_log_provider: 'provider IS NOT NULL',
}

/** Conditions of a query, with their parameters in order. */
class Conditions {
  readonly #parts: string[] = []
  readonly values: Value[] = []

  get text(): string {
    return this.#parts.length === 0 ? '' : `WHERE ${this.#parts.join(' AND ')}`
  }

  add(condition: string, ...values: readonly Value[]): void {
    this.#parts.push(condition)
    this.values.push(...values)
  }

  /** These and those. */
  and(others: Conditions): Conditions {
    const both = new Conditions()
    both.#parts.push(...this.#parts, ...others.#parts)
    both.values.push(...this.values, ...others.values)
    return both
  }
}

const rowOf = recordReader<Row<'requestLog'>>()({
  seq: Number,
  at: Number,
  stream: isSet,
  status: Number,
  prompt_tokens: Number,
  completion_tokens: Number,
  attempts: Number,
  first_byte_ms: numberOrNull,
  total_ms: Number,
})
