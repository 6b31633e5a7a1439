// Brings a PostgreSQL database to the schema of this program, while gateways of the version before go on: one version adds
// to the tables what it needs, and only the next one takes away what nobody uses any more.

import { migrations } from '../../../drizzle/postgres/migrations.ts'
import { version } from '../../version.ts'
import { type DatabaseServer, StoreOpenError } from '../store.ts'
import { Connection, databaseNow, stateOf } from './connection.ts'
import { factsOf, placeOf, requireUsable, usingServer } from './server.ts'

/** Names the lock under which one process migrates; any number that nobody else uses. */
const lockName = 0x57656972

/** An index over a large table takes its time. */
const deadlineMs = 3_600_000

const tableInUse = '55P03'
const mostTries = 120

/** Milliseconds: how long a change of a table waits for whoever uses it, since all that come after it wait as well; and until the next try. */
export interface LockTimes {
  readonly waitMs: number
  readonly retryMs: number
}

const usualTimes: LockTimes = { waitMs: 2_000, retryMs: 1_000 }

/** By their names: how many migrations the oldest program has to know that can go on after one. Those that only add are not here. */
const needsOfAll: Needs = {
  // An older program would count calls in their month and not in its days, and an audit would find that.
  '0016_cost_of_days': 17,
  // An older program would grant the credit of a paid plan as purchased credit.
  '0018_plans': 19,
}

type Needs = Readonly<Record<string, number>>

/** The migrations that a program knows, in order. */
export interface Program {
  readonly migrations: typeof migrations
  readonly needs: Needs
}

const thisProgram: Program = { migrations, needs: needsOfAll }

interface MigrateOptions extends Pick<ReadyOptions, 'notice'> {
  readonly program?: Program
  readonly times?: LockTimes
}

interface Missing {
  readonly missing: typeof migrations
  /** The newest migration that this program does not know, which it can live with. */
  readonly newer: string | undefined
}

/** The migrations that a database has not had. Throws StoreOpenError where it has had one that this program cannot live with. */
async function missingOf(connection: Connection, { migrations: known }: Program): Promise<Missing> {
  // The column is missing in databases of the first versions.
  const had = await connection.send<{ readonly name: string; readonly oldest: string | null }>(
    "SELECT name, to_jsonb(migration) ->> 'oldest_program' AS oldest FROM migration ORDER BY name",
  )
  const names = new Set(known.map(({ name }) => name))
  const tooNew = had.find(({ oldest }) => Number(oldest ?? 0) > known.length)
  if (tooNew)
    throw new StoreOpenError(
      `a newer version of weir has changed this database (${tooNew.name}), and this one (${version}) cannot work with it: run that version or a newer one`,
    )
  const applied = new Set(had.map(({ name }) => name))
  return {
    missing: known.filter(({ name }) => !applied.has(name)),
    newer: had.findLast(({ name }) => !names.has(name))?.name,
  }
}

/**
 * Applies the migrations that the database has not had, all or none. Of processes that begin together one applies them
 * and the others wait. Throws StoreOpenError for a database that a newer program has made its own, and while gateways run
 * that could not go on.
 */
export async function migrate(
  server: string | DatabaseServer,
  now: number,
  { program = thisProgram, notice, times = usualTimes }: MigrateOptions = {},
): Promise<void> {
  const connection = new Connection(server, { deadlineMs })
  try {
    await connection.open()
    for (let tries = 1; !(await isMigrated(connection, { server, now, program, times })); tries++) {
      if (tries === mostTries)
        throw new StoreOpenError(
          `the tables of ${placeOf(server)} are in use for too long to be changed: see pg_stat_activity for who holds them`,
        )
      notice?.('a table is in use and could not be changed; it is tried again', { tries })
      await Bun.sleep(times.retryMs)
    }
  } finally {
    await connection.close()
  }
}

interface Place {
  readonly server: string | DatabaseServer
  /** Milliseconds since 1970. */
  readonly now: number
}

/** False where a table was in use for too long. */
async function isMigrated(
  connection: Connection,
  { server, now, program, times }: Required<Omit<MigrateOptions, 'notice'>> & Place,
): Promise<boolean> {
  await connection.run(`BEGIN; SELECT pg_advisory_xact_lock(${lockName});
    CREATE TABLE IF NOT EXISTS migration
      (name text COLLATE "C" PRIMARY KEY, applied_at bigint NOT NULL, oldest_program bigint NOT NULL DEFAULT 0)`)
  try {
    const { missing } = await missingOf(connection, program)
    if (missing.length > 0) await connection.run(`SET LOCAL lock_timeout = ${times.waitMs}`)
    for (const { name, sql } of missing) {
      const oldest = program.needs[name] ?? 0
      if (oldest > 0) await requireNobodyOlder(connection, server, oldest)
      await connection.run(sql)
      await connection.run(
        'ALTER TABLE migration ADD COLUMN IF NOT EXISTS oldest_program bigint NOT NULL DEFAULT 0',
      )
      await connection.send('INSERT INTO migration (name, applied_at, oldest_program) VALUES ($1, $2, $3)', [
        name,
        BigInt(now),
        BigInt(oldest),
      ])
    }
    await connection.run('COMMIT')
    return true
  } catch (error) {
    if (stateOf(error) !== tableInUse) throw error
    await connection.run('ROLLBACK')
    return false
  }
}

/** Throws StoreOpenError while a gateway lives whose program knows fewer migrations than that. */
async function requireNobodyOlder(
  connection: Connection,
  server: string | DatabaseServer,
  oldest: number,
): Promise<void> {
  const [other] = await connection.send<{ readonly owner: string; readonly program: string }>(
    `SELECT owner, program FROM chain WHERE heartbeat_until >= ${databaseNow} AND migrations < $1
       AND NOT starts_with(owner, 'over:') AND NOT starts_with(owner, 'cli ') LIMIT 1`,
    [BigInt(oldest)],
  )
  if (other)
    throw new StoreOpenError(
      `${placeOf(server)} is served by ${other.owner}, whose version (${other.program || 'an early one'}) cannot go on with the tables of this one (${version}): stop it first, or update it to the version before this one`,
    )
}

export interface ReadyOptions {
  /** Milliseconds since 1970. */
  readonly clock: () => number
  /** Whether the process serves: it may change the tables of an older version, and says what is not as it should be. */
  readonly serves: boolean
  readonly notice?: ((message: string, facts: Readonly<Record<string, unknown>>) => void) | undefined
}

/** How far clocks may differ before it is said, milliseconds. */
const clocksApartMs = 1_000

/**
 * Makes a server ready for a process: looks whether it can keep a ledger, and makes or changes the tables. Gives the
 * ledger's time, milliseconds since 1970, and whether there were no tables. Throws StoreOpenError with what an operator has to do.
 */
export async function makeReady(
  server: DatabaseServer,
  { clock, serves, notice }: ReadyOptions,
): Promise<{ readonly ledgerTime: number; readonly isNew: boolean }> {
  const facts = await factsOf(server, clock)
  requireUsable(server, facts)
  if (serves) {
    for (const setting of facts.losing)
      notice?.('a crash of the database server would lose what was acknowledged', { setting })
    if (Math.abs(facts.clockAheadMs) > clocksApartMs)
      notice?.('the clocks of this machine and of the database server differ', {
        database_ahead_ms: facts.clockAheadMs,
      })
  }
  if (serves || !facts.hasTables) await usingServer(server, () => migrate(server, clock(), { notice }))
  return usingServer(server, async (connection) => {
    const { missing, newer } = await missingOf(connection, thisProgram)
    if (newer !== undefined && serves)
      notice?.('a newer version of weir has changed the database, which this one can still work with', {
        newer,
      })
    if (missing.length > 0)
      throw new StoreOpenError(
        `${placeOf(server)} has the tables of an older version: start weir serve of this version first, which changes them`,
      )
    const [row] = await connection.send<{ readonly at: bigint }>(
      'SELECT coalesce(max(at), 0) AS at FROM chain',
    )
    return { ledgerTime: Number(row!.at), isNew: !facts.hasTables }
  })
}
