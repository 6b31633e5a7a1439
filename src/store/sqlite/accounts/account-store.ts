// Accounts and API keys on SQLite. Lookups are cached; the cache is dropped when another process has written.

import type { Changes, Database, Statement } from 'bun:sqlite'
import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import {
  type Account,
  type AccountCount,
  type AccountStore,
  type ApiKey,
  type KeyPage,
  type KeyPause,
  type KeyQuery,
  lifeState,
  type NewAccount,
  type Session,
} from '../../../accounts/account.ts'
import type { GroupStanding } from '../../../accounts/group.ts'
import { GatewayError } from '../../../errors/errors.ts'
import { atMost } from '../../../async/async.ts'
import { inTransaction, orUnavailable, sqliteCode, whenNeeded } from '../database/sqlite.ts'
import { numberOrNull, recordReader } from '../../sql/work.ts'
import { addToOutbox, keyCreated } from '../../sql/webhooks.ts'
import { SqliteTables } from '../database/tables.ts'
import { SqliteGroups } from './group-store.ts'
import type { Row } from '../../schema.ts'

const cachedRows = 10_000
/** The maximum age of a cached answer before the file is checked for writes of another process, milliseconds. */
const trustMs = 5

/** Rows that are looked at before calls go on: about 3 ms each. */
const keysPerStep = 500
const accountsCountedPerStep = 20_000

/** A row, or the knowledge that there is none: unknown ids must not cost a query each time. */
interface Found<T> {
  readonly row: T | undefined
}

interface CountRow {
  readonly accounts: bigint | null
  readonly suspended: bigint | null
  readonly last: bigint | null
}

interface AccountEvents {
  /** A key has got a successor. */
  onRotated(): void
  /** Accounts, keys or sessions may have changed, here or in the file. */
  onChanged(): void
}

export class SqliteAccounts implements AccountStore {
  readonly #database: Database
  readonly #tables: SqliteTables
  readonly #clock: () => number
  readonly #events: AccountEvents
  readonly #sql: () => ReturnType<typeof statements>
  readonly #accounts = new LRUCache<string, Found<Account>>(atMost(cachedRows))
  readonly #keys = new LRUCache<string, Found<ApiKey>>(atMost(cachedRows))
  readonly #sessions = new LRUCache<string, Found<Session>>(atMost(cachedRows))
  readonly #standings = new LRUCache<string, Found<GroupStanding>>(atMost(cachedRows))
  /** Made by this store, so that what calls ask of groups is cached with the rest. */
  readonly groups: SqliteGroups
  #dataVersion: unknown
  #checkedAt = -Infinity

  constructor(database: Database, clock: () => number, events: AccountEvents) {
    this.#clock = clock
    this.#events = events
    this.#database = database
    this.#tables = new SqliteTables(database)
    this.#sql = whenNeeded(() => statements(database))
    this.groups = new SqliteGroups(database, () => this.#drop(this.#standings))
  }

  createAccount(email: string, more: NewAccount = {}): Account {
    const now = this.#clock()
    const { role = 'user', verifiedAt = now, password = null } = more
    const passwordAt = password === null ? null : now
    const { monthlyCredit = 0n, creditLine = 0n, group } = more.allowances ?? {}
    const account: Account = {
      id: `acct_${randomBytes(9).toString('hex')}`,
      email: normalizeEmail(email),
      createdAt: now,
      suspended: false,
      role,
      verifiedAt,
      monthlyCredit,
    }
    try {
      const { id } = account
      const monthly = monthlyCredit === 0n ? null : monthlyCredit
      inTransaction(this.#database, () => {
        const sql = this.#sql()
        sql.insertAccount.run(id, account.email, now, role, verifiedAt, password, passwordAt, monthly)
        if (creditLine > 0n) sql.insertLine.run(id, creditLine, now)
        if (group !== undefined) sql.insertMember.run(id, now, group)
      })
    } catch (error) {
      if (!sqliteCode(error).startsWith('SQLITE_CONSTRAINT')) throw error
      throw new GatewayError('invalid_request', {
        message: 'This e-mail address has an account.',
        param: 'email',
      })
    }
    this.#drop(this.#accounts)
    return account
  }

  setMonthlyCredit(id: string, amount: bigint): void {
    orUnavailable(() => this.#sql().setMonthlyCredit.run(amount === 0n ? null : amount, id))
    this.#drop(this.#accounts)
  }

  findAccount(idOrEmail: string): Account | undefined {
    return this.#readCached(this.#accounts, idOrEmail, this.#readAccount)
  }

  listAccounts(): readonly Account[] {
    return orUnavailable(() => this.#sql().accounts.all()).map(accountOf)
  }

  async countAccounts(): Promise<AccountCount> {
    let [accounts, suspended] = [0, 0]
    let from: bigint | null = 0n
    while (from !== null) {
      const after: bigint = from
      const step: CountRow = orUnavailable(() => this.#sql().countFrom.get(after, accountsCountedPerStep))!
      accounts += Number(step.accounts ?? 0n)
      suspended += Number(step.suspended ?? 0n)
      from = step.last
      await Bun.sleep(0)
    }
    return { accounts, suspended }
  }

  insertKey(key: ApiKey): boolean {
    return this.#insertKey(key, null, () => this.#sql().insertKey.run(...keyValues(key)))
  }

  insertSuccessor(key: ApiKey, replaces: string): boolean {
    const insert = () => this.#sql().insertSuccessor.run(...keyValues(key), replaces)
    const inserted = this.#insertKey(key, replaces, insert)
    this.#events.onRotated()
    return inserted
  }

  /** In one transaction with the message to webhooks. */
  #insertKey(key: ApiKey, replaces: string | null, insert: () => Changes): boolean {
    const inserted = inTransaction(this.#database, () => {
      if (Number(insert().changes) !== 1) return false
      this.#tables.drive(addToOutbox(keyCreated(key, replaces)))
      return true
    })
    this.#drop(this.#keys)
    return inserted
  }

  changeKey(key: ApiKey): void {
    orUnavailable(() =>
      this.#sql().changeKey.run(
        key.name,
        key.expiresAt,
        key.spendLimit,
        key.limitWindow,
        jsonOrNull(key.allowedModels),
        key.requestsPerMinute,
        key.tokensPerMinute,
        jsonOrNull(key.networks),
        key.cacheTtl,
        key.id,
      ),
    )
    this.#drop(this.#keys)
  }

  keyUsedAt(id: string): number | null {
    return numberOrNull(orUnavailable(() => this.#sql().keyUsedAt.get(id))?.used_at ?? null)
  }

  findKey(id: string): ApiKey | undefined {
    return this.#readCached(this.#keys, id, this.#readKey)
  }

  listKeys(account: string): readonly ApiKey[] {
    return orUnavailable(() => this.#sql().keysOf.all(account)).map(keyOf)
  }

  async pageKeys({ account, limit, after, q, state, now, endedAfter }: KeyQuery): Promise<KeyPage> {
    let place = this.#placeOfKey(account, after)
    const keys: ApiKey[] = []
    let hidden = 0
    for (;;) {
      const [createdAt, id] = place
      const rows = orUnavailable(() => this.#sql().keysBefore.all(account, createdAt, id, keysPerStep)).map(
        keyOf,
      )
      for (const key of rows) {
        if (q !== undefined && !isNamed(key, q)) continue
        if (state === 'current' && isOver(key, now, endedAfter)) {
          hidden++
          continue
        }
        if (keys.length === limit) return { keys, next: keys.at(-1)!.id, hidden }
        keys.push(key)
      }
      const last = rows.at(-1)
      if (rows.length < keysPerStep || last === undefined) return { keys, next: null, hidden }
      place = [last.createdAt, last.id]
      await Bun.sleep(0)
    }
  }

  #placeOfKey(account: string, after: string | undefined): readonly [createdAt: number, id: string] {
    if (after === undefined) return [Number.MAX_SAFE_INTEGER, '']
    const key = this.findKey(after)
    if (key?.account === account) return [key.createdAt, key.id]
    throw unknownCursor()
  }

  countActiveKeys(account: string, now: number, most: number): number {
    return Number(orUnavailable(() => this.#sql().activeKeys.get(account, now, now, most))?.keys ?? 0n)
  }

  revokeKey(id: string, at: number): boolean {
    return this.#change(this.#keys, this.#sql().revokeKey, at, id)
  }

  pauseKey(id: string, pause: KeyPause | null): boolean {
    const { changes } = orUnavailable(() =>
      this.#sql().pauseKey.run(pause?.at ?? null, pause?.by ?? null, id),
    )
    this.#drop(this.#keys)
    return Number(changes) === 1
  }

  expireKey(id: string, at: number): boolean {
    return this.#change(this.#keys, this.#sql().expireKey, at, id)
  }

  suspend(id: string): boolean {
    return this.#change(this.#accounts, this.#sql().setSuspended, 1, id)
  }

  resume(id: string): boolean {
    return this.#change(this.#accounts, this.#sql().setSuspended, 0, id)
  }

  insertSession(session: Session): void {
    orUnavailable(() =>
      this.#sql().insertSession.run(
        session.id,
        session.account,
        session.hash,
        session.lastFour,
        session.createdAt,
        session.expiresAt,
        session.revokedAt,
        session.userAgent,
        session.seenAt,
        session.idleMs,
        session.elevatedUntil,
      ),
    )
    this.#drop(this.#sessions)
  }

  findSession(id: string): Session | undefined {
    return this.#readCached(this.#sessions, id, this.#readSession)
  }

  findStanding(group: string, account: string): GroupStanding | undefined {
    return this.#readCached(this.#standings, `${account} ${group}`, this.#readStanding)
  }

  listSessions(account: string): readonly Session[] {
    return orUnavailable(() => this.#sql().sessionsOf.all(account)).map(sessionOf)
  }

  revokeSession(id: string, at: number): boolean {
    return this.#change(this.#sessions, this.#sql().revokeSession, at, id)
  }

  /** Sets one column of the row `id`; false if there is no such row. */
  #change(cache: { clear(): void }, update: Statement, value: number, id: string): boolean {
    const { changes } = orUnavailable(() => update.run(value, id))
    this.#drop(cache)
    return Number(changes) === 1
  }

  readonly #readAccount = (idOrEmail: string): Account | undefined => {
    const row =
      this.#sql().accountById.get(idOrEmail) ?? this.#sql().accountByEmail.get(normalizeEmail(idOrEmail))
    return row ? accountOf(row) : undefined
  }

  readonly #readKey = (id: string): ApiKey | undefined => {
    const row = this.#sql().keyById.get(id)
    return row ? keyOf(row) : undefined
  }

  readonly #readSession = (id: string): Session | undefined => {
    const row = this.#sql().sessionById.get(id)
    return row ? sessionOf(row) : undefined
  }

  readonly #readStanding = (name: string): GroupStanding | undefined => {
    // The id of an account has no space; what a client calls a group may have any.
    const end = name.indexOf(' ')
    return this.groups.readStanding(name.slice(end + 1), name.slice(0, end))
  }

  #readCached<T>(
    cache: LRUCache<string, Found<T>>,
    id: string,
    read: (id: string) => T | undefined,
  ): T | undefined {
    const now = performance.now()
    if (now - this.#checkedAt >= trustMs) this.#validate(now)
    return (cache.get(id) ?? load(cache, id, read)).row
  }

  /**
   * Looks now for writes of other processes, which a server does many times a second: calls with what they have ended
   * must end as well. Throws `store_unavailable`.
   */
  refresh(): void {
    this.#validate(performance.now())
  }

  // If the file cannot be checked, the error is passed on: an unreadable database is a 503, never a 401.
  #validate(now: number): void {
    const version = orUnavailable(() => this.#sql().dataVersion.values()[0]?.[0])
    this.#checkedAt = now
    if (version === this.#dataVersion) return
    const isFirst = this.#dataVersion === undefined
    this.#dataVersion = version
    if (!isFirst) this.forget()
  }

  /** Cached rows may have changed: read them again. */
  forget(): void {
    this.#accounts.clear()
    this.#keys.clear()
    this.#sessions.clear()
    this.#standings.clear()
    this.#events.onChanged()
  }

  #drop(cache: { clear(): void }): void {
    cache.clear()
    this.#events.onChanged()
  }
}

function load<T>(
  cache: LRUCache<string, Found<T>>,
  id: string,
  read: (id: string) => T | undefined,
): Found<T> {
  const found = { row: orUnavailable(() => read(id)) }
  cache.set(id, found)
  return found
}

function isNamed({ name, id, lastFour }: ApiKey, q: string): boolean {
  return name.toLowerCase().includes(q) || id.toLowerCase().includes(q) || lastFour.toLowerCase().includes(q)
}

function isOver(key: ApiKey, now: number, endedAfter: number): boolean {
  if (lifeState(key, now) === 'active') return false
  return key.revokedAt === null || key.revokedAt <= endedAfter
}

function statements(database: Database) {
  return {
    dataVersion: database.prepare('PRAGMA data_version'),
    insertAccount: database.prepare(
      `INSERT INTO account (id, email, created_at, suspended, role, email_verified_at, password, password_changed_at,
       monthly_credit) VALUES (?,?,?,0,?,?,?,?,?)`,
    ) as Statement,
    // The ledger reads it with the first command of the account.
    insertLine: database.prepare('INSERT INTO credit_line (account, most, at) VALUES (?,?,?)') as Statement,
    insertMember: database.prepare(
      `INSERT INTO group_member (group_id, account, role, joined_at)
       SELECT id, ?, 'member', ? FROM account_group WHERE id = ? AND deleted_at IS NULL`,
    ) as Statement,
    setMonthlyCredit: database.prepare('UPDATE account SET monthly_credit = ? WHERE id = ?') as Statement,
    accountById: database.prepare<Row<'account'>, [string]>('SELECT * FROM account WHERE id = ?'),
    accountByEmail: database.prepare<Row<'account'>, [string]>('SELECT * FROM account WHERE email = ?'),
    accounts: database.prepare<Row<'account'>, []>(
      'SELECT * FROM account WHERE deleted_at IS NULL ORDER BY created_at, id',
    ),
    countFrom: database.prepare<CountRow, [bigint, number]>(
      `SELECT sum(deleted_at IS NULL) AS accounts, sum(deleted_at IS NULL AND suspended) AS suspended,
       max(place) AS last
       FROM (SELECT rowid AS place, suspended, deleted_at FROM account WHERE rowid > ? ORDER BY rowid LIMIT ?)`,
    ),
    insertKey: database.prepare(
      `INSERT INTO api_key (${keyColumns}) VALUES (${keyColumns.replace(/\w+/g, '?')}) ON CONFLICT (id) DO NOTHING`,
    ) as Statement,
    // A key has at most one successor: any younger key of its line was issued by it or by a successor.
    insertSuccessor: database.prepare(
      `INSERT INTO api_key (${keyColumns}, lineage)
       SELECT ${keyColumns.replace(/\w+/g, '?')}, coalesce(old.lineage, old.id) FROM api_key AS old
       WHERE old.id = ? AND NOT EXISTS
       (SELECT 1 FROM api_key WHERE lineage = coalesce(old.lineage, old.id) AND rowid > old.rowid)`,
    ) as Statement,
    changeKey: database.prepare(
      `UPDATE api_key SET name = ?, expires_at = ?, spend_limit = ?, limit_window = ?, allowed_models = ?,
       requests_per_minute = ?, tokens_per_minute = ?, networks = ?, cache_ttl = ? WHERE id = ?`,
    ) as Statement,
    keyUsedAt: database.prepare<{ used_at: bigint | null }, [string]>(
      'SELECT used_at FROM api_key WHERE id = ?',
    ),
    keyById: database.prepare<KeyRow, [string]>(`${readKeys} WHERE id = ?`),
    keysOf: database.prepare<KeyRow, [string]>(`${readKeys} WHERE account = ? ORDER BY created_at, id`),
    keysBefore: database.prepare<KeyRow, [string, number, string, number]>(
      `${readKeys} WHERE account = ? AND (created_at, id) < (?, ?) ORDER BY created_at DESC, id DESC LIMIT ?`,
    ),
    activeKeys: database.prepare<{ keys: bigint }, [string, number, number, number]>(
      `SELECT count(*) AS keys FROM (SELECT 1 FROM api_key WHERE account = ? AND (revoked_at IS NULL OR revoked_at > ?)
       AND (expires_at IS NULL OR expires_at > ?) LIMIT ?)`,
    ),
    // A key keeps the time of its first revocation.
    revokeKey: database.prepare(
      'UPDATE api_key SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?',
    ) as Statement,
    pauseKey: database.prepare('UPDATE api_key SET paused_at = ?, paused_by = ? WHERE id = ?') as Statement,
    expireKey: database.prepare('UPDATE api_key SET expires_at = ? WHERE id = ?') as Statement,
    // A deleted account stays suspended.
    setSuspended: database.prepare(
      'UPDATE account SET suspended = ? WHERE id = ? AND deleted_at IS NULL',
    ) as Statement,
    insertSession: database.prepare(
      `INSERT INTO session (id, account, hash, last_four, created_at, expires_at, revoked_at, user_agent, seen_at,
       idle_ms, elevated_until)
       VALUES (?,?,?,?,?,?,?,?,?,?,?)`,
    ) as Statement,
    sessionById: database.prepare<Row<'session'>, [string]>('SELECT * FROM session WHERE id = ?'),
    sessionsOf: database.prepare<Row<'session'>, [string]>(
      'SELECT * FROM session WHERE account = ? ORDER BY created_at, id',
    ),
    revokeSession: database.prepare(
      'UPDATE session SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?',
    ) as Statement,
  }
}

function jsonOrNull(list: readonly string[] | null): string | null {
  return list === null ? null : JSON.stringify(list)
}

const keyColumns =
  'id, account, name, mode, hash, last_four, created_at, expires_at, revoked_at, spend_limit, limit_window, ' +
  'allowed_models, requests_per_minute, tokens_per_minute, networks, cache_ttl, sees, group_id'

/** A key with the next key of its line. */
const readKeys = `SELECT *, (SELECT id FROM api_key AS younger
  WHERE younger.lineage = coalesce(old.lineage, old.id) AND younger.rowid > old.rowid
  ORDER BY younger.rowid LIMIT 1) AS replaced_by FROM api_key AS old`

/** In the order of `keyColumns`. */
function keyValues(key: ApiKey) {
  return [
    key.id,
    key.account,
    key.name,
    key.mode,
    key.hash,
    key.lastFour,
    key.createdAt,
    key.expiresAt,
    key.revokedAt,
    key.spendLimit,
    key.limitWindow,
    jsonOrNull(key.allowedModels),
    key.requestsPerMinute,
    key.tokensPerMinute,
    jsonOrNull(key.networks),
    key.cacheTtl,
    key.sees,
    key.group,
  ]
}

/** Addresses that differ only in case and blanks are the same. */
function normalizeEmail(email: string): string {
  return email.trim().toLowerCase()
}

function unknownCursor(): GatewayError {
  const message = 'cursor takes the next_cursor of the page before.'
  return new GatewayError('invalid_request', { message, param: 'cursor' })
}

// Maps rows of accounts, keys and sessions to domain objects.

type KeyRow = Row<'apiKey'> & { readonly replaced_by: string | null }

export function accountOf(row: Row<'account'>): Account {
  return {
    id: row.id,
    email: row.email,
    createdAt: Number(row.created_at),
    suspended: row.suspended === 1n,
    role: row.role,
    verifiedAt: numberOrNull(row.email_verified_at),
    monthlyCredit: row.monthly_credit ?? 0n,
  }
}

function keyOf(row: KeyRow): ApiKey {
  return {
    id: row.id,
    account: row.account,
    name: row.name,
    mode: row.mode,
    group: row.group_id,
    hash: row.hash,
    lastFour: row.last_four,
    createdAt: Number(row.created_at),
    expiresAt: numberOrNull(row.expires_at),
    revokedAt: numberOrNull(row.revoked_at),
    paused: row.paused_at === null ? null : { at: Number(row.paused_at), by: row.paused_by ?? 'operator' },
    spendLimit: row.spend_limit,
    limitWindow: row.limit_window,
    allowedModels: listOrNull(row.allowed_models),
    requestsPerMinute: numberOrNull(row.requests_per_minute),
    tokensPerMinute: numberOrNull(row.tokens_per_minute),
    networks: listOrNull(row.networks),
    cacheTtl: numberOrNull(row.cache_ttl),
    sees: row.sees === 'all' ? 'all' : 'own',
    lineage: row.lineage,
    replacedBy: row.replaced_by,
  }
}

export const sessionOf = recordReader<Row<'session'>>()({
  created_at: Number,
  expires_at: Number,
  revoked_at: numberOrNull,
  seen_at: numberOrNull,
  idle_ms: numberOrNull,
  elevated_until: numberOrNull,
})

function listOrNull(json: string | null): string[] | null {
  return json === null ? null : (JSON.parse(json) as string[])
}
