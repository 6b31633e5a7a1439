// Work on the tables, written once for every database: a generator that gives its statements one by one and goes on with
// the answers. SQLite drives it to its end at once, in one turn of the event loop; PostgreSQL as answers arrive.

import { LRUCache } from 'lru-cache'
import type { Awaitable } from '../../async/async.ts'
import type { RequestLog, RequestLogRow } from '../../observe/call-log.ts'
import type { UsageAdded } from '../ledger-rows.ts'

export type Value = string | number | bigint | Uint8Array | null

/** One statement, and what is bound to its question marks. */
export interface Step {
  readonly statement: Statement<unknown>
  readonly values: readonly Value[]
  readonly wants: 'rows' | 'row' | 'count'
}

/** What a database answers: the rows, or for `count` how many it has written. */
export type StepResult = readonly unknown[] | number

export type Work<T> = Generator<Step, T, StepResult>

/** Work that gives pieces of a text between its statements. */
export type PieceWork = Generator<Step | string, void, StepResult>

/**
 * A statement in the SQL that both databases have. `?` marks a value, in order, and `?1` one by its place (a text has
 * either kind); `LIST(?)` is a JSON array of texts as a subquery, and `IN NUMBERS(?)` looks for one of an array of
 * integers. `FLAG(condition)` is 1 or 0, as in an index of such flags. SQLite is told with `INDEXED BY` where to look;
 * PostgreSQL finds it by itself. Integers and flags arrive as bigint.
 */
export class Statement<Row> {
  readonly text: string
  declare readonly row: Row

  constructor(text: string) {
    this.text = text
  }

  *all(...values: readonly Value[]): Work<readonly Row[]> {
    return (yield { statement: this, values, wants: 'rows' }) as readonly Row[]
  }

  *first(...values: readonly Value[]): Work<Row | undefined> {
    return ((yield { statement: this, values, wants: 'row' }) as readonly Row[])[0]
  }

  /** For a write: how many rows it has written. */
  *run(...values: readonly Value[]): Work<number> {
    return (yield { statement: this, values, wants: 'count' }) as number
  }
}

/** Made once, where its module is loaded: a database prepares it when it is first used. */
export function sql<Row = never>(text: string): Statement<Row> {
  return new Statement<Row>(text)
}

const composed = new Map<string, Statement<unknown>>()

/** The same for a text that is put together from what is asked for: of these there are few, and each is made once. */
export function composedSql<Row>(text: string): Statement<Row> {
  const made = (composed.get(text) ?? sql<Row>(text)) as Statement<Row>
  composed.set(text, made)
  return made
}

/** A condition with one question mark, and its value: undefined where it is not asked for. */
type Condition = readonly [text: string, value: Value | undefined]

/**
 * Statements that differ in the conditions on their rows: one for each set of them that is asked for, of which there are
 * few. Gives the statement, and the values of its conditions in order.
 */
export function sqlWhere<Row>(textOf: (conditions: string) => string) {
  const made = new Map<string, Statement<Row>>()
  return (conditions: readonly Condition[]) => {
    const asked = conditions.flatMap(([text, value]) => (value === undefined ? [] : [{ text, value }]))
    const key = asked.map(({ text }) => text).join(' AND ')
    const statement = made.get(key) ?? sql<Row>(textOf(key || 'true'))
    made.set(key, statement)
    return { statement, values: asked.map(({ value }) => value) }
  }
}

/** Rows that may have changed: each by its table and its id, as in `account acct_1`, or by its table alone. */
export type Changes = 'nothing' | 'everything' | ReadonlySet<string>

/** Where work is done. Everything throws `store_unavailable` while there is no database, and AlreadyThere from inside the work. */
export interface Tables {
  /** Statements that need nothing of each other: each for itself. */
  do<T>(work: () => Work<T>): Awaitable<T>
  /** One transaction, as if nothing else ran meanwhile. The work may be done again from its start. */
  together<T>(work: () => Work<T>): Awaitable<T>
  /** Reads of one moment, which keep no writer waiting. Rejects with the reason of the signal where that can still be heard. */
  reads<T>(work: () => Work<T>, signal?: AbortSignal): Awaitable<T>
  /** Reads that are made as their pieces are taken: each statement reads of its own moment. */
  pieces(work: () => PieceWork, signal?: AbortSignal): AsyncIterable<string>
  /** Writes that a power cut may undo, and that wait for nothing: not for the disk, not for another process. */
  withoutWaiting<T>(work: () => Work<T>): Awaitable<T>
  /** What other processes may have written of the rows that are cached, since this was last asked. */
  changedElsewhere(): Changes
}

/** Tables whose work stands in order with the ends of calls. */
export interface OrderedTables extends Tables {
  /**
   * One transaction, after the commands that the ledger was given before, and durable no later than those that it is given
   * after. Also throws `overloaded` where too much waits.
   */
  admit<T>(work: () => Work<T>): Promise<T>
  /**
   * The same for what must not be lost: each is a transaction, tried again as long as this process lives. They are carried
   * out in this order, after what was persisted `of` the same before. One whose outcome was not heard is done again.
   */
  persist(of: string, ...works: readonly (() => Work<unknown>)[]): Promise<void>
  /** The value, when all is durable that can be read now. */
  whenDurable<T>(value: T): Awaitable<T>
}

/** A row with this key exists, or the row that it belongs to does not. The transaction it happens in can only be given up. */
export class AlreadyThere extends Error {}

/** Does it, and once more where another process has added the row meanwhile: it is found then. */
export async function onceMore<T>(act: () => Awaitable<T>): Promise<T> {
  try {
    return await act()
  } catch (error) {
    if (!(error instanceof AlreadyThere)) throw error
    return act()
  }
}

// Rows as the code names them.

/** `created_at` is `createdAt`. */
type CamelCase<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : Name

type RecordOf<R, By> = {
  readonly [Column in keyof R & string as CamelCase<Column>]: Column extends keyof By
    ? By[Column] extends (value: never) => infer Value
      ? Value
      : never
    : R[Column]
}

/**
 * Makes the function that reads the records of a table: their names are in camel case, the values of the columns in `by`
 * are what these functions give, all others are as the database has them.
 */
export const recordReader =
  <R extends object>() =>
  <By extends { readonly [Column in keyof R]?: (value: R[Column]) => unknown }>(by: By) =>
  (row: R): RecordOf<R, By> => {
    const readers = by as Readonly<Record<string, ((value: unknown) => unknown) | undefined>>
    const fields = Object.entries(row).map(([column, value]) => {
      const name = column.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())
      return [name, readers[column] ? readers[column](value) : value]
    })
    return Object.fromEntries(fields) as RecordOf<R, By>
  }

/** Whether a flag is 1. */
export function isSet(flag: bigint): boolean {
  return flag === 1n
}

export function numberOrNull(value: bigint | null): number | null {
  return value === null ? null : Number(value)
}

// Rows that no charge depends on: kept in memory first, and written soon, many at a time.

/** Rows that no charge depends on are written after so long at the latest, milliseconds. */
const latestMs = 250

/** Does something soon after it was asked for, once for all who ask meanwhile, and never twice at a time. */
export class Soon {
  readonly #act: () => Awaitable<void>
  #timer: ReturnType<typeof setTimeout> | undefined
  #running: Promise<void> | undefined

  /** `act` does not throw. It may ask for itself again. */
  constructor(act: () => Awaitable<void>) {
    this.#act = act
  }

  ask(): void {
    this.#timer ??= setTimeout(() => void this.now(), latestMs)
  }

  /** At once, after what is under way. */
  async now(): Promise<void> {
    this.forget()
    const before = this.#running
    const running = (async () => {
      await before
      await this.#act()
    })()
    this.#running = running
    await running
    if (this.#running === running) this.#running = undefined
  }

  /** Nobody asks any more. */
  forget(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}

// The request log.

const bufferedRows = 10_000
/** How precisely the last use of a key is stored, milliseconds. */
const usedEveryMs = 1_000
const keysRemembered = 10_000

export class RequestBuffer implements RequestLog {
  readonly #onRow: () => void
  /** The model that a refusal counts for, which is stored nowhere else. */
  readonly #refusals = new WeakMap<RequestLogRow, string>()
  #rows: RequestLogRow[] = []
  /** Rows lost because the buffer was full or the database refused them. */
  dropped = 0

  constructor(onRow: () => void) {
    this.#onRow = onRow
  }

  append(row: RequestLogRow): void {
    if (this.#rows.length >= bufferedRows) {
      this.dropped++
      return
    }
    this.#rows.push(row)
    this.#onRow()
  }

  /**
   * Like `append`, for a call refused before it reached the ledger: adds it to the day's usage of `model`, which is
   * empty for an unknown model.
   */
  appendRefused(row: RequestLogRow, model: string): void {
    this.#refusals.set(row, model)
    this.append(row)
  }

  get size(): number {
    return this.#rows.length
  }

  /** The oldest rows. */
  first(most: number): readonly RequestLogRow[] {
    return this.#rows.slice(0, most)
  }

  /** Forgets the oldest rows. */
  remove(count: number): void {
    this.#rows.splice(0, count)
  }

  /** What a row adds to the usage of its day; undefined for a call that the ledger knows. */
  usageOf(row: RequestLogRow): UsageAdded | undefined {
    const model = this.#refusals.get(row)
    if (model === undefined) return undefined
    const { account, at, key, tags, group = null } = row
    const nothing = { inputTokens: 0, outputTokens: 0, cost: 0n, charged: 0n, provider: '', timed: 0, ms: 0 }
    return { account, at, key, model, tags, group, calls: 1, errors: 1, ...nothing }
  }
}

/** When keys were last used, as it is written: once per key and second, however many calls it made. */
export class KeyUses {
  readonly #usedAt = new Map<string, number>()
  #writing = new Map<string, number>()

  /** The uses of keys in these rows that are worth writing. `onWritten` is called when that has been done. */
  among(rows: readonly RequestLogRow[]): ReadonlyMap<string, number> {
    this.#writing = new Map()
    for (const { key, at } of rows) {
      if (key === null || at - (this.#writing.get(key) ?? this.#usedAt.get(key) ?? 0) < usedEveryMs) continue
      this.#writing.set(key, at)
    }
    return this.#writing
  }

  onWritten(): void {
    if (this.#usedAt.size >= keysRemembered) this.#usedAt.clear()
    for (const [key, at] of this.#writing) this.#usedAt.set(key, at)
    this.#writing = new Map()
  }
}

/** The columns of the log, and what of a row goes into each. */
export function cellsOfRequest(row: RequestLogRow) {
  return {
    request_id: row.requestId,
    at: row.at,
    account: row.account,
    key: row.key,
    model: row.model,
    provider: row.provider,
    stream: row.stream ? 1 : 0,
    status: row.status,
    code: row.code,
    ending: row.ending,
    prompt_tokens: whole(row.promptTokens),
    completion_tokens: whole(row.completionTokens),
    cost: row.cost,
    attempts: row.attempts,
    first_byte_ms: row.firstByteMs === null ? null : whole(row.firstByteMs),
    total_ms: whole(row.totalMs),
    detail: row.detail,
    contents: row.contents,
    tags: row.tags,
  }
}

/** Timings have fractions; the column is an integer. */
function whole(value: number): number {
  return Number.isFinite(value) ? Math.round(value) : 0
}

// Thought signatures by a key of their tool call, for clients that drop them. Kept for a limited time.

const cachedSignatures = 5_000
const largestSignature = 256 * 1024
const waitingSignatures = 1_000

export interface SignatureParts {
  readonly tables: Tables
  readonly clock: () => number
  /** How long each is kept, milliseconds. */
  readonly livesMs: number
  /** Called when there is something to write, where no commit takes it along. */
  readonly onWaiting?: () => void
}

interface Waiting {
  readonly signature: string
  readonly expiresAt: number
}

export class SqlSignatures {
  readonly #parts: SignatureParts
  readonly #cache = new LRUCache<string, string>({
    max: cachedSignatures,
    maxSize: 64 * 1024 * 1024,
    sizeCalculation: (text) => text.length + 1,
  })
  readonly #waiting = new Map<string, Waiting>()
  #writing: readonly (readonly [key: string, Waiting])[] = []

  constructor(parts: SignatureParts) {
    this.#parts = parts
  }

  /** Stores the signature of a tool call. Absurdly long ones are not stored. */
  remember(key: string, signature: string): void {
    if (signature.length > largestSignature) return
    this.#cache.set(key, signature)
    if (this.#waiting.size >= waitingSignatures) return
    const { clock, livesMs, onWaiting } = this.#parts
    this.#waiting.set(key, { signature, expiresAt: clock() + livesMs })
    onWaiting?.()
  }

  /** undefined if unknown or expired. Never fails: the call can continue without it. */
  recall(key: string): Awaitable<string | undefined> {
    return this.#cache.get(key) ?? this.#readStored(key)
  }

  async #readStored(key: string): Promise<string | undefined> {
    const { tables, clock } = this.#parts
    try {
      const row = await tables.do(() => find.first(key, clock()))
      if (row !== undefined) this.#cache.set(key, row.signature)
      return row?.signature
    } catch {
      return undefined
    }
  }

  get waiting(): boolean {
    return this.#waiting.size > 0
  }

  /** Writes what waits; `onWritten` is called when that has been committed. */
  *write(): Work<void> {
    if (this.#waiting.size === 0) return
    this.#writing = [...this.#waiting]
    for (const [key, { signature, expiresAt }] of this.#writing) {
      try {
        yield* insert.run(key, signature, expiresAt)
      } catch (error) {
        // One that the database refuses must not undo what else is in the transaction.
        if (!(error instanceof AlreadyThere)) throw error
      }
    }
  }

  onWritten(): void {
    for (const [key, written] of this.#writing)
      if (this.#waiting.get(key) === written) this.#waiting.delete(key)
    this.#writing = []
  }
}

const insert = sql(
  `INSERT INTO signature (tool_call, signature, expires_at) VALUES (?,?,?)
   ON CONFLICT (tool_call) DO UPDATE SET signature = excluded.signature, expires_at = excluded.expires_at`,
)
const find = sql<{ readonly signature: string }>(
  'SELECT signature FROM signature WHERE tool_call = ? AND expires_at > ?',
)
