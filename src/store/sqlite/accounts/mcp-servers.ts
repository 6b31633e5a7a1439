// Registered MCP servers on SQLite.

import type { Database, Statement } from 'bun:sqlite'
import type { McpServerRow, McpServerStore } from '../../../accounts/mcp-server.ts'
import { reading } from '../database/outage.ts'
import { writing } from './account-store.ts'

interface Row {
  readonly account: string
  readonly name: string
  readonly url: string
  readonly sealed: Uint8Array | null
  readonly created_at: bigint
  readonly changed_at: bigint
}

export class SqliteMcpServers implements McpServerStore {
  readonly #put: Statement
  readonly #find: Statement<Row, [string, string]>
  readonly #list: Statement<Row, [string]>
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
    writing(() => this.#put.run(account, name, url, sealed, createdAt, changedAt))
  }

  find(account: string, name: string): McpServerRow | undefined {
    const row = reading(() => this.#find.get(account, name))
    return row ? rowOf(row) : undefined
  }

  list(account: string): readonly McpServerRow[] {
    return reading(() => this.#list.all(account)).map(rowOf)
  }

  remove(account: string, name: string): boolean {
    return Number(writing(() => this.#remove.run(account, name)).changes) === 1
  }
}

function rowOf({ account, name, url, sealed, created_at, changed_at }: Row): McpServerRow {
  return { account, name, url, sealed, createdAt: Number(created_at), changedAt: Number(changed_at) }
}
