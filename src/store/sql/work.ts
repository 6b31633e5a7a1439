// Work on the tables, written once for every database: a generator that gives its statements one by one and goes on with
// the answers. SQLite drives it to its end at once, in one turn of the event loop; PostgreSQL as answers arrive.

import type { Awaitable } from '../../async/async.ts'

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
