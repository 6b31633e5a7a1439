// Responses in the background on SQLite: a row each, and their events in pieces.

import type { Database, Statement } from 'bun:sqlite'
import type { JsonObject } from '../../../conversation/request.ts'
import type { BackgroundRecord, BackgroundStore } from '../../../responses/background.ts'
import type { ResponseViewer } from '../../../responses/response-store.ts'
import { orUnavailable, whenNeeded } from '../database/sqlite.ts'
import { madeByKey, removeInSteps } from './response-store.ts'
import type { SqliteLedger } from '../ledger/ledger-store.ts'
import type { Row } from '../../schema.ts'

/** Deleted per commit; their events may be large. */
const sweptAtOnce = 20

type Group = Pick<SqliteLedger, 'admit' | 'persist'>

export class SqliteBackground implements BackgroundStore {
  readonly #sql: () => ReturnType<typeof statements>
  readonly #group: Group
  readonly #clock: () => number

  constructor(database: Database, group: Group, clock: () => number) {
    this.#sql = whenNeeded(() => statements(database))
    this.#group = group
    this.#clock = clock
  }

  begin(record: BackgroundRecord): Promise<BackgroundRecord | undefined> {
    const { id, account, key, idempotency, bodyHash, status, expiresAt, response } = record
    return this.#group.admit(() => {
      const known = idempotency === null ? undefined : this.#sql().keyed.get(account, idempotency)
      if (known) return recordOf(known)
      const text = JSON.stringify(response)
      this.#sql().put.run(id, account, key, idempotency, bodyHash, status, expiresAt, text)
      return undefined
    })
  }

  append(id: string, from: number, events: readonly string[]): void {
    const lines = events.join('\n')
    // The disk may be full: then its client cannot go on with the stream, and the response is there all the same.
    this.#group.persist(() => void this.#sql().append.run(id, from, lines, id)).catch(() => undefined)
  }

  async end(id: string, status: 'ended' | 'cancelled'): Promise<void> {
    await this.#group.persist(() => void this.#sql().end.run(status, id))
  }

  find({ account, line, mode }: ResponseViewer, id: string): BackgroundRecord | undefined {
    const row = orUnavailable(() =>
      this.#sql().find.get(account, id, this.#clock(), line ?? null, mode ?? null),
    )
    return row ? recordOf(row) : undefined
  }

  events(id: string, after: number): readonly string[] {
    const pieces = orUnavailable(() => this.#sql().events.all(id))
    return pieces.flatMap(({ from, lines }) => lines.split('\n').slice(Math.max(0, after + 1 - Number(from))))
  }

  listInterrupted(): readonly BackgroundRecord[] {
    return orUnavailable(() => this.#sql().running.all()).map(recordOf)
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

  #removeAll(some: () => readonly { readonly id: string }[]): Promise<number> {
    return removeInSteps(this.#group, sweptAtOnce, () => this.#remove(some()))
  }

  #remove(rows: readonly { readonly id: string }[]): number {
    for (const { id } of rows) {
      this.#sql().removeEvents.run(id)
      this.#sql().remove.run(id)
    }
    return rows.length
  }
}

function recordOf(row: Row<'background'>): BackgroundRecord {
  return {
    id: row.id,
    account: row.account,
    key: row.key,
    idempotency: row.idempotency,
    bodyHash: row.body_hash,
    status: row.status,
    expiresAt: Number(row.expires_at),
    response: JSON.parse(row.response) as JsonObject,
  }
}

function statements(database: Database) {
  return {
    put: database.prepare(
      `INSERT INTO background (id, account, key, idempotency, body_hash, status, expires_at, response)
       VALUES (?,?,?,?,?,?,?,?)`,
    ) as Statement,
    keyed: database.prepare<Row<'background'>, [string, string]>(
      'SELECT * FROM background WHERE account = ? AND idempotency = ?',
    ),
    append: database.prepare(
      `INSERT OR REPLACE INTO background_events (response, "from", lines)
       SELECT ?,?,? WHERE EXISTS (SELECT 1 FROM background WHERE id = ?)`,
    ) as Statement,
    end: database.prepare('UPDATE background SET status = ? WHERE id = ?') as Statement,
    find: database.prepare<Row<'background'>, [string, string, number, string | null, string | null]>(
      `SELECT * FROM background WHERE account = ?1 AND id = ?2 AND expires_at > ?3
       AND ${madeByKey('background.key', '?4', '?5')}`,
    ),
    events: database.prepare<{ from: bigint; lines: string }, [string]>(
      'SELECT "from", lines FROM background_events WHERE response = ? ORDER BY "from"',
    ),
    running: database.prepare<Row<'background'>, []>("SELECT * FROM background WHERE status = 'running'"),
    ofAccount: database.prepare<{ id: string }, [string, number]>(
      'SELECT id FROM background WHERE account = ? LIMIT ?',
    ),
    expired: database.prepare<{ id: string }, [number, number]>(
      'SELECT id FROM background WHERE expires_at <= ? LIMIT ?',
    ),
    removeEvents: database.prepare('DELETE FROM background_events WHERE response = ?') as Statement,
    remove: database.prepare('DELETE FROM background WHERE id = ?') as Statement,
  }
}
