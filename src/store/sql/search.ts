// What operators find by a piece of text. Each kind is looked up in an index: of millions of rows a few are read.

import type { Awaitable } from '../../async/async.ts'
import { publicIdOf } from '../../accounts/account.ts'
import { formatMinor, formatUsd } from '../../credits/money.ts'
import type { Finder, Found } from '../../observe/search.ts'
import { processorIds } from '../../payments/top-up.ts'
import { hashOfCode } from '../../payments/vouchers.ts'
import { sql, type Statement, type Tables, type Work } from './work.ts'

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
