// Pages of the request log. An index has what every filter asks for, so that a page is found without reading the rows
// in between, in steps that leave the event loop to others.

import type { Database, Statement } from 'bun:sqlite'
import type {
  LoggedRequest,
  RequestPage,
  RequestPlace,
  RequestQuery,
  RequestReader,
} from '../../../observe/call-log.ts'
import { isSet, numberOrNull, orUnavailable, recordReader } from '../database/sqlite.ts'
import type { Row } from '../../schema.ts'

/** Entries of an index that one step looks at: about 2 ms. */
const entriesPerStep = 10_000
/** In the first step, which is taken on the event loop: what is not there soon is looked for beside it. */
const firstEntries = 2_000
/** Steps of one page. A log that is longer than so many entries gives a short page. */
const stepsPerPage = 500
/** With the conditions of a test key each entry costs another look-up. */
const testEntriesPerStep = 2_000
/** Keys of a line that are read side by side; of a longer line, all that its account has called is looked at. */
const keysTogether = 32

/** Conditions on the keys whose calls a viewer may see. */
export const keyIsIn = 'key IN (SELECT value FROM json_each(?))'
export const keyOfMode = 'EXISTS (SELECT 1 FROM api_key WHERE api_key.id = key AND api_key.mode = ?)'

/** The key and all that replaced it. */
export const keysOfLine =
  'SELECT id FROM api_key WHERE id = ?1 UNION SELECT id FROM api_key WHERE lineage = ?1'

type Value = string | number

export class SqliteRequestReader implements RequestReader {
  readonly #database: Database
  readonly #statements = new Map<string, Statement<Row<'requestLog'>, Value[]>>()
  readonly #beside: ((query: RequestQuery, signal?: AbortSignal) => Promise<RequestPage>) | undefined
  readonly #perStep: number
  readonly #steps: number

  /** `beside` goes on with a page after its first step; here, if left out. */
  constructor(
    database: Database,
    beside?: (query: RequestQuery, signal?: AbortSignal) => Promise<RequestPage>,
    perStep = entriesPerStep,
    steps = stepsPerPage,
  ) {
    this.#database = database
    this.#beside = beside
    this.#perStep = perStep
    this.#steps = steps
  }

  async page(query: RequestQuery, signal?: AbortSignal): Promise<RequestPage> {
    const { limit, after = null } = query
    if (!this.#beside) {
      const run = this.pageSteps(query)
      for (;;) {
        const step = orUnavailable(() => run.next())
        if (step.done) return step.value
        await new Promise((resolve) => setImmediate(resolve))
      }
    }
    const first = orUnavailable(() => this.#step(query, after, limit, Math.min(firstEntries, this.#perStep)))
    if (first.next === null || first.rows.length === limit) return first
    const rest = { ...query, limit: limit - first.rows.length, after: first.next }
    const page = await this.#beside(rest, signal)
    return { rows: [...first.rows, ...page.rows], next: page.next }
  }

  /** A page, at the end of its steps. */
  *pageSteps(query: RequestQuery): Generator<undefined, RequestPage> {
    const { limit } = query
    const rows: LoggedRequest[] = []
    let after = query.after ?? null
    for (let step = 1; ; step++) {
      const found = this.#step(query, after, limit - rows.length, this.#perStep)
      rows.push(...found.rows)
      after = found.next
      if (rows.length === limit || after === null || step === this.#steps) return { rows, next: after }
      yield
    }
  }

  find(requestId: string, account?: string): LoggedRequest | undefined {
    const where = new Conditions()
    where.equal('request_id', requestId)
    where.equal('account', account)
    const statement = this.#statement(`SELECT * FROM request_log ${where.text} ORDER BY seq DESC LIMIT 1`)
    const row = orUnavailable(() => statement.get(...where.values))
    return row ? rowOf(row) : undefined
  }

  #step(query: RequestQuery, after: RequestPlace | null, limit: number, entriesAtOnce: number): RequestPage {
    const { account, model, code, channel, mode } = query
    const keys = this.#keysOf(query)
    if (keys?.length === 0 || (keys !== undefined && channel === 'app')) return { rows: [], next: null }
    const byKey = keys !== undefined && keys.length <= keysTogether
    const [inner, outer] = [new Conditions(), new Conditions()]
    const byCode = !byKey && account !== undefined && code !== undefined
    if (byKey) outer.equal('account', account)
    else {
      inner.equal('account', account)
      outer.add(keyIsIn, keys && JSON.stringify(keys))
    }
    if (byCode) inner.equal('code', code)
    else outer.equal('code', code)
    outer.equal('model', model)
    outer.add(keyOfMode, mode)
    if (channel !== undefined) outer.is(channel === 'app' ? 'key IS NULL' : 'key IS NOT NULL')
    inner.add('at >= ?', query.from)
    inner.add('at < ?', query.until)
    if (after) inner.place(after)
    const most = mode === undefined ? entriesAtOnce : Math.min(entriesAtOnce, testEntriesPerStep)
    const perStep = outer.text === '' ? limit : most
    const index = byCode
      ? 'request_log_code'
      : account === undefined
        ? 'request_log_at'
        : 'request_log_account'
    const entries = byKey
      ? ofKeys(keys, inner, perStep)
      : newest('seq, at, key, model, code', index, inner, perStep)
    const rows = this.#statement(
      `SELECT request_log.* FROM (SELECT seq FROM (${entries.sql}) ${outer.text} LIMIT ?) AS found
       CROSS JOIN request_log ON request_log.seq = found.seq`,
    )
      .all(...entries.values, ...outer.values, limit)
      .map(rowOf)
    const last = rows.at(-1)
    if (rows.length === limit && last) return { rows, next: { at: last.at, seq: last.seq } }
    if (outer.text === '') return { rows, next: null }
    const end = this.#statement(`SELECT * FROM (${entries.sql}) LIMIT 1 OFFSET ?`).get(
      ...entries.values,
      perStep - 1,
    )
    return { rows, next: end ? { at: Number(end.at), seq: Number(end.seq) } : null }
  }

  /** The only keys whose calls are asked for; undefined for any. */
  #keysOf({ key, line }: RequestQuery): readonly string[] | undefined {
    if (line === undefined) return key === undefined ? undefined : [key]
    const keys = (this.#statement(keysOfLine) as Statement<unknown, Value[]>).all(line) as { id: string }[]
    const ids = keys.map(({ id }) => id)
    return key === undefined ? ids : ids.filter((id) => id === key)
  }

  #statement(sql: string): Statement<Row<'requestLog'>, Value[]> {
    const known = this.#statements.get(sql)
    if (known) return known
    const made = this.#database.prepare<Row<'requestLog'>, Value[]>(sql)
    this.#statements.set(sql, made)
    return made
  }
}

interface Entries {
  readonly sql: string
  readonly values: readonly Value[]
}

/** Entries of an index, the newest first. */
function newest(columns: string, index: string, conditions: Conditions, most: number): Entries {
  return {
    sql: `SELECT ${columns} FROM request_log INDEXED BY ${index} ${conditions.text} ORDER BY at DESC, seq DESC LIMIT ?`,
    values: [...conditions.values, most],
  }
}

/** Those of several keys, in one order. */
function ofKeys(keys: readonly string[], conditions: Conditions, most: number): Entries {
  const each = keys.map((key) => {
    const ofKey = new Conditions()
    ofKey.equal('key', key)
    return newest('seq, at, key, account, model, code', 'request_log_key', ofKey.and(conditions), most)
  })
  const [only] = each
  if (each.length === 1 && only) return only
  return {
    sql: `${each.map(({ sql }) => `SELECT * FROM (${sql})`).join(' UNION ALL ')} ORDER BY at DESC, seq DESC LIMIT ?`,
    values: [...each.flatMap(({ values }) => values), most],
  }
}

/** The conditions of a query, with their parameters in order. */
class Conditions {
  readonly #parts: string[] = []
  readonly values: Value[] = []

  get text(): string {
    return this.#parts.length === 0 ? '' : `WHERE ${this.#parts.join(' AND ')}`
  }

  add(condition: string, value: Value | undefined): void {
    if (value === undefined) return
    this.#parts.push(condition)
    this.values.push(value)
  }

  /** These and those. */
  and(others: Conditions): Conditions {
    const both = new Conditions()
    both.#parts.push(...this.#parts, ...others.#parts)
    both.values.push(...this.values, ...others.values)
    return both
  }

  is(condition: string): void {
    this.#parts.push(condition)
  }

  equal(column: 'account' | 'key' | 'model' | 'code' | 'request_id', value: string | undefined): void {
    this.add(`${column} = ?`, value)
  }

  place({ at, seq }: RequestPlace): void {
    this.#parts.push('(at, seq) < (?, ?)')
    this.values.push(at, seq)
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
