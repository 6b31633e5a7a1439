// Stored responses: written in order with the ends of their calls, read independently.

import type { Awaitable } from '../../async/async.ts'
import type { JsonObject } from '../../conversation/request.ts'
import type { BackgroundRecord, BackgroundStore } from '../../responses/background.ts'
import type {
  Conversation,
  KeepCommand,
  ResponseStore,
  ResponseViewer,
  StoredBytes,
  WrittenResponse,
} from '../../responses/response-store.ts'
import type { Row } from '../schema.ts'
import type { ThisProcess } from './idempotency.ts'
import { type OrderedTables, sql, type Work } from './work.ts'

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

/** What an account has stored, since it was last summed. */
interface Sum {
  bytes: number
  readonly at: number
}

export class SqlResponses implements ResponseStore {
  readonly #tables: OrderedTables
  readonly #clock: () => number
  /** How long a sum is trusted, milliseconds: other processes may store, too. */
  readonly #trustMs: number
  readonly #pauses = new Pauses()
  /** By account. */
  readonly #sums = new Map<string, Sum>()

  constructor(tables: OrderedTables, clock: () => number, trustMs = Number.POSITIVE_INFINITY) {
    this.#tables = tables
    this.#clock = clock
    this.#trustMs = trustMs
  }

  async keep(command: KeepCommand): Promise<void> {
    const { id, account, call, conversation, previous = null, expiresAt, input, answer } = command
    const pieces = [...input, ...answer]
    const size = pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0)
    const keptUntil = expiresAt + sparedMs
    const sum = this.#sumOf(account)
    if (sum) sum.bytes += size
    const isLong = pieces.reduce((sum, piece) => sum + piece.length, 0) > partCharacters
    const parts = isLong ? [...partsOf('input', input), ...partsOf('answer', answer)] : []
    const texts = isLong ? (['', ''] as const) : ([input.join(''), answer.join('')] as const)
    const now = this.#clock()
    let isKept = false
    const row = function* (): Work<void> {
      // In this commit, so that no page has to live to see its end.
      isKept =
        conversation === undefined || (yield* responses.stand.run(id, now, conversation, account)) === 1
      if (!isKept) return
      // A response whose charge failed at its end is stored a second time, as failed.
      yield* responses.removeParts.run(id, parts.length)
      const count = isLong ? parts.length : null
      yield* responses.put.run(id, account, call, previous, expiresAt, keptUntil, size, ...texts, count)
      if (previous !== null) yield* responses.extend.run(account, previous, expiresAt, keptUntil)
    }
    // All parts are stored before the settle that follows them.
    const written = parts.map(
      ({ of, text }, part) =>
        () =>
          responses.putPart.run(id, part, of, text, id),
    )
    await this.#tables.persist(id, row, ...written)
    // Summed anew where it was not stored, or while it was.
    if (!isKept || this.#sums.get(account) !== sum) this.#sums.delete(account)
  }

  async storedBytes(account: string): Promise<StoredBytes> {
    let sum = this.#sumOf(account) ?? (await this.#load(account))
    return {
      bytes: () => {
        const known = this.#sumOf(account)
        // What was known stands in for a sum that is on its way.
        if (known === undefined) this.#load(account).catch(() => undefined)
        else sum = known
        return sum.bytes
      },
    }
  }

  /** The sum, if it may be trusted still. */
  #sumOf(account: string): Sum | undefined {
    const sum = this.#sums.get(account)
    return sum && performance.now() - sum.at < this.#trustMs ? sum : undefined
  }

  /** Throws `store_unavailable`. */
  async #load(account: string): Promise<Sum> {
    const row = await this.#tables.do(() => responses.bytes.first(account))
    if (this.#sums.size >= accountsRemembered) this.#sums.clear()
    const sum = { bytes: Number(row?.bytes ?? 0), at: performance.now() }
    this.#sums.set(account, sum)
    return sum
  }

  /** An answer is shown once its charge is durable. A request that continues it need not wait: its hold is durable later. */
  async find(viewer: ResponseViewer, id: string): Promise<WrittenResponse | undefined> {
    const row = await this.#tables.do(() => responses.find.first(...this.#questionOf(viewer, id)))
    const response = row && (await this.#responseOf(row))
    return response && this.#tables.whenDurable(response)
  }

  sizeOf(viewer: ResponseViewer, id: string): Awaitable<number | undefined> {
    const asked = this.#questionOf(viewer, id)
    return this.#tables.do(function* () {
      const there = yield* responses.there.first(...asked)
      return there && Number(there.size)
    })
  }

  #questionOf({ account, line, mode }: ResponseViewer, id: string): Asked {
    return [account, id, this.#clock(), line ?? null, mode ?? null]
  }

  async conversation(
    viewer: ResponseViewer,
    id: string,
    maxBytes: number,
  ): Promise<Conversation<WrittenResponse>> {
    if ((await this.sizeOf(viewer, id)) === undefined) return { kind: 'missing', id }
    const { account, line, mode } = viewer
    const links = await this.#tables.do(() => responses.chain.all(account, id, line ?? null, mode ?? null))
    const unseen = links.find(({ seen }) => seen === 0n)
    if (unseen) return { kind: 'missing', id: unseen.id }
    const size = links.reduce((sum, link) => sum + Number(link.size), 0)
    if (size > maxBytes || links.length >= longestConversation) return { kind: 'too-large', bytes: size }
    const first = links.at(-1)
    // All of it may have been deleted meanwhile.
    if (!first) return { kind: 'missing', id }
    if (first.previous !== null) return { kind: 'missing', id: first.previous }
    return this.#allOf(account, links)
  }

  /** Another request may delete one of them meanwhile. */
  async #allOf(account: string, links: readonly Link[]): Promise<Conversation<WrittenResponse>> {
    const found: WrittenResponse[] = []
    let unpaused = 0
    for (const { id, size } of links.toReversed()) {
      unpaused += Number(size)
      if (unpaused > partCharacters) {
        await this.#pauses.next()
        unpaused = 0
      }
      const row = await this.#tables.do(() => responses.read.first(account, id))
      const response = row && (await this.#responseOf(row))
      if (!response) return { kind: 'missing', id }
      found.push(response)
    }
    return { kind: 'whole', responses: found }
  }

  delete(viewer: ResponseViewer, id: string): Promise<boolean> {
    return this.#delete(viewer, id, this.#clock())
  }

  /** The latest first: if this is interrupted, the rest is still a conversation from its beginning. */
  async deleteConversation(account: string, id: string): Promise<void> {
    const links = await this.#tables.do(() => responses.chain.all(account, id, null, null))
    const whole = { account, line: undefined, mode: undefined }
    for (const link of links) await this.#delete(whole, link.id, beforeAnyExpiry)
  }

  /** Unless it has expired at `now`. */
  async #delete({ account, line, mode }: ResponseViewer, id: string, now: number): Promise<boolean> {
    const gone = await this.#tables.admit(function* () {
      const call = (yield* responses.remove.first(account, id, now, line ?? null, mode ?? null))?.call
      // A deleted response is not replayed for its Idempotency-Key either.
      if (call === undefined) return false
      yield* responses.forgetAnswer.run(call)
      yield* responses.removeParts.run(id, 0)
      return true
    })
    this.#sums.delete(account)
    return gone
  }

  async forgetAccount(account: string): Promise<number> {
    await removeInSteps(this.#tables, partsSweptAtOnce, () =>
      responses.removeSomeParts.run(account, partsSweptAtOnce),
    )
    const forgotten = await removeInSteps(this.#tables, sweptAtOnce, function* () {
      const gone = yield* responses.removeSome.all(account, sweptAtOnce)
      for (const { id, call } of gone) {
        yield* responses.forgetAnswer.run(call)
        // Those that were stored since: nothing else finds the parts of a response that is gone.
        yield* responses.removeParts.run(id, 0)
      }
      return gone.length
    })
    this.#sums.delete(account)
    return forgotten
  }

  async sweep(now: number): Promise<number> {
    let swept = 0
    await removeInSteps(this.#tables, partsSweptAtOnce, () => responses.sweepParts.run(now, partsSweptAtOnce))
    while (swept < sweptInOneRound) {
      const gone = await this.#tables.admit(() => responses.sweep.run(now, sweptAtOnce))
      swept += gone
      if (gone < sweptAtOnce) break
    }
    if (swept > 0) this.#sums.clear()
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
      const parts = await this.#tables.do(() => responses.parts.all(row.id, from, to))
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
  tables: Pick<OrderedTables, 'admit'>,
  atOnce: number,
  remove: () => Work<number>,
): Promise<number> {
  let gone = 0
  for (let step = atOnce; step === atOnce; gone += step) step = await tables.admit(remove)
  return gone
}

/** SQL: `key` is of the line and of the mode that alone may be seen, where these are given. */
export function madeByKey(key: string, line: string, mode: string): string {
  const [ofLine, ofMode] = [line, mode].map((value) => `CAST(${value} AS text)`)
  return `((${ofLine} IS NULL AND ${ofMode} IS NULL) OR EXISTS (SELECT 1 FROM api_key WHERE api_key.id = ${key}
     AND (${ofLine} IS NULL OR coalesce(api_key.lineage, api_key.id) = ${ofLine})
     AND (${ofMode} IS NULL OR api_key.mode = ${ofMode})))`
}
/** A response exists once its call has been settled by the process that produced it. */
const charged = `EXISTS (SELECT 1 FROM call WHERE call.id = response.call
  AND call.state = 'settled' AND call.ending <> 'recovered' AND ${madeByKey('call.key', '?4', '?5')})`
/** The model of its call, which is kept as long as the ledger is. */
const model = "coalesce((SELECT model FROM call WHERE call.id = response.call), '') AS model"
/** All of its parts must exist: the disk may have had room for some only. */
const whole = `(response.parts IS NULL OR response.parts =
  (SELECT count(*) FROM response_part WHERE response_part.response = response.id))`
const partsOfResponses = `SELECT response_part.response, response_part.part FROM response
  JOIN response_part ON response_part.response = response.id`

/** Account, id, time, and the line and the mode that alone may be seen. */
type Asked = [string, string, number, string | null, string | null]

const responses = {
  put: sql(
    `INSERT INTO response (id, account, call, previous, expires_at, kept_until, size, input, answer, parts)
     VALUES (?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO UPDATE SET account = excluded.account, call = excluded.call,
       previous = excluded.previous, expires_at = excluded.expires_at, kept_until = excluded.kept_until,
       size = excluded.size, input = excluded.input, answer = excluded.answer, parts = excluded.parts`,
  ),
  putPart: sql(
    `INSERT INTO response_part (response, part, of, text)
     SELECT ?, CAST(? AS bigint),?,? WHERE EXISTS (SELECT 1 FROM response WHERE id = ?)
     ON CONFLICT (response, part) DO UPDATE SET of = excluded.of, text = excluded.text`,
  ),
  stand: sql('UPDATE conversation SET last_response = ?, updated_at = ? WHERE id = ? AND account = ?'),
  /** Parts from this number on. */
  removeParts: sql('DELETE FROM response_part WHERE response = ? AND part >= ?'),
  /** From one part on, up to another. */
  parts: sql<Part>(
    'SELECT of, text FROM response_part WHERE response = ? AND part >= ? AND part < ? ORDER BY part',
  ),
  extend: sql(
    `WITH RECURSIVE chain (id, previous) AS (
       SELECT id, previous FROM response WHERE account = ?1 AND id = ?2
       UNION SELECT response.id, response.previous FROM response JOIN chain ON response.id = chain.previous
       WHERE response.account = ?1)
     UPDATE response SET kept_until = ?4 WHERE id IN (SELECT id FROM chain) AND kept_until < ?3`,
  ),
  find: sql<ResponseRow>(
    `SELECT id, ${model}, previous, size, input, answer, parts FROM response
     WHERE account = ?1 AND id = ?2 AND expires_at > ?3 AND ${charged} AND ${whole}`,
  ),
  there: sql<{ size: bigint }>(
    `SELECT size FROM response WHERE account = ?1 AND id = ?2 AND expires_at > ?3 AND ${charged} AND ${whole}`,
  ),
  /** From the last response back to the first that exists. */
  chain: sql<Link>(
    `WITH RECURSIVE chain (id, previous, size, call, depth) AS (
       SELECT id, previous, size, call, 0 FROM response WHERE account = ?1 AND id = ?2
       UNION ALL SELECT response.id, response.previous, response.size, response.call, depth + 1
       FROM response JOIN chain ON response.id = chain.previous
       WHERE response.account = ?1 AND depth < ${longestConversation})
     SELECT id, previous, size, CAST(CASE WHEN (CAST(?3 AS text) IS NULL AND CAST(?4 AS text) IS NULL) OR EXISTS
       (SELECT 1 FROM call WHERE call.id = chain.call AND ${madeByKey('call.key', '?3', '?4')})
       THEN 1 ELSE 0 END AS bigint) AS seen
     FROM chain ORDER BY depth`,
  ),
  bytes: sql<{ bytes: bigint | null }>(
    'SELECT CAST(sum(size) AS bigint) AS bytes FROM response WHERE account = ?',
  ),
  read: sql<ResponseRow>(
    `SELECT id, ${model}, previous, size, input, answer, parts FROM response WHERE account = ? AND id = ?`,
  ),
  remove: sql<{ call: string }>(
    `DELETE FROM response WHERE account = ?1 AND id = ?2 AND expires_at > ?3 AND ${charged} RETURNING call`,
  ),
  removeSome: sql<{ id: string; call: string }>(
    'DELETE FROM response WHERE id IN (SELECT id FROM response WHERE account = ? LIMIT ?) RETURNING id, call',
  ),
  removeSomeParts: sql(
    `DELETE FROM response_part WHERE (response, part) IN (${partsOfResponses} WHERE account = ? LIMIT ?)`,
  ),
  forgetAnswer: sql('UPDATE idempotency SET answer = NULL WHERE call = ?'),
  sweep: sql(
    `DELETE FROM response WHERE id IN
     (SELECT id FROM response WHERE kept_until <= ? ORDER BY kept_until LIMIT ?)`,
  ),
  sweepParts: sql(
    `DELETE FROM response_part WHERE (response, part) IN (${partsOfResponses} WHERE kept_until <= ? LIMIT ?)`,
  ),
}

// Responses in the background: a row each, and their events in pieces.

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
