// Pages of the request log: each looks at a bounded number of rows whatever its filters.

import type { Database, Statement } from 'bun:sqlite'
import type {
  LoggedRequest,
  RequestPage,
  RequestPlace,
  RequestQuery,
  RequestReader,
} from '../../../observe/request-log.ts'
import { reading } from '../database/outage.ts'

/**
 * Rows that one page looks at. SQLite reads on the event loop: 2,000 rows take about 5 ms. A filter that matches fewer
 * than a page of them returns a short page and where to continue.
 */
const rowsPerPage = 2_000

/** Made with a key that a viewer may see the calls of. */
export const keyOfLine = 'key IN (SELECT api_key.id FROM api_key WHERE ? IN (api_key.id, api_key.lineage))'
export const keyOfMode = 'EXISTS (SELECT 1 FROM api_key WHERE api_key.id = key AND api_key.mode = ?)'

type Value = string | number

interface StoredRow {
  readonly seq: bigint
  readonly request_id: string
  readonly at: bigint
  readonly account: string
  readonly key: string | null
  readonly model: string
  readonly provider: string | null
  readonly stream: bigint
  readonly status: bigint
  readonly code: string | null
  readonly ending: string | null
  readonly prompt_tokens: bigint
  readonly completion_tokens: bigint
  readonly cost: bigint
  readonly attempts: bigint
  readonly first_byte_ms: bigint | null
  readonly total_ms: bigint
  readonly detail: string | null
  readonly contents: string | null
}

export class SqliteRequestReader implements RequestReader {
  readonly #database: Database
  readonly #statements = new Map<string, Statement<StoredRow, Value[]>>()
  readonly #scan: number

  constructor(database: Database, scan = rowsPerPage) {
    this.#database = database
    this.#scan = scan
  }

  page(query: RequestQuery): RequestPage {
    const inner = new Conditions()
    // Conditions with an index are searched, the others are filtered.
    inner.equal('account', query.account)
    if (query.account !== undefined) inner.equal('code', query.code)
    inner.add('at >= ?', query.from)
    inner.add('at < ?', query.until)
    if (query.after) inner.place(query.after)
    const outer = new Conditions()
    outer.equal('key', query.key)
    outer.add(keyOfLine, query.line)
    outer.add(keyOfMode, query.mode)
    outer.equal('model', query.model)
    if (query.account === undefined) outer.equal('code', query.code)
    const newest = `SELECT * FROM request_log ${inner.text} ORDER BY at DESC, seq DESC LIMIT ?`
    return reading(() => {
      const found = this.#statement(`SELECT * FROM (${newest}) ${outer.text} LIMIT ?`)
        .all(...inner.values, this.#scan, ...outer.values, query.limit)
        .map(rowOf)
      return { rows: found, next: this.#next(found, query.limit, newest, inner.values) }
    })
  }

  find(requestId: string, account?: string): LoggedRequest | undefined {
    const where = new Conditions()
    where.equal('request_id', requestId)
    where.equal('account', account)
    const statement = this.#statement(`SELECT * FROM request_log ${where.text} ORDER BY seq DESC LIMIT 1`)
    const row = reading(() => statement.get(...where.values))
    return row ? rowOf(row) : undefined
  }

  /** After the last row of a full page, otherwise after the last row looked at; null at the end. */
  #next(
    found: readonly LoggedRequest[],
    limit: number,
    newest: string,
    values: readonly Value[],
  ): RequestPlace | null {
    const last = found.at(-1)
    if (found.length === limit && last) return { at: last.at, seq: last.seq }
    const row = this.#statement(`${newest} OFFSET ?`).get(...values, 1, this.#scan - 1)
    return row ? { at: Number(row.at), seq: Number(row.seq) } : null
  }

  #statement(sql: string): Statement<StoredRow, Value[]> {
    const known = this.#statements.get(sql)
    if (known) return known
    const made = this.#database.prepare<StoredRow, Value[]>(sql)
    this.#statements.set(sql, made)
    return made
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

  equal(column: 'account' | 'key' | 'model' | 'code' | 'request_id', value: string | undefined): void {
    this.add(`${column} = ?`, value)
  }

  place({ at, seq }: RequestPlace): void {
    this.#parts.push('at <= ? AND (at < ? OR seq < ?)')
    this.values.push(at, at, seq)
  }
}

function rowOf(row: StoredRow): LoggedRequest {
  return {
    seq: Number(row.seq),
    requestId: row.request_id,
    at: Number(row.at),
    account: row.account,
    key: row.key,
    model: row.model,
    provider: row.provider,
    stream: row.stream === 1n,
    status: Number(row.status),
    code: row.code,
    ending: row.ending,
    promptTokens: Number(row.prompt_tokens),
    completionTokens: Number(row.completion_tokens),
    cost: row.cost,
    attempts: Number(row.attempts),
    firstByteMs: row.first_byte_ms === null ? null : Number(row.first_byte_ms),
    totalMs: Number(row.total_ms),
    detail: row.detail,
    contents: row.contents,
  }
}
