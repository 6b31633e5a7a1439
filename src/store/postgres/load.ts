// Reads of wallets and of the figures that decide, each in one statement and so of one moment. Lists go in as JSON, whose
// texts compare by their bytes like those of the tables.

import { ShortLivedMap } from '../../async/async.ts'
import type { PriorGrant } from '../../credits/decide.ts'
import type { Pico } from '../../credits/money.ts'
import type { Pool } from '../../credits/pool.ts'
import { addLot, type Lot, type OpenCall, type Wallet } from '../../credits/wallet.ts'
import { openCallOf } from '../ledger-rows.ts'
import type { Row } from '../schema.ts'
import type { LedgerConnection } from './connection.ts'
import { type BudgetKey, lookUp, type ToldBudget } from './group.ts'

/** A wallet as it was at a version; an account that has never had anything has no head, and the version 0. */
export interface LoadedWallet {
  readonly wallet: Wallet
  readonly version: bigint
  readonly hasHead: boolean
  /** When it was changed last, in the ledger's time. */
  readonly at: number
}

interface WalletRow {
  readonly account: string
  readonly version: bigint | null
  readonly at: bigint | null
  readonly debt: bigint
  readonly line: bigint | null
  readonly allowance: string | null
  readonly lots: string | null
  readonly calls: string | null
}

/** Whose key an open call is made with, where that is one of a group. */
const personsOf = (call: string) =>
  `SELECT (in_group::json ->> 'person') COLLATE "C" AS person FROM open_call
   WHERE open_call.id = ${call} AND in_group IS NOT NULL`

const listIn = (parameter: string) =>
  `(SELECT value COLLATE "C" AS name FROM json_array_elements_text(${parameter}::text::json))`

export const walletsText = `WITH wanted AS MATERIALIZED (
    SELECT name AS account FROM ${listIn('$1')} AS accounts
    UNION SELECT o.account FROM ${listIn('$2')} AS calls
      ${lookUp('SELECT account FROM open_call WHERE open_call.id = calls.name')} AS o
    UNION SELECT o.person FROM ${listIn('$2')} AS calls ${lookUp(personsOf('calls.name'))} AS o)
  SELECT wanted.account,
    (SELECT version FROM wallet_head WHERE wallet_head.account = wanted.account) AS version,
    (SELECT at FROM wallet_head WHERE wallet_head.account = wanted.account) AS at,
    (SELECT coalesce(sum(debt), 0)::bigint FROM wallet WHERE wallet.account = wanted.account) AS debt,
    (SELECT most FROM credit_line WHERE credit_line.account = wanted.account) AS line,
    (SELECT json_build_array(id, expires_at::text)::text FROM lot
       WHERE lot.account = wanted.account AND pool = 'daily' AND starts_with(source, 'daily:' || wanted.account || ':')
       ORDER BY expires_at DESC LIMIT 1) AS allowance,
    (SELECT json_agg(json_build_array(id, pool, granted::text, remaining::text, pinned::text, expired::text,
         refunded::text, granted_at::text, expires_at::text))::text
       FROM lot WHERE lot.account = wanted.account AND live = 1) AS lots,
    (SELECT json_agg(json_build_array(id, key, hold::text, pins, funding, model, price_version, key_limit::text,
         key_window::text, owner, lease_until::text, opened_at::text, progress, tags, in_group))::text
       FROM open_call AS o WHERE o.account = wanted.account) AS calls
  FROM wanted`

/** The wallets of these accounts, and of those that pay for these open calls or own their keys. */
export async function loadWallets(
  connection: LedgerConnection,
  accounts: readonly string[],
  calls: readonly string[],
): Promise<readonly LoadedWallet[]> {
  const values = [JSON.stringify(accounts), JSON.stringify(calls)]
  const rows = await connection.send<WalletRow>(walletsText, values)
  return rows.map(walletOf)
}

function walletOf({ account, version, at, debt, line, allowance, lots, calls }: WalletRow): LoadedWallet {
  const last = jsonIn<[string, string]>(allowance)
  const wallet: Wallet = {
    account,
    lots: [],
    debt,
    creditLine: line ?? 0n,
    calls: new ShortLivedMap(),
    lastAllowance: last && { lot: last[0], expiresAt: Number(last[1]) },
  }
  for (const cells of jsonIn<LotCells[]>(lots) ?? []) addLot(wallet.lots, lotOf(cells))
  for (const cells of jsonIn<CallCells[]>(calls) ?? []) {
    const open = openOf(account, cells)
    wallet.calls.set(open.call, open)
  }
  return { wallet, version: version ?? 0n, hasHead: version !== null, at: Number(at ?? 0n) }
}

type LotCells = [id: string, pool: Pool, ...amounts: string[]]

function lotOf([id, pool, ...rest]: LotCells): Lot {
  const [granted, remaining, pinned, expired, refunded] = rest.slice(0, 5).map(BigInt)
  const [grantedAt, expiresAt] = rest.slice(5)
  return {
    id,
    pool,
    granted: granted!,
    remaining: remaining!,
    pinned: pinned!,
    expired: expired!,
    refunded: refunded!,
    grantedAt: Number(grantedAt),
    expiresAt: expiresAt == null ? null : Number(expiresAt),
  }
}

type Text = string | null
type CallCells = [
  id: string,
  key: Text,
  hold: string,
  pins: string,
  funding: string,
  model: string,
  priceVersion: string,
  keyLimit: Text,
  keyWindow: Text,
  owner: string,
  leaseUntil: string,
  openedAt: string,
  progress: Text,
  tags: Text,
  inGroup: Text,
]

function openOf(account: string, cells: CallCells): OpenCall {
  const [id, key, hold, pins, funding, model, price_version, limit, window, owner, lease, opened] = cells
  const [progress, tags, in_group] = cells.slice(12) as [Text, Text, Text]
  const row: Row<'openCall'> = {
    id,
    account,
    key,
    hold: BigInt(hold),
    pins,
    funding,
    model,
    price_version,
    key_limit: limit === null ? null : BigInt(limit),
    key_window: window === null ? null : BigInt(window),
    owner,
    lease_until: BigInt(lease),
    opened_at: BigInt(opened),
    progress,
    tags,
    in_group,
  }
  return openCallOf(row)
}

function jsonIn<T>(text: string | null): T | null {
  return text === null ? null : (JSON.parse(text) as T)
}

/** A key with those it was rotated from and to: what they have spent by UTC day, and what their open calls hold. */
export interface KeyFigures {
  readonly keys: readonly string[]
  readonly days: Map<number, Pico>
  held: Pico
}

export const keysText = `WITH asked AS (SELECT name AS key FROM ${listIn('$1')} AS keys),
  first AS (
    SELECT asked.key, one.id FROM asked
    ${lookUp('SELECT coalesce(lineage, id) AS id FROM api_key WHERE api_key.id = asked.key')} AS one),
  line AS MATERIALIZED (
    SELECT key, key AS relative FROM asked
    UNION SELECT key, id FROM first
    UNION SELECT first.key, younger.id FROM first
      ${lookUp('SELECT id FROM api_key WHERE api_key.lineage = first.id')} AS younger)
  SELECT line.key, line.relative,
    (SELECT json_agg(json_build_array(day::text, spent::text))::text FROM key_spend WHERE key_spend.key = line.relative) AS days,
    (SELECT coalesce(sum(hold), 0)::bigint FROM open_call WHERE open_call.key = line.relative) AS held
  FROM line ORDER BY line.key`

/** The figures of each of these keys. Keys of one line share theirs. */
export async function loadKeys(
  connection: LedgerConnection,
  keys: readonly string[],
): Promise<ReadonlyMap<string, KeyFigures>> {
  const rows = await connection.send<{
    readonly key: string
    readonly relative: string
    readonly days: string | null
    readonly held: bigint
  }>(keysText, [JSON.stringify(keys)])
  const lines = new Map<string, (typeof rows)[number][]>()
  for (const row of rows) {
    const line = lines.get(row.key)
    if (line) line.push(row)
    else lines.set(row.key, [row])
  }
  const figures = new Map<string, KeyFigures>()
  for (const [key, line] of lines) {
    if (figures.has(key)) continue
    const days = new Map<number, Pico>()
    for (const row of line)
      for (const [day, spent] of jsonIn<[string, string][]>(row.days) ?? [])
        days.set(Number(day), (days.get(Number(day)) ?? 0n) + BigInt(spent))
    const names = line.map(({ relative }) => relative)
    const one = { keys: names, days, held: line.reduce((sum, { held }) => sum + held, 0n) }
    for (const name of names) figures.set(name, one)
  }
  return figures
}

/** A budget in one window, with its version; a row that is not there yet stands for zero. */
export interface LoadedBudget extends ToldBudget {
  readonly hasRow: boolean
}

export const budgetsText = `SELECT asked.scope, asked."window", b.spent, b.held, b.version
  FROM json_to_recordset($1::text::json) AS asked (scope text COLLATE "C", "window" bigint)
  LEFT JOIN LATERAL (
    SELECT * FROM budget_spend AS b WHERE b.scope = asked.scope AND b."window" = asked."window" OFFSET 0) AS b ON true`

export async function loadBudgets(
  connection: LedgerConnection,
  budgets: readonly BudgetKey[],
): Promise<readonly LoadedBudget[]> {
  const rows = await connection.send<{
    readonly scope: string
    readonly window: bigint
    readonly spent: bigint | null
    readonly held: bigint | null
    readonly version: bigint | null
  }>(budgetsText, [JSON.stringify(budgets)])
  return rows.map(({ scope, window, spent, held, version }) => ({
    scope,
    window: Number(window),
    spent: spent ?? 0n,
    held: held ?? 0n,
    version: version ?? 0n,
    hasRow: version !== null,
  }))
}

export const sourcesText = `SELECT id, account, pool, granted, granted_at, expires_at, source
  FROM ${listIn('$1')} AS sources ${lookUp('SELECT * FROM lot WHERE lot.source = sources.name')} AS lot`

/** The grants that were made under these sources. */
export async function loadSources(
  connection: LedgerConnection,
  sources: readonly string[],
): Promise<ReadonlyMap<string, PriorGrant>> {
  type GrantRow = Row<'lot', 'id' | 'account' | 'pool' | 'granted' | 'granted_at' | 'expires_at' | 'source'>
  const rows = await connection.send<GrantRow>(sourcesText, [JSON.stringify(sources)])
  return new Map(rows.map((row) => [row.source, grantOf(row)]))

  function grantOf({ id: lot, account, pool, granted, granted_at, expires_at }: GrantRow): PriorGrant {
    const expiresAt = expires_at === null ? null : Number(expires_at)
    return { lot, account, pool, amount: granted, grantedAt: Number(granted_at), expiresAt }
  }
}

export type CorrectionRow = Row<'correction', 'id' | 'account' | 'kind' | 'lot' | 'taken' | 'debt'>

export const correctionsText = `SELECT id, account, kind, lot, taken, debt FROM ${listIn('$1')} AS ids
  ${lookUp('SELECT * FROM correction WHERE correction.id = ids.name')} AS correction`

export async function loadCorrections(
  connection: LedgerConnection,
  ids: readonly string[],
): Promise<ReadonlyMap<string, CorrectionRow>> {
  const rows = await connection.send<CorrectionRow>(correctionsText, [JSON.stringify(ids)])
  return new Map(rows.map((row) => [row.id, row]))
}

/** A lot, which may have nothing left, and what refunds have taken back of it. */
export interface RefundedLot {
  readonly account: string
  readonly lot: Lot
  readonly refunded: Pico
}

export const lotsText = `SELECT account, json_build_array(id, pool, granted::text, remaining::text, pinned::text, expired::text,
    refunded::text, granted_at::text, expires_at::text)::text AS cells,
    (SELECT coalesce(sum(taken + debt), 0)::bigint FROM correction WHERE correction.lot = lot.id) AS refunded
  FROM ${listIn('$1')} AS ids ${lookUp('SELECT * FROM lot WHERE lot.id = ids.name')} AS lot`

export async function loadLots(
  connection: LedgerConnection,
  lots: readonly string[],
): Promise<ReadonlyMap<string, RefundedLot>> {
  const rows = await connection.send<{
    readonly account: string
    readonly cells: string
    readonly refunded: bigint
  }>(lotsText, [JSON.stringify(lots)])
  return new Map(
    rows.map(({ account, cells, refunded }) => {
      const lot = lotOf(jsonIn<LotCells>(cells)!)
      return [lot.id, { account, lot, refunded }]
    }),
  )
}
