// What all gateways count together: attempts to sign in, the networks of keys, and rates and calls of keys and accounts.

import type {
  AttemptCount,
  AttemptCounts,
  CallsElsewhere,
  SharedBucket,
  SharedPlaces,
  SharedRates,
  SharedSightings,
} from '../../accounts/identity/sign-in-limits.ts'
import { sql, type Tables } from '../sql/work.ts'
import { databaseNow } from './connection.ts'

/** Levels are whole in the table: of a limit of one a minute, a few milliseconds have to show. */
const millionths = 1_000_000
/** A bucket that nobody has taken anything from for so long is full, milliseconds. */
const fullAfterMs = 120_000
/** AttemptCounts of attempts that are older than any window, milliseconds. */
const forgetAttemptsMs = 3_600_000

export class PostgresLimits implements AttemptCounts, SharedRates, SharedPlaces, SharedSightings {
  readonly #tables: Tables
  readonly #owner: string
  /** Accounts whose calls are asked for next, together. */
  #asked:
    | { readonly accounts: Set<string>; readonly answer: Promise<ReadonlyMap<string, CallsElsewhere>> }
    | undefined
  #asking: Promise<unknown> = Promise.resolve()

  /** `owner`: the name of this process in holds. */
  constructor(tables: Tables, owner: string) {
    this.#tables = tables
    this.#owner = owner
  }

  async change<T>(
    kind: string,
    name: string,
    change: (counted: AttemptCount | null) => readonly [next: AttemptCount | null, told: T],
  ): Promise<T> {
    const hidden = hiddenOf(name)
    return this.#tables.together(function* () {
      const row = yield* attempts.find.first(kind, hidden)
      const counted = row ? { count: Number(row.count), at: Number(row.at) } : null
      const [next, told] = change(counted)
      if (next === null) yield* attempts.forget.run(kind, hidden)
      else if (next !== counted) yield* attempts.put.run(kind, hidden, next.count, next.at)
      return told
    })
  }

  async callsElsewhere(account: string): Promise<CallsElsewhere> {
    const asked = (this.#asked ??= this.#askSoon())
    asked.accounts.add(account)
    return (await asked.answer).get(account) ?? noCalls
  }

  /** One question at a time: whoever comes meanwhile is in the next. */
  #askSoon() {
    const accounts = new Set<string>()
    const answer = this.#asking.then(() => {
      this.#asked = undefined
      return this.#ask(accounts)
    })
    this.#asking = answer.catch(() => undefined)
    return { accounts, answer }
  }

  async #ask(accounts: ReadonlySet<string>): Promise<ReadonlyMap<string, CallsElsewhere>> {
    const named = JSON.stringify([...accounts])
    const rows = await this.#tables.do(() => places.ofOthers.all(named, this.#owner))
    return new Map(
      rows.map((row) => [
        row.account,
        { real: Number(row.calls - row.simulated), simulated: Number(row.simulated) },
      ]),
    )
  }

  async see(what: string, name: string, at: number, since: number): Promise<number> {
    const hidden = hiddenOf(name)
    return this.#tables.do(function* () {
      yield* attempts.put.run(`seen ${what}`, hidden, 1, at)
      return Number((yield* attempts.countSince.first(`seen ${what}`, since))!.names)
    })
  }

  async seenOf(what: string, names: readonly string[], since: number): Promise<readonly string[]> {
    const byHidden = new Map(names.map((name) => [hiddenOf(name), name]))
    const asked = JSON.stringify([...byHidden.keys()])
    const rows = await this.#tables.do(() => attempts.seen.all(asked, `seen ${what}`, since))
    return rows.map(({ name }) => byHidden.get(name)!)
  }

  async forgetSeen(what: string): Promise<void> {
    await this.#tables.do(() => attempts.forgetAll.run(`seen ${what}`))
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

/** Names are addresses of people and networks: the database has no need to know them. */
function hiddenOf(name: string): string {
  return Bun.SHA256.hash(name, 'hex')
}

const attempts = {
  find: sql<{ count: bigint; at: bigint }>('SELECT count, at FROM attempt_count WHERE kind = ? AND name = ?'),
  put: sql(
    `INSERT INTO attempt_count (kind, name, count, at) VALUES (?,?,?,?)
     ON CONFLICT (kind, name) DO UPDATE SET count = excluded.count, at = excluded.at`,
  ),
  forget: sql('DELETE FROM attempt_count WHERE kind = ? AND name = ?'),
  countSince: sql<{ names: bigint }>(
    'SELECT count(*) AS names FROM attempt_count WHERE kind = ? AND at >= ?',
  ),
  seen: sql<{ name: string }>(
    'SELECT name FROM attempt_count WHERE name IN LIST(?1) AND kind = ?2 AND at >= ?3',
  ),
  forgetAll: sql('DELETE FROM attempt_count WHERE kind = ?'),
  sweep: sql('DELETE FROM attempt_count WHERE at < ?'),
}

const noCalls: CallsElsewhere = { real: 0, simulated: 0 }

const places = {
  // The chain of a dead gateway has another owner as soon as it is fenced: its calls count no more.
  ofOthers: sql<{ account: string; calls: bigint; simulated: bigint }>(
    `SELECT open.account, count(*) AS calls,
       count(*) FILTER (WHERE open.model LIKE 'sim/%' OR api_key.mode = 'test') AS simulated
     FROM (SELECT account, owner, key, model FROM open_call WHERE in_group IS NULL AND account IN LIST(?1)
       UNION ALL SELECT in_group::json ->> 'person', owner, key, model FROM open_call
         WHERE in_group IS NOT NULL AND in_group::json ->> 'person' IN LIST(?1)) AS open
       JOIN chain ON chain.owner = open.owner LEFT JOIN api_key ON api_key.id = open.key
     WHERE open.owner <> ?2 GROUP BY open.account`,
  ),
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
