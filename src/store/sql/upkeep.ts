// Notes of upkeep, and what was spent, for alarms.

import type { Awaitable } from '../../async/async.ts'
import type { UpkeepNote, UpkeepStore } from '../../notify/upkeep.ts'
import type { Row } from '../schema.ts'
import type { SpendingReader } from '../store.ts'
import { sql, type Tables, type Work } from './work.ts'

export class SqlUpkeep implements UpkeepStore {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  findNote(name: string): Awaitable<UpkeepNote | undefined> {
    return this.#tables.do(function* () {
      const row = yield* findNote.first(name)
      if (!row) return undefined
      return { name, at: Number(row.at), value: JSON.parse(row.value) as UpkeepNote['value'] }
    })
  }

  keepNote(note: UpkeepNote): Awaitable<void> {
    return this.#tables.withoutWaiting(() => writeNote(note))
  }
}

/** The same for whoever has no store open. */
export function* writeNote({ name, at, value }: UpkeepNote): Work<void> {
  yield* keepNote.run(name, at, JSON.stringify(value))
}

const findNote = sql<Row<'upkeep'>>('SELECT * FROM upkeep WHERE name = ?')
const keepNote = sql(
  `INSERT INTO upkeep (name, at, value) VALUES (?,?,?)
   ON CONFLICT (name) DO UPDATE SET at = excluded.at, value = excluded.value`,
)

/** Of the sums that are written with each call: a month is a few thousand rows. */
export class SqlSpending implements SpendingReader {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  ofInstallation(from: number, until: number): Awaitable<number> {
    return this.#tables.do(function* () {
      return dollars(yield* spent.ofInstallation.first(from, until))
    })
  }

  ofAccount(account: string, from: number, until: number): Awaitable<number> {
    return this.#tables.do(function* () {
      return dollars(yield* spent.ofAccount.first(account, from, until))
    })
  }

  ofDays(days: readonly number[]): Awaitable<ReadonlyMap<number, number>> {
    return this.#tables.do(function* () {
      const rows = yield* spent.ofDays.all(JSON.stringify(days))
      return new Map(rows.map((row) => [Number(row.day), dollars(row)]))
    })
  }
}

interface Sum {
  /** Picodollars; null of no calls. */
  readonly sum: number | null
}

// As floats, which no sum overflows.
const spent = {
  ofInstallation: sql<Sum>(
    'SELECT sum(CAST(cost AS double precision)) AS sum FROM usage_total WHERE day >= ? AND day < ?',
  ),
  ofAccount: sql<Sum>(
    `SELECT sum(CAST(charged AS double precision)) AS sum FROM usage_day
     WHERE account = ? AND day >= ? AND day < ?`,
  ),
  ofDays: sql<Sum & { readonly day: bigint }>(
    `SELECT day, sum(CAST(cost AS double precision)) AS sum FROM usage_total WHERE day IN NUMBERS(?) GROUP BY day`,
  ),
}

function dollars(row: Sum | undefined): number {
  return (row?.sum ?? 0) / 1e12
}
