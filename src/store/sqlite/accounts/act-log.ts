// The log of operators' acts on SQLite. The table refuses updates and deletes.

import type { Database, Statement } from 'bun:sqlite'
import type { Act, ActLog, LoggedAct } from '../../../accounts/identity/identity-store.ts'
import { writing } from './account-store.ts'
import { reading } from '../database/outage.ts'

interface ActRow {
  readonly seq: bigint
  readonly at: bigint
  readonly operator: string
  readonly what: string
  readonly subject: string
  readonly before: string | null
  readonly after: string | null
}

const largestPage = 1_000

export class SqliteActs implements ActLog {
  readonly #insert: Statement
  readonly #page: Statement<ActRow, [number, number]>

  constructor(database: Database) {
    this.#insert = database.prepare(
      'INSERT INTO act (at, operator, what, subject, before, after) VALUES (?,?,?,?,?,?)',
    )
    this.#page = database.prepare<ActRow, [number, number]>(
      'SELECT * FROM act WHERE seq < ? ORDER BY seq DESC LIMIT ?',
    )
  }

  record({ at, operator, what, subject, before, after }: Act): void {
    writing(() => this.#insert.run(at, operator, what, subject, jsonOf(before), jsonOf(after)))
  }

  page(limit: number, before: number = Number.MAX_SAFE_INTEGER): readonly LoggedAct[] {
    return reading(() => this.#page.all(before, Math.min(limit, largestPage))).map(actOf)
  }
}

function jsonOf(state: unknown): string | null {
  return state === null || state === undefined ? null : JSON.stringify(state)
}

function actOf(row: ActRow): LoggedAct {
  return {
    seq: Number(row.seq),
    at: Number(row.at),
    operator: row.operator,
    what: row.what,
    subject: row.subject,
    before: row.before === null ? null : (JSON.parse(row.before) as unknown),
    after: row.after === null ? null : (JSON.parse(row.after) as unknown),
  }
}
