// The conversations of the chat, and saved prompts.

import type { Awaitable } from '../../async/async.ts'
import type {
  ConversationChanges,
  ConversationRecord,
  ConversationStore,
  ImportedTurn,
  OpenConversation,
  PromptStore,
  SavedPrompt,
} from '../../responses/conversation-store.ts'
import type { Row } from '../schema.ts'
import { isSet, recordReader, sql, type Tables, type Work } from './work.ts'

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
