// KnownWallets in memory, each as it was at a version of its head row, and budgets as they were at theirs. A group is written
// only if all versions that it was decided from are still the database's; so what is here may be old, and never wrong.

import { ShortLivedMap } from '../../async/async.ts'
import { startOfDay } from '../../credits/calendar.ts'
import type { PriorGrant } from '../../credits/decide.ts'
import type { CountedBudget, GroupCall, KeySpend } from '../../credits/ledger/ledger.ts'
import type { Pico } from '../../credits/money.ts'
import type { Pool } from '../../credits/pool.ts'
import { addLot, apply, type Change, type Lot, type OpenCall, type Wallet } from '../../credits/wallet.ts'
import type { NeededRows } from '../commits/durability.ts'
import type { WalletSet } from '../ledger-core.ts'
import { openCallOf } from '../ledger-rows.ts'
import type { Row } from '../schema.ts'
import type { LedgerConnection } from './connection.ts'
import { type BudgetKey, type GroupRows, lookUp, nameOfBudget, type Told, type ToldBudget } from './group.ts'

// Reads of wallets and of the figures that decide, each in one statement and so of one moment. Lists go in as JSON, whose
// texts compare by their bytes like those of the tables.

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
interface KeyFigures {
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
async function loadSources(
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

async function loadCorrections(
  connection: LedgerConnection,
  ids: readonly string[],
): Promise<ReadonlyMap<string, CorrectionRow>> {
  const rows = await connection.send<CorrectionRow>(correctionsText, [JSON.stringify(ids)])
  return new Map(rows.map((row) => [row.id, row]))
}

/** A lot, which may have nothing left, and what refunds have taken back of it. */
interface RefundedLot {
  readonly account: string
  readonly lot: Lot
  readonly refunded: Pico
}

export const lotsText = `SELECT account, json_build_array(id, pool, granted::text, remaining::text, pinned::text, expired::text,
    refunded::text, granted_at::text, expires_at::text)::text AS cells,
    (SELECT coalesce(sum(taken + debt), 0)::bigint FROM correction WHERE correction.lot = lot.id) AS refunded
  FROM ${listIn('$1')} AS ids ${lookUp('SELECT * FROM lot WHERE lot.id = ids.name')} AS lot`

async function loadLots(
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

/** KnownWallets and budgets beyond this are loaded again when they are needed. */
const mostCached = 20_000
const largestInteger = 2n ** 63n - 1n

export interface KnownWallet {
  readonly wallet: Wallet
  /** Of its head row. */
  version: bigint
  /** The same with what the group under way has changed. */
  next: bigint
  hasHead: boolean
  /** When it was asked for, on the clock of the process. */
  readonly loadedAt: number
}

interface KnownBudget {
  readonly scope: string
  readonly window: number
  version: bigint
  spent: Pico
  held: Pico
  hasRow: boolean
  readonly loadedAt: number
}

/** What a group has asked for and done; made anew for each. */
function nothing() {
  return {
    asked: new Set<KnownWallet>(),
    changed: new Set<KnownWallet>(),
    askedBudgets: new Set<KnownBudget>(),
    changedBudgets: new Set<KnownBudget>(),
    changedFigures: new Set<KeyFigures>(),
    lots: new Map<string, { lot: Lot; readonly source: string | null; readonly account: string }>(),
    pools: new Map<KnownWallet, Set<Pool>>(),
    keyDays: new Map<string, { readonly key: string; readonly day: number; spent: Pico }>(),
    sources: new Map<string, PriorGrant>(),
    corrections: new Map<string, CorrectionRow>(),
    /** Lots that a refund names, which may have nothing left. */
    refunded: new Map<string, RefundedLot>(),
  }
}

export class KnownWallets implements WalletSet<KnownWallet> {
  readonly #wallets = new Map<string, KnownWallet>()
  readonly #accountOfCall = new Map<string, string>()
  /**
   * By key; those of a line share one. They go with the wallet of the keys' owner: a call of a group that another account
   * pays for, which may be another one tomorrow, changes the owner's version too.
   */
  readonly #figures = new Map<string, KeyFigures>()
  readonly #figuresOf = new Map<string, Set<KeyFigures>>()
  readonly #budgets = new Map<string, KnownBudget>()
  #group = nothing()
  /** How often all was forgotten: what was asked for before and is answered after it is not kept. */
  #forgotten = 0
  /** The latest time at which anything that was loaded has changed. */
  #latest = 0

  get latest(): number {
    return this.#latest
  }

  /** No booking of this process is to be earlier. */
  beginAt(latest: number): void {
    this.#latest = latest
  }

  /** The accounts that a group is known to need, with the versions that are in memory. */
  accountsOf(needs: readonly NeededRows[]): ReadonlyMap<string, bigint | undefined> {
    const accounts = new Map<string, bigint | undefined>()
    for (const need of needs) {
      const account = this.#accountOf(need)
      const owner = this.#ownerOf(need)
      if (account !== undefined) accounts.set(account, this.versionOf(account))
      if (owner !== undefined) accounts.set(owner, this.versionOf(owner))
    }
    return accounts
  }

  #accountOf({ account, call }: NeededRows): string | undefined {
    return account ?? (call === undefined ? undefined : this.#accountOfCall.get(call))
  }

  /** Whose key a call is made with: mostly that is who pays. */
  #ownerOf(need: NeededRows): string | undefined {
    const { inGroup } = this.#openOf(need) ?? need
    return inGroup?.person ?? this.#accountOf(need)
  }

  versionOf(account: string): bigint | undefined {
    return this.#wallets.get(account)?.version
  }

  /** Loads what a group needs and memory has not got: in one round trip, or two where open calls name more. */
  async load(connection: LedgerConnection, needs: readonly NeededRows[]): Promise<void> {
    const accounts = new Set<string>()
    const calls: string[] = []
    for (const need of needs) {
      const account = this.#accountOf(need)
      const isKnown = account !== undefined && this.#wallets.has(account)
      if (account !== undefined && !isKnown) accounts.add(account)
      // Of an open call it is not known whose key it has.
      if (need.call !== undefined && need.inGroup === undefined && !isKnown) calls.push(need.call)
      const owner = this.#ownerOf(need)
      if (owner !== undefined && !this.#wallets.has(owner)) accounts.add(owner)
    }
    try {
      await Promise.all([
        this.#loadWallets(connection, [...accounts], calls),
        this.#loadNamed(connection, needs),
        this.#loadFigures(connection, needs),
      ])
      // Of calls that were unknown until now.
      await this.#loadFigures(connection, needs)
    } catch (error) {
      // Figures that are older than the wallet beside them would pass for current.
      this.forget()
      throw error
    }
  }

  async #loadWallets(
    connection: LedgerConnection,
    accounts: readonly string[],
    calls: readonly string[],
  ): Promise<void> {
    if (accounts.length === 0 && calls.length === 0) return
    const loadedAt = performance.now()
    const forgotten = this.#forgotten
    const loaded = await loadWallets(connection, accounts, calls)
    if (forgotten !== this.#forgotten) return
    for (const { wallet, version, hasHead, at } of loaded) {
      const { account } = wallet
      // A call was opened elsewhere: what is in memory of its account is older.
      this.#drop(account)
      this.#wallets.set(account, { wallet, version, next: version, hasHead, loadedAt })
      for (const call of wallet.calls.keys()) this.#accountOfCall.set(call, account)
      this.#latest = Math.max(this.#latest, at)
    }
  }

  /** What single commands name: sources, corrections, lots. It is read for each group, and forgotten with it. */
  async #loadNamed(connection: LedgerConnection, needs: readonly NeededRows[]): Promise<void> {
    const sources: string[] = []
    const corrections: string[] = []
    const lots: string[] = []
    for (const { source, correction, lot } of needs) {
      if (source !== undefined) sources.push(source)
      if (correction !== undefined) corrections.push(correction)
      if (lot !== undefined) lots.push(lot)
    }
    const group = this.#group
    await Promise.all([
      sources.length > 0 &&
        loadSources(connection, sources).then((found) => (group.sources = new Map(found))),
      corrections.length > 0 &&
        loadCorrections(connection, corrections).then((found) => (group.corrections = new Map(found))),
      lots.length > 0 && loadLots(connection, lots).then((found) => (group.refunded = new Map(found))),
    ])
  }

  /** The figures of keys with limits and of budgets, for calls that begin and for those that are open. */
  async #loadFigures(connection: LedgerConnection, needs: readonly NeededRows[]): Promise<void> {
    const keys = new Map<string, string>()
    for (const need of needs) {
      const owner = this.#ownerOf(need)
      const { key, keyLimit } = this.#openOf(need) ?? need
      if (owner === undefined || key == null || !keyLimit) continue
      const figures = this.#figures.get(key)
      if (figures) this.#link(owner, figures)
      else keys.set(key, owner)
    }
    const budgets = this.budgetsOf(needs).filter((budget) => !this.#budgets.has(nameOfBudget(budget)))
    await Promise.all([
      keys.size > 0 && this.#loadKeys(connection, keys),
      budgets.length > 0 && this.#loadBudgets(connection, budgets),
    ])
  }

  #openOf(need: NeededRows): OpenCall | undefined {
    const account = need.call === undefined ? undefined : this.#accountOf(need)
    return account === undefined ? undefined : this.#wallets.get(account)?.wallet.calls.get(need.call!)
  }

  /** The budgets that a group is known to need, each once. */
  budgetsOf(needs: readonly NeededRows[]): readonly BudgetKey[] {
    const budgets = new Map<string, BudgetKey>()
    for (const need of needs) {
      const { inGroup } = this.#openOf(need) ?? need
      for (const { scope, windowStart: window } of inGroup?.budgets ?? [])
        budgets.set(nameOfBudget({ scope, window }), { scope, window })
    }
    return [...budgets.values()]
  }

  async #loadKeys(connection: LedgerConnection, ownerOf: ReadonlyMap<string, string>): Promise<void> {
    const forgotten = this.#forgotten
    const loaded = await loadKeys(connection, [...ownerOf.keys()])
    // Without the wallet beside them they would pass for current whenever that is loaded.
    if (forgotten !== this.#forgotten) return
    for (const [key, figures] of loaded) {
      this.#figures.set(key, figures)
      const owner = ownerOf.get(key)
      if (owner !== undefined) this.#link(owner, figures)
    }
  }

  #link(owner: string, figures: KeyFigures): void {
    const linked = this.#figuresOf.get(owner)
    if (linked) linked.add(figures)
    else this.#figuresOf.set(owner, new Set([figures]))
  }

  async #loadBudgets(connection: LedgerConnection, budgets: readonly BudgetKey[]): Promise<void> {
    const loadedAt = performance.now()
    const forgotten = this.#forgotten
    const loaded = await loadBudgets(connection, budgets)
    if (forgotten !== this.#forgotten) return
    for (const budget of loaded) this.#budgets.set(nameOfBudget(budget), { ...budget, loadedAt })
  }

  of(account: string): KnownWallet {
    const entry = this.#wallets.get(account)
    if (!entry) throw new Error(`the wallet of ${account} was not loaded`)
    this.#group.asked.add(entry)
    return entry
  }

  ofOpenCall(call: string): KnownWallet | undefined {
    const account = this.#accountOfCall.get(call)
    return account === undefined ? undefined : this.of(account)
  }

  admitLot(entry: KnownWallet, id: string): void {
    if (entry.wallet.lots.some((lot) => lot.id === id)) return
    // What an earlier command of the group has emptied still looks full in the database.
    const found = this.#group.lots.get(id) ?? this.#group.refunded.get(id)
    if (found?.account === entry.wallet.account) addLot(entry.wallet.lots, found.lot)
  }

  apply(entry: KnownWallet, change: Change, source: string | null): void {
    const { lots, pools, sources } = this.#group
    const { account } = entry.wallet
    const touched = apply(entry.wallet, change)
    this.#change(entry)
    let dirty = pools.get(entry)
    if (!dirty) pools.set(entry, (dirty = new Set()))
    if (change.debt !== 0n) dirty.add('purchased')
    for (const lot of touched) {
      dirty.add(lot.pool)
      const before = lots.get(lot.id)
      if (before) before.lot = lot
      else lots.set(lot.id, { lot, source: change.newLot?.id === lot.id ? source : null, account })
    }
    if (change.newLot && source !== null) {
      const { id: lot, pool, granted: amount, grantedAt, expiresAt } = change.newLot
      sources.set(source, { lot, account, pool, amount, grantedAt, expiresAt })
    }
  }

  /** Each change has a version of its own: lines of the journal are in their order by it, whoever wrote them. */
  #change(entry: KnownWallet): void {
    this.#group.changed.add(entry)
    entry.next += 1n
  }

  /** The version that the next change of the account gets. */
  nextVersionOf(account: string): bigint {
    return (this.#wallets.get(account)?.next ?? 0n) + 1n
  }

  setLine(entry: KnownWallet, most: Pico): void {
    const wallet: { -readonly [K in keyof Wallet]: Wallet[K] } = entry.wallet
    wallet.creditLine = most
    this.#change(entry)
  }

  onOpened(entry: KnownWallet, call: string): void {
    this.#accountOfCall.set(call, entry.wallet.account)
  }

  onEnded(call: string): void {
    this.#accountOfCall.delete(call)
  }

  spendOf(call: Pick<OpenCall, 'key' | 'keyLimit' | 'inGroup'> | undefined): KeySpend {
    if (!call || call.key === null || call.keyLimit === null) return noSpend
    if (call.inGroup !== null) this.of(call.inGroup.person)
    const figures = this.#figures.get(call.key)
    if (!figures) throw new Error(`the figures of ${call.key} were not loaded`)
    return spendSince(figures, call.keyLimit.windowStart)
  }

  /** Figures are only read of keys with a limit, which are loaded; what others spend is added to the database's. */
  loadKey(): void {}

  keyHolds(key: string, more: Pico): void {
    const figures = this.#changeFigures(key)
    if (figures) figures.held += more
  }

  keySpent(key: string, amount: Pico, now: number): void {
    if (amount === 0n) return
    const day = startOfDay(now)
    const days = this.#changeFigures(key)?.days
    days?.set(day, (days.get(day) ?? 0n) + amount)
    const name = `${day} ${key}`
    const spent = this.#group.keyDays.get(name)
    if (spent) spent.spent += amount
    else this.#group.keyDays.set(name, { key, day, spent: amount })
  }

  #changeFigures(key: string): KeyFigures | undefined {
    const figures = this.#figures.get(key)
    if (figures) this.#group.changedFigures.add(figures)
    return figures
  }

  budgetSpendOf(call: Pick<OpenCall, 'inGroup'> | undefined): readonly KeySpend[] {
    return (
      call?.inGroup?.budgets
        .map((budget) => this.#budgetOf(budget))
        .map(({ spent, held }) => ({ spent, held })) ?? []
    )
  }

  chargeBudgets({ person, budgets }: GroupCall, held: Pico, spent: Pico): void {
    this.#change(this.of(person))
    for (const each of budgets) {
      const budget = this.#budgetOf(each)
      budget.held += held
      const sum = budget.spent + spent
      budget.spent = sum > largestInteger ? largestInteger : sum
      this.#group.changedBudgets.add(budget)
    }
  }

  #budgetOf({ scope, windowStart: window }: CountedBudget): KnownBudget {
    const budget = this.#budgets.get(nameOfBudget({ scope, window }))
    if (!budget) throw new Error(`the budget of ${scope} was not loaded`)
    this.#group.askedBudgets.add(budget)
    return budget
  }

  /** A group sees its own sources, lots and corrections here: nothing has to be written for that. */
  flush(): void {}

  priorGrant(source: string): PriorGrant | null {
    return this.#group.sources.get(source) ?? null
  }

  correction(id: string): CorrectionRow | undefined {
    return this.#group.corrections.get(id)
  }

  refundedOf(lot: string): Pico {
    return this.#group.refunded.get(lot)?.refunded ?? 0n
  }

  noteCorrection(row: CorrectionRow): void {
    const { corrections, refunded } = this.#group
    corrections.set(row.id, row)
    const lot = row.lot === null ? undefined : refunded.get(row.lot)
    if (lot) refunded.set(row.lot!, { ...lot, refunded: lot.refunded + row.taken + row.debt })
  }

  /**
   * What the group has asked and left as it was, as memory had it before `since`. A group that changes a wallet proves that
   * it is current; where a command was refused, or has found nothing, the wallet may only be old, and is to be loaded anew.
   */
  doubtful(since: number): Stale {
    const { asked, changed, askedBudgets, changedBudgets } = this.#group
    const wallets = [...asked].filter((entry) => !changed.has(entry) && entry.loadedAt < since)
    const budgets = [...askedBudgets].filter((entry) => !changedBudgets.has(entry) && entry.loadedAt < since)
    return { accounts: wallets.map(({ wallet }) => wallet.account), budgets: budgets.map(nameOfBudget) }
  }

  /** Adds what has changed to the rows of the group; gives the versions that it was decided from. */
  write(rows: GroupRows): Told {
    const { lots, pools, keyDays, changed, changedBudgets } = this.#group
    for (const { lot, source, account } of lots.values()) {
      const { id, pool, granted, remaining, pinned, expired, refunded, grantedAt, expiresAt } = lot
      const live = remaining > 0n ? 1 : 0
      if (source === null) rows.add('lots', { id, remaining, pinned, expired, refunded, live })
      else {
        const facts = { id, account, pool, granted, remaining, pinned, expired, refunded }
        rows.add('newLots', { ...facts, granted_at: grantedAt, expires_at: expiresAt, source, live })
      }
    }
    for (const [entry, dirty] of pools)
      for (const pool of dirty) rows.add('pools', poolRow(entry.wallet, pool))
    for (const day of keyDays.values()) rows.add('keyDays', day)
    return {
      wallets: [...changed].map(({ wallet, version, next }) => ({ account: wallet.account, version, next })),
      budgets: [...changedBudgets].map(({ scope, window, version, spent, held }) => ({
        scope,
        window,
        version,
        spent,
        held,
      })),
    }
  }

  /** Of what the group changes, that which has no row yet to be locked. */
  headless(): { readonly accounts: readonly string[]; readonly budgets: readonly BudgetKey[] } {
    const { changed, changedBudgets } = this.#group
    return {
      accounts: [...changed].filter(({ hasHead }) => !hasHead).map(({ wallet }) => wallet.account),
      budgets: [...changedBudgets]
        .filter(({ hasRow }) => !hasRow)
        .map(({ scope, window }) => ({ scope, window })),
    }
  }

  /** The group is in the database. */
  onCommitted(): void {
    for (const entry of this.#group.changed) {
      entry.version = entry.next
      entry.hasHead = true
    }
    for (const budget of this.#group.changedBudgets) {
      budget.version += 1n
      budget.hasRow = true
    }
    this.#group = nothing()
    if (Math.max(this.#wallets.size, this.#budgets.size, this.#figures.size) > mostCached) this.forget()
  }

  /** The group is not in the database: what it has changed here is loaded again, and so is what is stale. */
  undo({ accounts, budgets }: Stale = { accounts: [], budgets: [] }): void {
    const { changed, changedBudgets, changedFigures } = this.#group
    for (const { wallet } of changed) this.#drop(wallet.account)
    for (const { keys } of changedFigures) for (const key of keys) this.#figures.delete(key)
    for (const account of accounts) this.#drop(account)
    for (const budget of changedBudgets) this.#budgets.delete(nameOfBudget(budget))
    for (const name of budgets) this.#budgets.delete(name)
    this.#group = nothing()
  }

  #drop(account: string): void {
    const entry = this.#wallets.get(account)
    if (!entry) return
    for (const call of entry.wallet.calls.keys()) this.#accountOfCall.delete(call)
    for (const { keys } of this.#figuresOf.get(account) ?? [])
      for (const key of keys) this.#figures.delete(key)
    this.#figuresOf.delete(account)
    this.#wallets.delete(account)
  }

  forget(): void {
    this.#forgotten++
    for (const map of [this.#wallets, this.#accountOfCall, this.#figures, this.#figuresOf, this.#budgets])
      map.clear()
    this.#group = nothing()
  }
}

/** Accounts, and budgets by their names, that memory has in an older version than the database. */
export interface Stale {
  readonly accounts: readonly string[]
  readonly budgets: readonly string[]
}

const noSpend: KeySpend = { spent: 0n, held: 0n }

/** What a line of keys has spent since the day of `windowStart`, and holds. */
export function spendSince({ days, held }: KeyFigures, windowStart: number): KeySpend {
  const start = startOfDay(windowStart)
  let spent = 0n
  for (const [day, amount] of days) if (day >= start) spent += amount
  return { spent, held }
}

function poolRow({ account, lots, debt }: Wallet, pool: Pool) {
  let posted = 0n
  let held = 0n
  for (const lot of lots) {
    if (lot.pool !== pool) continue
    posted += lot.remaining
    held += lot.pinned
  }
  return { account, pool, posted, held, debt: pool === 'purchased' ? debt : 0n, version: 1 }
}
