// Conversations of the Responses protocol on SQLite: a row each, and a row for each item.

import type { Database, Statement } from 'bun:sqlite'
import type { JsonObject } from '../../../conversation/request.ts'
import type {
  ConversationItem,
  ItemConversation,
  ItemConversationStore,
} from '../../../responses/item-conversations.ts'
import type { ResponseViewer } from '../../../responses/response-store.ts'
import { orUnavailable, whenNeeded } from '../database/sqlite.ts'
import { madeByKey, removeInSteps } from './response-store.ts'
import type { SqliteLedger } from '../ledger/ledger-store.ts'
import type { Row } from '../../schema.ts'

/** Deleted per commit; their items may be large. */
const sweptAtOnce = 5

type Group = Pick<SqliteLedger, 'admit' | 'persist'>

export class SqliteItemConversations implements ItemConversationStore {
  readonly #sql: () => ReturnType<typeof statements>
  readonly #group: Group
  readonly #clock: () => number

  constructor(database: Database, group: Group, clock: () => number) {
    this.#sql = whenNeeded(() => statements(database))
    this.#group = group
    this.#clock = clock
  }

  async create(
    { id, account, key, createdAt, metadata }: ItemConversation,
    items: readonly JsonObject[],
    expiresAt: number,
  ): Promise<void> {
    await this.#group.admit(() => {
      this.#sql().put.run(id, account, key, createdAt, expiresAt, JSON.stringify(metadata))
      this.#insert(id, items, expiresAt)
    })
  }

  find({ account, line, mode }: ResponseViewer, id: string): ItemConversation | undefined {
    const row = orUnavailable(() =>
      this.#sql().find.get(account, id, this.#clock(), line ?? null, mode ?? null),
    )
    if (!row) return undefined
    const { key, created_at, metadata } = row
    return { id, account, key, createdAt: Number(created_at), metadata: JSON.parse(metadata) as JsonObject }
  }

  async setMetadata(id: string, metadata: JsonObject): Promise<void> {
    await this.#group.admit(() => void this.#sql().setMetadata.run(JSON.stringify(metadata), id))
  }

  size(id: string): number {
    return Number(orUnavailable(() => this.#sql().size.get(id))?.bytes ?? 0)
  }

  accountBytes(account: string): number {
    return Number(orUnavailable(() => this.#sql().accountSize.get(account))!.bytes)
  }

  items(id: string): readonly ConversationItem[] {
    return orUnavailable(() => this.#sql().items.all(id)).map(({ seq, item }) => ({
      seq: Number(seq),
      item: JSON.parse(item) as JsonObject,
    }))
  }

  async add(id: string, items: readonly JsonObject[], expiresAt: number): Promise<void> {
    await this.#group.persist(() => this.#insert(id, items, expiresAt))
  }

  removeItem(id: string, item: string): Promise<boolean> {
    return this.#group.admit(() => {
      const gone = this.#sql().removeItem.all(id, item)
      for (const { bytes } of gone) this.#sql().grow.run(-Number(bytes), 0, id)
      return gone.length > 0
    })
  }

  async delete(id: string): Promise<void> {
    await this.#group.admit(() => this.#remove([{ id }]))
  }

  async forgetAccount(account: string): Promise<void> {
    await this.#removeAll(() => this.#sql().ofAccount.all(account, sweptAtOnce))
  }

  sweep(now: number): Promise<number> {
    return this.#removeAll(() => this.#sql().expired.all(now, sweptAtOnce))
  }

  /** Nothing is added to a conversation that is gone. */
  #insert(id: string, items: readonly JsonObject[], expiresAt: number): void {
    const texts = items.map((item) => JSON.stringify(item))
    const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0)
    if (this.#sql().grow.run(bytes, expiresAt, id).changes === 0) return
    for (const [at, text] of texts.entries()) this.#sql().putItem.run(id, id, String(items[at]!['id']), text)
  }

  #removeAll(some: () => readonly { readonly id: string }[]): Promise<number> {
    return removeInSteps(this.#group, sweptAtOnce, () => this.#remove(some()))
  }

  #remove(rows: readonly { readonly id: string }[]): number {
    for (const { id } of rows) {
      this.#sql().removeItems.run(id)
      this.#sql().remove.run(id)
    }
    return rows.length
  }
}

function statements(database: Database) {
  return {
    put: database.prepare(
      `INSERT INTO item_conversation (id, account, key, created_at, expires_at, bytes, metadata)
       VALUES (?,?,?,?,?,0,?)`,
    ) as Statement,
    putItem: database.prepare(
      `INSERT INTO item_conversation_item (conversation, seq, id, item)
       VALUES (?, (SELECT coalesce(max(seq), 0) + 1 FROM item_conversation_item WHERE conversation = ?), ?, ?)`,
    ) as Statement,
    find: database.prepare<Row<'itemConversation'>, [string, string, number, string | null, string | null]>(
      `SELECT * FROM item_conversation WHERE account = ?1 AND id = ?2 AND expires_at > ?3
       AND ${madeByKey('item_conversation.key', '?4', '?5')}`,
    ),
    size: database.prepare<{ bytes: bigint }, [string]>('SELECT bytes FROM item_conversation WHERE id = ?'),
    accountSize: database.prepare<{ bytes: bigint }, [string]>(
      'SELECT coalesce(sum(bytes), 0) AS bytes FROM item_conversation WHERE account = ?',
    ),
    setMetadata: database.prepare('UPDATE item_conversation SET metadata = ? WHERE id = ?') as Statement,
    items: database.prepare<{ seq: bigint; item: string }, [string]>(
      'SELECT seq, item FROM item_conversation_item WHERE conversation = ? ORDER BY seq',
    ),
    grow: database.prepare(
      'UPDATE item_conversation SET bytes = bytes + ?, expires_at = max(expires_at, ?) WHERE id = ?',
    ) as Statement,
    removeItem: database.prepare<{ bytes: bigint }, [string, string]>(
      `DELETE FROM item_conversation_item WHERE conversation = ? AND id = ?
       RETURNING length(CAST(item AS BLOB)) AS bytes`,
    ),
    ofAccount: database.prepare<{ id: string }, [string, number]>(
      'SELECT id FROM item_conversation WHERE account = ? LIMIT ?',
    ),
    expired: database.prepare<{ id: string }, [number, number]>(
      'SELECT id FROM item_conversation WHERE expires_at <= ? LIMIT ?',
    ),
    removeItems: database.prepare('DELETE FROM item_conversation_item WHERE conversation = ?') as Statement,
    remove: database.prepare('DELETE FROM item_conversation WHERE id = ?') as Statement,
  }
}
