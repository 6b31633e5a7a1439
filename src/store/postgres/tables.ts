// Drives work on PostgreSQL: each statement goes out when the answer to the one before has come. Several connections
// share the work; a transaction has one for itself, and is begun again when another one was in its way.

import { SQL } from 'bun'
import type { Awaitable } from '../../async/async.ts'
import { GatewayError } from '../../errors/errors.ts'
import { unavailable } from '../commits/durability.ts'
import {
  AlreadyThere,
  type Changes,
  type OrderedTables,
  type PieceWork,
  type Statement,
  type Step,
  type StepResult,
  type Value,
  type Work,
} from '../sql/work.ts'
import type { DatabaseServer } from '../store.ts'
import {
  addressOf,
  Connection,
  ConnectionLost,
  idleTransaction,
  isOutage,
  stateOf,
  withoutNul,
} from './connection.ts'

const connections = 4
/** How often a transaction is begun again because another one was in its way. */
const mostTries = 20
const statementMs = 10_000
/** For the word that a statement has taken too long, milliseconds. */
const answerMs = 5_000
/** Between two tries of what must not be lost, milliseconds. */
const retryMs = 250
/** How long cached rows are trusted, milliseconds: where nobody would hear of a change, and where it is told. */
const trustMs = 250
const trustToldMs = 10_000
/** Changed rows that are told apart until they are asked for. */
const mostChanges = 1_000
/** So many wait for a connection before more are refused. */
const mostWaiting = 2_000

export interface PostgresTablesParts {
  readonly server: string | DatabaseServer
  /** How many statements may be under way at once. */
  readonly connections?: number
  /** The longest that a statement may take, milliseconds. */
  readonly deadlineMs?: number
  /** Where statements may take that long: what is thrown when one has taken longer. `store_unavailable`, if left out. */
  readonly tooLong?: () => Error
  /** Of each session, besides its time limits. */
  readonly settings?: readonly string[]
}

/** One that has been in another's way, or that the database has given up for it. */
const raced: ReadonlySet<string> = new Set(['40001', '40P01', '55P03'])
/** A statement that was given up: it took too long, or was asked to end. */
const gaveUp = '57014'
/** A key that exists, a row that is missing, a rule of the table. */
const refused: ReadonlySet<string> = new Set(['23505', '23503', '23514', '23502'])

export class PostgresTables implements OrderedTables {
  readonly #idle: Connection[] = []
  readonly #all: Connection[] = []
  readonly #waiting = new Set<(connection: Connection) => void>()
  readonly #tooLong: (() => Error) | undefined
  readonly #texts = new WeakMap<Statement<unknown>, string>()
  /** Work that stands before whatever the ledger is given next. */
  readonly #pending = new Set<Promise<unknown>>()
  #droppedAt = -Infinity
  #changed: Set<string> | 'everything' = new Set()
  #listener: Pick<Listener, 'isProven'> | undefined
  /** The last that was persisted of each, while it is under way. It never rejects. */
  readonly #persisting = new Map<string, Promise<void>>()
  #closing = false

  constructor(parts: PostgresTablesParts) {
    const { server, connections: count = connections, deadlineMs = statementMs, tooLong } = parts
    const settings = [`statement_timeout = ${deadlineMs}`, idleTransaction, ...(parts.settings ?? [])]
    // Where it matters whether the server has given up or is gone, the server is the first to say it.
    const connection = { deadlineMs: deadlineMs + (tooLong ? answerMs : 0), settings }
    for (let n = 0; n < count; n++) this.#all.push(new Connection(server, connection))
    this.#tooLong = tooLong
    this.#idle.push(...this.#all)
  }

  /** Throws ConnectionLost when the server cannot be reached. */
  async open(): Promise<void> {
    await Promise.all(this.#all.map((connection) => connection.open()))
  }

  async do<T>(work: () => Work<T>): Promise<T> {
    try {
      return await this.#with((connection) => this.#drive(connection, work()))
    } catch (error) {
      // It is not begun again: some of its statements may have been carried out.
      throw raced.has(stateOf(error)) ? unavailable(error) : error
    }
  }

  async together<T>(work: () => Work<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#with((connection) => this.#transaction(connection, work))
      } catch (error) {
        if (!raced.has(stateOf(error))) throw error
        if (tries === mostTries) throw unavailable(error)
        await Bun.sleep(Math.random() * 5 * tries)
      }
    }
  }

  reads<T>(work: () => Work<T>, signal?: AbortSignal): Promise<T> {
    return this.#with(
      (connection) => this.#transaction(connection, work, 'REPEATABLE READ READ ONLY', signal),
      signal,
    )
  }

  /** A connection is taken for each piece: whoever reads slowly holds none. */
  async *pieces(work: () => PieceWork, signal?: AbortSignal): AsyncGenerator<string, void> {
    const steps = work()
    try {
      for (let next = steps.next(); !next.done;) {
        if (typeof next.value === 'string') {
          yield next.value
          next = steps.next([])
          continue
        }
        const asked = next
        next = await this.#with((connection) => this.#untilPiece(connection, steps, asked, signal), signal)
      }
    } finally {
      steps.return()
    }
  }

  withoutWaiting<T>(work: () => Work<T>): Promise<T> {
    return this.do(work)
  }

  admit<T>(work: () => Work<T>): Promise<T> {
    return this.#note(this.together(work))
  }

  persist(of: string, ...works: readonly (() => Work<unknown>)[]): Promise<void> {
    const before = this.#persisting.get(of)
    const done = this.#note(before ? before.then(() => this.#untilDone(works)) : this.#untilDone(works))
    const ended = done.catch(() => undefined)
    this.#persisting.set(of, ended)
    void ended.then(() => {
      if (this.#persisting.get(of) === ended) this.#persisting.delete(of)
    })
    return done
  }

  async #untilDone(works: readonly (() => Work<unknown>)[]): Promise<void> {
    for (const work of works) {
      while (!(await this.#isDone(work))) await Bun.sleep(retryMs)
    }
  }

  async #isDone(work: () => Work<unknown>): Promise<boolean> {
    try {
      await this.together(work)
      return true
    } catch (error) {
      const isOut = error instanceof GatewayError && error.code === 'store_unavailable'
      if (!isOut || this.#closing) throw error
      return false
    }
  }

  #note<T>(done: Promise<T>): Promise<T> {
    const ended = done.then(
      () => undefined,
      () => undefined,
    )
    this.#pending.add(ended)
    void ended.then(() => this.#pending.delete(ended))
    return done
  }

  /** Resolves when the work that was admitted or persisted before is done; undefined when it is. */
  get ordered(): Promise<unknown> | undefined {
    return this.#pending.size === 0 ? undefined : Promise.all(this.#pending)
  }

  /** A transaction is durable when it is answered. */
  whenDurable<T>(value: T): Awaitable<T> {
    return value
  }

  /** From now on changes are told of by `noteChange`, as long as this one hears them. */
  trust(listener: Pick<Listener, 'isProven'>): void {
    this.#listener = listener
  }

  /** Another process may have written a row that is cached, or any of them. */
  noteChange(row?: string): void {
    if (this.#changed === 'everything') return
    if (row === undefined || this.#changed.size >= mostChanges) this.#changed = 'everything'
    else this.#changed.add(row)
  }

  /** Others may always have written: where that is not told, what is cached is read again four times a second. */
  changedElsewhere(): Changes {
    const now = performance.now()
    const trusted = this.#listener?.isProven ? trustToldMs : trustMs
    const changed = this.#changed
    const isOld = now - this.#droppedAt >= trusted
    if (isOld) this.#droppedAt = now
    else if (changed !== 'everything' && changed.size === 0) return 'nothing'
    this.#changed = new Set()
    return isOld ? 'everything' : changed
  }

  async close(): Promise<void> {
    this.#closing = true
    await this.ordered
    await Promise.all(this.#all.map((connection) => connection.close()))
  }

  async #transaction<T>(
    connection: Connection,
    work: () => Work<T>,
    level = 'SERIALIZABLE',
    signal?: AbortSignal,
  ): Promise<T> {
    // Sent with the first statement of the work: they go out in this order.
    const begun = connection.send(`BEGIN ISOLATION LEVEL ${level}`)
    try {
      const [value] = await Promise.all([this.#drive(connection, work(), signal), begun])
      if (!(await connection.commit()))
        throw new Error('a transaction went on after a statement that was refused')
      return value
    } catch (error) {
      if (!(error instanceof ConnectionLost) && connection.isOpen) await connection.send('ROLLBACK')
      throw error
    }
  }

  async #drive<T>(connection: Connection, work: Work<T>, signal?: AbortSignal): Promise<T> {
    let next = work.next()
    while (!next.done) next = await this.#answer(connection, work, next.value, signal)
    return next.value
  }

  async #untilPiece(
    connection: Connection,
    steps: PieceWork,
    asked: IteratorYieldResult<Step | string>,
    signal: AbortSignal | undefined,
  ): Promise<IteratorResult<Step | string, void>> {
    let next: IteratorResult<Step | string, void> = asked
    while (!next.done && typeof next.value !== 'string')
      next = await this.#answer(connection, steps, next.value, signal)
    return next
  }

  /** Goes on with what the database says to a statement. Throws the reason of the signal when that comes. */
  async #answer<S, T>(
    connection: Connection,
    work: Generator<S, T, StepResult>,
    { statement, values, wants }: Step,
    signal?: AbortSignal,
  ): Promise<IteratorResult<S, T>> {
    signal?.throwIfAborted()
    const cancel = () => connection.cancel()
    signal?.addEventListener('abort', cancel)
    let answer: StepResult | undefined
    let fault: unknown
    try {
      const text = this.#textOf(statement)
      const sent = values.map(bindingOf)
      answer = wants === 'count' ? await connection.write(text, sent) : await connection.send(text, sent)
    } catch (error) {
      const isTaken = refused.has(stateOf(error))
      fault = isTaken ? new AlreadyThere('there is such a row', { cause: error }) : error
    }
    signal?.removeEventListener('abort', cancel)
    if (signal?.aborted) {
      await connection.close()
      throw signal.reason
    }
    if (answer === undefined) return work.throw(fault)
    return work.next(answer)
  }

  #textOf(statement: Statement<unknown>): string {
    const known = this.#texts.get(statement)
    if (known !== undefined) return known
    let n = 0
    const text = statement.text
      .replaceAll(/\?(\d*)/g, (_all, place: string) => `$${place === '' ? ++n : place}`)
      .replaceAll(
        /\bLIST\((\$\d+)\)/g,
        '(SELECT value COLLATE "C" FROM json_array_elements_text($1::text::json))',
      )
      .replaceAll(
        /\bIN NUMBERS\((\$\d+)\)/g,
        '= ANY(ARRAY(SELECT value::bigint FROM json_array_elements_text($1::text::json)))',
      )
      .replaceAll(/\bFLAG\(([^()]*)\)/g, '(CASE WHEN $1 THEN 1 ELSE 0 END)')
      .replaceAll(/\bINDEXED BY \w+/g, '')
    this.#texts.set(statement, text)
    return text
  }

  /** On a connection of its own meanwhile. Throws `store_unavailable` where that is lost, or the server unable. */
  async #with<T>(act: (connection: Connection) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const connection = await this.#take(signal)
    try {
      if (!connection.isAlive) await reconnect(connection)
      return await act(connection)
    } catch (error) {
      if (stateOf(error) === gaveUp) throw this.#tooLong?.() ?? unavailable(error)
      if (error instanceof ConnectionLost) void connection.close()
      else if (raced.has(stateOf(error))) throw error
      throw isOutage(error) ? unavailable(error) : error
    } finally {
      const [next] = this.#waiting
      if (next) next(connection)
      else this.#idle.push(connection)
    }
  }

  /** Rejects with the reason of the signal where that comes before there is one. */
  #take(signal?: AbortSignal): Promise<Connection> | Connection {
    signal?.throwIfAborted()
    // After an outage one may be back long before another.
    const open = this.#idle.findLastIndex((each) => each.isAlive)
    const [idle] = this.#idle.splice(open, 1)
    if (idle) return idle
    if (this.#waiting.size >= mostWaiting) throw unavailable(new Error('too much waits for the database'))
    return new Promise((resolve, reject) => {
      const take = (connection: Connection) => {
        this.#waiting.delete(take)
        signal?.removeEventListener('abort', leave)
        resolve(connection)
      }
      const leave = () => {
        this.#waiting.delete(take)
        reject(signal?.reason)
      }
      signal?.addEventListener('abort', leave, { once: true })
      this.#waiting.add(take)
    })
  }
}

async function reconnect(connection: Connection): Promise<void> {
  try {
    await connection.renewFrom(connection.session)
  } catch (error) {
    throw isOutage(error) ? unavailable(error) : error
  }
}

/** Integers go as 8 bytes: a number would be taken for one of 4, or for a fraction. */
function bindingOf(value: Value): Value {
  if (typeof value === 'number' && Number.isSafeInteger(value)) return BigInt(value)
  return typeof value === 'string' ? withoutNul(value) : value
}

// Hears from the database when any process has changed accounts, keys, sessions or groups. Silence is only worth something
// while this is known to hear: each process asks the database now and then to say a word to all, and believes the silence
// between the words. A pooler that keeps no session for a listener, or a connection that has died unnoticed, says none.

/** The channel that the triggers of the tables speak on. */
const channel = 'weir_accounts'
/** A payload that is no table's name. */
const word = 'here'
/** Between two words, of whichever process, milliseconds. */
const wordEveryMs = 250
/** How long after a word the silence is believed, milliseconds: with a poll of 250 ms after it, less than a second. */
const provenMs = 600

/** Bun has been seen not to close a pool that is connecting. */
const closeMs = 500

export interface ListenerParts {
  readonly server: string | DatabaseServer
  /** Called with what has changed, by its table and, of a single row, its id; with nothing where anything may have, while nobody listened. */
  readonly onChange: (row?: string) => void
  /** Asks the database for a word, on a connection that others share. May reject. */
  readonly say: (text: string, values: readonly string[]) => ReturnType<Connection['send']>
}

export class Listener {
  readonly #parts: ListenerParts
  #sql: SQL | undefined
  #heardAt = Number.NEGATIVE_INFINITY
  #timer: ReturnType<typeof setInterval> | undefined
  #retry: ReturnType<typeof setTimeout> | undefined
  #closing = false

  constructor(parts: ListenerParts) {
    this.#parts = parts
  }

  /** Begins to listen, in the background: until it hears, and where it cannot, `isProven` is false. */
  open(): void {
    void this.#listen()
    this.#timer = setInterval(() => this.#ask(), wordEveryMs)
    this.#timer.unref()
  }

  /** Whether a change of a moment ago would have been heard. */
  get isProven(): boolean {
    return performance.now() - this.#heardAt < provenMs
  }

  async #listen(): Promise<void> {
    const sql: SQL = new SQL({
      ...addressOf(this.#parts.server),
      max: 1,
      idleTimeout: 0,
      maxLifetime: 0,
      onclose: () => this.#onLost(sql),
    })
    this.#sql = sql
    try {
      await sql.listen(channel, this.#onWord, () => {
        this.#parts.onChange()
        this.#ask()
      })
    } catch {
      this.#onLost(sql)
    }
  }

  /** Bun would connect again by itself, and print each try that fails. */
  #onLost(sql: SQL): void {
    if (this.#sql !== sql || this.#closing) return
    this.#sql = undefined
    this.#heardAt = Number.NEGATIVE_INFINITY
    void close(sql)
    this.#retry = setTimeout(() => void this.#listen(), retryMs)
    this.#retry.unref()
  }

  readonly #onWord = (said: string): void => {
    this.#heardAt = performance.now()
    if (said !== word) this.#parts.onChange(said)
  }

  /** One word is enough for all processes. */
  #ask(): void {
    if (performance.now() - this.#heardAt < wordEveryMs / 2) return
    // Where it fails, nothing is heard.
    this.#parts.say('SELECT pg_notify($1, $2)', [channel, word]).catch(() => undefined)
  }

  async close(): Promise<void> {
    this.#closing = true
    clearInterval(this.#timer)
    clearTimeout(this.#retry)
    if (this.#sql) await close(this.#sql)
  }
}

async function close(sql: SQL): Promise<void> {
  await Promise.race([sql.close({ timeout: 0 }), Bun.sleep(closeMs)]).catch(() => undefined)
}
