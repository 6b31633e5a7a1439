// Conversations of the Responses protocol: a row each, and a row for each item.

import type { Awaitable } from '../../async/async.ts'
import type { JsonObject } from '../../conversation/request.ts'
import type {
  ConversationItem,
  ItemConversation,
  ItemConversationStore,
  ResponseViewer,
} from '../../responses/response-store.ts'
import type { Row } from '../schema.ts'
import { madeByKey, removeInSteps } from './response-store.ts'
import { type OrderedTables, sql, type Work } from './work.ts'

/** Deleted per commit; their items may be large. */
const sweptAtOnce = 5

export class SqlItemConversations implements ItemConversationStore {
  readonly #tables: OrderedTables
  readonly #clock: () => number

  constructor(tables: OrderedTables, clock: () => number) {
    this.#tables = tables
    this.#clock = clock
  }

  async create(
    { id, account, key, createdAt, metadata }: ItemConversation,
    items: readonly JsonObject[],
    expiresAt: number,
  ): Promise<void> {
    const written = writeItems(items)
    await this.#tables.admit(function* () {
      yield* conversations.put.run(id, account, key, createdAt, expiresAt, JSON.stringify(metadata))
      yield* insert(id, written, expiresAt)
    })
  }

  find({ account, line, mode }: ResponseViewer, id: string): Awaitable<ItemConversation | undefined> {
    const now = this.#clock()
    return this.#tables.do(function* () {
      const row = yield* conversations.find.first(account, id, now, line ?? null, mode ?? null)
      if (!row) return undefined
      const { key, created_at, metadata } = row
      return { id, account, key, createdAt: Number(created_at), metadata: JSON.parse(metadata) as JsonObject }
    })
  }

  async setMetadata(id: string, metadata: JsonObject): Promise<void> {
    await this.#tables.admit(() => conversations.setMetadata.run(JSON.stringify(metadata), id))
  }

  size(id: string): Awaitable<number> {
    return this.#tables.do(function* () {
      return Number((yield* conversations.size.first(id))?.bytes ?? 0)
    })
  }

  accountBytes(account: string): Awaitable<number> {
    return this.#tables.do(function* () {
      return Number((yield* conversations.accountSize.first(account))!.bytes)
    })
  }

  items(id: string): Awaitable<readonly ConversationItem[]> {
    return this.#tables.do(function* () {
      const rows = yield* conversations.items.all(id)
      return rows.map(({ seq, item }) => ({ seq: Number(seq), item: JSON.parse(item) as JsonObject }))
    })
  }

  async add(id: string, items: readonly JsonObject[], expiresAt: number): Promise<void> {
    const written = writeItems(items)
    let first: bigint | undefined
    await this.#tables.persist(id, function* () {
      // The outcome of a try before may not have been heard.
      if (first !== undefined && (yield* isThere(id, first, written))) return
      first = yield* insert(id, written, expiresAt)
    })
  }

  removeItem(id: string, item: string): Promise<boolean> {
    return this.#tables.admit(function* () {
      const gone = yield* conversations.removeItem.all(id, item)
      for (const { bytes } of gone) yield* conversations.grow.run(-bytes, 0, 0, id)
      return gone.length > 0
    })
  }

  async delete(id: string): Promise<void> {
    await this.#tables.admit(() => remove([{ id }]))
  }

  async forgetAccount(account: string): Promise<void> {
    await removeInSteps(this.#tables, sweptAtOnce, function* () {
      return yield* remove(yield* conversations.ofAccount.all(account, sweptAtOnce))
    })
  }

  sweep(now: number): Promise<number> {
    return removeInSteps(this.#tables, sweptAtOnce, function* () {
      return yield* remove(yield* conversations.expired.all(now, sweptAtOnce))
    })
  }
}

interface WrittenItem {
  readonly id: string
  readonly text: string
}

function writeItems(items: readonly JsonObject[]): readonly WrittenItem[] {
  return items.map((item) => ({ id: String(item['id']), text: JSON.stringify(item) }))
}

/** Gives the number of the first item. Nothing is added to a conversation that is gone. */
function* insert(id: string, items: readonly WrittenItem[], expiresAt: number): Work<bigint | undefined> {
  const bytes = items.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0)
  if ((yield* conversations.grow.run(bytes, expiresAt, expiresAt, id)) === 0) return undefined
  const first = (yield* conversations.newest.first(id))!.seq + 1n
  for (const [at, item] of items.entries())
    yield* conversations.putItem.run(id, first + BigInt(at), item.id, item.text)
  return first
}

/** Whether these items are those from this number on. */
function* isThere(id: string, first: bigint, items: readonly WrittenItem[]): Work<boolean> {
  const rows = yield* conversations.itemsFrom.all(id, first, items.length)
  return rows.length === items.length && rows.every(({ item }, at) => item === items[at]!.text)
}

function* remove(rows: readonly { readonly id: string }[]): Work<number> {
  for (const { id } of rows) {
    yield* conversations.removeItems.run(id)
    yield* conversations.remove.run(id)
  }
  return rows.length
}

const conversations = {
  put: sql(
    `INSERT INTO item_conversation (id, account, key, created_at, expires_at, bytes, metadata)
     VALUES (?,?,?,?,?,0,?)`,
  ),
  newest: sql<{ seq: bigint }>(
    'SELECT coalesce(max(seq), 0) AS seq FROM item_conversation_item WHERE conversation = ?',
  ),
  putItem: sql('INSERT INTO item_conversation_item (conversation, seq, id, item) VALUES (?,?,?,?)'),
  find: sql<Row<'itemConversation'>>(
    `SELECT * FROM item_conversation WHERE account = ?1 AND id = ?2 AND expires_at > ?3
     AND ${madeByKey('item_conversation.key', '?4', '?5')}`,
  ),
  size: sql<{ bytes: bigint }>('SELECT bytes FROM item_conversation WHERE id = ?'),
  accountSize: sql<{ bytes: bigint }>(
    'SELECT CAST(coalesce(sum(bytes), 0) AS bigint) AS bytes FROM item_conversation WHERE account = ?',
  ),
  setMetadata: sql('UPDATE item_conversation SET metadata = ? WHERE id = ?'),
  items: sql<{ seq: bigint; item: string }>(
    'SELECT seq, item FROM item_conversation_item WHERE conversation = ? ORDER BY seq',
  ),
  itemsFrom: sql<{ item: string }>(
    'SELECT item FROM item_conversation_item WHERE conversation = ? AND seq >= ? ORDER BY seq LIMIT ?',
  ),
  grow: sql(
    `UPDATE item_conversation SET bytes = bytes + ?,
     expires_at = CASE WHEN expires_at < ? THEN ? ELSE expires_at END WHERE id = ?`,
  ),
  removeItem: sql<{ bytes: bigint }>(
    `DELETE FROM item_conversation_item WHERE conversation = ? AND id = ?
     RETURNING CAST(octet_length(item) AS bigint) AS bytes`,
  ),
  ofAccount: sql<{ id: string }>('SELECT id FROM item_conversation WHERE account = ? LIMIT ?'),
  expired: sql<{ id: string }>('SELECT id FROM item_conversation WHERE expires_at <= ? LIMIT ?'),
  removeItems: sql('DELETE FROM item_conversation_item WHERE conversation = ?'),
  remove: sql('DELETE FROM item_conversation WHERE id = ?'),
}
