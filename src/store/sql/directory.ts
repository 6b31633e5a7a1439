// Pages of accounts with what each has and does, for operators. In the order of an index a page is read at once; what has
// to look at every account is done beside the calls.

import {
  type AccountDirectory,
  type AccountEntry,
  type AccountPage,
  type AccountQuery,
  type AccountSort,
  publicIdOf,
} from '../../accounts/account.ts'
import type { Awaitable } from '../../async/async.ts'
import { monthlySource, startOfMonth, startOfNextMonth } from '../../credits/calendar.ts'
import { formatMinor, formatUsd } from '../../credits/money.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { Finder, Found } from '../../observe/search.ts'
import { processorIds } from '../../payments/top-up.ts'
import { hashOfCode } from '../../payments/vouchers.ts'
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

// What operators find by a piece of text. Each kind is looked up in an index: of millions of rows a few are read.

interface FoundRow {
  readonly kind: Found['kind']
  readonly id: string
  readonly title: string | bigint | null
  readonly account: string | null
  readonly email: string | null
  readonly at: bigint
  readonly state: string
}

/** Beyond all characters that an address may have. */
const last = '\u{10ffff}'

export interface FinderParts {
  readonly tables: Tables
  readonly clock: () => number
  /** The last calls with an id that a provider gave; where to look for that differs between the databases. */
  readonly byUpstreamId: Statement<{ readonly seq: bigint }>
}

export class SqlFinder implements Finder {
  readonly #parts: FinderParts

  constructor(parts: FinderParts) {
    this.#parts = parts
  }

  find(text: string, most: number): Awaitable<readonly Found[]> {
    const { tables, clock, byUpstreamId } = this.#parts
    return tables.do(() => search(text, most, clock(), byUpstreamId))
  }
}

function* search(
  text: string,
  most: number,
  now: number,
  byUpstreamId: FinderParts['byUpstreamId'],
): Work<readonly Found[]> {
  const address = text.toLowerCase()
  const end = text.replace(/^(…|\.{3})/, '')
  const request = text.replace(/^(resp|int)_/, 'req_')
  const key = publicIdOf(text) ?? text
  const code = hashOfCode(text)
  const rows = [
    ...(yield* statements.account.all(text)),
    ...(yield* statements.accounts.all(address, `${address}${last}`, most)),
    ...(yield* statements.keys.all(now, key)),
    ...(yield* statements.keysEnding.all(now, end, most)),
    ...(yield* statements.managementKeys.all(now, key)),
    ...(yield* statements.managementKeysEnding.all(now, end, most)),
    ...(yield* statements.requests.all(request, most)),
  ]
  for (const processor of processorIds) rows.push(...(yield* statements.paid.all(processor, text)))
  for (const processor of processorIds) rows.push(...(yield* statements.referred.all(processor, text)))
  rows.push(...(yield* statements.payments.all(text)), ...(yield* statements.vouchers.all(text)))
  if (code !== undefined) rows.push(...(yield* statements.codes.all(code)))
  // A call that the log holds no more, or by the id that its provider gave it.
  if (rows.length === 0) rows.push(...(yield* statements.calls.all(request)))
  if (rows.length === 0 && /^[\w.:-]{8,200}$/.test(text))
    for (const { seq } of yield* byUpstreamId.all(text)) rows.push(...(yield* statements.numbered.all(seq)))
  const seen = new Set<string>()
  return rows.map(foundOf).filter(({ kind, id }) => {
    const name = `${kind} ${id}`
    return !seen.has(name) && seen.add(name)
  })
}

function foundOf({ kind, id, title, account, email, at, state }: FoundRow): Found {
  return {
    kind,
    id,
    title: titleOf(kind, String(title ?? '')),
    account: account === null || account === '' ? null : { id: account, email: email ?? '' },
    at: Number(at),
    state,
  }
}

/** Amounts come as the database has them. */
function titleOf(kind: Found['kind'], title: string): string {
  if (kind === 'voucher') return `${formatUsd(BigInt(title))} USD`
  if (kind !== 'payment') return title
  const [amount = '', currency = ''] = title.split(' ')
  return `${formatMinor(BigInt(amount), currency)} ${currency}`
}

const statements = makeStatements()

function makeStatements() {
  const of = (text: string) => sql<FoundRow>(text)
  const account = `SELECT 'account' AS kind, id, email AS title, id AS account, email, created_at AS at,
    CASE WHEN deleted_at IS NOT NULL THEN 'deleted' WHEN suspended = 1 THEN 'suspended' ELSE 'active' END AS state FROM account`
  const withAccount = (table: string) => `LEFT JOIN account ON account.id = ${table}.account`
  const key = (kind: string, table: string) =>
    `SELECT '${kind}' AS kind, ${table}.id, name || ' …' || last_four AS title, account, email, ${table}.created_at AS at,
       CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= ? THEN 'expired' ELSE 'active' END AS state
     FROM ${table} ${withAccount(table)}`
  const request = `SELECT 'request' AS kind, request_id AS id, model AS title, account, email, at,
    coalesce(code, 'served') AS state FROM request_log ${withAccount('request_log')}`
  const call = `SELECT 'request' AS kind, call.id, model AS title, account, email, ended_at AS at,
    ending AS state FROM call ${withAccount('call')}`
  const payment = `SELECT 'payment' AS kind, top_up.id, CAST(amount AS text) || ' ' || currency AS title, account, email,
    top_up.created_at AS at, state FROM top_up ${withAccount('top_up')}`
  const voucher = `SELECT 'voucher' AS kind, voucher.id, amount AS title, account, email, voucher.created_at AS at,
    CASE WHEN redeemed_at IS NOT NULL THEN 'redeemed' WHEN revoked_at IS NOT NULL THEN 'revoked' ELSE 'open' END AS state
    FROM voucher ${withAccount('voucher')}`
  return {
    account: of(`${account} WHERE id = ?`),
    accounts: of(`${account} WHERE email >= ? AND email < ? ORDER BY email LIMIT ?`),
    keys: of(`${key('key', 'api_key')} WHERE api_key.id = ?`),
    keysEnding: of(`${key('key', 'api_key')} WHERE last_four = ? LIMIT ?`),
    managementKeys: of(`${key('management_key', 'management_key')} WHERE management_key.id = ?`),
    managementKeysEnding: of(`${key('management_key', 'management_key')} WHERE last_four = ? LIMIT ?`),
    requests: of(`${request} WHERE request_id = ? ORDER BY seq DESC LIMIT ?`),
    calls: of(`${call} WHERE call.id = ?`),
    numbered: of(`${call} WHERE call.seq = ?`),
    payments: of(`${payment} WHERE top_up.id = ?`),
    paid: of(`${payment} WHERE processor = ? AND payment_id = ?`),
    referred: of(`${payment} WHERE processor = ? AND reference = ?`),
    vouchers: of(`${voucher} WHERE voucher.id = ?`),
    codes: of(`${voucher} WHERE voucher.hash = ?`),
  }
}
