// Brings a PostgreSQL database to the schema of this program.

import { migrations } from '../../../drizzle/postgres/migrations.ts'
import { type DatabaseServer, StoreOpenError } from '../store.ts'
import { Connection } from './connection.ts'
import { factsOf, placeOf, requireUsable, usingServer } from './server.ts'

/** Names the lock under which one process migrates; any number that nobody else uses. */
const lockName = 0x57656972

/** An index over a large table takes its time. */
const deadlineMs = 3_600_000

/** The migrations that a database has not had. */
async function missingOf(connection: Connection): Promise<typeof migrations> {
  const had = await connection.send<{ name: string }>('SELECT name FROM migration')
  const known = new Set(migrations.map(({ name }) => name))
  const newer = had.find(({ name }) => !known.has(name))
  if (newer)
    throw new StoreOpenError(
      `a newer version of weir has made this database (${newer.name}): run that version or a newer one`,
    )
  const applied = new Set(had.map(({ name }) => name))
  return migrations.filter(({ name }) => !applied.has(name))
}

/**
 * Applies the migrations that the database has not had, all or none. Of processes that begin together one applies them
 * and the others wait. Throws StoreOpenError for a database of a newer program.
 */
export async function migrate(server: string | DatabaseServer, now: number): Promise<void> {
  const connection = new Connection(server, { deadlineMs })
  try {
    await connection.open()
    await connection.run(`BEGIN; SELECT pg_advisory_xact_lock(${lockName});
      CREATE TABLE IF NOT EXISTS migration (name text COLLATE "C" PRIMARY KEY, applied_at bigint NOT NULL)`)
    for (const { name, sql } of await missingOf(connection)) {
      await connection.run(sql)
      await connection.send('INSERT INTO migration (name, applied_at) VALUES ($1, $2)', [name, BigInt(now)])
    }
    await connection.run('COMMIT')
  } finally {
    await connection.close()
  }
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
  if (serves || !facts.hasTables) await usingServer(server, () => migrate(server, clock()))
  return usingServer(server, async (connection) => {
    if ((await missingOf(connection)).length > 0)
      throw new StoreOpenError(
        `${placeOf(server)} has the tables of an older version: start weir serve of this version first, which changes them`,
      )
    const [row] = await connection.send<{ readonly at: bigint }>(
      'SELECT coalesce(max(at), 0) AS at FROM chain',
    )
    return { ledgerTime: Number(row!.at), isNew: !facts.hasTables }
  })
}
