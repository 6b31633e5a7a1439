// Brings a PostgreSQL database to the schema of this program.

import { migrations } from '../../../drizzle/postgres/migrations.ts'
import { type DatabaseServer, StoreOpenError } from '../store.ts'
import { Connection } from './connection.ts'

/** Names the lock under which one process migrates; any number that nobody else uses. */
const lockName = 0x57656972

/** An index over a large table takes its time. */
const deadlineMs = 3_600_000

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
    const had = await connection.send<{ name: string }>('SELECT name FROM migration')
    const known = new Set(migrations.map(({ name }) => name))
    const newer = had.find(({ name }) => !known.has(name))
    if (newer) throw new StoreOpenError(`a newer version of weir has made this database (${newer.name})`)
    const applied = new Set(had.map(({ name }) => name))
    for (const { name, sql } of migrations.filter((each) => !applied.has(each.name))) {
      await connection.run(sql)
      await connection.send('INSERT INTO migration (name, applied_at) VALUES ($1, $2)', [name, BigInt(now)])
    }
    await connection.run('COMMIT')
  } finally {
    await connection.close()
  }
}
