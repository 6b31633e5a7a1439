// What accounts have besides keys of calls, on SQLite: keys of the admin API, what directories say, MCP servers, the log of operators' acts, and
// settings that operators have changed.
// Keys of the admin API are few and rarely used: nothing is cached, and a revocation holds at once.

import type { Database, Statement } from 'bun:sqlite'
import type { SettingsRow, SettingsStore } from '../../../accounts/console-settings.ts'
import type { Act, ActFilter, ActLog, LoggedAct } from '../../../accounts/identity/identity-store.ts'
import type { ManagementKey, ManagementKeyStore, ManagementScope } from '../../../accounts/management-key.ts'
import type { Provisioned, ProvisionedKind, ProvisioningStore } from '../../../accounts/provisioning.ts'
import type { McpServerRow, McpServerStore } from '../../../accounts/mcp-server.ts'
import { inTransaction, numberOrNull, orUnavailable, recordReader } from '../database/sqlite.ts'
import type { Row } from '../../schema.ts'

export class SqliteManagementKeys implements ManagementKeyStore {
  readonly #insert: Statement
  readonly #find: Statement<Row<'managementKey'>, [string]>
  readonly #list: Statement<Row<'managementKey'>, [string | null]>
  readonly #revoke: Statement
  readonly #remove: Statement

  constructor(database: Database) {
    this.#insert = database.prepare(
      `INSERT INTO management_key (id, account, name, hash, last_four, created_at, expires_at, revoked_at, networks,
       scope) VALUES (?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO NOTHING`,
    )
    this.#find = database.prepare('SELECT * FROM management_key WHERE id = ?')
    this.#list = database.prepare(
      'SELECT * FROM management_key WHERE ?1 IS NULL OR account = ?1 ORDER BY created_at, id',
    )
    // A key keeps the time of its first revocation.
    this.#revoke = database.prepare(
      'UPDATE management_key SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?',
    )
    this.#remove = database.prepare('DELETE FROM management_key WHERE id = ?')
  }

  insert(key: ManagementKey): boolean {
    const { changes } = orUnavailable(() =>
      this.#insert.run(
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
      ),
    )
    return Number(changes) === 1
  }

  find(id: string): ManagementKey | undefined {
    const row = orUnavailable(() => this.#find.get(id))
    return row ? keyOf(row) : undefined
  }

  list(account?: string): readonly ManagementKey[] {
    return orUnavailable(() => this.#list.all(account ?? null)).map(keyOf)
  }

  revoke(id: string, at: number): boolean {
    return Number(orUnavailable(() => this.#revoke.run(at, id)).changes) === 1
  }

  remove(id: string): void {
    orUnavailable(() => this.#remove.run(id))
  }
}

const keyOf = recordReader<Row<'managementKey'>>()({
  created_at: Number,
  expires_at: numberOrNull,
  revoked_at: numberOrNull,
  networks: (json) => (json === null ? null : (JSON.parse(json) as string[])),
  scope: (text): ManagementScope => (text === 'scim' ? text : 'admin'),
})

// What directories say of accounts and groups, on SQLite.

export class SqliteProvisioning implements ProvisioningStore {
  readonly #put: Statement
  readonly #find: Statement<Row<'provisioned'>, [string]>
  readonly #byUserName: Statement<{ id: string }, [string]>
  readonly #byExternalId: Statement<{ id: string }, [string, string]>
  readonly #accounts: Statement<{ id: string }, [number, number]>
  readonly #remove: Statement

  constructor(database: Database) {
    this.#put = database.prepare(
      `INSERT INTO provisioned (id, kind, user_name, external_id, attributes, changed_at) VALUES (?,?,?,?,?,?)
       ON CONFLICT (id) DO UPDATE SET user_name = excluded.user_name, external_id = excluded.external_id,
       attributes = excluded.attributes, changed_at = excluded.changed_at`,
    )
    this.#find = database.prepare('SELECT * FROM provisioned WHERE id = ?')
    this.#byUserName = database.prepare('SELECT id FROM provisioned WHERE user_name = ? ORDER BY id LIMIT 1')
    this.#byExternalId = database.prepare(
      'SELECT id FROM provisioned WHERE external_id = ? AND kind = ? ORDER BY id LIMIT 1',
    )
    this.#accounts = database.prepare(
      'SELECT id FROM account WHERE deleted_at IS NULL ORDER BY rowid LIMIT ? OFFSET ?',
    )
    this.#remove = database.prepare('DELETE FROM provisioned WHERE id = ?')
  }

  put({ id, kind, userName, externalId, attributes, changedAt }: Provisioned): void {
    const written = JSON.stringify(attributes)
    orUnavailable(() => this.#put.run(id, kind, userName, externalId, written, changedAt))
  }

  find(id: string): Provisioned | undefined {
    const row = orUnavailable(() => this.#find.get(id))
    if (row === null) return undefined
    return {
      id,
      kind: row.kind,
      userName: row.user_name,
      externalId: row.external_id,
      attributes: JSON.parse(row.attributes) as Record<string, unknown>,
      changedAt: Number(row.changed_at),
    }
  }

  byUserName(userName: string): string | undefined {
    return orUnavailable(() => this.#byUserName.get(userName))?.id
  }

  byExternalId(externalId: string, kind: ProvisionedKind): string | undefined {
    return orUnavailable(() => this.#byExternalId.get(externalId, kind))?.id
  }

  remove(id: string): void {
    orUnavailable(() => this.#remove.run(id))
  }

  accounts(offset: number, limit: number): readonly string[] {
    return orUnavailable(() => this.#accounts.all(limit, offset)).map(({ id }) => id)
  }
}

// Registered MCP servers on SQLite.

export class SqliteMcpServers implements McpServerStore {
  readonly #put: Statement
  readonly #find: Statement<Row<'mcpServer'>, [string, string]>
  readonly #list: Statement<Row<'mcpServer'>, [string]>
  readonly #remove: Statement

  constructor(database: Database) {
    this.#put = database.prepare(
      `INSERT INTO mcp_server (account, name, url, sealed, created_at, changed_at) VALUES (?,?,?,?,?,?)
       ON CONFLICT (account, name) DO UPDATE SET url = excluded.url, sealed = excluded.sealed,
         changed_at = excluded.changed_at`,
    )
    this.#find = database.prepare('SELECT * FROM mcp_server WHERE account = ? AND name = ?')
    this.#list = database.prepare('SELECT * FROM mcp_server WHERE account = ? ORDER BY name')
    this.#remove = database.prepare('DELETE FROM mcp_server WHERE account = ? AND name = ?')
  }

  put({ account, name, url, sealed, createdAt, changedAt }: McpServerRow): void {
    orUnavailable(() => this.#put.run(account, name, url, sealed, createdAt, changedAt))
  }

  find(account: string, name: string): McpServerRow | undefined {
    const row = orUnavailable(() => this.#find.get(account, name))
    return row ? rowOf(row) : undefined
  }

  list(account: string): readonly McpServerRow[] {
    return orUnavailable(() => this.#list.all(account)).map(rowOf)
  }

  remove(account: string, name: string): boolean {
    return Number(orUnavailable(() => this.#remove.run(account, name)).changes) === 1
  }
}

const rowOf = recordReader<Row<'mcpServer'>>()({ created_at: Number, changed_at: Number })

// The log of operators' acts on SQLite. The table refuses updates and deletes.

const largestPage = 1_000

export class SqliteActs implements ActLog {
  readonly #database: Database
  readonly #insert: Statement

  constructor(database: Database) {
    this.#database = database
    this.#insert = database.prepare(
      'INSERT INTO act (at, operator, what, subject, before, after) VALUES (?,?,?,?,?,?)',
    )
  }

  record({ at, operator, what, subject, before, after }: Act): void {
    orUnavailable(() => this.#insert.run(at, operator, what, subject, jsonOf(before), jsonOf(after)))
  }

  page(
    limit: number,
    before: number = Number.MAX_SAFE_INTEGER,
    { operator, what, subject, from, until }: ActFilter = {},
  ): readonly LoggedAct[] {
    const conditions: (readonly [text: string, value: string | number | undefined])[] = [
      ['operator = ?', operator],
      ['subject = ?', subject],
      // `key` is every act on keys, and `key.revoke` one kind.
      ["what || '.' >= ? || '.'", what],
      ["what || '.' < ? || '/'", what],
      ['at >= ?', from],
      ['at < ?', until],
    ]
    const asked = conditions.flatMap(([text, value]) => (value === undefined ? [] : [[text, value] as const]))
    const statement = this.#database.query<Row<'act'>, (string | number)[]>(
      `SELECT * FROM act WHERE ${['seq < ?', ...asked.map(([text]) => text)].join(' AND ')} ORDER BY seq DESC LIMIT ?`,
    )
    const values = asked.map(([, value]) => value)
    return orUnavailable(() => statement.all(before, ...values, Math.min(limit, largestPage))).map(actOf)
  }
}

function jsonOf(state: unknown): string | null {
  return state === null || state === undefined ? null : JSON.stringify(state)
}

const stateOf = (json: string | null) => (json === null ? null : (JSON.parse(json) as unknown))

const actOf = recordReader<Row<'act'>>()({ seq: Number, at: Number, before: stateOf, after: stateOf })

// Settings that operators have changed, on SQLite.

export class SqliteSettings implements SettingsStore {
  readonly #latest: Statement<Row<'consoleSettings'>, []>
  readonly #find: Statement<Row<'consoleSettings'>, [number]>
  readonly #append: (row: SettingsRow, act: Act, most: number) => boolean

  constructor(database: Database) {
    this.#latest = database.prepare('SELECT * FROM console_settings ORDER BY revision DESC LIMIT 1')
    this.#find = database.prepare('SELECT * FROM console_settings WHERE revision = ?')
    const insert = database.prepare(
      `INSERT INTO console_settings (revision, at, operator, before, settings, sealed) VALUES (?,?,?,?,?,?)
       ON CONFLICT (revision) DO NOTHING`,
    )
    const forget = database.prepare('DELETE FROM console_settings WHERE revision <= ?')
    const acts = new SqliteActs(database)
    this.#append = ({ revision, at, operator, before, settings, sealed }, act, most) =>
      inTransaction(database, () => {
        if (Number(insert.run(revision, at, operator, before, settings, sealed).changes) === 0) return false
        acts.record(act)
        forget.run(revision - most)
        return true
      })
  }

  latest(): SettingsRow | undefined {
    const row = orUnavailable(() => this.#latest.get())
    return row ? settingsOf(row) : undefined
  }

  find(revision: number): SettingsRow | undefined {
    const row = orUnavailable(() => this.#find.get(revision))
    return row ? settingsOf(row) : undefined
  }

  append(row: SettingsRow, act: Act, most: number): boolean {
    return this.#append(row, act, most)
  }
}

const settingsOf = recordReader<Row<'consoleSettings'>>()({
  revision: Number,
  at: Number,
  before: Number,
})
