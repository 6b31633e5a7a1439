// Keys of the admin API on SQLite. They are few and rarely used, so nothing is cached and a revocation holds at once.

import type { Database, Statement } from 'bun:sqlite'
import type { ManagementKey, ManagementKeyStore } from '../../../accounts/management-key.ts'
import { writing } from './account-store.ts'
import { numberOrNull } from './rows.ts'
import { reading } from '../database/outage.ts'

interface Row {
  readonly id: string
  readonly account: string
  readonly name: string
  readonly hash: string
  readonly last_four: string
  readonly created_at: bigint
  readonly expires_at: bigint | null
  readonly revoked_at: bigint | null
  readonly networks: string | null
}

export class SqliteManagementKeys implements ManagementKeyStore {
  readonly #insert: Statement
  readonly #find: Statement<Row, [string]>
  readonly #list: Statement<Row, [string | null]>
  readonly #revoke: Statement

  constructor(database: Database) {
    this.#insert = database.prepare(
      `INSERT INTO management_key (id, account, name, hash, last_four, created_at, expires_at, revoked_at, networks)
       VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO NOTHING`,
    )
    this.#find = database.prepare('SELECT * FROM management_key WHERE id = ?')
    this.#list = database.prepare(
      'SELECT * FROM management_key WHERE ?1 IS NULL OR account = ?1 ORDER BY created_at, id',
    )
    // A key keeps the time of its first revocation.
    this.#revoke = database.prepare(
      'UPDATE management_key SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?',
    )
  }

  insert(key: ManagementKey): boolean {
    const { changes } = writing(() =>
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
      ),
    )
    return Number(changes) === 1
  }

  find(id: string): ManagementKey | undefined {
    const row = reading(() => this.#find.get(id))
    return row ? keyOf(row) : undefined
  }

  list(account?: string): readonly ManagementKey[] {
    return reading(() => this.#list.all(account ?? null)).map(keyOf)
  }

  revoke(id: string, at: number): boolean {
    return Number(writing(() => this.#revoke.run(at, id)).changes) === 1
  }
}

function keyOf(row: Row): ManagementKey {
  return {
    id: row.id,
    account: row.account,
    name: row.name,
    hash: row.hash,
    lastFour: row.last_four,
    createdAt: Number(row.created_at),
    expiresAt: numberOrNull(row.expires_at),
    revokedAt: numberOrNull(row.revoked_at),
    networks: row.networks === null ? null : (JSON.parse(row.networks) as string[]),
  }
}
