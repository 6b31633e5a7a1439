// The conversations of the chat, and saved prompts, on SQLite.

import type { Database, Statement } from 'bun:sqlite'
import type {
  ConversationChanges,
  ConversationRecord,
  ConversationStore,
  ImportedTurn,
  OpenConversation,
  PromptStore,
  SavedPrompt,
} from '../../../responses/conversation-store.ts'
import { orUnavailable, whenNeeded } from '../database/sqlite.ts'
import { isSet, recordReader } from '../../sql/work.ts'
import type { Row } from '../../schema.ts'

type OpenRow = Row<'conversation'>
type ListedRow = Omit<OpenRow, 'settings' | 'share_token' | 'share_response' | 'share_at'>

export class SqliteConversations implements ConversationStore {
  readonly #sql: () => ReturnType<typeof conversationStatements>

  constructor(database: Database) {
    this.#sql = whenNeeded(() => conversationStatements(database))
  }

  list(account: string, limit: number): readonly ConversationRecord[] {
    return orUnavailable(() => this.#sql().list.all(account, limit)).map(recordOf)
  }

  find(account: string, id: string): OpenConversation | undefined {
    const row = orUnavailable(() => this.#sql().find.get(id, account))
    return row ? openRecordOf(row) : undefined
  }

  add(conversation: OpenConversation, most: number): void {
    const { id, account, title, model, lastResponse, createdAt, updatedAt } = conversation
    const placed = placeOf(conversation)
    orUnavailable(() => {
      this.#sql().add.run(id, account, title, model, lastResponse, ...placed, createdAt, updatedAt)
      this.#sql().forget.run(account, account, most)
      this.#sql().forgetImported.run(account, account)
    })
  }

  addImported(conversation: OpenConversation, turns: readonly ImportedTurn[], most: number): void {
    const { id, account } = conversation
    orUnavailable(() => this.#sql().addImported.run(id, account, JSON.stringify(turns)))
    this.add(conversation, most)
  }

  importedTurns(account: string, id: string): readonly ImportedTurn[] {
    const row = orUnavailable(() => this.#sql().imported.get(id, account))
    return row ? (JSON.parse(row.turns) as ImportedTurn[]) : []
  }

  change(
    account: string,
    id: string,
    changes: ConversationChanges,
    at: number,
  ): OpenConversation | undefined {
    const before = this.find(account, id)
    if (!before) return undefined
    const { title, model, lastResponse, ...rest } = { ...before, ...changes }
    const isUse = 'title' in changes || 'model' in changes || 'lastResponse' in changes
    const updatedAt = isUse ? at : before.updatedAt
    const row = orUnavailable(() =>
      this.#sql().change.get(title, model, lastResponse, ...placeOf(rest), updatedAt, id, account),
    )
    return row ? openRecordOf(row) : undefined
  }

  findShared(token: string): OpenConversation | undefined {
    const row = orUnavailable(() => this.#sql().findShared.get(token))
    return row ? openRecordOf(row) : undefined
  }

  remove(account: string, id: string): OpenConversation | undefined {
    const row = orUnavailable(() => this.#sql().remove.get(id, account))
    if (row) orUnavailable(() => this.#sql().removeImported.run(id, account))
    return row ? openRecordOf(row) : undefined
  }
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

function conversationStatements(database: Database) {
  const order = 'updated_at DESC, id DESC'
  return {
    list: database.prepare<ListedRow, [string, number]>(
      `SELECT id, account, title, model, last_response, folder, pinned, created_at, updated_at
       FROM conversation WHERE account = ? ORDER BY ${order} LIMIT ?`,
    ),
    find: database.prepare<Row<'conversation'>, [string, string]>(
      'SELECT * FROM conversation WHERE id = ? AND account = ?',
    ),
    findShared: database.prepare<OpenRow, [string]>('SELECT * FROM conversation WHERE share_token = ?'),
    add: database.prepare(
      `INSERT INTO conversation
       (id, account, title, model, last_response, folder, pinned, settings, share_token, share_response,
        share_at, created_at, updated_at)
       VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)`,
    ) as Statement,
    forget: database.prepare(
      `DELETE FROM conversation WHERE account = ? AND id IN (SELECT id FROM conversation WHERE account = ?
       ORDER BY pinned DESC, ${order} LIMIT -1 OFFSET ?)`,
    ) as Statement,
    addImported: database.prepare(
      'INSERT INTO imported_turns (conversation, account, turns) VALUES (?,?,?)',
    ) as Statement,
    imported: database.prepare<Row<'importedTurns', 'turns'>, [string, string]>(
      'SELECT turns FROM imported_turns WHERE conversation = ? AND account = ?',
    ),
    removeImported: database.prepare(
      'DELETE FROM imported_turns WHERE conversation = ? AND account = ?',
    ) as Statement,
    forgetImported: database.prepare(
      `DELETE FROM imported_turns WHERE account = ?
       AND conversation NOT IN (SELECT id FROM conversation WHERE account = ?)`,
    ) as Statement,
    change: database.prepare<
      Row<'conversation'>,
      [string, string | null, string | null, ...Place, number, string, string]
    >(
      `UPDATE conversation SET title = ?, model = ?, last_response = ?, folder = ?, pinned = ?, settings = ?,
       share_token = ?, share_response = ?, share_at = ?, updated_at = ? WHERE id = ? AND account = ? RETURNING *`,
    ),
    remove: database.prepare<Row<'conversation'>, [string, string]>(
      'DELETE FROM conversation WHERE id = ? AND account = ? RETURNING *',
    ),
  }
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

export class SqlitePrompts implements PromptStore {
  readonly #sql: () => ReturnType<typeof promptStatements>

  constructor(database: Database) {
    this.#sql = whenNeeded(() => promptStatements(database))
  }

  list(account: string): readonly SavedPrompt[] {
    return orUnavailable(() => this.#sql().list.all(account)).map(promptOf)
  }

  add({ id, account, name, text, changedAt }: SavedPrompt, most: number): boolean {
    return (
      orUnavailable(() => this.#sql().add.run(id, account, name, text, changedAt, account, most)).changes > 0
    )
  }

  change({ id, account, name, text, changedAt }: SavedPrompt): boolean {
    return orUnavailable(() => this.#sql().change.run(name, text, changedAt, id, account)).changes > 0
  }

  remove(account: string, id: string): boolean {
    return orUnavailable(() => this.#sql().remove.run(id, account)).changes > 0
  }
}

function promptStatements(database: Database) {
  return {
    list: database.prepare<Row<'savedPrompt'>, [string]>(
      'SELECT * FROM saved_prompt WHERE account = ? ORDER BY name, id',
    ),
    add: database.prepare(
      `INSERT INTO saved_prompt (id, account, name, text, changed_at) SELECT ?,?,?,?,?
       WHERE (SELECT count(*) FROM saved_prompt WHERE account = ?) < ?`,
    ) as Statement,
    change: database.prepare(
      'UPDATE saved_prompt SET name = ?, text = ?, changed_at = ? WHERE id = ? AND account = ?',
    ) as Statement,
    remove: database.prepare('DELETE FROM saved_prompt WHERE id = ? AND account = ?') as Statement,
  }
}

const promptOf = recordReader<Row<'savedPrompt'>>()({ changed_at: Number })
