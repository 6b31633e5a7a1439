// Pages of accounts with what each has and does, for operators. In the order of an index a page is read at once; what has
// to look at every account is done beside the calls.

import type {
  AccountDirectory,
  AccountEntry,
  AccountPage,
  AccountQuery,
  AccountSort,
} from '../../accounts/account.ts'
import { startOfMonth, startOfNextMonth } from '../../credits/calendar.ts'
import { monthlySource } from '../../credits/monthly-credit.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { Row } from '../schema.ts'
import { accountOf } from './account-store.ts'
import { numberOrNull, sql, type Statement, type Tables, type Work } from './work.ts'

type EntryRow = Row<'account'> & {
  readonly place: bigint
  readonly value: bigint | string
}
type Value = string | number | bigint

type Beside = (query: AccountQuery, signal?: AbortSignal) => Promise<AccountPage>

export class SqlDirectory implements AccountDirectory {
  readonly #tables: Tables
  readonly #beside: Beside | undefined

  /** `beside` makes the pages that look at every account; the database itself, if left out. */
  constructor(tables: Tables, beside?: Beside) {
    this.#tables = tables
    this.#beside = beside
  }

  async page(query: AccountQuery, signal?: AbortSignal): Promise<AccountPage> {
    const { after, sort } = query
    const isIndexed = sort === 'opened' || sort === 'email'
    const isFiltered = query.q !== undefined || query.state !== undefined
    if (this.#beside === undefined || (isIndexed && !isFiltered))
      return this.#tables.reads(() => pageOf(query), signal)
    // Here, where its refusal is one of the request.
    if (after !== undefined) await this.#tables.do(() => placeOf(after, sort))
    return this.#beside(query, signal)
  }
}

/** What an account is sorted by; `monthEnd` is when the credit of this month ends. */
const valuesIn = (monthEnd: number): Readonly<Record<AccountSort, string>> => ({
  opened: 'account.rowid',
  email: 'account.email',
  // With the credit of the month, which is granted with the first call of it.
  balance: `coalesce((SELECT posted - debt FROM wallet WHERE wallet.account = account.id AND pool = 'purchased'), 0)
    + CASE WHEN monthly_credit > 0 AND suspended = 0 AND NOT EXISTS (SELECT 1 FROM lot WHERE lot.account = account.id
      AND pool = 'purchased' AND expires_at = ${monthEnd} AND source LIKE 'monthly:%') THEN monthly_credit ELSE 0 END`,
  spent: 'coalesce(spent.charged, 0)',
  used: `coalesce((SELECT max(at) FROM request_log WHERE request_log.account = account.id),
    (SELECT max(day) FROM usage_day WHERE usage_day.account = account.id), 0)`,
})

const states: Readonly<Record<NonNullable<AccountQuery['state']>, string>> = {
  active: 'suspended = 0 AND email_verified_at IS NOT NULL',
  suspended: 'suspended = 1',
  unverified: 'suspended = 0 AND email_verified_at IS NULL',
}

/** One page. Throws `invalid_request` for a cursor of another list. */
export function* pageOf(query: AccountQuery): Work<AccountPage> {
  const { sort, order, limit, after, q, state, now } = query
  const month = startOfMonth(now)
  const given: Value[] = []
  const conditions = ['deleted_at IS NULL']
  let spent = ''
  if (sort === 'spent') {
    spent = `LEFT JOIN (SELECT account, CAST(sum(charged) AS bigint) AS charged FROM usage_month WHERE month = ?
      GROUP BY account) AS spent ON spent.account = account.id`
    given.push(month)
  }
  if (state !== undefined) conditions.push(states[state])
  if (q !== undefined) {
    conditions.push(String.raw`(email LIKE ? ESCAPE '\' OR id LIKE ? ESCAPE '\')`)
    const containing = `%${q.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`
    given.push(containing, containing)
  }
  const value = valuesIn(startOfNextMonth(now))[sort]
  const [direction, beyond] = order === 'asc' ? ['ASC', '>'] : ['DESC', '<']
  if (after !== undefined) {
    const [last, place] = yield* placeOf(after, sort)
    // The row itself decides among equal values; of the others no two are equal.
    if (sort === 'opened' || sort === 'email') {
      conditions.push(`${value} ${beyond} ?`)
      given.push(last)
    } else {
      conditions.push(`(${value}, account.rowid) ${beyond} (?, ?)`)
      given.push(last, place)
    }
  }
  const statement = pageStatement(
    `SELECT account.*, account.rowid AS place, ${value} AS value FROM account ${spent}
     WHERE ${conditions.join(' AND ')} ORDER BY value ${direction}, place ${direction} LIMIT ?`,
  )
  const rows = yield* statement.all(...given, limit + 1)
  const shown = rows.slice(0, limit)
  const last = rows.length > limit ? shown.at(-1) : undefined
  const accounts = yield* entriesOf(shown, month, yield* dueOf(shown, now))
  return { accounts, next: last === undefined ? null : cursorOf(last, sort) }
}

const pageStatements = new Map<string, Statement<EntryRow>>()

/** One for each order and set of conditions that is asked for: there are few. */
function pageStatement(text: string): Statement<EntryRow> {
  const made = pageStatements.get(text) ?? sql<EntryRow>(text)
  pageStatements.set(text, made)
  return made
}

function cursorOf(row: EntryRow, sort: AccountSort): string {
  return sort === 'opened' || sort === 'email' ? row.id : `${row.value}~${row.id}`
}

function* placeOf(cursor: string, sort: AccountSort): Work<readonly [value: Value, place: bigint]> {
  const [id, value] = cursor.split('~').toReversed()
  const row = yield* place.first(id ?? '')
  const isValue = value !== undefined && /^-?\d{1,19}$/.test(value)
  if (row && sort === 'opened' && value === undefined) return [row.place, row.place]
  if (row && sort === 'email' && value === undefined) return [row.email, row.place]
  if (row && isValue && sort !== 'opened' && sort !== 'email') return [BigInt(value), row.place]
  const message = 'cursor takes the next_cursor of the page before.'
  throw new GatewayError('invalid_request', { message, param: 'cursor' })
}

const place = sql<{ readonly place: bigint; readonly email: string }>(
  'SELECT rowid AS place, email FROM account WHERE id = ?',
)

/** Accounts of these whose credit of the month is granted with their next call: none of those that have had it. */
function* dueOf(rows: readonly EntryRow[], now: number): Work<ReadonlySet<string>> {
  const wanting = rows.filter((row) => (row.monthly_credit ?? 0n) > 0n && row.suspended === 0n)
  if (wanting.length === 0) return new Set()
  const sourceOf = ({ email }: EntryRow) => monthlySource(email, now)
  const had = new Set((yield* granted.all(JSON.stringify(wanting.map(sourceOf)))).map(({ source }) => source))
  return new Set(wanting.filter((row) => !had.has(sourceOf(row))).map(({ id }) => id))
}

const granted = sql<{ readonly source: string }>('SELECT source FROM lot WHERE source IN LIST(?)')

function* entriesOf(
  rows: readonly EntryRow[],
  month: number,
  due: ReadonlySet<string>,
): Work<readonly AccountEntry[]> {
  const found = yield* figures.all(month, JSON.stringify(rows.map(({ id }) => id)))
  const figuresOf = new Map(found.map((row) => [row.id, row]))
  return rows.map((row) => {
    const { balance = null, spent = null, used = null } = figuresOf.get(row.id) ?? {}
    const coming = due.has(row.id) ? (row.monthly_credit ?? 0n) : 0n
    return {
      ...accountOf(row),
      balance: (balance ?? 0n) + coming,
      spent: spent ?? 0n,
      usedAt: numberOrNull(used),
    }
  })
}

interface Figures {
  readonly id: string
  readonly balance: bigint | null
  readonly spent: bigint | null
  readonly used: bigint | null
}

const figures = sql<Figures>(
  `SELECT id,
     (SELECT posted - debt FROM wallet WHERE wallet.account = account.id AND pool = 'purchased') AS balance,
     (SELECT CAST(sum(charged) AS bigint) FROM usage_month
      WHERE month = ?1 AND usage_month.account = account.id) AS spent,
     coalesce((SELECT max(at) FROM request_log WHERE request_log.account = account.id),
       (SELECT max(day) FROM usage_day WHERE usage_day.account = account.id)) AS used
   FROM account WHERE id IN LIST(?2)`,
)
