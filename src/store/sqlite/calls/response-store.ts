// Stored responses on SQLite: written in order with the ends of their calls, read on their own.

import type { Database, Statement } from 'bun:sqlite'
import type { JsonObject } from '../../../conversation/request.ts'
import type {
  Conversation,
  KeepCommand,
  ResponseStore,
  StoredResponse,
} from '../../../responses/response-store.ts'
import type { SqliteLedger } from '../ledger/ledger-store.ts'
import { reading } from '../database/outage.ts'

/** Responses that are forgotten in one commit: their rows may be large. */
const sweptAtOnce = 20
const sweptInOneRound = 5_000
/**
 * How much longer than promised a response may be continued. Each later response puts the end off; with this to spare
 * the rows of a conversation are written anew once in a while, and not with every turn.
 */
const sparedMs = 86_400_000
/** More responses than any conversation has: what a model reads ends long before. */
const longestConversation = 10_000
/** Accounts whose bytes are known without adding them up. */
const accountsRemembered = 10_000

interface Row {
  readonly id: string
  readonly previous: string | null
  readonly input: string
  readonly answer: string
  readonly size: bigint
}

interface Link {
  readonly id: string
  readonly previous: string | null
  readonly size: bigint
}

export class SqliteResponses implements ResponseStore {
  readonly #sql: ReturnType<typeof statements>
  readonly #group: Pick<SqliteLedger, 'admit' | 'persist'>
  readonly #clock: () => number
  /** By account, since they were last added up. */
  readonly #bytes = new Map<string, number>()

  constructor(database: Database, group: Pick<SqliteLedger, 'admit' | 'persist'>, clock: () => number) {
    this.#sql = statements(database)
    this.#group = group
    this.#clock = clock
  }

  async keep(command: KeepCommand): Promise<void> {
    const { id, account, call, previous = null, expiresAt, input, answer } = command
    const size = Buffer.byteLength(input) + Buffer.byteLength(answer)
    const keptUntil = expiresAt + sparedMs
    this.#bytes.set(account, this.storedBytes(account) + size)
    await this.#group.persist(() => {
      this.#sql.put.run(id, account, call, previous, expiresAt, keptUntil, size, input, answer)
      if (previous !== null) this.#sql.extend.run(account, previous, expiresAt, keptUntil)
    })
  }

  storedBytes(account: string): number {
    const known = this.#bytes.get(account)
    if (known !== undefined) return known
    const stored = reading(() => Number(this.#sql.bytes.get(account)?.bytes ?? 0))
    if (this.#bytes.size >= accountsRemembered) this.#bytes.clear()
    this.#bytes.set(account, stored)
    return stored
  }

  find(account: string, id: string): StoredResponse | undefined {
    const row = reading(() => this.#sql.find.get(account, id, this.#clock()))
    return row ? responseOf(row) : undefined
  }

  conversation(account: string, id: string, maxBytes: number): Conversation {
    const there = reading(() => this.#sql.there.get(account, id, this.#clock()))
    if (!there) return { kind: 'missing', id }
    const links = reading(() => this.#sql.chain.all(account, id))
    const size = links.reduce((sum, link) => sum + Number(link.size), 0)
    if (size > maxBytes || links.length >= longestConversation) return { kind: 'too-large' }
    const first = links.at(-1)!
    if (first.previous !== null) return { kind: 'missing', id: first.previous }
    const rows = links.toReversed().map((link) => reading(() => this.#sql.read.get(account, link.id)))
    return { kind: 'whole', responses: rows.flatMap((row) => (row ? [responseOf(row)] : [])) }
  }

  async delete(account: string, id: string): Promise<boolean> {
    const gone = await this.#group.admit(() => {
      const call = this.#sql.remove.get(account, id, this.#clock())?.call
      // Nor does it come back to a request that is sent again with its Idempotency-Key.
      if (call !== undefined) this.#sql.forgetAnswer.run(call)
      return call !== undefined
    })
    this.#bytes.delete(account)
    return gone
  }

  async sweep(now: number): Promise<number> {
    let swept = 0
    while (swept < sweptInOneRound) {
      const gone = await this.#group.admit(() => Number(this.#sql.sweep.run(now, sweptAtOnce).changes))
      swept += gone
      if (gone < sweptAtOnce) break
    }
    if (swept > 0) this.#bytes.clear()
    return swept
  }
}

function responseOf({ id, previous, input, answer, size }: Row): StoredResponse {
  return {
    id,
    previous: previous ?? undefined,
    input: JSON.parse(input) as JsonObject[],
    answer: JSON.parse(answer) as JsonObject,
    size: Number(size),
  }
}

/** A response is there when its call has been settled by the process that made it. */
const charged = `EXISTS (SELECT 1 FROM call WHERE call.id = response.call
  AND call.state = 'settled' AND call.ending <> 'recovered')`

function statements(database: Database) {
  return {
    put: database.prepare(
      // A response whose charge could not be booked at its end has failed instead.
      `INSERT OR REPLACE INTO response (id, account, call, previous, expires_at, kept_until, size, input, answer)
       VALUES (?,?,?,?,?,?,?,?,?)`,
    ) as Statement,
    extend: database.prepare(
      `WITH RECURSIVE chain (id, previous) AS (
         SELECT id, previous FROM response WHERE account = ?1 AND id = ?2
         UNION SELECT response.id, response.previous FROM response JOIN chain ON response.id = chain.previous
         WHERE response.account = ?1)
       UPDATE response SET kept_until = ?4 WHERE id IN (SELECT id FROM chain) AND kept_until < ?3`,
    ) as Statement,
    find: database.prepare<Row, [string, string, number]>(
      `SELECT id, previous, size, input, answer FROM response
       WHERE account = ? AND id = ? AND expires_at > ? AND ${charged}`,
    ),
    there: database.prepare<{ size: bigint }, [string, string, number]>(
      `SELECT size FROM response WHERE account = ? AND id = ? AND expires_at > ? AND ${charged}`,
    ),
    /** From the last response to the first that is there. */
    chain: database.prepare<Link, [string, string]>(
      `WITH RECURSIVE chain (id, previous, size, depth) AS (
         SELECT id, previous, size, 0 FROM response WHERE account = ?1 AND id = ?2
         UNION ALL SELECT response.id, response.previous, response.size, depth + 1
         FROM response JOIN chain ON response.id = chain.previous
         WHERE response.account = ?1 AND depth < ${longestConversation})
       SELECT id, previous, size FROM chain ORDER BY depth`,
    ),
    bytes: database.prepare<{ bytes: bigint | null }, [string]>(
      'SELECT sum(size) AS bytes FROM response WHERE account = ?',
    ),
    read: database.prepare<Row, [string, string]>(
      'SELECT id, previous, size, input, answer FROM response WHERE account = ? AND id = ?',
    ),
    remove: database.prepare<{ call: string }, [string, string, number]>(
      `DELETE FROM response WHERE account = ? AND id = ? AND expires_at > ? AND ${charged} RETURNING call`,
    ),
    forgetAnswer: database.prepare('UPDATE idempotency SET answer = NULL WHERE call = ?') as Statement,
    sweep: database.prepare(
      `DELETE FROM response WHERE id IN
       (SELECT id FROM response WHERE kept_until <= ? ORDER BY kept_until LIMIT ?)`,
    ) as Statement,
  }
}
