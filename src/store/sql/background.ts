// Responses in the background: a row each, and their events in pieces.

import type { Awaitable } from '../../async/async.ts'
import type { JsonObject } from '../../conversation/request.ts'
import type { BackgroundRecord, BackgroundStore } from '../../responses/background.ts'
import type { ResponseViewer } from '../../responses/response-store.ts'
import type { Row } from '../schema.ts'
import type { ThisProcess } from './idempotency.ts'
import { madeByKey, removeInSteps } from './response-store.ts'
import { type OrderedTables, sql, type Work } from './work.ts'

/** Deleted per commit; their events may be large. */
const sweptAtOnce = 20

export class SqlBackground implements BackgroundStore {
  readonly #tables: OrderedTables
  readonly #process: ThisProcess

  constructor(tables: OrderedTables, process: ThisProcess) {
    this.#tables = tables
    this.#process = process
  }

  begin(record: BackgroundRecord): Promise<BackgroundRecord | undefined> {
    const { id, account, key, idempotency, bodyHash, status, expiresAt, response } = record
    const { owner } = this.#process
    return this.#tables.admit(function* () {
      const text = JSON.stringify(response)
      const row = [id, account, key, idempotency, bodyHash, status, expiresAt, text, owner] as const
      if ((yield* background.put.run(...row)) === 1) return undefined
      return recordOf((yield* background.keyed.first(account, idempotency))!)
    })
  }

  append(id: string, from: number, events: readonly string[]): void {
    const lines = events.join('\n')
    // The disk may be full: then its client cannot go on with the stream, and the response is there all the same.
    this.#tables.persist(id, () => background.append.run(id, from, lines, id)).catch(() => undefined)
  }

  async end(id: string, status: 'ended' | 'cancelled'): Promise<void> {
    await this.#tables.persist(id, () => background.end.run(status, id))
  }

  async cancel(id: string): Promise<void> {
    await this.#tables.admit(() => background.cancel.run(id))
  }

  statusOf(id: string): Awaitable<BackgroundRecord['status'] | undefined> {
    return this.#tables.do(function* () {
      return (yield* background.status.first(id))?.status
    })
  }

  find({ account, line, mode }: ResponseViewer, id: string): Awaitable<BackgroundRecord | undefined> {
    const now = this.#process.clock()
    return this.#tables.do(function* () {
      const row = yield* background.find.first(account, id, now, line ?? null, mode ?? null)
      return row && recordOf(row)
    })
  }

  events(id: string, after: number): Awaitable<readonly string[]> {
    return this.#tables.do(function* () {
      const pieces = yield* background.events.all(id)
      return pieces.flatMap(({ from, lines }) =>
        lines.split('\n').slice(Math.max(0, after + 1 - Number(from))),
      )
    })
  }

  runningElsewhere(account: string): Awaitable<number> {
    const { owner } = this.#process
    return this.#tables.do(function* () {
      return Number((yield* background.runningElsewhere.first(account, owner))!.count)
    })
  }

  async listInterrupted(): Promise<readonly BackgroundRecord[]> {
    const owners = await this.#tables.do(() => background.owners.all())
    const interrupted: BackgroundRecord[] = []
    for (const { owner } of owners) {
      if (owner !== null && !(await this.#process.isDead(owner))) continue
      const rows = await this.#tables.do(() => background.runningOf.all(owner))
      interrupted.push(...rows.map(recordOf))
    }
    return interrupted
  }

  async delete(id: string): Promise<void> {
    await this.#tables.admit(() => remove([{ id }]))
  }

  async forgetAccount(account: string): Promise<void> {
    await removeInSteps(this.#tables, sweptAtOnce, function* () {
      return yield* remove(yield* background.ofAccount.all(account, sweptAtOnce))
    })
  }

  sweep(now: number): Promise<number> {
    return removeInSteps(this.#tables, sweptAtOnce, function* () {
      return yield* remove(yield* background.expired.all(now, sweptAtOnce))
    })
  }
}

function* remove(rows: readonly { readonly id: string }[]): Work<number> {
  for (const { id } of rows) {
    yield* background.removeEvents.run(id)
    yield* background.remove.run(id)
  }
  return rows.length
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

const background = {
  put: sql(
    `INSERT INTO background (id, account, key, idempotency, body_hash, status, expires_at, response, owner)
     VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT (account, idempotency) DO NOTHING`,
  ),
  runningElsewhere: sql<{ count: bigint }>(
    "SELECT count(*) AS count FROM background WHERE account = ? AND status = 'running' AND owner <> ?",
  ),
  keyed: sql<Row<'background'>>('SELECT * FROM background WHERE account = ? AND idempotency = ?'),
  append: sql(
    `INSERT INTO background_events (response, "from", lines)
     SELECT ?, CAST(? AS bigint),? WHERE EXISTS (SELECT 1 FROM background WHERE id = ?)
     ON CONFLICT (response, "from") DO UPDATE SET lines = excluded.lines`,
  ),
  end: sql('UPDATE background SET status = ? WHERE id = ?'),
  cancel: sql("UPDATE background SET status = 'cancelled' WHERE id = ? AND status = 'running'"),
  status: sql<Row<'background', 'status'>>('SELECT status FROM background WHERE id = ?'),
  find: sql<Row<'background'>>(
    `SELECT * FROM background WHERE account = ?1 AND id = ?2 AND expires_at > ?3
     AND ${madeByKey('background.key', '?4', '?5')}`,
  ),
  events: sql<{ from: bigint; lines: string }>(
    'SELECT "from", lines FROM background_events WHERE response = ? ORDER BY "from"',
  ),
  owners: sql<{ owner: string | null }>("SELECT DISTINCT owner FROM background WHERE status = 'running'"),
  runningOf: sql<Row<'background'>>(
    "SELECT * FROM background WHERE status = 'running' AND owner IS NOT DISTINCT FROM ?",
  ),
  ofAccount: sql<{ id: string }>('SELECT id FROM background WHERE account = ? LIMIT ?'),
  expired: sql<{ id: string }>('SELECT id FROM background WHERE expires_at <= ? LIMIT ?'),
  removeEvents: sql('DELETE FROM background_events WHERE response = ?'),
  remove: sql('DELETE FROM background WHERE id = ?'),
}
