// What all gateways count together: attempts to sign in, and the rates of keys and accounts.

import type {
  AttemptCount,
  AttemptCounts,
  SharedBucket,
  SharedRates,
} from '../../accounts/identity/sign-in-limits.ts'
import { sql, type Tables } from '../sql/work.ts'
import { databaseNow } from './connection.ts'

/** Levels are whole in the table: of a limit of one a minute, a few milliseconds have to show. */
const millionths = 1_000_000
/** A bucket that nobody has taken anything from for so long is full, milliseconds. */
const fullAfterMs = 120_000
/** AttemptCounts of attempts that are older than any window, milliseconds. */
const forgetAttemptsMs = 3_600_000

export class PostgresLimits implements AttemptCounts, SharedRates {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  async change<T>(
    kind: string,
    name: string,
    change: (counted: AttemptCount | null) => readonly [next: AttemptCount | null, told: T],
  ): Promise<T> {
    // Names are addresses: the database has no need to know them.
    const hidden = Bun.SHA256.hash(name, 'hex')
    return this.#tables.together(function* () {
      const row = yield* attempts.find.first(kind, hidden)
      const counted = row ? { count: Number(row.count), at: Number(row.at) } : null
      const [next, told] = change(counted)
      if (next === null) yield* attempts.forget.run(kind, hidden)
      else if (next !== counted) yield* attempts.put.run(kind, hidden, next.count, next.at)
      return told
    })
  }

  /** Takes what was spent, and resolves with what is left of each bucket. Time is the database's. */
  async exchange(buckets: readonly SharedBucket[]): Promise<ReadonlyMap<string, number>> {
    const asked = buckets.map(({ name, perMinute, spent }) => ({
      name,
      per_minute: Math.round(perMinute * millionths),
      level: Math.round((perMinute - spent) * millionths),
    }))
    const rows = await this.#tables.do(() => rates.exchange.all(JSON.stringify(asked)))
    return new Map(rows.map(({ name, level }) => [name, Number(level) / millionths]))
  }

  /** Forgets what no limit counts any more. Resolves with how much. */
  async sweep(now: number): Promise<number> {
    return this.#tables.do(function* () {
      const forgotten = yield* attempts.sweep.run(now - forgetAttemptsMs)
      return forgotten + (yield* rates.sweep.run(fullAfterMs))
    })
  }
}

const attempts = {
  find: sql<{ count: bigint; at: bigint }>('SELECT count, at FROM attempt_count WHERE kind = ? AND name = ?'),
  put: sql(
    `INSERT INTO attempt_count (kind, name, count, at) VALUES (?,?,?,?)
     ON CONFLICT (kind, name) DO UPDATE SET count = excluded.count, at = excluded.at`,
  ),
  forget: sql('DELETE FROM attempt_count WHERE kind = ? AND name = ?'),
  sweep: sql('DELETE FROM attempt_count WHERE at < ?'),
}

const rates = {
  // What is spent is the difference of the two that come along. In the order of names, so that no two wait for each other.
  exchange: sql<{ name: string; level: bigint }>(
    `INSERT INTO rate AS old (name, level, per_minute, at)
     SELECT name, level, per_minute, ${databaseNow} FROM json_to_recordset(CAST(CAST(? AS text) AS json))
       AS asked (name text COLLATE "C", level bigint, per_minute bigint) ORDER BY name
     ON CONFLICT (name) DO UPDATE SET per_minute = excluded.per_minute, at = greatest(old.at, excluded.at),
       level = least(excluded.per_minute, old.level + cast(
         greatest(0, excluded.at - old.at)::numeric * excluded.per_minute / 60000 AS bigint))
         + excluded.level - excluded.per_minute
     RETURNING name, level`,
  ),
  sweep: sql(`DELETE FROM rate WHERE at < ${databaseNow} - ?`),
}
