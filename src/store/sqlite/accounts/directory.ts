// Pages of accounts with what each has and does, for operators. In the order of an index a page is read at once; what has
// to look at every account is done beside the calls.

import type { Database } from 'bun:sqlite'
import type {
  AccountDirectory,
  AccountEntry,
  AccountPage,
  AccountQuery,
  AccountSort,
} from '../../../accounts/account.ts'
import { startOfMonth } from '../../../credits/calendar.ts'
import { GatewayError } from '../../../errors/errors.ts'
import { orUnavailable } from '../database/sqlite.ts'
import { numberOrNull } from '../../sql/work.ts'
import type { Row } from '../../schema.ts'
import { accountOf } from './account-store.ts'

type EntryRow = Row<'account'> & {
  readonly place: bigint
  readonly value: bigint | string
}
type Value = string | number | bigint

type Beside = (query: AccountQuery, signal?: AbortSignal) => Promise<AccountPage>

export class SqliteDirectory implements AccountDirectory {
  readonly #database: Database
  readonly #beside: Beside | undefined

  /** `beside` makes the pages that look at every account; here, if left out. */
  constructor(database: Database, beside?: Beside) {
    this.#database = database
    this.#beside = beside
  }

  async page(query: AccountQuery, signal?: AbortSignal): Promise<AccountPage> {
    // Here, where its refusal is one of the request.
    if (query.after !== undefined) orUnavailable(() => placeOf(this.#database, query.after!, query.sort))
    const isIndexed = query.sort === 'opened' || query.sort === 'email'
    const isFiltered = query.q !== undefined || query.state !== undefined
    if (this.#beside !== undefined && (!isIndexed || isFiltered)) return this.#beside(query, signal)
    return orUnavailable(() => pageOf(this.#database, query))
  }
}

/** What an account is sorted by. */
const values: Readonly<Record<AccountSort, string>> = {
  opened: 'account.rowid',
  email: 'account.email',
  balance: `coalesce((SELECT posted - debt FROM wallet WHERE wallet.account = account.id AND pool = 'purchased'), 0)`,
  spent: 'coalesce(spent.charged, 0)',
  used: `coalesce((SELECT max(at) FROM request_log WHERE request_log.account = account.id),
    (SELECT max(day) FROM usage_day WHERE usage_day.account = account.id), 0)`,
}

const states: Readonly<Record<NonNullable<AccountQuery['state']>, string>> = {
  active: 'NOT suspended AND email_verified_at IS NOT NULL',
  suspended: 'suspended',
  unverified: 'NOT suspended AND email_verified_at IS NULL',
}

/** One page. Throws `invalid_request` for a cursor of another list. */
export function pageOf(database: Database, query: AccountQuery): AccountPage {
  const { sort, order, limit, after, q, state, now } = query
  const month = startOfMonth(now)
  const given: Value[] = []
  const conditions = ['deleted_at IS NULL']
  if (state !== undefined) conditions.push(states[state])
  if (q !== undefined) {
    conditions.push('(instr(email, ?) > 0 OR instr(id, ?) > 0)')
    given.push(q, q)
  }
  const value = values[sort]
  const [direction, beyond] = order === 'asc' ? ['ASC', '>'] : ['DESC', '<']
  if (after !== undefined) {
    const [last, place] = placeOf(database, after, sort)
    // The row itself decides among equal values; of the others no two are equal.
    if (sort === 'opened' || sort === 'email') {
      conditions.push(`${value} ${beyond} ?`)
      given.push(last)
    } else {
      conditions.push(`(${value}, account.rowid) ${beyond} (?, ?)`)
      given.push(last, place)
    }
  }
  const spent =
    sort === 'spent'
      ? `LEFT JOIN (SELECT account, sum(charged) AS charged FROM usage_month WHERE month = ${month} GROUP BY account)
         AS spent ON spent.account = account.id`
      : ''
  const rows = database
    .query<EntryRow, Value[]>(
      `SELECT account.*, account.rowid AS place, ${value} AS value FROM account ${spent}
       WHERE ${conditions.join(' AND ')} ORDER BY value ${direction}, account.rowid ${direction} LIMIT ${limit + 1}`,
    )
    .all(...given)
  const shown = rows.slice(0, limit)
  const last = rows.length > limit ? shown.at(-1) : undefined
  return {
    accounts: shown.map((row) => entryOf(database, row, month)),
    next: last === undefined ? null : cursorOf(last, sort),
  }
}

function cursorOf(row: EntryRow, sort: AccountSort): string {
  return sort === 'opened' || sort === 'email' ? row.id : `${row.value}~${row.id}`
}

function placeOf(
  database: Database,
  cursor: string,
  sort: AccountSort,
): readonly [value: Value, place: bigint] {
  const [id, value] = cursor.split('~').toReversed()
  const row = database
    .query<{ place: bigint; email: string }, [string]>(
      'SELECT rowid AS place, email FROM account WHERE id = ?',
    )
    .get(id ?? '')
  const isValue = value !== undefined && /^-?\d{1,19}$/.test(value)
  if (row && sort === 'opened' && value === undefined) return [row.place, row.place]
  if (row && sort === 'email' && value === undefined) return [row.email, row.place]
  if (row && isValue && sort !== 'opened' && sort !== 'email') return [BigInt(value), row.place]
  const message = 'cursor takes the next_cursor of the page before.'
  throw new GatewayError('invalid_request', { message, param: 'cursor' })
}

function entryOf(database: Database, row: EntryRow, month: number): AccountEntry {
  const read = (sql: string, ...given: Value[]) =>
    database.query<{ value: bigint | null }, Value[]>(sql).get(...given)?.value ?? null
  return {
    ...accountOf(row),
    balance:
      read(`SELECT posted - debt AS value FROM wallet WHERE account = ? AND pool = 'purchased'`, row.id) ??
      0n,
    spent:
      read('SELECT sum(charged) AS value FROM usage_month WHERE month = ? AND account = ?', month, row.id) ??
      0n,
    usedAt: numberOrNull(
      read('SELECT max(at) AS value FROM request_log WHERE account = ?', row.id) ??
        read('SELECT max(day) AS value FROM usage_day WHERE account = ?', row.id),
    ),
  }
}
