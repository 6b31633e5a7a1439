// What operators find by a piece of text. Each kind is looked up in an index: of millions of rows a few are read.

import type { Database } from 'bun:sqlite'
import { publicIdOf } from '../../accounts/account.ts'
import { formatUsd } from '../../credits/money.ts'
import type { Finder, Found } from '../../observe/search.ts'
import { formatMinor, processorIds } from '../../payments/top-up.ts'
import { hashOfCode } from '../../payments/vouchers.ts'
import { orUnavailable, whenNeeded } from './database/sqlite.ts'

interface FoundRow {
  readonly kind: Found['kind']
  readonly id: string
  readonly title: string | null
  readonly account: string | null
  readonly email: string | null
  readonly at: bigint
  readonly state: string
}

/** Beyond all characters that an address may have. */
const last = '\u{10ffff}'

export class SqliteFinder implements Finder {
  readonly #sql: () => ReturnType<typeof statements>
  readonly #clock: () => number

  constructor(database: Database, clock: () => number) {
    this.#clock = clock
    this.#sql = whenNeeded(() => statements(database))
  }

  find(text: string, most: number): readonly Found[] {
    return orUnavailable(() => this.#find(text, most))
  }

  #find(text: string, most: number): readonly Found[] {
    const sql = this.#sql()
    const address = text.toLowerCase()
    const end = text.replace(/^(…|\.{3})/, '')
    const request = text.replace(/^(resp|int)_/, 'req_')
    const key = publicIdOf(text) ?? text
    const code = hashOfCode(text)
    const now = this.#clock()
    const rows = [
      ...sql.account.all(text),
      ...sql.accounts.all(address, `${address}${last}`, most),
      ...sql.keys.all(now, key),
      ...sql.keysEnding.all(now, end, most),
      ...sql.managementKeys.all(now, key),
      ...sql.managementKeysEnding.all(now, end, most),
      ...sql.requests.all(request, most),
      ...processorIds.flatMap((processor) => sql.paid.all(processor, text)),
      ...processorIds.flatMap((processor) => sql.referred.all(processor, text)),
      ...sql.payments.all(text),
      ...sql.vouchers.all(text),
      ...(code === undefined ? [] : sql.codes.all(code)),
    ]
    // A call that the log holds no more, or by the id that its provider gave it.
    if (rows.length === 0) rows.push(...sql.calls.all(request))
    if (rows.length === 0 && /^[\w.:-]{8,200}$/.test(text)) rows.push(...sql.upstream.all(text))
    const seen = new Set<string>()
    return rows.map(foundOf).filter(({ kind, id }) => {
      const name = `${kind} ${id}`
      return !seen.has(name) && seen.add(name)
    })
  }
}

function foundOf({ kind, id, title, account, email, at, state }: FoundRow): Found {
  return {
    kind,
    id,
    title: titleOf(kind, title ?? ''),
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
  return `${formatMinor(BigInt(amount))} ${currency}`
}

function statements(database: Database) {
  const of = <Given extends (string | number)[]>(sql: string) => database.prepare<FoundRow, Given>(sql)
  const account = `SELECT 'account' AS kind, id, email AS title, id AS account, email, created_at AS at,
    CASE WHEN deleted_at IS NOT NULL THEN 'deleted' WHEN suspended THEN 'suspended' ELSE 'active' END AS state FROM account`
  const withAccount = (table: string) => `LEFT JOIN account ON account.id = ${table}.account`
  const key = (kind: string, table: string) =>
    `SELECT '${kind}' AS kind, ${table}.id, name || ' …' || last_four AS title, account, email, ${table}.created_at AS at,
       CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= ? THEN 'expired' ELSE 'active' END AS state
     FROM ${table} ${withAccount(table)}`
  const request = `SELECT 'request' AS kind, request_id AS id, model AS title, account, email, at,
    coalesce(code, 'served') AS state FROM request_log ${withAccount('request_log')}`
  const call = `SELECT 'request' AS kind, call.id, model AS title, account, email, ended_at AS at,
    ending AS state FROM call ${withAccount('call')}`
  const payment = `SELECT 'payment' AS kind, top_up.id, amount || ' ' || currency AS title, account, email,
    top_up.created_at AS at, state FROM top_up ${withAccount('top_up')}`
  const voucher = `SELECT 'voucher' AS kind, voucher.id, amount AS title, account, email, voucher.created_at AS at,
    CASE WHEN redeemed_at IS NOT NULL THEN 'redeemed' WHEN revoked_at IS NOT NULL THEN 'revoked' ELSE 'open' END AS state
    FROM voucher ${withAccount('voucher')}`
  return {
    account: of<[string]>(`${account} WHERE id = ?`),
    accounts: of<[string, string, number]>(
      `${account} WHERE email >= ? AND email < ? ORDER BY email LIMIT ?`,
    ),
    keys: of<[number, string]>(`${key('key', 'api_key')} WHERE api_key.id = ?`),
    keysEnding: of<[number, string, number]>(`${key('key', 'api_key')} WHERE last_four = ? LIMIT ?`),
    managementKeys: of<[number, string]>(
      `${key('management_key', 'management_key')} WHERE management_key.id = ?`,
    ),
    managementKeysEnding: of<[number, string, number]>(
      `${key('management_key', 'management_key')} WHERE last_four = ? LIMIT ?`,
    ),
    requests: of<[string, number]>(`${request} WHERE request_id = ? ORDER BY seq DESC LIMIT ?`),
    calls: of<[string]>(`${call} WHERE call.id = ?`),
    // The index is in blocks of calls: see CallTable.
    upstream: of<[string]>(
      `WITH RECURSIVE block (n) AS (SELECT max(seq) >> 9 FROM call UNION ALL SELECT n - 1 FROM block WHERE n > 0),
       found (seq) AS (SELECT (SELECT max(seq) FROM call WHERE call.seq >> 9 = n AND upstream_id = ?1) FROM block)
       ${call} WHERE call.seq IN (SELECT seq FROM found WHERE seq IS NOT NULL LIMIT 10)`,
    ),
    payments: of<[string]>(`${payment} WHERE top_up.id = ?`),
    paid: of<[string, string]>(`${payment} WHERE processor = ? AND payment_id = ?`),
    referred: of<[string, string]>(`${payment} WHERE processor = ? AND reference = ?`),
    vouchers: of<[string]>(`${voucher} WHERE voucher.id = ?`),
    codes: of<[string]>(`${voucher} WHERE voucher.hash = ?`),
  }
}
