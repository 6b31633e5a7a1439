// Wallets in memory, each exactly as the file has it. They are valid while no other connection has committed; a group
// checks that inside its transaction, so a decision made here is as good as one made by a guarded UPDATE.

import type { Database, SQLQueryBindings, Statement } from 'bun:sqlite'
import { ShortLivedMap } from '../../../async/async.ts'
import { startOfDay } from '../../../credits/calendar.ts'
import type { CountedBudget, GroupCall, KeySpend, TransactionKind } from '../../../credits/ledger/ledger.ts'
import type { Pico } from '../../../credits/money.ts'
import type { Pool } from '../../../credits/pool.ts'
import {
  addLot,
  apply,
  type Change,
  type Leg,
  type Lot,
  type OpenCall,
  type Wallet,
} from '../../../credits/wallet.ts'
import type { CommitFault, LogSync, NeededRows, Transactions } from '../../commits/durability.ts'
import type { WalletSet } from '../../ledger-core.ts'
import { type ActCells, correctionsIn, genesis, groupCallIn, hashOf, openCallOf } from '../../ledger-rows.ts'
import type { Row } from '../../schema.ts'
import { type Head, isBusy, isFailedSync, isOutage, requireOne } from '../database/sqlite.ts'

// The journal's writer: transactions are numbered without gaps and every line carries the hash of the one before.

export class Journal {
  readonly #rows: BulkInsert
  readonly #last: Statement<Pick<Row<'journal'>, 'tx' | 'hash'>, []>
  #head: { tx: number; hash: Uint8Array } | null = null

  constructor(database: Database) {
    this.#rows = new BulkInsert(
      database,
      'journal',
      'tx, leg, kind, account, lot, amount, at, prev_hash, hash',
    )
    this.#last = database.prepare('SELECT tx, hash FROM journal ORDER BY tx DESC, leg DESC LIMIT 1')
  }

  /** Forgets the head and what was not written: another process has written, or our transaction was undone. */
  forget(): void {
    this.#rows.forget()
    this.#head = null
  }

  /** The last transaction that was appended or read; null when nothing has been asked of it since it was forgotten. */
  get head(): Head | null {
    return this.#head
  }

  /** The last transaction, read from the file if need be. */
  readHead(): Head {
    return (this.#head ??= this.#load())
  }

  /** Appends one transaction, to be written with the group, and returns its number. Its legs must sum to zero. */
  append(kind: TransactionKind, legs: readonly Leg[], at: number): number {
    const head = (this.#head ??= this.#load())
    let total = 0n
    for (const leg of legs) total += leg.amount
    if (total !== 0n) throw new Error(`the legs of a ${kind} do not sum to zero`)
    const tx = head.tx + 1
    for (let leg = 0; leg < legs.length; leg++) {
      const { account, lot, amount } = legs[leg]!
      const hash = hashOf(head.hash, { tx, leg, kind, account, lot, amount, at })
      this.#rows.add([tx, leg, kind, account, lot, amount, at, head.hash, hash])
      head.hash = hash
    }
    head.tx = tx
    return tx
  }

  /** Writes what has been appended so far. */
  write(): void {
    this.#rows.write()
  }

  #load(): { tx: number; hash: Uint8Array } {
    const last = this.#last.get()
    return last ? { tx: Number(last.tx), hash: last.hash } : { tx: 0, hash: genesis }
  }
}

// A group's transaction on SQLite: begun with the lock to write, committed with one sync to disk or, where the log is
// synced on another thread, with none.

/** What a group needs from the ledger, around its commands. All of it is synchronous. */
export interface GroupHooks {
  /** In the transaction, before the first command. */
  begin(): void
  /** In the transaction, after the last: writes what the commands have changed in memory. */
  finish(): void
  onCommitted(): void
  /** After COMMIT; to be called when that commit and all before it are durable. */
  durable(): () => void
  /** Whether at most one call is open, as far as memory knows. */
  quiet(): boolean
  /** After a rollback: nothing in memory may be trusted. */
  abandon(): void
}

export class SqliteTransactions implements Transactions {
  readonly #database: Database
  readonly #hooks: GroupHooks
  readonly #begin: Statement
  readonly #commit: Statement
  readonly #rollback: Statement
  readonly sync: (() => Promise<void>) | undefined

  /** With a `log` commits of groups leave the sync to it. */
  constructor(database: Database, hooks: GroupHooks, log: Pick<LogSync, 'sync'> | undefined) {
    this.#database = database
    this.#hooks = hooks
    this.sync = log && (() => this.#sync(log))
    this.#begin = database.prepare('BEGIN IMMEDIATE')
    this.#commit = database.prepare('COMMIT')
    this.#rollback = database.prepare('ROLLBACK')
  }

  /** Commands load what they need when they ask for it. */
  commit<T>(_needs: readonly NeededRows[], run: () => T): T {
    if (!this.sync) return this.commitDurably(run)
    // Set for this transaction alone: whoever else writes through this connection does not wait for our sync.
    this.#database.run('PRAGMA synchronous = NORMAL')
    try {
      return this.#transaction(run)
    } finally {
      this.#database.run('PRAGMA synchronous = FULL')
    }
  }

  /** Commits what `run` does, with a sync: it is durable when this returns, and so is all that was committed before. */
  commitDurably<T>(run: () => T): T {
    const value = this.#transaction(run)
    this.#hooks.durable()()
    return value
  }

  async #sync(log: Pick<LogSync, 'sync'>): Promise<void> {
    const durable = this.#hooks.durable()
    await log.sync()
    durable()
  }

  quiet(): boolean {
    return this.#hooks.quiet()
  }

  #transaction<T>(run: () => T): T {
    this.#begin.run()
    try {
      this.#hooks.begin()
      const value = run()
      this.#hooks.finish()
      this.#commit.run()
      this.#hooks.onCommitted()
      return value
    } catch (error) {
      // SQLite itself rolls back when the disk is full.
      if (this.#database.inTransaction) this.#rollback.run()
      this.#hooks.abandon()
      throw error
    }
  }

  touch(): void {
    this.#database.run('UPDATE server SET started_at = started_at')
  }

  faultOf(error: unknown): CommitFault {
    if (isBusy(error)) return 'busy'
    if (this.sync && isFailedSync(error)) return 'lost'
    return isOutage(error) ? 'outage' : 'bug'
  }

  forget(): void {
    this.#hooks.abandon()
  }

  close(): void {
    for (const statement of [this.#begin, this.#commit, this.#rollback]) statement.finalize()
  }
}

// Rows gathered in a group and written together: a statement for sixteen rows costs half of sixteen statements.

/** How many rows the statements take; the largest that fits is used. */
const sizes = [16, 8, 4, 2, 1] as const

interface Insert {
  readonly statement: Statement
  /**
   * Of all its rows. As one array, because spreading some hundreds of arguments takes longer than binding them; and the
   * same one each time, because it would be a tenth of all that a call allocates.
   */
  readonly values: SQLQueryBindings[]
}

export class BulkInsert {
  readonly #database: Database
  readonly #table: string
  readonly #head: string
  readonly #columns: number
  readonly #inserts = new Map<number, Insert>()
  #last: Statement<{ last: bigint | null }, []> | undefined
  #rows: (readonly SQLQueryBindings[])[] = []

  /** `columns` is a list of names, separated by commas. */
  constructor(database: Database, table: string, columns: string) {
    this.#database = database
    this.#table = table
    // A failure undoes the whole group; without FAIL each statement would keep a journal of its own to undo itself.
    this.#head = `INSERT OR FAIL INTO ${table} (${columns}) VALUES `
    this.#columns = columns.split(',').length
  }

  /** One value for each column. */
  add(row: readonly SQLQueryBindings[]): void {
    this.#rows.push(row)
  }

  /** Writes what has been added, in its order. Throws what the database throws; then nothing may be trusted. */
  write(): void {
    if (this.#rows.length === 0) return
    const rows = this.#rows
    this.#rows = []
    let at = 0
    for (const size of sizes) for (; rows.length - at >= size; at += size) this.#insert(rows, at, size)
  }

  /**
   * The same, where a row that the database refuses is left out: `refused` gets its place among those that were added.
   * What `refused` throws ends the writing. For tables with a rowid.
   */
  writeEach(refused: (error: unknown, place: number) => void): void {
    const rows = this.#rows
    this.#rows = []
    let last = this.#lastRow()
    let at = 0
    /** Up to here each row goes alone: one of them is at fault. */
    let alone = 0
    while (at < rows.length) {
      const size = at < alone ? 1 : sizes.find((most) => most <= rows.length - at)!
      try {
        this.#insert(rows, at, size)
        at += size
        last += size
      } catch (error) {
        if (size === 1) refused(error, at++)
        else {
          alone = at + size
          // The rows before the refused one have stayed; SQLite does not count them for every error.
          const stayed = this.#lastRow() - last
          at += stayed
          last += stayed
        }
      }
    }
  }

  #lastRow(): number {
    this.#last ??= this.#database.prepare<{ last: bigint | null }, []>(
      `SELECT max(rowid) AS last FROM ${this.#table}`,
    )
    return Number(this.#last.get()?.last ?? 0n)
  }

  #insert(rows: readonly (readonly SQLQueryBindings[])[], from: number, count: number): void {
    const { statement, values } = this.#insertOf(count)
    let at = 0
    for (let n = from; n < from + count; n++) for (const value of rows[n]!) values[at++] = value
    statement.run(values)
    // What a row holds may be large.
    values.fill(null)
  }

  forget(): void {
    if (this.#rows.length > 0) this.#rows = []
  }

  #insertOf(size: number): Insert {
    let insert = this.#inserts.get(size)
    if (!insert) {
      const row = `(${Array(this.#columns).fill('?').join(',')})`
      insert = {
        statement: this.#database.prepare(this.#head + Array(size).fill(row).join(',')),
        values: Array<SQLQueryBindings>(size * this.#columns).fill(null),
      }
      this.#inserts.set(size, insert)
    }
    return insert
  }
}

// The table of refunds and adjustments: each once for its id, with the answer that was given.

type CorrectionRow = Row<'correction', 'account' | 'kind' | 'lot' | 'taken' | 'debt'>

export function correctionsOf(database: Database, logAct: (act: ActCells) => void) {
  const find = database.prepare<CorrectionRow, [string]>(
    'SELECT account, kind, lot, taken, debt FROM correction WHERE id = ?',
  )
  const ofLot = database.prepare<{ refunded: bigint }, [string]>(
    'SELECT coalesce(sum(taken + debt), 0) AS refunded FROM correction WHERE lot = ?',
  )
  const insert: Statement = database.prepare(
    'INSERT INTO correction (id, account, kind, taken, debt, at, lot) VALUES (?,?,?,?,?,?,?)',
  )
  return correctionsIn({
    find: (id) => find.get(id),
    refundedOf: (lot) => ofLot.get(lot)?.refunded ?? 0n,
    insert: ({ id, account, kind, taken, debt, lot }, at) =>
      void insert.run(id, account, kind, taken, debt, at, lot),
    logAct,
  })
}

/** Writes acts of operators in the transaction that is under way. */
export function actsOf(database: Database): (act: ActCells) => void {
  const insert: Statement = database.prepare(
    'INSERT INTO act (at, operator, what, subject, before, after) VALUES (?, ?, ?, ?, NULL, ?)',
  )
  return ({ at, operator, what, subject, after }) => void insert.run(at, operator, what, subject, after)
}

/** Wallets and keys beyond this are loaded again when they are needed. */
const cachedAccounts = 10_000
const largestInteger = 2n ** 63n - 1n

const lotColumns = [
  'id',
  'pool',
  'granted',
  'remaining',
  'pinned',
  'expired',
  'refunded',
  'granted_at',
  'expires_at',
] as const
type LotRow = Row<'lot', (typeof lotColumns)[number]>

export interface CachedWallet {
  readonly wallet: Wallet
  /** The version of each pool's row in the file. */
  readonly versions: Map<Pool, bigint>
}

/** What a key has spent by UTC day, and what it holds now. */
interface KeySpending {
  readonly days: Map<number, Pico>
  /** Sums since the starts of windows that have been asked for. */
  readonly sums: Map<number, Pico>
  held: Pico
  /** The other keys of its chain of rotations, once they have been asked for. */
  relatives: readonly string[] | null
}

/** What is spent and held of a budget in one window. */
interface BudgetSpending {
  readonly scope: string
  readonly window: number
  spent: Pico
  held: Pico
}

/** Made anew for each group: a map whose entries come and go would keep old calls alive, see ShortLivedMap. */
function nothing() {
  return {
    lots: new Map<string, { lot: Lot; readonly source: string | null; readonly account: string }>(),
    pools: new Map<CachedWallet, Set<Pool>>(),
    days: new Map<string, Set<number>>(),
    budgets: new Set<BudgetSpending>(),
  }
}

export class Wallets implements WalletSet<CachedWallet> {
  readonly #wallets = new Map<string, CachedWallet>()
  readonly #accountOfCall = new Map<string, string>()
  readonly #keys = new Map<string, KeySpending>()
  /** By window and scope. */
  readonly #budgets = new Map<string, BudgetSpending>()
  #heldAtFirst: ReadonlyMap<string, Pico> | undefined
  /** What the group has changed. */
  #dirty = nothing()
  readonly #sql: ReturnType<typeof statements>
  #dataVersion: unknown

  constructor(database: Database) {
    this.#sql = statements(database)
  }

  /** Drops everything when another connection has committed since. Returns whether it had. */
  validate(): boolean {
    const version = this.#sql.dataVersion.values()[0]?.[0]
    if (version === this.#dataVersion) return false
    this.forget()
    this.#dataVersion = version
    return true
  }

  forget(): void {
    for (const map of [this.#wallets, this.#accountOfCall, this.#keys, this.#budgets]) map.clear()
    this.#heldAtFirst = undefined
    this.#dirty = nothing()
  }

  of(account: string): CachedWallet {
    const cached = this.#wallets.get(account)
    if (cached) return cached
    const loaded = this.#load(account)
    this.#wallets.set(account, loaded)
    for (const call of loaded.wallet.calls.keys()) this.#accountOfCall.set(call, account)
    return loaded
  }

  ofOpenCall(call: string): CachedWallet | undefined {
    const account = this.#accountOfCall.get(call) ?? this.#sql.accountOfCall.get(call)?.account
    return account === undefined ? undefined : this.of(account)
  }

  /** Loads a lot without remainder into the wallet, for a refund. */
  admitLot(entry: CachedWallet, id: string): void {
    if (entry.wallet.lots.some((lot) => lot.id === id)) return
    // What an earlier command of the group has emptied still looks full in the file.
    const dirty = this.#dirty.lots.get(id)
    if (dirty) {
      if (dirty.account === entry.wallet.account) addLot(entry.wallet.lots, dirty.lot)
      return
    }
    const row = this.#sql.lot.get(id, entry.wallet.account)
    if (row) addLot(entry.wallet.lots, lotOf(row))
  }

  /** Carries out a change in memory and remembers what has to be written at the end of the group. */
  apply(entry: CachedWallet, change: Change, source: string | null): void {
    const touched = apply(entry.wallet, change)
    let dirty = this.#dirty.pools.get(entry)
    if (!dirty) this.#dirty.pools.set(entry, (dirty = new Set()))
    if (change.debt !== 0n) dirty.add('purchased')
    for (const lot of touched) {
      dirty.add(lot.pool)
      const before = this.#dirty.lots.get(lot.id)
      if (before) before.lot = lot
      else {
        const isNew = change.newLot?.id === lot.id
        this.#dirty.lots.set(lot.id, { lot, source: isNew ? source : null, account: entry.wallet.account })
      }
    }
  }

  setLine(entry: CachedWallet, most: Pico): void {
    const wallet: { -readonly [K in keyof Wallet]: Wallet[K] } = entry.wallet
    wallet.creditLine = most
  }

  onOpened(entry: CachedWallet, call: string): void {
    this.#accountOfCall.set(call, entry.wallet.account)
  }

  onEnded(call: string): void {
    this.#accountOfCall.delete(call)
  }

  /** How many calls are open in the wallets in memory. */
  get openCalls(): number {
    return this.#accountOfCall.size
  }

  /** What the key and those it was rotated from and to have spent since the day of `windowStart`, and all they hold. */
  keySpend(key: string, windowStart: number): KeySpend {
    const start = startOfDay(windowStart)
    const spending = this.#keyOf(key)
    let spent = spentSince(spending, start)
    let { held } = spending
    spending.relatives ??= this.#sql.relatives.all(key).map(({ id }) => id)
    for (const id of spending.relatives) {
      const relative = this.#keyOf(id)
      spent += spentSince(relative, start)
      held += relative.held
    }
    return { spent, held }
  }

  /** The same for the key of a call, in the window of its limit; nothing if it has none. */
  spendOf(call: Pick<OpenCall, 'key' | 'keyLimit'> | undefined): KeySpend {
    if (!call || call.key === null || call.keyLimit === null) return noSpend
    return this.keySpend(call.key, call.keyLimit.windowStart)
  }

  forgetKeys(): void {
    this.#keys.clear()
  }

  loadKey(key: string): void {
    this.#keyOf(key)
  }

  #keyOf(key: string): KeySpending {
    const cached = this.#keys.get(key)
    if (cached) return cached
    const days = new Map(this.#sql.keyDays.all(key).map((row) => [Number(row.day), row.spent]))
    const held = this.#sql.keyHolds.all(key).reduce((sum, row) => sum + row.hold, 0n)
    const loaded: KeySpending = { days, sums: new Map(), held, relatives: null }
    this.#keys.set(key, loaded)
    return loaded
  }

  keyHolds(key: string, more: Pico): void {
    this.#keyOf(key).held += more
  }

  keySpent(key: string, amount: Pico, now: number): void {
    if (amount === 0n) return
    const spending = this.#keyOf(key)
    const day = startOfDay(now)
    spending.days.set(day, atMost(largestInteger, (spending.days.get(day) ?? 0n) + amount))
    if (spending.sums.size > 0) {
      for (const [start, sum] of spending.sums) if (day >= start) spending.sums.set(start, sum + amount)
    }
    const dirty = this.#dirty.days.get(key)
    if (dirty) dirty.add(day)
    else this.#dirty.days.set(key, new Set([day]))
  }

  /** What is spent and held of each budget in its window. */
  budgetSpend(budgets: readonly CountedBudget[]): readonly KeySpend[] {
    return budgets.map((budget) => {
      const { spent, held } = this.#budgetOf(budget)
      return { spent, held }
    })
  }

  budgetSpendOf(call: Pick<OpenCall, 'inGroup'> | undefined): readonly KeySpend[] {
    return call?.inGroup ? this.budgetSpend(call.inGroup.budgets) : noBudgets
  }

  chargeBudgets({ budgets }: GroupCall, held: Pico, spent: Pico): void {
    for (const budget of budgets) {
      const spending = this.#budgetOf(budget)
      spending.held += held
      if (spent === 0n) continue
      spending.spent = atMost(largestInteger, spending.spent + spent)
      this.#dirty.budgets.add(spending)
    }
  }

  #budgetOf({ scope, windowStart: window }: CountedBudget): BudgetSpending {
    const name = `${window} ${scope}`
    const cached = this.#budgets.get(name)
    if (cached) return cached
    const spent = this.#sql.budgetSpent.get(scope, window)?.spent ?? 0n
    const loaded = { scope, window, spent, held: this.#heldOfBudgets().get(name) ?? 0n }
    this.#budgets.set(name, loaded)
    return loaded
  }

  /**
   * What open calls held of each budget when the first was loaded. It stays true of those that are loaded later: no call
   * begins or ends without loading its own.
   */
  #heldOfBudgets(): ReadonlyMap<string, Pico> {
    if (this.#heldAtFirst !== undefined) return this.#heldAtFirst
    const held = new Map<string, Pico>()
    for (const { hold, in_group } of this.#sql.groupCalls.all()) {
      for (const { scope, windowStart } of groupCallIn(in_group)!.budgets) {
        const name = `${windowStart} ${scope}`
        held.set(name, (held.get(name) ?? 0n) + hold)
      }
    }
    this.#heldAtFirst = held
    return held
  }

  /** Writes what the group has changed: each lot, pool and day once, however many commands touched it. */
  flush(): void {
    for (const { lot, source, account } of this.#dirty.lots.values()) this.#writeLot(lot, source, account)
    for (const [entry, dirty] of this.#dirty.pools) for (const pool of dirty) this.#writePool(entry, pool)
    for (const [key, days] of this.#dirty.days) {
      const spending = this.#keyOf(key)
      for (const day of days) this.#sql.writeDay.run(key, day, spending.days.get(day) ?? 0n)
    }
    for (const { scope, window, spent } of this.#dirty.budgets)
      this.#sql.writeBudget.run(scope, window, spent)
    this.#dirty = nothing()
  }

  /** At the end of a group: what it has done is in the file, and may be loaded again. */
  trim(): void {
    const largest = Math.max(this.#wallets.size, this.#keys.size, this.#budgets.size)
    if (largest > cachedAccounts) this.forget()
  }

  #writeLot(lot: Lot, source: string | null, account: string): void {
    if (source !== null) {
      this.#sql.insertLot.run(
        lot.id,
        account,
        lot.pool,
        lot.granted,
        lot.remaining,
        lot.pinned,
        lot.expired,
        lot.refunded,
        lot.grantedAt,
        lot.expiresAt,
        source,
        lot.remaining > 0n ? 1 : 0,
      )
      return
    }
    const update = lot.remaining > 0n ? this.#sql.updateLot : this.#sql.endLot
    requireOne(update.run(lot.remaining, lot.pinned, lot.expired, lot.refunded, lot.id).changes, 'lot')
  }

  // The version is a second lock: should the cache ever be wrong, the group fails and is decided again from the file.
  #writePool(entry: CachedWallet, pool: Pool): void {
    let posted = 0n
    let held = 0n
    for (const lot of entry.wallet.lots) {
      if (lot.pool !== pool) continue
      posted += lot.remaining
      held += lot.pinned
    }
    const debt = pool === 'purchased' ? entry.wallet.debt : 0n
    const version = entry.versions.get(pool)
    const written =
      version === undefined
        ? this.#sql.insertPool.run(entry.wallet.account, pool, posted, held, debt)
        : this.#sql.updatePool.run(posted, held, debt, entry.wallet.account, pool, version)
    requireOne(written.changes, 'wallet')
    entry.versions.set(pool, (version ?? 0n) + 1n)
  }

  #load(account: string): CachedWallet {
    const poolRows = this.#sql.pools.all(account)
    const lots: Lot[] = []
    for (const row of this.#sql.liveLots.all(account)) addLot(lots, lotOf(row))
    const calls = new ShortLivedMap<string, OpenCall>()
    for (const row of this.#sql.openCalls.all(account)) calls.set(row.id, openCallOf(row))
    const last = this.#sql.lastAllowance.get(account, `daily:${account}:`)
    const wallet: Wallet = {
      account,
      lots,
      debt: poolRows.reduce((sum, row) => sum + row.debt, 0n),
      creditLine: this.#sql.creditLine.get(account)?.most ?? 0n,
      calls,
      lastAllowance: last ? { lot: last.id, expiresAt: Number(last.expires_at) } : null,
    }
    return {
      wallet,
      versions: new Map(poolRows.map((row) => [row.pool, row.version])),
    }
  }
}

function statements(database: Database) {
  const columns = lotColumns.join(', ')
  return {
    dataVersion: database.prepare('PRAGMA data_version'),
    pools: database.prepare<Row<'wallet', 'pool' | 'debt' | 'version'>, [string]>(
      'SELECT pool, debt, version FROM wallet WHERE account = ?',
    ),
    liveLots: database.prepare<LotRow, [string]>(`SELECT ${columns} FROM lot WHERE account = ? AND live = 1`),
    creditLine: database.prepare<{ most: bigint }, [string]>(
      'SELECT most FROM credit_line WHERE account = ?',
    ),
    lot: database.prepare<LotRow, [string, string]>(
      `SELECT ${columns} FROM lot WHERE id = ? AND account = ?`,
    ),
    // Only calls in flight are in the table: reading all of it costs less than an index on every hold and settle.
    openCalls: database.prepare<Row<'openCall'>, [string]>('SELECT * FROM open_call WHERE account = ?'),
    accountOfCall: database.prepare<{ account: string }, [string]>(
      'SELECT account FROM open_call WHERE id = ?',
    ),
    lastAllowance: database.prepare<{ id: string; expires_at: bigint }, [string, string]>(
      `SELECT id, expires_at FROM lot WHERE account = ?1 AND pool = 'daily' AND substr(source, 1, length(?2)) = ?2
       ORDER BY expires_at DESC LIMIT 1`,
    ),
    keyDays: database.prepare<{ day: bigint; spent: bigint }, [string]>(
      'SELECT day, spent FROM key_spend WHERE key = ?',
    ),
    relatives: database.prepare<{ id: string }, [string]>(
      `SELECT key.id FROM api_key AS one, api_key AS key
       WHERE one.id = ?1 AND key.id <> ?1
         AND (key.id = coalesce(one.lineage, one.id) OR key.lineage = coalesce(one.lineage, one.id))`,
    ),
    keyHolds: database.prepare<{ hold: bigint }, [string]>('SELECT hold FROM open_call WHERE key = ?'),
    budgetSpent: database.prepare<{ spent: bigint }, [string, number]>(
      'SELECT spent FROM budget_spend WHERE scope = ? AND window = ?',
    ),
    groupCalls: database.prepare<Row<'openCall', 'hold' | 'in_group'>, []>(
      'SELECT hold, in_group FROM open_call WHERE in_group IS NOT NULL',
    ),
    writeBudget: database.prepare(
      `INSERT INTO budget_spend (scope, window, spent) VALUES (?,?,?)
       ON CONFLICT (scope, window) DO UPDATE SET spent = excluded.spent`,
    ) as Statement,
    insertLot: database.prepare(
      `INSERT INTO lot (id, account, pool, granted, remaining, pinned, expired, refunded, granted_at, expires_at,
       source, live) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)`,
    ) as Statement,
    updateLot: database.prepare(
      'UPDATE lot SET remaining = ?, pinned = ?, expired = ?, refunded = ? WHERE id = ?',
    ) as Statement,
    endLot: database.prepare(
      'UPDATE lot SET remaining = ?, pinned = ?, expired = ?, refunded = ?, live = 0 WHERE id = ?',
    ) as Statement,
    insertPool: database.prepare(
      'INSERT INTO wallet (account, pool, posted, held, debt, version) VALUES (?,?,?,?,?,1)',
    ) as Statement,
    updatePool: database.prepare(
      `UPDATE wallet SET posted = ?, held = ?, debt = ?, version = version + 1
       WHERE account = ? AND pool = ? AND version = ?`,
    ) as Statement,
    writeDay: database.prepare(
      `INSERT INTO key_spend (key, day, spent) VALUES (?,?,?)
       ON CONFLICT (key, day) DO UPDATE SET spent = excluded.spent`,
    ) as Statement,
  }
}

const noSpend: KeySpend = { spent: 0n, held: 0n }
const noBudgets: readonly KeySpend[] = []

/** Since the UTC day that begins at `start`. */
function spentSince(spending: KeySpending, start: number): Pico {
  let sum = spending.sums.get(start)
  if (sum === undefined) {
    sum = 0n
    for (const [day, spent] of spending.days) if (day >= start) sum += spent
    spending.sums.set(start, sum)
  }
  return sum
}

function lotOf(row: LotRow): Lot {
  return {
    id: row.id,
    pool: row.pool,
    granted: row.granted,
    remaining: row.remaining,
    pinned: row.pinned,
    expired: row.expired,
    refunded: row.refunded,
    grantedAt: Number(row.granted_at),
    expiresAt: row.expires_at === null ? null : Number(row.expires_at),
  }
}

function atMost(limit: bigint, value: bigint): bigint {
  return value > limit ? limit : value
}
