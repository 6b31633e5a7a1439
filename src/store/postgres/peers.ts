// The processes that write to one ledger, as they know of each other. Each shows signs of life, by the database's clock. One
// of them, the leader, does what is to be done once, and finds the dead: whoever shows no sign of life any more has its chain
// taken by a write, so that nothing it has sent or may yet send counts, and only then is it dead and are its calls ended.

import { migrations } from '../../../drizzle/postgres/migrations.ts'
import type {
  AttemptCount,
  AttemptCounts,
  CallsElsewhere,
  SharedBucket,
  SharedPlaces,
  SharedRates,
  SharedSightings,
} from '../../accounts/identity/sign-in-limits.ts'
import { completionTokens } from '../../conversation/usage.ts'
import { version } from '../../version.ts'
import { uncaught } from '../commits/durability.ts'
import type { Lives } from '../ledger-core.ts'
import { checkpointOf } from '../ledger-rows.ts'
import { sql, type Tables, type Work } from '../sql/work.ts'
import type { CallElsewhere, DatabaseServer, GatewayAlive, Gateways } from '../store.ts'
import {
  Connection,
  ConnectionLost,
  type ConnectionOptions,
  databaseNow,
  type LedgerConnection,
  ledgerDeadlineMs,
  lookupsOnly,
  stateOf,
} from './connection.ts'
import { Fenced, heartbeatMs } from './transactions.ts'

export interface PeersParts {
  readonly server: string | DatabaseServer
  /** The name of this process in `chain`, which has its row. */
  readonly owner: string
  /** Whether it may lead: a command that ends in a moment does not. */
  readonly serves: boolean
  /** Whether a call is in flight in this process. */
  readonly isRunning: (call: string) => boolean
  /** Called once when another process has taken this one for dead: it has to end. */
  readonly lost?: ((error: unknown) => void) | undefined
  readonly times?: Partial<LifeTimes> | undefined
  /** Makes its connection, which is PostgreSQL's where it is left out. */
  readonly connect?: ((options: ConnectionOptions) => LedgerConnection) | undefined
}

/** Milliseconds. */
interface LifeTimes {
  /** Between two signs of life. */
  readonly beatMs: number
  /** How long a process has shown its own without a gap before it says of others that they show none. */
  readonly graceMs: number
}

const usualTimes: LifeTimes = { beatMs: 2_000, graceMs: heartbeatMs }
/** How long a sign of life that is under way is waited for when the process leaves, milliseconds. */
const leavePatienceMs = 1_000
/** What the owner of a chain is called when it is over, before its name. */
const over = 'over:'

const chainOf = sql<{ readonly id: bigint }>('SELECT id FROM chain WHERE owner = ?')

/** Whether a process writes nothing more: its chain has been taken, or closed by itself. */
export function* hasEnded(owner: string): Work<boolean> {
  return (yield* chainOf.first(owner)) === undefined
}

interface Beat {
  readonly lives: boolean
  readonly leads: boolean
  /** Whether the last sign of life had not run out. */
  readonly unbroken: boolean
}

export class Peers implements Lives {
  readonly #parts: PeersParts
  readonly #times: LifeTimes
  readonly #connection: LedgerConnection
  /** Names are used once: whoever is dead stays so. */
  readonly #dead = new Set<string>()
  #leads = false
  #beatAt = Number.NEGATIVE_INFINITY
  /** Since when there has been no gap between signs of life. */
  #unbrokenSince = performance.now()
  #beating: Promise<void> | undefined
  #timer: ReturnType<typeof setInterval> | undefined
  #isLost = false
  #serves: boolean

  constructor(parts: PeersParts) {
    this.#parts = parts
    this.#serves = parts.serves
    this.#times = { ...usualTimes, ...parts.times }
    const options = { settings: lookupsOnly, deadlineMs: ledgerDeadlineMs }
    this.#connection = parts.connect?.(options) ?? new Connection(parts.server, options)
  }

  /** Throws ConnectionLost when the server cannot be reached. */
  async open(): Promise<void> {
    await this.#connection.renew()
    await this.#connection.send('UPDATE chain SET program = $2, migrations = $3 WHERE owner = $1', [
      this.#parts.owner,
      version,
      BigInt(migrations.length),
    ])
    await this.#beat()
    clearInterval(this.#timer)
    this.#timer = setInterval(() => void this.#beatAgain(), this.#times.beatMs)
    this.#timer.unref()
  }

  /** Whether this process does what is to be done once. For a moment two may think so of themselves. */
  readonly leads = (): boolean => this.#leads && performance.now() - this.#beatAt < heartbeatMs

  readonly isDead = (owner: string): boolean => this.#dead.has(owner)

  /** What runs in another process that is not dead is that one's business, whatever became of the lease. */
  readonly isRunning = (call: string, owner: string): boolean =>
    owner === this.#parts.owner ? this.#parts.isRunning(call) : !this.#dead.has(owner)

  /**
   * Finds out which of these owners are dead, for isDead. Whoever does not lead leaves that to the leader. After a time in
   * which this process could not show its own signs of life nobody else may have been able to: they get time to show them.
   */
  readonly lookFor = async (owners: ReadonlySet<string>): Promise<void> => {
    if (!this.leads()) return
    const asked = [...owners].filter((owner) => owner !== this.#parts.owner && !this.#dead.has(owner))
    try {
      if (performance.now() - this.#unbrokenSince >= this.#times.graceMs) await this.#takeChains()
      if (asked.length === 0) return
      const rows = await this.#connection.send<{ readonly owner: string }>(
        `SELECT asked.owner FROM (SELECT value COLLATE "C" AS owner FROM json_array_elements_text($1::text::json)) AS asked
         WHERE NOT EXISTS (SELECT 1 FROM chain WHERE chain.owner = asked.owner)`,
        [JSON.stringify(asked)],
      )
      for (const { owner } of rows) this.#dead.add(owner)
    } catch (error) {
      // The next round tries again.
      if (!(error instanceof ConnectionLost) && stateOf(error) === '') throw error
    }
  }

  async #takeChains(): Promise<void> {
    await this.#connection.send(
      `UPDATE chain SET epoch = epoch + 1, owner = '${over}' || owner
       WHERE heartbeat_until < ${databaseNow} AND owner <> $1 AND NOT starts_with(owner, '${over}')`,
      [this.#parts.owner],
    )
  }

  #beatAgain(): Promise<void> {
    return (this.#beating ??= this.#tryToBeat().finally(() => (this.#beating = undefined)))
  }

  async #tryToBeat(): Promise<void> {
    try {
      if (!this.#connection.isOpen) await this.#connection.renewFrom(undefined)
      await this.#beat()
    } catch (error) {
      if (error instanceof ConnectionLost) {
        // One that is being opened may be there for the next.
        if (this.#connection.isOpen) await this.#connection.close()
      }
      // What the server refuses for a moment, such as a lock that it waited for, is tried again with the next beat.
      else if (stateOf(error) === '') throw error
    }
  }

  async #beat(): Promise<void> {
    const { owner } = this.#parts
    const sentAt = performance.now()
    const [beat] = await this.#connection.send<Beat>(beatText, [
      owner,
      BigInt(heartbeatMs),
      this.#serves ? 1n : 0n,
    ])
    const { lives, leads, unbroken } = beat!
    if (!lives) return this.#lose()
    if (!unbroken) this.#unbrokenSince = performance.now()
    this.#beatAt = sentAt
    this.#leads = leads
  }

  #lose(): void {
    clearInterval(this.#timer)
    this.#leads = false
    if (this.#isLost) return
    this.#isLost = true
    const { lost = uncaught, owner } = this.#parts
    lost(new Fenced(`${owner} was taken for dead by another process`))
  }

  /** A statement on this connection; rejects while that is lost. */
  readonly send = (text: string, values: readonly string[]): ReturnType<Connection['send']> =>
    this.#connection.send(text, values)

  /** Before it ends, which may take its calls a long time: another one leads from its next sign of life on. */
  readonly resign = async (): Promise<void> => {
    this.#serves = false
    this.#leads = false
    await this.#beating
    this.#leads = false
    try {
      await this.#connection.send('DELETE FROM leader WHERE owner = $1', [this.#parts.owner])
    } catch {
      // Then it is over when it runs out.
    }
  }

  /** Says of a process that it is dead, to be called by whoever has seen it exit: its calls are ended without a wait. */
  async bury(owner: string): Promise<void> {
    await this.#end(owner)
  }

  async #end(owner: string): Promise<void> {
    await this.#connection.send(
      `UPDATE chain SET epoch = epoch + 1, owner = '${over}' || owner WHERE owner = $1`,
      [owner],
    )
    await this.#connection.send('DELETE FROM leader WHERE owner = $1', [owner])
  }

  /** Leaves: whatever this process has left open is ended by the others at once. To be called when it writes nothing more. */
  async close(): Promise<void> {
    // It has never written.
    if (this.#timer === undefined) return
    clearInterval(this.#timer)
    await Promise.race([this.#beating, Bun.sleep(leavePatienceMs)])
    try {
      if (!this.#connection.isOpen) await this.#connection.renewFrom(undefined)
      await this.#end(this.#parts.owner)
    } catch (error) {
      // It is found out when its signs of life have run out.
      if (!(error instanceof ConnectionLost) && stateOf(error) === '') throw error
    } finally {
      await this.#connection.close()
    }
  }
}

const beatText = `WITH now AS MATERIALIZED (SELECT ${databaseNow} AS at),
    before AS MATERIALIZED (SELECT heartbeat_until FROM chain WHERE owner = $1),
    beaten AS (UPDATE chain SET heartbeat_until = now.at + $2 FROM now WHERE owner = $1 RETURNING chain.id),
    led AS (
      INSERT INTO leader (duty, owner, until) SELECT 'upkeep', $1, now.at + $2 FROM beaten, now WHERE $3::bigint = 1
      ON CONFLICT (duty) DO UPDATE SET owner = excluded.owner, until = excluded.until
        WHERE leader.owner = excluded.owner OR leader.until < excluded.until - $2 RETURNING 1)
  SELECT EXISTS (SELECT 1 FROM beaten) AS lives, EXISTS (SELECT 1 FROM led) AS leads,
    EXISTS (SELECT 1 FROM before, now WHERE heartbeat_until >= now.at) AS unbroken`

// The gateways of a database as whoever looks sees them: which there are, and the calls that run at the others.

export class PostgresGateways implements Gateways {
  readonly #tables: Tables
  readonly #owner: string

  /** `owner`: the name of this process in holds. */
  constructor(tables: Tables, owner: string) {
    this.#tables = tables
    this.#owner = owner
  }

  async list(): Promise<readonly GatewayAlive[]> {
    const rows = await this.#tables.do(() => gateways.list.all())
    return rows.map(({ owner, program, until, now, leads, sells }) => ({
      name: owner,
      version: program,
      seenAt: Number(until) - heartbeatMs,
      isSilent: until < now,
      leads: leads === 1n,
      sells,
    }))
  }

  async tell(sells: string): Promise<void> {
    await this.#tables.do(() => gateways.tell.run(sells, this.#owner))
  }

  async callsElsewhere(account: string): Promise<readonly CallElsewhere[]> {
    const rows = await this.#tables.do(() => gateways.calls.all(account, this.#owner))
    return rows.map(({ id, model, key, hold, opened_at, progress }) => {
      const checkpoint = checkpointOf(progress)
      return {
        id,
        model,
        key,
        hold,
        startedAt: Number(opened_at),
        outputTokens: checkpoint && completionTokens(checkpoint.usage),
      }
    })
  }
}

const gateways = {
  // A command has a chain for a moment.
  list: sql<{ owner: string; program: string; until: bigint; now: bigint; leads: bigint; sells: string }>(
    `SELECT chain.owner, chain.program, chain.sells, chain.heartbeat_until AS until, ${databaseNow} AS now,
       CASE WHEN leader.owner IS NULL THEN 0 ELSE 1 END::bigint AS leads
     FROM chain LEFT JOIN leader ON leader.duty = 'upkeep' AND leader.owner = chain.owner
     WHERE NOT starts_with(chain.owner, 'over:') AND NOT starts_with(chain.owner, 'cli ') ORDER BY chain.id`,
  ),
  tell: sql('UPDATE chain SET sells = ? WHERE owner = ?'),
  calls: sql<{
    id: string
    model: string
    key: string | null
    hold: bigint
    opened_at: bigint
    progress: string | null
  }>(
    `SELECT open.id, open.model, open.key, open.hold, open.opened_at, open.progress
     FROM open_call AS open JOIN chain ON chain.owner = open.owner
     WHERE (open.in_group IS NULL AND open.account = ?1 OR open.in_group::json ->> 'person' = ?1) AND open.owner <> ?2
     ORDER BY open.opened_at, open.id LIMIT 1000`,
  ),
}

// What all gateways count together: attempts to sign in, the networks of keys, and rates and calls of keys and accounts.

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
