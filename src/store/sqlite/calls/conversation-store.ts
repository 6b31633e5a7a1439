// The conversations of the chat, on SQLite.

import type { Database, Statement } from 'bun:sqlite'
import type {
  ConversationChanges,
  ConversationRecord,
  ConversationStore,
} from '../../../responses/conversation-store.ts'
import { writing } from '../accounts/account-store.ts'
import { reading } from '../database/outage.ts'
import { whenNeeded } from '../database/when-needed.ts'

interface ConversationRow {
  readonly id: string
  readonly account: string
  readonly title: string
  readonly model: string | null
  readonly last_response: string | null
  readonly created_at: bigint
  readonly updated_at: bigint
}

export class SqliteConversations implements ConversationStore {
  readonly #sql: () => ReturnType<typeof statements>

  constructor(database: Database) {
    this.#sql = whenNeeded(() => statements(database))
  }

  list(account: string, limit: number): readonly ConversationRecord[] {
    return reading(() => this.#sql().list.all(account, limit)).map(recordOf)
  }

  find(account: string, id: string): ConversationRecord | undefined {
    const row = reading(() => this.#sql().find.get(id, account))
    return row ? recordOf(row) : undefined
  }

  add(conversation: ConversationRecord, most: number): void {
    const { id, account, title, model, lastResponse, createdAt, updatedAt } = conversation
    writing(() => {
      this.#sql().add.run(id, account, title, model, lastResponse, createdAt, updatedAt)
      this.#sql().forget.run(account, account, most)
    })
  }

  change(
    account: string,
    id: string,
    changes: ConversationChanges,
    at: number,
  ): ConversationRecord | undefined {
    const before = this.find(account, id)
    if (!before) return undefined
    const { title, model, lastResponse } = { ...before, ...changes }
    const row = writing(() => this.#sql().change.get(title, model, lastResponse, at, id, account))
    return row ? recordOf(row) : undefined
  }

  remove(account: string, id: string): ConversationRecord | undefined {
    const row = writing(() => this.#sql().remove.get(id, account))
    return row ? recordOf(row) : undefined
  }
}

function statements(database: Database) {
  return {
    list: database.prepare<ConversationRow, [string, number]>(
      'SELECT * FROM conversation WHERE account = ? ORDER BY updated_at DESC, id DESC LIMIT ?',
    ),
    find: database.prepare<ConversationRow, [string, string]>(
      'SELECT * FROM conversation WHERE id = ? AND account = ?',
    ),
    add: database.prepare(
      'INSERT INTO conversation (id, account, title, model, last_response, created_at, updated_at) VALUES (?,?,?,?,?,?,?)',
    ) as Statement,
    forget: database.prepare(
      'DELETE FROM conversation WHERE account = ? AND id IN (SELECT id FROM conversation WHERE account = ? ' +
        'ORDER BY updated_at DESC, id DESC LIMIT -1 OFFSET ?)',
    ) as Statement,
    change: database.prepare<ConversationRow, [string, string | null, string | null, number, string, string]>(
      'UPDATE conversation SET title = ?, model = ?, last_response = ?, updated_at = ? WHERE id = ? AND account = ? RETURNING *',
    ),
    remove: database.prepare<ConversationRow, [string, string]>(
      'DELETE FROM conversation WHERE id = ? AND account = ? RETURNING *',
    ),
  }
}

function recordOf(row: ConversationRow): ConversationRecord {
  return {
    id: row.id,
    account: row.account,
    title: row.title,
    model: row.model,
    lastResponse: row.last_response,
    createdAt: Number(row.created_at),
    updatedAt: Number(row.updated_at),
  }
}
