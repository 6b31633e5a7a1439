// Brings a database file to the schema of this program, or refuses a file it does not know.

import type { Database } from 'bun:sqlite'
import { migrations } from '../../../../drizzle/sqlite/migrations.ts'
import { StoreOpenError } from '../../store.ts'
import { one } from './sqlite.ts'

/** `Weir` in ASCII, in the file's header: no other program's database is ever migrated. */
export const applicationId = 0x57656972

/** The schema of this program: how many migrations lead to it. */
export const schemaVersion = migrations.length

/**
 * Applies the migrations that the file lacks, all in one transaction: a process that dies in the middle leaves the
 * file as it was. The header's user_version counts them, so an up-to-date file costs two reads of the header.
 * Returns whether anything was applied.
 */
export function migrate(database: Database, now: number): boolean {
  if (!isBehind(database)) return false
  database.run('BEGIN IMMEDIATE')
  try {
    // Another process may have migrated while this one waited for the lock.
    const from = Number(one(database, 'PRAGMA user_version'))
    for (const migration of migrations.slice(from)) database.run(migration.sql)
    database.run(`PRAGMA user_version = ${migrations.length}`)
    database.run(`PRAGMA application_id = ${applicationId}`)
    database.run(
      `CREATE TABLE IF NOT EXISTS migration (name TEXT PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT`,
    )
    const record = database.prepare('INSERT INTO migration (name, applied_at) VALUES (?, ?)')
    for (const migration of migrations.slice(from)) record.run(migration.name, now)
    record.finalize()
    database.run('COMMIT')
  } catch (error) {
    if (database.inTransaction) database.run('ROLLBACK')
    throw error
  }
  return true
}

function isBehind(database: Database): boolean {
  const id = Number(one(database, 'PRAGMA application_id'))
  const version = Number(one(database, 'PRAGMA user_version'))
  if (id === applicationId) {
    if (version > migrations.length) {
      throw new StoreOpenError(
        `the database was written by a newer Weir (schema ${version}, this program knows ${migrations.length}): ` +
          'run the newer program, or restore a backup made before the upgrade',
      )
    }
    return version < migrations.length
  }
  if (one(database, 'SELECT count(*) FROM sqlite_schema') !== 0n) {
    throw new StoreOpenError('the file is a SQLite database of another program')
  }
  return true
}
