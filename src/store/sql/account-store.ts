// Accounts and API keys. Lookups are cached; the cache is dropped when another process may have written.

import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import {
  type Account,
  type AccountCount,
  type AccountStore,
  type ApiKey,
  type KeyLimits,
  type KeyPage,
  type KeyPause,
  type KeyQuery,
  lifeState,
  type NewAccount,
  type Session,
} from '../../accounts/account.ts'
import type { Changed, GroupStanding } from '../../accounts/group.ts'
import { atMost, type Awaitable } from '../../async/async.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { Row } from '../schema.ts'
import { SqlGroups, standingIn } from './group-store.ts'
import { addToOutbox, keyCreated } from './webhooks.ts'
import {
  isSet,
  numberOrNull,
  recordReader,
  sql,
  type Statement,
  type Tables,
  type Value,
  type Work,
} from './work.ts'

const cachedRows = 10_000
/** The maximum age of a cached answer before it is asked whether another process has written, milliseconds. */
const trustMs = 5

/** How long it is believed that there is no row of an id, milliseconds: nobody tells of the making of what nobody knows. */
const absentMs = 250

/** Rows that are looked at before calls go on: about 3 ms each. */
const keysPerStep = 500
const accountsCountedPerStep = 20_000

interface AccountEvents {
  /** A key has got a successor. */
  onRotated(): void
  /** Accounts, keys or sessions of before may have changed, here or in the database. */
  onChanged(): void
}

export class SqlAccounts implements AccountStore {
  readonly #tables: Tables
  readonly #clock: () => number
  readonly #events: AccountEvents
  readonly #byId: CachedRows<Account>
  /** The same by e-mail address, which calls do not ask for. */
  readonly #byAddress: CachedRows<Account>
  readonly #accounts: Droppable = {
    drop: (id) => {
      this.#byId.drop(id)
      this.#byAddress.drop()
    },
  }
  readonly #keys: CachedRows<ApiKey>
  readonly #sessions: CachedRows<Session>
  readonly #standings: CachedRows<GroupStanding>
  /** Made by this store, so that what calls ask of groups is cached with the rest. */
  readonly groups: SqlGroups
  #checkedAt = -Infinity

  constructor(tables: Tables, clock: () => number, events: AccountEvents) {
    this.#tables = tables
    this.#clock = clock
    this.#events = events
    this.#byId = new CachedRows(tables, findAccount)
    this.#byAddress = new CachedRows(tables, findAccount)
    this.#keys = new CachedRows(tables, findKey)
    this.#sessions = new CachedRows(tables, findSession)
    this.#standings = new CachedRows(tables, findStanding)
    this.groups = new SqlGroups(tables, () => this.#drop(this.#standings))
  }

  async createAccount(email: string, more: NewAccount = {}): Promise<Account> {
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
    const { id } = account
    const monthly = monthlyCredit === 0n ? null : monthlyCredit
    const values = [id, account.email, now, role, verifiedAt, password, passwordAt, monthly]
    await this.#insert(this.#accounts, id, () =>
      this.#tables.together(function* () {
        if ((yield* accounts.insert.run(...values)) === 0)
          throw new GatewayError('invalid_request', {
            message: 'This e-mail address has an account.',
            param: 'email',
          })
        if (creditLine > 0n) yield* accounts.insertLine.run(id, creditLine, now)
        if (group !== undefined) yield* accounts.insertMember.run(id, now, group)
      }),
    )
    return account
  }

  async setMonthlyCredit(id: string, amount: bigint): Promise<void> {
    await this.#change(this.#accounts, id, accounts.setMonthlyCredit, amount === 0n ? null : amount, id)
  }

  findAccount(idOrEmail: string): Awaitable<Account | undefined> {
    return this.#readCached(idOrEmail.includes('@') ? this.#byAddress : this.#byId, idOrEmail)
  }

  listAccounts(): Awaitable<readonly Account[]> {
    return this.#tables.do(function* () {
      return (yield* accounts.list.all()).map(accountOf)
    })
  }

  async countAccounts(): Promise<AccountCount> {
    let [count, suspended] = [0, 0]
    let from: bigint | null = 0n
    while (from !== null) {
      const after: bigint = from
      const step = await this.#tables.do(() => accounts.countFrom.first(after, accountsCountedPerStep))
      count += Number(step?.accounts ?? 0n)
      suspended += Number(step?.suspended ?? 0n)
      from = step?.last ?? null
      await Bun.sleep(0)
    }
    return { accounts: count, suspended }
  }

  insertKey(key: ApiKey): Promise<boolean> {
    return this.#insertKey(key, null, () => keys.insert.run(...keyValues(key)))
  }

  async insertSuccessor(key: ApiKey, replaces: string): Promise<boolean> {
    const insert = () => keys.insertSuccessor.run(...keyValues(key), replaces)
    try {
      return await this.#insertKey(key, replaces, insert)
    } finally {
      this.#drop(this.#keys)
      this.#events.onRotated()
    }
  }

  /** In one transaction with the message to webhooks. */
  #insertKey(key: ApiKey, replaces: string | null, insert: () => Work<number>): Promise<boolean> {
    return this.#insert(this.#keys, key.id, () =>
      this.#tables.together(function* () {
        if ((yield* insert()) !== 1) return false
        yield* addToOutbox(keyCreated(key, replaces))
        return true
      }),
    )
  }

  async changeKey(
    id: string,
    changes: Partial<KeyLimits & Pick<ApiKey, 'name'>>,
  ): Promise<Changed<ApiKey> | undefined> {
    try {
      return await this.#tables.together(function* () {
        const row = yield* keys.byId.first(id)
        if (row === undefined) return undefined
        const before = keyOf(row)
        const after: ApiKey = { ...before, ...changes }
        yield* keys.change.run(
          after.name,
          after.expiresAt,
          after.spendLimit,
          after.limitWindow,
          jsonOrNull(after.allowedModels),
          after.requestsPerMinute,
          after.tokensPerMinute,
          jsonOrNull(after.networks),
          after.cacheTtl,
          id,
        )
        return { before, after }
      })
    } finally {
      this.#drop(this.#keys, id)
    }
  }

  keyUsedAt(id: string): Awaitable<number | null> {
    return this.#tables.do(function* () {
      return numberOrNull((yield* keys.usedAt.first(id))?.used_at ?? null)
    })
  }

  findKey(id: string): Awaitable<ApiKey | undefined> {
    return this.#readCached(this.#keys, id)
  }

  listKeys(account: string): Awaitable<readonly ApiKey[]> {
    return this.#tables.do(function* () {
      return (yield* keys.list.all(account)).map(keyOf)
    })
  }

  async pageKeys({ account, limit, after, q, state, now, endedAfter }: KeyQuery): Promise<KeyPage> {
    let place = await this.#placeOfKey(account, after)
    const found: ApiKey[] = []
    let hidden = 0
    for (;;) {
      const [createdAt, id] = place
      const rows = await this.#tables.do(() => keys.before.all(account, createdAt, id, keysPerStep))
      for (const key of rows.map(keyOf)) {
        if (q !== undefined && !isNamed(key, q)) continue
        if (state === 'current' && isOver(key, now, endedAfter)) {
          hidden++
          continue
        }
        if (found.length === limit) return { keys: found, next: found.at(-1)!.id, hidden }
        found.push(key)
      }
      const last = rows.at(-1)
      if (rows.length < keysPerStep || last === undefined) return { keys: found, next: null, hidden }
      place = [last.created_at, last.id]
      await Bun.sleep(0)
    }
  }

  async #placeOfKey(
    account: string,
    after: string | undefined,
  ): Promise<readonly [createdAt: number | bigint, id: string]> {
    if (after === undefined) return [Number.MAX_SAFE_INTEGER, '']
    const key = await this.findKey(after)
    if (key?.account === account) return [key.createdAt, key.id]
    throw unknownCursor()
  }

  countActiveKeys(account: string, now: number, most: number): Awaitable<number> {
    return this.#tables.do(function* () {
      return Number((yield* keys.countActive.first(account, now, now, most))?.keys ?? 0n)
    })
  }

  revokeKey(id: string, at: number): Promise<boolean> {
    return this.#change(this.#keys, id, keys.revoke, at, id)
  }

  pauseKey(id: string, pause: KeyPause | null): Promise<boolean> {
    return this.#change(this.#keys, id, keys.pause, pause?.at ?? null, pause?.by ?? null, id)
  }

  pauseOwnKey(id: string, pause: KeyPause | null): Promise<boolean> {
    return this.#change(this.#keys, id, keys.pauseOwn, pause?.at ?? null, pause?.by ?? null, id)
  }

  expireKey(id: string, at: number): Promise<boolean> {
    return this.#change(this.#keys, id, keys.expire, at, id)
  }

  suspend(id: string): Promise<boolean> {
    return this.#change(this.#accounts, id, accounts.setSuspended, 1, id)
  }

  resume(id: string): Promise<boolean> {
    return this.#change(this.#accounts, id, accounts.setSuspended, 0, id)
  }

  async insertSession(session: Session): Promise<void> {
    const { id, account, hash, lastFour, createdAt, expiresAt, revokedAt, userAgent, seenAt } = session
    const values = [id, account, hash, lastFour, createdAt, expiresAt, revokedAt, userAgent, seenAt]
    await this.#insert(this.#sessions, id, () =>
      this.#tables.do(() => sessions.insert.run(...values, session.idleMs, session.elevatedUntil)),
    )
  }

  findSession(id: string): Awaitable<Session | undefined> {
    return this.#readCached(this.#sessions, id)
  }

  findStanding(group: string, account: string): Awaitable<GroupStanding | undefined> {
    return this.#readCached(this.#standings, `${account} ${group}`)
  }

  listSessions(account: string): Awaitable<readonly Session[]> {
    return this.#tables.do(function* () {
      return (yield* sessions.list.all(account)).map(sessionOf)
    })
  }

  revokeSession(id: string, at: number): Promise<boolean> {
    return this.#change(this.#sessions, id, sessions.revoke, at, id)
  }

  /**
   * Writes one row; false if there is none to write. It is dropped from the cache even if that fails: where a connection is
   * lost, the write may be in the database all the same.
   */
  async #change(
    cache: Droppable,
    id: string,
    statement: Statement<unknown>,
    ...values: readonly Value[]
  ): Promise<boolean> {
    try {
      return await this.#tables.do(function* () {
        return (yield* statement.run(...values)) === 1
      })
    } finally {
      this.#drop(cache, id)
    }
  }

  /** Makes a row with an id of its own, of which nobody can have asked: nobody is told, and no other process is waited for. */
  async #insert<T>(cache: Droppable, id: string, insert: () => Awaitable<T>): Promise<T> {
    try {
      return await insert()
    } finally {
      cache.drop(id)
    }
  }

  #readCached<T>(cache: CachedRows<T>, id: string): Awaitable<T | undefined> {
    const now = performance.now()
    if (now - this.#checkedAt >= trustMs) this.#validate(now)
    return cache.find(id, now)
  }

  /**
   * Looks now for writes of other processes, which a server does many times a second: calls with what they have ended
   * must end as well. Throws `store_unavailable`.
   */
  refresh(): void {
    this.#validate(performance.now())
  }

  // If it cannot be looked, the error is passed on: an unreadable database is a 503, never a 401.
  #validate(now: number): void {
    const changed = this.#tables.changedElsewhere()
    const isFirst = this.#checkedAt === -Infinity
    this.#checkedAt = now
    if (isFirst || changed === 'nothing') return
    if (changed === 'everything') return this.forget()
    for (const row of changed) this.#dropNamed(row)
    this.#events.onChanged()
  }

  /** Reads an account again, which another process may have changed a moment ago. */
  forgetAccount(id: string): void {
    this.#drop(this.#accounts, id)
  }

  /** Cached rows may have changed, or only this session: read them again. */
  forget(session?: string): void {
    if (session !== undefined) return this.#drop(this.#sessions, session)
    this.#accounts.drop()
    this.#keys.drop()
    this.#sessions.drop()
    this.#standings.drop()
    this.#events.onChanged()
  }

  #drop(cache: Droppable, id?: string): void {
    cache.drop(id)
    this.#events.onChanged()
  }

  /** `row`: a table, and the id in it where one row has changed. */
  #dropNamed(row: string): void {
    const [table, id] = row.split(' ')
    if (table === 'account') this.#accounts.drop(id)
    else if (table === 'api_key') this.#keys.drop(id)
    else if (table === 'session') this.#sessions.drop(id)
    // Whatever changes of a group or its members, others above and below may stand differently.
    else this.#standings.drop()
  }
}

// What calls look up, kept in memory.

interface Droppable {
  /** Forgets the row with this id, or all. */
  drop(id?: string): void
}

/** A row, or the knowledge that there was none: unknown ids must not cost a query each time. */
interface Found<T> {
  readonly row: T | undefined
  /** Milliseconds, as `performance.now` counts them. */
  readonly until: number
}

/** Rows by their id. One that is known is given at once; one that is not is read once for all who ask meanwhile. */
class CachedRows<T> implements Droppable {
  readonly #tables: Tables
  readonly #read: (id: string) => Work<T | undefined>
  readonly #rows = new LRUCache<string, Found<T>>(atMost(cachedRows))
  /** Reads under way, where a database answers later, but for those that have begun before their row was dropped. */
  readonly #reads = new Map<string, Promise<T | undefined>>()

  constructor(tables: Tables, read: (id: string) => Work<T | undefined>) {
    this.#tables = tables
    this.#read = read
  }

  /** `now` as `performance.now` has it. */
  find(id: string, now: number): Awaitable<T | undefined> {
    const known = this.#rows.get(id)
    if (known && now < known.until) return known.row
    return this.#reads.get(id) ?? this.#load(id, now)
  }

  drop(id?: string): void {
    // A read that began before the drop may give what was there before: whoever has asked for it gets it, and nobody else.
    if (id === undefined) {
      this.#rows.clear()
      this.#reads.clear()
    } else {
      this.#rows.delete(id)
      this.#reads.delete(id)
    }
  }

  #load(id: string, now: number): Awaitable<T | undefined> {
    const row = this.#tables.do(() => this.#read(id))
    if (!(row instanceof Promise)) return this.#keep(id, row, now)
    const read: Promise<T | undefined> = row.then(
      (found) => (this.#ends(id, read) ? this.#keep(id, found, now) : found),
      (error: unknown) => {
        this.#ends(id, read)
        throw error
      },
    )
    this.#reads.set(id, read)
    return read
  }

  /** Whether this read is still the one under way. */
  #ends(id: string, read: Promise<T | undefined>): boolean {
    return this.#reads.get(id) === read && this.#reads.delete(id)
  }

  /** `now`: when its reading began. */
  #keep(id: string, row: T | undefined, now: number): T | undefined {
    this.#rows.set(id, { row, until: row === undefined ? now + absentMs : Number.POSITIVE_INFINITY })
    return row
  }
}

function* findAccount(idOrEmail: string): Work<Account | undefined> {
  const row =
    (yield* accounts.byId.first(idOrEmail)) ?? (yield* accounts.byEmail.first(normalizeEmail(idOrEmail)))
  return row && accountOf(row)
}

function* findKey(id: string): Work<ApiKey | undefined> {
  const row = yield* keys.byId.first(id)
  return row && keyOf(row)
}

function* findSession(id: string): Work<Session | undefined> {
  const row = yield* sessions.byId.first(id)
  return row && sessionOf(row)
}

/** `name`: the account and the group. */
function findStanding(name: string): Work<GroupStanding | undefined> {
  // The id of an account has no space; what a client calls a group may have any.
  const end = name.indexOf(' ')
  return standingIn(name.slice(end + 1), name.slice(0, end))
}

function isNamed({ name, id, lastFour }: ApiKey, q: string): boolean {
  return name.toLowerCase().includes(q) || id.toLowerCase().includes(q) || lastFour.toLowerCase().includes(q)
}

function isOver(key: ApiKey, now: number, endedAfter: number): boolean {
  if (lifeState(key, now) === 'active') return false
  return key.revokedAt === null || key.revokedAt <= endedAfter
}

const accounts = {
  insert: sql(
    `INSERT INTO account (id, email, created_at, suspended, role, email_verified_at, password, password_changed_at,
     monthly_credit) VALUES (?,?,?,0,?,?,?,?,?) ON CONFLICT (email) DO NOTHING`,
  ),
  // The ledger reads it with the first command of the account.
  insertLine: sql('INSERT INTO credit_line (account, most, at) VALUES (?,?,?)'),
  insertMember: sql(
    `INSERT INTO group_member (group_id, account, role, joined_at)
     SELECT id, CAST(? AS text), 'member', CAST(? AS bigint) FROM account_group WHERE id = ? AND deleted_at IS NULL`,
  ),
  setMonthlyCredit: sql('UPDATE account SET monthly_credit = ? WHERE id = ?'),
  byId: sql<Row<'account'>>('SELECT * FROM account WHERE id = ?'),
  byEmail: sql<Row<'account'>>('SELECT * FROM account WHERE email = ?'),
  list: sql<Row<'account'>>('SELECT * FROM account WHERE deleted_at IS NULL ORDER BY created_at, id'),
  countFrom: sql<{
    readonly accounts: bigint | null
    readonly suspended: bigint | null
    readonly last: bigint | null
  }>(
    `SELECT CAST(sum(CASE WHEN deleted_at IS NULL THEN 1 ELSE 0 END) AS bigint) AS accounts,
       CAST(sum(CASE WHEN deleted_at IS NULL THEN suspended ELSE 0 END) AS bigint) AS suspended, max(place) AS last
     FROM (SELECT rowid AS place, suspended, deleted_at FROM account WHERE rowid > ? ORDER BY rowid LIMIT ?) AS step`,
  ),
  // A deleted account stays suspended.
  setSuspended: sql('UPDATE account SET suspended = ? WHERE id = ? AND deleted_at IS NULL'),
}

const keyColumns =
  'id, account, name, mode, hash, last_four, created_at, expires_at, revoked_at, spend_limit, limit_window, ' +
  'allowed_models, requests_per_minute, tokens_per_minute, networks, cache_ttl, sees, group_id'

/** A key with the next key of its line. */
const readKeys = `SELECT *, (SELECT id FROM api_key AS younger
  WHERE younger.lineage = coalesce(old.lineage, old.id) AND younger.rowid > old.rowid
  ORDER BY younger.rowid LIMIT 1) AS replaced_by FROM api_key AS old`

const keys = {
  insert: sql(
    `INSERT INTO api_key (${keyColumns}) VALUES (${keyColumns.replace(/\w+/g, '?')}) ON CONFLICT (id) DO NOTHING`,
  ),
  // A key has at most one successor: any younger key of its line was issued by it or by a successor.
  insertSuccessor: sql(
    `INSERT INTO api_key (${keyColumns}, lineage)
     SELECT ${keyColumns.replace(/\w+/g, '?')}, coalesce(old.lineage, old.id) FROM api_key AS old
     WHERE old.id = ? AND old.revoked_at IS NULL AND coalesce(old.paused_by, 'leak') NOT IN ('owner', 'operator')
     AND NOT EXISTS (SELECT 1 FROM api_key WHERE lineage = coalesce(old.lineage, old.id) AND rowid > old.rowid)`,
  ),
  change: sql(
    `UPDATE api_key SET name = ?, expires_at = ?, spend_limit = ?, limit_window = ?, allowed_models = ?,
     requests_per_minute = ?, tokens_per_minute = ?, networks = ?, cache_ttl = ? WHERE id = ?`,
  ),
  usedAt: sql<{ readonly used_at: bigint | null }>('SELECT used_at FROM api_key WHERE id = ?'),
  byId: sql<KeyRow>(`${readKeys} WHERE id = ?`),
  list: sql<KeyRow>(`${readKeys} WHERE account = ? ORDER BY created_at, id`),
  before: sql<KeyRow>(
    `${readKeys} WHERE account = ? AND (created_at, id) < (?, ?) ORDER BY created_at DESC, id DESC LIMIT ?`,
  ),
  countActive: sql<{ readonly keys: bigint }>(
    `SELECT count(*) AS keys FROM (SELECT 1 FROM api_key WHERE account = ? AND (revoked_at IS NULL OR revoked_at > ?)
     AND (expires_at IS NULL OR expires_at > ?) LIMIT ?) AS working`,
  ),
  // A key keeps the time of its first revocation.
  revoke: sql('UPDATE api_key SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?'),
  pause: sql('UPDATE api_key SET paused_at = ?, paused_by = ? WHERE id = ?'),
  pauseOwn: sql(
    "UPDATE api_key SET paused_at = ?, paused_by = ? WHERE id = ? AND (paused_by IS NULL OR paused_by <> 'operator')",
  ),
  expire: sql('UPDATE api_key SET expires_at = ? WHERE id = ?'),
}

const sessions = {
  insert: sql(
    `INSERT INTO session (id, account, hash, last_four, created_at, expires_at, revoked_at, user_agent, seen_at,
     idle_ms, elevated_until) VALUES (?,?,?,?,?,?,?,?,?,?,?)`,
  ),
  byId: sql<Row<'session'>>('SELECT * FROM session WHERE id = ?'),
  list: sql<Row<'session'>>('SELECT * FROM session WHERE account = ? ORDER BY created_at, id'),
  revoke: sql('UPDATE session SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?'),
}

function jsonOrNull(list: readonly string[] | null): string | null {
  return list === null ? null : JSON.stringify(list)
}

/** In the order of `keyColumns`. */
function keyValues(key: ApiKey): readonly Value[] {
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
    suspended: isSet(row.suspended),
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
