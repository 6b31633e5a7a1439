// Stored responses on SQLite: written in order with the ends of their calls, read independently.

import type { Database, Statement } from 'bun:sqlite'
import type {
  Conversation,
  KeepCommand,
  ResponseStore,
  ResponseViewer,
  StoredBytes,
  WrittenResponse,
} from '../../../responses/response-store.ts'
import { orUnavailable, whenNeeded } from '../database/sqlite.ts'
import type { SqliteLedger } from '../ledger/ledger-store.ts'
import type { Row } from '../../schema.ts'

/** Responses deleted per commit; their rows may be large. */
const sweptAtOnce = 20
const sweptInOneRound = 5_000
/**
 * How much longer than promised a response is kept. Each later response extends the end; with this to spare the rows
 * of a conversation are rewritten once in a while, not every turn.
 */
const sparedMs = 86_400_000
/** More responses than any conversation has: the model's context ends long before. */
const longestConversation = 10_000
/** Characters of text per row: longer texts are written in parts, if necessary each in its own commit. */
const partCharacters = 262_144
/** Parts that are read at once: to read half a megabyte takes a few milliseconds. */
const partsReadAtOnce = 2
/** Parts of expired responses deleted per commit. */
const partsSweptAtOnce = 40
/** A time at which nothing that is stored had expired. */
const beforeAnyExpiry = 0
/** Accounts whose total bytes are cached. */
const accountsRemembered = 10_000

type ResponseRow = Row<'response', 'id' | 'previous' | 'input' | 'answer' | 'size' | 'parts'> & {
  readonly model: string
}
type Part = Row<'responsePart', 'of' | 'text'>

interface Link {
  readonly id: string
  /** Whether the caller may see it. */
  readonly seen: bigint
  readonly previous: string | null
  readonly size: bigint
}

type Group = Pick<SqliteLedger, 'admit' | 'persist' | 'whenDurable'>

export class SqliteResponses implements ResponseStore {
  readonly #sql: () => ReturnType<typeof statements>
  readonly #group: Group
  readonly #clock: () => number
  readonly #pauses = new Pauses()
  /** By account, since they were last summed. */
  readonly #bytes = new Map<string, number>()

  constructor(database: Database, group: Group, clock: () => number) {
    this.#sql = whenNeeded(() => statements(database))
    this.#group = group
    this.#clock = clock
  }

  async keep(command: KeepCommand): Promise<void> {
    const { id, account, call, conversation, previous = null, expiresAt, input, answer } = command
    const pieces = [...input, ...answer]
    const size = pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0)
    const keptUntil = expiresAt + sparedMs
    this.#bytes.set(account, this.#storedBytes(account) + size)
    const isLong = pieces.reduce((sum, piece) => sum + piece.length, 0) > partCharacters
    const parts = isLong ? [...partsOf('input', input), ...partsOf('answer', answer)] : []
    const texts = isLong ? (['', ''] as const) : ([input.join(''), answer.join('')] as const)
    const row = this.#group.persist(() => {
      // In this commit, so that no page has to live to see its end.
      const { changes } =
        conversation === undefined
          ? { changes: 1 }
          : this.#sql().stand.run(id, this.#clock(), conversation, account)
      if (changes === 0) return void this.#bytes.delete(account)
      // A response whose charge failed at its end is stored a second time, as failed.
      this.#sql().removeParts.run(id, parts.length)
      const count = isLong ? parts.length : null
      this.#sql().put.run(id, account, call, previous, expiresAt, keptUntil, size, ...texts, count)
      if (previous !== null) this.#sql().extend.run(account, previous, expiresAt, keptUntil)
    })
    // The queue keeps the order: all parts are stored before the settle that follows them.
    const written = parts.map(({ of, text }, part) =>
      this.#group.persist(() => void this.#sql().putPart.run(id, part, of, text, id)),
    )
    await Promise.all([row, ...written])
  }

  storedBytes(account: string): StoredBytes {
    return { bytes: () => this.#storedBytes(account) }
  }

  #storedBytes(account: string): number {
    const known = this.#bytes.get(account)
    if (known !== undefined) return known
    const stored = orUnavailable(() => Number(this.#sql().bytes.get(account)?.bytes ?? 0))
    if (this.#bytes.size >= accountsRemembered) this.#bytes.clear()
    this.#bytes.set(account, stored)
    return stored
  }

  /** An answer is shown once its charge is durable. A request that continues it need not wait: its hold is durable later. */
  async find({ account, line, mode }: ResponseViewer, id: string): Promise<WrittenResponse | undefined> {
    const asked = [account, id, this.#clock(), line ?? null, mode ?? null] as const
    const row = orUnavailable(() => this.#sql().find.get(...asked))
    const response = row ? await this.#responseOf(row) : undefined
    return response && this.#group.whenDurable(response)
  }

  sizeOf({ account, line, mode }: ResponseViewer, id: string): number | undefined {
    const asked = [account, id, this.#clock(), line ?? null, mode ?? null] as const
    const there = orUnavailable(() => this.#sql().there.get(...asked))
    return there ? Number(there.size) : undefined
  }

  async conversation(
    viewer: ResponseViewer,
    id: string,
    maxBytes: number,
  ): Promise<Conversation<WrittenResponse>> {
    if (this.sizeOf(viewer, id) === undefined) return { kind: 'missing', id }
    const { account, line, mode } = viewer
    const links = orUnavailable(() => this.#sql().chain.all(account, id, line ?? null, mode ?? null))
    const unseen = links.find(({ seen }) => seen === 0n)
    if (unseen) return { kind: 'missing', id: unseen.id }
    const size = links.reduce((sum, link) => sum + Number(link.size), 0)
    if (size > maxBytes || links.length >= longestConversation) return { kind: 'too-large', bytes: size }
    const first = links.at(-1)!
    if (first.previous !== null) return { kind: 'missing', id: first.previous }
    return this.#allOf(account, links)
  }

  /** Another request may delete one of them meanwhile. */
  async #allOf(account: string, links: readonly Link[]): Promise<Conversation<WrittenResponse>> {
    const responses: WrittenResponse[] = []
    let unpaused = 0
    for (const { id, size } of links.toReversed()) {
      unpaused += Number(size)
      if (unpaused > partCharacters) {
        await this.#pauses.next()
        unpaused = 0
      }
      const row = orUnavailable(() => this.#sql().read.get(account, id))
      const response = row && (await this.#responseOf(row))
      if (!response) return { kind: 'missing', id }
      responses.push(response)
    }
    return { kind: 'whole', responses }
  }

  delete(viewer: ResponseViewer, id: string): Promise<boolean> {
    return this.#delete(viewer, id, this.#clock())
  }

  /** The latest first: if this is interrupted, the rest is still a conversation from its beginning. */
  async deleteConversation(account: string, id: string): Promise<void> {
    const links = orUnavailable(() => this.#sql().chain.all(account, id, null, null))
    const whole = { account, line: undefined, mode: undefined }
    for (const link of links) await this.#delete(whole, link.id, beforeAnyExpiry)
  }

  /** Unless it has expired at `now`. */
  async #delete({ account, line, mode }: ResponseViewer, id: string, now: number): Promise<boolean> {
    const gone = await this.#group.admit(() => {
      const call = this.#sql().remove.get(account, id, now, line ?? null, mode ?? null)?.call
      // A deleted response is not replayed for its Idempotency-Key either.
      if (call === undefined) return false
      this.#sql().forgetAnswer.run(call)
      this.#sql().removeParts.run(id, 0)
      return true
    })
    this.#bytes.delete(account)
    return gone
  }

  async forgetAccount(account: string): Promise<number> {
    let forgotten = 0
    let step = 0
    for (let gone = partsSweptAtOnce; gone === partsSweptAtOnce;) {
      const removeSome = () => Number(this.#sql().removeSomeParts.run(account, partsSweptAtOnce).changes)
      gone = await this.#group.admit(removeSome)
    }
    do {
      step = await this.#group.admit(() => {
        const gone = this.#sql().removeSome.all(account, sweptAtOnce)
        for (const { id, call } of gone) {
          this.#sql().forgetAnswer.run(call)
          // Those that were stored since: nothing else finds the parts of a response that is gone.
          this.#sql().removeParts.run(id, 0)
        }
        return gone.length
      })
      forgotten += step
    } while (step === sweptAtOnce)
    this.#bytes.delete(account)
    return forgotten
  }

  async sweep(now: number): Promise<number> {
    let swept = 0
    for (let gone = partsSweptAtOnce; gone === partsSweptAtOnce;)
      gone = await this.#group.admit(() => Number(this.#sql().sweepParts.run(now, partsSweptAtOnce).changes))
    while (swept < sweptInOneRound) {
      const gone = await this.#group.admit(() => Number(this.#sql().sweep.run(now, sweptAtOnce).changes))
      swept += gone
      if (gone < sweptAtOnce) break
    }
    if (swept > 0) this.#bytes.clear()
    return swept
  }

  /** undefined where it is deleted while its parts are read. */
  async #responseOf(row: ResponseRow): Promise<WrittenResponse | undefined> {
    if (row.parts === null) return writeParts(row, [row.input], [row.answer])
    const count = Number(row.parts)
    const texts: Record<Part['of'], string[]> = { input: [], answer: [] }
    for (let from = 0; from < count; from += partsReadAtOnce) {
      await this.#pauses.next()
      const to = Math.min(from + partsReadAtOnce, count)
      const parts = orUnavailable(() => this.#sql().parts.all(row.id, from, to))
      if (parts.length < to - from) return undefined
      for (const { of, text } of parts) texts[of].push(text)
    }
    return writeParts(row, texts.input, texts.answer)
  }
}

function writeParts(
  { id, model, previous, size }: ResponseRow,
  input: readonly string[],
  answer: readonly string[],
): WrittenResponse {
  return { id, model, previous: previous ?? undefined, input, answer, size: Number(size) }
}

/** Lets the event loop check its connections between two reads, whoever reads. */
class Pauses {
  #last: Promise<void> = Promise.resolve()

  /** Resolves in a turn of the loop of its own, in order of the requests. */
  next(): Promise<void> {
    this.#last = this.#last.then(() => new Promise((resolve) => setImmediate(resolve)))
    return this.#last
  }
}

/** The pieces of a text as parts: short pieces are joined, long ones cut. */
function* partsOf(of: Part['of'], pieces: readonly string[]): Generator<Part> {
  let text = ''
  for (const piece of pieces) {
    if (text.length + piece.length > partCharacters && text !== '') {
      yield { of, text }
      text = ''
    }
    text += piece
    while (text.length > partCharacters) {
      let to = partCharacters
      const last = text.charCodeAt(to - 1)
      // Surrogate pairs stay together: a single half cannot be written.
      if (last >= 0xd800 && last <= 0xdbff) to--
      yield { of, text: text.slice(0, to) }
      text = text.slice(to)
    }
  }
  if (text !== '') yield { of, text }
}

/** Removes rows, so many per commit, until a commit has found fewer. `remove` says how many it has. Resolves with all of them. */
export async function removeInSteps(
  group: Pick<SqliteLedger, 'admit'>,
  atOnce: number,
  remove: () => number,
): Promise<number> {
  let gone = 0
  for (let step = atOnce; step === atOnce; gone += step) step = await group.admit(remove)
  return gone
}

/** SQL: `key` is of the line and of the mode that alone may be seen, where these are given. */
export const madeByKey = (key: string, line: string, mode: string) =>
  `((${line} IS NULL AND ${mode} IS NULL) OR EXISTS (SELECT 1 FROM api_key WHERE api_key.id = ${key}
     AND (${line} IS NULL OR coalesce(api_key.lineage, api_key.id) = ${line})
     AND (${mode} IS NULL OR api_key.mode = ${mode})))`
/** A response exists once its call has been settled by the process that produced it. */
const charged = `EXISTS (SELECT 1 FROM call WHERE call.id = response.call
  AND call.state = 'settled' AND call.ending <> 'recovered' AND ${madeByKey('call.key', '?4', '?5')})`
/** The model of its call, which is kept as long as the ledger is. */
const model = "coalesce((SELECT model FROM call WHERE call.id = response.call), '') AS model"
/** All of its parts must exist: the disk may have had room for some only. */
const whole = `(response.parts IS NULL OR response.parts =
  (SELECT count(*) FROM response_part WHERE response_part.response = response.id))`

/** Account, id, time, and the line and the mode that alone may be seen. */
type Asked = [string, string, number, string | null, string | null]

function statements(database: Database) {
  return {
    put: database.prepare(
      `INSERT OR REPLACE INTO response (id, account, call, previous, expires_at, kept_until, size, input, answer, parts)
       VALUES (?,?,?,?,?,?,?,?,?,?)`,
    ) as Statement,
    putPart: database.prepare(
      `INSERT OR REPLACE INTO response_part (response, part, of, text)
       SELECT ?,?,?,? WHERE EXISTS (SELECT 1 FROM response WHERE id = ?)`,
    ) as Statement,
    stand: database.prepare(
      'UPDATE conversation SET last_response = ?, updated_at = ? WHERE id = ? AND account = ?',
    ) as Statement,
    /** Parts from this number on. */
    removeParts: database.prepare('DELETE FROM response_part WHERE response = ? AND part >= ?') as Statement,
    /** From one part on, up to another. */
    parts: database.prepare<Part, [string, number, number]>(
      'SELECT of, text FROM response_part WHERE response = ? AND part >= ? AND part < ? ORDER BY part',
    ),
    extend: database.prepare(
      `WITH RECURSIVE chain (id, previous) AS (
         SELECT id, previous FROM response WHERE account = ?1 AND id = ?2
         UNION SELECT response.id, response.previous FROM response JOIN chain ON response.id = chain.previous
         WHERE response.account = ?1)
       UPDATE response SET kept_until = ?4 WHERE id IN (SELECT id FROM chain) AND kept_until < ?3`,
    ) as Statement,
    find: database.prepare<ResponseRow, Asked>(
      `SELECT id, ${model}, previous, size, input, answer, parts FROM response
       WHERE account = ?1 AND id = ?2 AND expires_at > ?3 AND ${charged} AND ${whole}`,
    ),
    there: database.prepare<{ size: bigint }, Asked>(
      `SELECT size FROM response WHERE account = ?1 AND id = ?2 AND expires_at > ?3 AND ${charged} AND ${whole}`,
    ),
    /** From the last response back to the first that exists. */
    chain: database.prepare<Link, [string, string, string | null, string | null]>(
      `WITH RECURSIVE chain (id, previous, size, call, depth) AS (
         SELECT id, previous, size, call, 0 FROM response WHERE account = ?1 AND id = ?2
         UNION ALL SELECT response.id, response.previous, response.size, response.call, depth + 1
         FROM response JOIN chain ON response.id = chain.previous
         WHERE response.account = ?1 AND depth < ${longestConversation})
       SELECT id, previous, size, (?3 IS NULL AND ?4 IS NULL) OR EXISTS
         (SELECT 1 FROM call WHERE call.id = chain.call AND ${madeByKey('call.key', '?3', '?4')}) AS seen
       FROM chain ORDER BY depth`,
    ),
    bytes: database.prepare<{ bytes: bigint | null }, [string]>(
      'SELECT sum(size) AS bytes FROM response WHERE account = ?',
    ),
    read: database.prepare<ResponseRow, [string, string]>(
      `SELECT id, ${model}, previous, size, input, answer, parts FROM response WHERE account = ? AND id = ?`,
    ),
    remove: database.prepare<{ call: string }, Asked>(
      `DELETE FROM response WHERE account = ?1 AND id = ?2 AND expires_at > ?3 AND ${charged} RETURNING call`,
    ),
    removeSome: database.prepare<{ id: string; call: string }, [string, number]>(
      `DELETE FROM response WHERE id IN (SELECT id FROM response WHERE account = ? LIMIT ?) RETURNING id, call`,
    ),
    removeSomeParts: database.prepare(
      `DELETE FROM response_part WHERE rowid IN (SELECT response_part.rowid FROM response
       JOIN response_part ON response_part.response = response.id WHERE account = ? LIMIT ?)`,
    ) as Statement,
    forgetAnswer: database.prepare('UPDATE idempotency SET answer = NULL WHERE call = ?') as Statement,
    sweep: database.prepare(
      `DELETE FROM response WHERE id IN
       (SELECT id FROM response WHERE kept_until <= ? ORDER BY kept_until LIMIT ?)`,
    ) as Statement,
    sweepParts: database.prepare(
      `DELETE FROM response_part WHERE rowid IN (SELECT response_part.rowid FROM response
       JOIN response_part ON response_part.response = response.id WHERE kept_until <= ? LIMIT ?)`,
    ) as Statement,
  }
}
