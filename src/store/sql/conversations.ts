// The conversations of the chat, and saved prompts.

import type { Awaitable } from '../../async/async.ts'
import type { JsonObject } from '../../conversation/request.ts'
import type {
  ConversationChanges,
  ConversationItem,
  ConversationRecord,
  ConversationStore,
  ImportedTurn,
  ItemConversation,
  ItemConversationStore,
  OpenConversation,
  PromptStore,
  ResponseViewer,
  SavedPrompt,
} from '../../responses/response-store.ts'
import type { Row } from '../schema.ts'
import { madeByKey, removeInSteps } from './response-store.ts'
import { isSet, type OrderedTables, recordReader, sql, type Tables, type Work } from './work.ts'

type OpenRow = Row<'conversation'>
type ListedRow = Omit<OpenRow, 'settings' | 'share_token' | 'share_response' | 'share_at'>

export class SqlConversations implements ConversationStore {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  list(account: string, limit: number): Awaitable<readonly ConversationRecord[]> {
    return this.#tables.do(function* () {
      return (yield* conversations.list.all(account, limit)).map(recordOf)
    })
  }

  find(account: string, id: string): Awaitable<OpenConversation | undefined> {
    return this.#tables.do(() => find(account, id))
  }

  add(conversation: OpenConversation, most: number): Awaitable<void> {
    return this.#tables.together(() => add(conversation, most))
  }

  addImported(conversation: OpenConversation, turns: readonly ImportedTurn[], most: number): Awaitable<void> {
    const { id, account } = conversation
    return this.#tables.together(function* () {
      yield* imported.add.run(id, account, JSON.stringify(turns))
      yield* add(conversation, most)
    })
  }

  importedTurns(account: string, id: string): Awaitable<readonly ImportedTurn[]> {
    return this.#tables.do(function* () {
      const row = yield* imported.find.first(id, account)
      return row ? (JSON.parse(row.turns) as ImportedTurn[]) : []
    })
  }

  change(
    account: string,
    id: string,
    changes: ConversationChanges,
    at: number,
  ): Awaitable<OpenConversation | undefined> {
    return this.#tables.together(function* () {
      const before = yield* find(account, id)
      if (!before) return undefined
      const { title, model, lastResponse, ...rest } = { ...before, ...changes }
      const isUse = 'title' in changes || 'model' in changes || 'lastResponse' in changes
      const updatedAt = isUse ? at : before.updatedAt
      const placed = placeOf(rest)
      const row = yield* conversations.change.first(
        title,
        model,
        lastResponse,
        ...placed,
        updatedAt,
        id,
        account,
      )
      return row && openRecordOf(row)
    })
  }

  findShared(token: string): Awaitable<OpenConversation | undefined> {
    return this.#tables.do(function* () {
      const row = yield* conversations.findShared.first(token)
      return row && openRecordOf(row)
    })
  }

  remove(account: string, id: string): Awaitable<OpenConversation | undefined> {
    return this.#tables.together(function* () {
      const row = yield* conversations.remove.first(id, account)
      if (row) yield* imported.remove.run(id, account)
      return row && openRecordOf(row)
    })
  }
}

function* find(account: string, id: string): Work<OpenConversation | undefined> {
  const row = yield* conversations.find.first(id, account)
  return row && openRecordOf(row)
}

function* add(conversation: OpenConversation, most: number): Work<void> {
  const { id, account, title, model, lastResponse, createdAt, updatedAt } = conversation
  const placed = placeOf(conversation)
  yield* conversations.add.run(id, account, title, model, lastResponse, ...placed, createdAt, updatedAt)
  yield* conversations.forget.run(account, account, most)
  yield* imported.forget.run(account, account)
}

type Place = [
  folder: string | null,
  pinned: number,
  settings: string | null,
  token: string | null,
  response: string | null,
  at: number | null,
]

function placeOf({
  folder,
  pinned,
  settings,
  share,
}: Pick<OpenConversation, 'folder' | 'pinned' | 'settings' | 'share'>): Place {
  return [
    folder,
    pinned ? 1 : 0,
    settings === null ? null : JSON.stringify(settings),
    share?.token ?? null,
    share?.response ?? null,
    share?.at ?? null,
  ]
}

const order = 'updated_at DESC, id DESC'
/** More than an account has beyond those that stay. */
const mostForgotten = 1_000_000

const conversations = {
  list: sql<ListedRow>(
    `SELECT id, account, title, model, last_response, folder, pinned, created_at, updated_at
     FROM conversation WHERE account = ? ORDER BY ${order} LIMIT ?`,
  ),
  find: sql<OpenRow>('SELECT * FROM conversation WHERE id = ? AND account = ?'),
  findShared: sql<OpenRow>('SELECT * FROM conversation WHERE share_token = ?'),
  add: sql(
    `INSERT INTO conversation
     (id, account, title, model, last_response, folder, pinned, settings, share_token, share_response,
      share_at, created_at, updated_at)
     VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)`,
  ),
  forget: sql(
    `DELETE FROM conversation WHERE account = ? AND id IN (SELECT id FROM conversation WHERE account = ?
     ORDER BY pinned DESC, ${order} LIMIT ${mostForgotten} OFFSET ?)`,
  ),
  change: sql<OpenRow>(
    `UPDATE conversation SET title = ?, model = ?, last_response = ?, folder = ?, pinned = ?, settings = ?,
     share_token = ?, share_response = ?, share_at = ?, updated_at = ? WHERE id = ? AND account = ? RETURNING *`,
  ),
  remove: sql<OpenRow>('DELETE FROM conversation WHERE id = ? AND account = ? RETURNING *'),
}

const imported = {
  add: sql('INSERT INTO imported_turns (conversation, account, turns) VALUES (?,?,?)'),
  find: sql<Row<'importedTurns', 'turns'>>(
    'SELECT turns FROM imported_turns WHERE conversation = ? AND account = ?',
  ),
  remove: sql('DELETE FROM imported_turns WHERE conversation = ? AND account = ?'),
  forget: sql(
    `DELETE FROM imported_turns WHERE account = ?
     AND conversation NOT IN (SELECT id FROM conversation WHERE account = ?)`,
  ),
}

const listed = { created_at: Number, updated_at: Number, pinned: isSet }
const recordOf = recordReader<ListedRow>()(listed)
function openRecordOf({
  settings,
  share_token: token,
  share_response: response,
  share_at: at,
  ...row
}: OpenRow): OpenConversation {
  return {
    ...recordOf(row),
    settings: settings === null ? null : (JSON.parse(settings) as OpenConversation['settings']),
    share: token === null || response === null || at === null ? null : { token, response, at: Number(at) },
  }
}

export class SqlPrompts implements PromptStore {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  list(account: string): Awaitable<readonly SavedPrompt[]> {
    return this.#tables.do(function* () {
      return (yield* savedPrompts.list.all(account)).map(promptOf)
    })
  }

  add({ id, account, name, text, changedAt }: SavedPrompt, most: number): Awaitable<boolean> {
    return this.#tables.together(function* () {
      return (yield* savedPrompts.add.run(id, account, name, text, changedAt, account, most)) === 1
    })
  }

  change({ id, account, name, text, changedAt }: SavedPrompt): Awaitable<boolean> {
    return this.#tables.do(function* () {
      return (yield* savedPrompts.change.run(name, text, changedAt, id, account)) === 1
    })
  }

  remove(account: string, id: string): Awaitable<boolean> {
    return this.#tables.do(function* () {
      return (yield* savedPrompts.remove.run(id, account)) === 1
    })
  }
}

const savedPrompts = {
  list: sql<Row<'savedPrompt'>>('SELECT * FROM saved_prompt WHERE account = ? ORDER BY name, id'),
  add: sql(
    `INSERT INTO saved_prompt (id, account, name, text, changed_at) SELECT ?,?,?,?, CAST(? AS bigint)
     WHERE (SELECT count(*) FROM saved_prompt WHERE account = ?) < ?`,
  ),
  change: sql('UPDATE saved_prompt SET name = ?, text = ?, changed_at = ? WHERE id = ? AND account = ?'),
  remove: sql('DELETE FROM saved_prompt WHERE id = ? AND account = ?'),
}

const promptOf = recordReader<Row<'savedPrompt'>>()({ changed_at: Number })

// Conversations of the Responses protocol: a row each, and a row for each item.

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
      yield* itemConversations.put.run(id, account, key, createdAt, expiresAt, JSON.stringify(metadata))
      yield* insert(id, written, expiresAt)
    })
  }

  find({ account, line, mode }: ResponseViewer, id: string): Awaitable<ItemConversation | undefined> {
    const now = this.#clock()
    return this.#tables.do(function* () {
      const row = yield* itemConversations.find.first(account, id, now, line ?? null, mode ?? null)
      if (!row) return undefined
      const { key, created_at, metadata } = row
      return { id, account, key, createdAt: Number(created_at), metadata: JSON.parse(metadata) as JsonObject }
    })
  }

  async setMetadata(id: string, metadata: JsonObject): Promise<void> {
    await this.#tables.admit(() => itemConversations.setMetadata.run(JSON.stringify(metadata), id))
  }

  size(id: string): Awaitable<number> {
    return this.#tables.do(function* () {
      return Number((yield* itemConversations.size.first(id))?.bytes ?? 0)
    })
  }

  accountBytes(account: string): Awaitable<number> {
    return this.#tables.do(function* () {
      return Number((yield* itemConversations.accountSize.first(account))!.bytes)
    })
  }

  items(id: string): Awaitable<readonly ConversationItem[]> {
    return this.#tables.do(function* () {
      const rows = yield* itemConversations.items.all(id)
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
      const gone = yield* itemConversations.removeItem.all(id, item)
      for (const { bytes } of gone) yield* itemConversations.grow.run(-bytes, 0, 0, id)
      return gone.length > 0
    })
  }

  async delete(id: string): Promise<void> {
    await this.#tables.admit(() => remove([{ id }]))
  }

  async forgetAccount(account: string): Promise<void> {
    await removeInSteps(this.#tables, sweptAtOnce, function* () {
      return yield* remove(yield* itemConversations.ofAccount.all(account, sweptAtOnce))
    })
  }

  sweep(now: number): Promise<number> {
    return removeInSteps(this.#tables, sweptAtOnce, function* () {
      return yield* remove(yield* itemConversations.expired.all(now, sweptAtOnce))
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
  if ((yield* itemConversations.grow.run(bytes, expiresAt, expiresAt, id)) === 0) return undefined
  const first = (yield* itemConversations.newest.first(id))!.seq + 1n
  for (const [at, item] of items.entries())
    yield* itemConversations.putItem.run(id, first + BigInt(at), item.id, item.text)
  return first
}

/** Whether these items are those from this number on. */
function* isThere(id: string, first: bigint, items: readonly WrittenItem[]): Work<boolean> {
  const rows = yield* itemConversations.itemsFrom.all(id, first, items.length)
  return rows.length === items.length && rows.every(({ item }, at) => item === items[at]!.text)
}

function* remove(rows: readonly { readonly id: string }[]): Work<number> {
  for (const { id } of rows) {
    yield* itemConversations.removeItems.run(id)
    yield* itemConversations.remove.run(id)
  }
  return rows.length
}

const itemConversations = {
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
