// What accounts have besides keys of calls: keys of the admin API, what directories say, MCP servers, the log of operators'
// acts, and settings that operators have changed. Keys of the admin API are few and rarely used: nothing is cached, and a
// revocation holds at once.

import type { SettingsRow, SettingsStore } from '../../accounts/console-settings.ts'
import type {
  Act,
  ActFilter,
  ActLog,
  LoggedAct,
  Provisioned,
  ProvisionedKind,
  ProvisioningStore,
} from '../../accounts/identity/identity-store.ts'
import type { ManagementKey, ManagementKeyStore, ManagementScope } from '../../accounts/key-leaks.ts'
import type { McpServerRow, McpServerStore } from '../../accounts/mcp-server.ts'
import type { Awaitable } from '../../async/async.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { UpkeepNote, UpkeepStore } from '../../notify/alarms.ts'
import type { Row } from '../schema.ts'
import type { SpendingReader } from '../store.ts'
import type { ThisProcess } from './idempotency.ts'
import {
  numberOrNull,
  type OrderedTables,
  recordReader,
  sql,
  sqlWhere,
  type Tables,
  type Work,
} from './work.ts'

export class SqlManagementKeys implements ManagementKeyStore {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  insert(key: ManagementKey): Awaitable<boolean> {
    return this.#tables.do(function* () {
      const written = yield* managementKeys.insert.run(
        key.id,
        key.account,
        key.name,
        key.hash,
        key.lastFour,
        key.createdAt,
        key.expiresAt,
        key.revokedAt,
        key.networks === null ? null : JSON.stringify(key.networks),
        key.scope === 'admin' ? null : key.scope,
      )
      return written === 1
    })
  }

  find(id: string): Awaitable<ManagementKey | undefined> {
    return this.#tables.do(function* () {
      const row = yield* managementKeys.find.first(id)
      return row && keyOf(row)
    })
  }

  list(account?: string): Awaitable<readonly ManagementKey[]> {
    return this.#tables.do(function* () {
      const rows =
        account === undefined ? yield* managementKeys.list.all() : yield* managementKeys.listOf.all(account)
      return rows.map(keyOf)
    })
  }

  revoke(id: string, at: number): Awaitable<boolean> {
    return this.#tables.do(function* () {
      return (yield* managementKeys.revoke.run(at, id)) === 1
    })
  }

  remove(id: string): Awaitable<void> {
    return this.#tables.do(function* () {
      yield* managementKeys.remove.run(id)
    })
  }
}

const managementKeys = {
  insert: sql(
    `INSERT INTO management_key (id, account, name, hash, last_four, created_at, expires_at, revoked_at, networks,
     scope) VALUES (?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO NOTHING`,
  ),
  find: sql<Row<'managementKey'>>('SELECT * FROM management_key WHERE id = ?'),
  list: sql<Row<'managementKey'>>('SELECT * FROM management_key ORDER BY created_at, id'),
  listOf: sql<Row<'managementKey'>>('SELECT * FROM management_key WHERE account = ? ORDER BY created_at, id'),
  // A key keeps the time of its first revocation.
  revoke: sql('UPDATE management_key SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?'),
  remove: sql('DELETE FROM management_key WHERE id = ?'),
}

const keyOf = recordReader<Row<'managementKey'>>()({
  created_at: Number,
  expires_at: numberOrNull,
  revoked_at: numberOrNull,
  networks: (json) => (json === null ? null : (JSON.parse(json) as string[])),
  scope: (text): ManagementScope => (text === 'scim' ? text : 'admin'),
})

// What directories say of accounts and groups.

/** How long a change waits for one that another process is making, milliseconds. */
const patienceMs = 10_000
/** Between two tries, milliseconds. */
const retryMs = 20
/** What a process that has ended was changing is free after this time, milliseconds: it may have ended a moment ago. */
const abandonedMs = 15_000

export class SqlProvisioning implements ProvisioningStore {
  readonly #tables: OrderedTables
  readonly #process: ThisProcess
  readonly #onTurn: (id: string) => void
  /** The last change of each account or group in this process. */
  readonly #changing = new Map<string, Promise<unknown>>()

  /** `onTurn` is called before a change: what is cached of that account may be older than the one before. */
  constructor(tables: OrderedTables, process: ThisProcess, onTurn: (id: string) => void) {
    this.#tables = tables
    this.#process = process
    this.#onTurn = onTurn
  }

  async changeAlone<T>(id: string, act: () => Promise<T>): Promise<T> {
    const turn = () => this.#inTurn(id, act)
    const mine = (this.#changing.get(id) ?? Promise.resolve()).then(turn, turn)
    this.#changing.set(id, mine)
    try {
      return await mine
    } finally {
      if (this.#changing.get(id) === mine) this.#changing.delete(id)
    }
  }

  async #inTurn<T>(id: string, act: () => Promise<T>): Promise<T> {
    const name = `change ${id}`
    const { owner } = this.#process
    const turn = JSON.stringify({ owner, turn: crypto.randomUUID() } satisfies Turn)
    await this.#takeTurn(name, turn)
    this.#onTurn(id)
    // Also where the database is away when the change ends: nobody else could ever change it.
    const end = () => this.#tables.persist(name, () => turns.end.run(name, turn))
    try {
      const result = await act()
      await end()
      return result
    } catch (error) {
      end().catch(() => undefined)
      throw error
    }
  }

  async #takeTurn(name: string, turn: string): Promise<void> {
    const { clock, isDead } = this.#process
    const until = performance.now() + patienceMs
    while ((await this.#tables.do(() => turns.take.run(name, clock(), turn))) === 0) {
      const other = await this.#tables.do(() => turns.find.first(name))
      if (!other) continue
      const isOld = clock() - Number(other.at) >= abandonedMs
      if (isOld && (await isDead((JSON.parse(other.value) as Turn).owner)))
        await this.#tables.do(() => turns.end.run(name, other.value))
      else if (performance.now() >= until)
        throw new GatewayError('overloaded', { message: 'Another change of this is being made: ask again.' })
      else await Bun.sleep(retryMs)
    }
  }

  put({ id, kind, userName, externalId, attributes, changedAt }: Provisioned): Awaitable<void> {
    return this.#tables.do(function* () {
      const written = JSON.stringify(attributes)
      yield* provisioned.put.run(id, kind, userName, externalId, written, changedAt)
    })
  }

  find(id: string): Awaitable<Provisioned | undefined> {
    return this.#tables.do(function* () {
      const row = yield* provisioned.find.first(id)
      return row && provisionedOf(row)
    })
  }

  byUserName(userName: string): Awaitable<string | undefined> {
    return this.#tables.do(function* () {
      return (yield* provisioned.byUserName.first(userName))?.id
    })
  }

  byExternalId(externalId: string, kind: ProvisionedKind): Awaitable<string | undefined> {
    return this.#tables.do(function* () {
      return (yield* provisioned.byExternalId.first(externalId, kind))?.id
    })
  }

  remove(id: string): Awaitable<void> {
    return this.#tables.do(function* () {
      yield* provisioned.remove.run(id)
    })
  }

  accounts(offset: number, limit: number): Awaitable<readonly string[]> {
    return this.#tables.do(function* () {
      return (yield* provisioned.accounts.all(limit, offset)).map(({ id }) => id)
    })
  }
}

/** A change that is being made, as its row in `upkeep` says. */
interface Turn {
  /** The process, by its name in holds. */
  readonly owner: string
  readonly turn: string
}

const turns = {
  take: sql('INSERT INTO upkeep (name, at, value) VALUES (?,?,?) ON CONFLICT (name) DO NOTHING'),
  find: sql<Row<'upkeep'>>('SELECT * FROM upkeep WHERE name = ?'),
  end: sql('DELETE FROM upkeep WHERE name = ? AND value = ?'),
}

const provisioned = {
  put: sql(
    `INSERT INTO provisioned (id, kind, user_name, external_id, attributes, changed_at) VALUES (?,?,?,?,?,?)
     ON CONFLICT (id) DO UPDATE SET user_name = excluded.user_name, external_id = excluded.external_id,
     attributes = excluded.attributes, changed_at = excluded.changed_at`,
  ),
  find: sql<Row<'provisioned'>>('SELECT * FROM provisioned WHERE id = ?'),
  byUserName: sql<{ id: string }>('SELECT id FROM provisioned WHERE user_name = ? ORDER BY id LIMIT 1'),
  byExternalId: sql<{ id: string }>(
    'SELECT id FROM provisioned WHERE external_id = ? AND kind = ? ORDER BY id LIMIT 1',
  ),
  accounts: sql<{ id: string }>(
    'SELECT id FROM account WHERE deleted_at IS NULL ORDER BY rowid LIMIT ? OFFSET ?',
  ),
  remove: sql('DELETE FROM provisioned WHERE id = ?'),
}

const provisionedOf = recordReader<Row<'provisioned'>>()({
  attributes: (json) => JSON.parse(json) as Record<string, unknown>,
  changed_at: Number,
})

// Registered MCP servers.

export class SqlMcpServers implements McpServerStore {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  put({ account, name, url, sealed, createdAt, changedAt }: McpServerRow): Awaitable<void> {
    return this.#tables.do(function* () {
      yield* mcpServers.put.run(account, name, url, sealed, createdAt, changedAt)
    })
  }

  find(account: string, name: string): Awaitable<McpServerRow | undefined> {
    return this.#tables.do(function* () {
      const row = yield* mcpServers.find.first(account, name)
      return row && rowOf(row)
    })
  }

  list(account: string): Awaitable<readonly McpServerRow[]> {
    return this.#tables.do(function* () {
      return (yield* mcpServers.list.all(account)).map(rowOf)
    })
  }

  remove(account: string, name: string): Awaitable<boolean> {
    return this.#tables.do(function* () {
      return (yield* mcpServers.remove.run(account, name)) === 1
    })
  }
}

const mcpServers = {
  put: sql(
    `INSERT INTO mcp_server (account, name, url, sealed, created_at, changed_at) VALUES (?,?,?,?,?,?)
     ON CONFLICT (account, name) DO UPDATE SET url = excluded.url, sealed = excluded.sealed,
       changed_at = excluded.changed_at`,
  ),
  find: sql<Row<'mcpServer'>>('SELECT * FROM mcp_server WHERE account = ? AND name = ?'),
  list: sql<Row<'mcpServer'>>('SELECT * FROM mcp_server WHERE account = ? ORDER BY name'),
  remove: sql('DELETE FROM mcp_server WHERE account = ? AND name = ?'),
}

const rowOf = recordReader<Row<'mcpServer'>>()({ created_at: Number, changed_at: Number })

// The log of operators' acts. The table refuses updates and deletes.

const largestPage = 1_000

export class SqlActs implements ActLog {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  record(act: Act): Awaitable<void> {
    return this.#tables.do(() => recordAct(act))
  }

  page(
    limit: number,
    before: number = Number.MAX_SAFE_INTEGER,
    filter: ActFilter = {},
  ): Awaitable<readonly LoggedAct[]> {
    const { operator, what, subject, from, until } = filter
    const { statement, values } = actsWhere([
      ['seq < ?', before],
      ['operator = ?', operator],
      ['subject = ?', subject],
      // `key` is every act on keys, and `key.revoke` one kind.
      ["what || '.' >= ? || '.'", what],
      ["what || '.' < ? || '/'", what],
      ['at >= ?', from],
      ['at < ?', until],
    ])
    return this.#tables.do(function* () {
      return (yield* statement.all(...values, Math.min(limit, largestPage))).map(actOf)
    })
  }
}

/** For whoever writes in the same transaction what the operator has done. */
export function* recordAct({ at, operator, what, subject, before, after }: Act): Work<void> {
  yield* insertAct.run(at, operator, what, subject, jsonOf(before), jsonOf(after))
}

const insertAct = sql('INSERT INTO act (at, operator, what, subject, before, after) VALUES (?,?,?,?,?,?)')

const actsWhere = sqlWhere<Row<'act'>>(
  (conditions) => `SELECT * FROM act WHERE ${conditions} ORDER BY seq DESC LIMIT ?`,
)

function jsonOf(state: unknown): string | null {
  return state === null || state === undefined ? null : JSON.stringify(state)
}

const stateOf = (json: string | null) => (json === null ? null : (JSON.parse(json) as unknown))

const actOf = recordReader<Row<'act'>>()({ seq: Number, at: Number, before: stateOf, after: stateOf })

// Settings that operators have changed.

export class SqlSettings implements SettingsStore {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  revision(): Awaitable<number> {
    return this.#tables.do(function* () {
      return Number((yield* settings.revision.first())?.revision ?? 0)
    })
  }

  latest(): Awaitable<SettingsRow | undefined> {
    return this.#tables.do(function* () {
      const row = yield* settings.latest.first()
      return row && settingsOf(row)
    })
  }

  find(revision: number): Awaitable<SettingsRow | undefined> {
    return this.#tables.do(function* () {
      const row = yield* settings.find.first(revision)
      return row && settingsOf(row)
    })
  }

  append(row: SettingsRow, act: Act, most: number): Awaitable<boolean> {
    const { revision, at, operator, before, settings: written, sealed } = row
    return this.#tables.together(function* () {
      if ((yield* settings.insert.run(revision, at, operator, before, written, sealed)) === 0) return false
      yield* recordAct(act)
      yield* settings.forget.run(revision - most)
      return true
    })
  }
}

const settings = {
  revision: sql<Pick<Row<'consoleSettings'>, 'revision'>>(
    'SELECT revision FROM console_settings ORDER BY revision DESC LIMIT 1',
  ),
  latest: sql<Row<'consoleSettings'>>('SELECT * FROM console_settings ORDER BY revision DESC LIMIT 1'),
  find: sql<Row<'consoleSettings'>>('SELECT * FROM console_settings WHERE revision = ?'),
  insert: sql(
    `INSERT INTO console_settings (revision, at, operator, before, settings, sealed) VALUES (?,?,?,?,?,?)
     ON CONFLICT (revision) DO NOTHING`,
  ),
  forget: sql('DELETE FROM console_settings WHERE revision <= ?'),
}

const settingsOf = recordReader<Row<'consoleSettings'>>()({
  revision: Number,
  at: Number,
  before: Number,
})

// Notes of upkeep, and what was spent, for alarms.

export class SqlUpkeep implements UpkeepStore {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  findNote(name: string): Awaitable<UpkeepNote | undefined> {
    return this.#tables.do(function* () {
      const row = yield* findNote.first(name)
      if (!row) return undefined
      return { name, at: Number(row.at), value: JSON.parse(row.value) as UpkeepNote['value'] }
    })
  }

  async keepNote(note: UpkeepNote): Promise<void> {
    try {
      await this.#tables.withoutWaiting(() => writeNote(note))
    } catch {
      // A command beside a server often finds that one writing.
      await this.#tables.together(() => writeNote(note))
    }
  }
}

/** The same for whoever has no store open. */
export function* writeNote({ name, at, value }: UpkeepNote): Work<void> {
  yield* keepNote.run(name, at, JSON.stringify(value))
}

const findNote = sql<Row<'upkeep'>>('SELECT * FROM upkeep WHERE name = ?')
const keepNote = sql(
  `INSERT INTO upkeep (name, at, value) VALUES (?,?,?)
   ON CONFLICT (name) DO UPDATE SET at = excluded.at, value = excluded.value`,
)

/** Of the sums that are written with each call: a month is a few thousand rows. */
export class SqlSpending implements SpendingReader {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  ofInstallation(from: number, until: number): Awaitable<number> {
    return this.#tables.do(function* () {
      return dollars(yield* spent.ofInstallation.first(from, until))
    })
  }

  ofAccount(account: string, from: number, until: number): Awaitable<number> {
    return this.#tables.do(function* () {
      return dollars(yield* spent.ofAccount.first(account, from, until))
    })
  }

  ofDays(days: readonly number[]): Awaitable<ReadonlyMap<number, number>> {
    return this.#tables.do(function* () {
      const rows = yield* spent.ofDays.all(JSON.stringify(days))
      return new Map(rows.map((row) => [Number(row.day), dollars(row)]))
    })
  }
}

interface Sum {
  /** Picodollars; null of no calls. */
  readonly sum: number | null
}

// As floats, which no sum overflows.
const spent = {
  ofInstallation: sql<Sum>(
    'SELECT sum(CAST(cost AS double precision)) AS sum FROM usage_total WHERE day >= ? AND day < ?',
  ),
  ofAccount: sql<Sum>(
    `SELECT sum(CAST(charged AS double precision)) AS sum FROM usage_day
     WHERE account = ? AND day >= ? AND day < ?`,
  ),
  ofDays: sql<Sum & { readonly day: bigint }>(
    `SELECT day, sum(CAST(cost AS double precision)) AS sum FROM usage_total WHERE day IN NUMBERS(?) GROUP BY day`,
  ),
}

function dollars(row: Sum | undefined): number {
  return (row?.sum ?? 0) / 1e12
}
