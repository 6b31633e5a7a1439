// Opens the database file the way money needs it, brings it to the schema of this program, and refuses a library or a
// file that cannot keep the promise.

import { Database, type Statement } from 'bun:sqlite'
import { chmodSync, closeSync, existsSync, mkdirSync, openSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { migrations } from '../../../../drizzle/sqlite/migrations.ts'
import { missingPages } from '../../commits/durability.ts'
import { StoreOpenError } from '../../store.ts'
import { anchorsBeside, readAnchors } from '../audit/anchors.ts'
import { isDamage, one } from './sqlite.ts'

/** Before this version two connections that checkpoint and write at once could reset the log and lose commits. */
const oldestSafeVersion = '3.51.3'
const busyTimeoutMs = 5000
/**
 * A commit writes the log back into the file when it has so many pages, and waits for two syncs. Pages that are written
 * again and again are then written once: with four times SQLite's own number the event loop waits a third as long.
 */
const pagesPerCheckpoint = 4000
/** What a long reader (an audit, a backup) has made the log grow to is given back after it. */
const largestLogBytes = 64 * 1024 * 1024

export function databasePath(dataDir: string): string {
  return join(dataDir, 'weir.db')
}

/**
 * Opens (or creates) the database of a data directory, with all known migrations applied. Throws StoreOpenError when
 * SQLite is too old, the file is not Weir's or is newer than this program, or the directory cannot be written.
 */
export function openDatabase(dataDir: string, now: number): Database {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 })
    const path = databasePath(dataDir)
    requireNotLost(dataDir)
    // Its log and its index get the mode that the file has when they are made, which is before any row is in it.
    closeSync(openSync(path, 'a', 0o600))
    const database = closingWhole(
      new Database(path, { create: true, readwrite: true, safeIntegers: true, strict: true }),
    )
    try {
      prepareConnection(database)
      if (migrate(database, now)) chmodSync(path, 0o600)
    } catch (error) {
      database.close()
      throw error
    }
    return database
  } catch (error) {
    throw unusable(dataDir, error)
  }
}

/** Any failure of opening as the one error that operators see. */
export function unusable(dataDir: string, error: unknown): StoreOpenError {
  if (error instanceof StoreOpenError) return error
  const reason = error instanceof Error ? error.message : String(error)
  if (isDamage(error)) return damagedError(dataDir, reason, error)
  return new StoreOpenError(`the data directory ${dataDir} cannot be used: ${reason}`, error)
}

function damagedError(dataDir: string, reason: string, cause?: unknown): StoreOpenError {
  return new StoreOpenError(
    `the database in ${dataDir} is damaged: ${reason}. ` +
      `Restore a backup (what is there now is kept aside): weir restore FILE --force --data-dir ${dataDir}`,
    cause,
  )
}

/** A ledger that was there is never begun anew in silence. */
function requireNotLost(dataDir: string): void {
  const path = databasePath(dataDir)
  const size = (file: string) => statSync(file, { throwIfNoEntry: false })?.size ?? 0
  if (size(path) > 0 || size(`${path}-wal`) > 0) return
  const last = readAnchors(anchorsBeside(path)).at(-1)
  if (!last || last.tx === 0) return
  const reason =
    `it is empty, although ledger.anchors says that its ledger had ${last.tx} transactions at ${last.at} ` +
    '(to begin anew, move that file away, too)'
  throw damagedError(dataDir, reason)
}

/** Refuses a database whose file has lost its end. For a server alone: a command may run beside one that writes. */
export function requireWhole(dataDir: string): void {
  const path = databasePath(dataDir)
  const missing = existsSync(path) ? missingPages(path) : 0
  if (missing > 0) throw damagedError(dataDir, `its file was cut short, ${missing} pages are missing`)
}

/** A second, read-only connection to the same file: what it reads in one transaction is one moment. */
export function openReader(path: string): Database {
  const database = closingWhole(new Database(path, { readonly: true, safeIntegers: true, strict: true }))
  database.run(`PRAGMA busy_timeout = ${busyTimeoutMs}`)
  return database
}

/**
 * Makes `close` finalize every statement first. A connection with one left stays open behind the scenes until garbage
 * is collected, with its locks and its place in the log: no checkpoint could pass it, no restore replace the file.
 */
function closingWhole(database: Database): Database {
  const prepared = new Set<Statement>()
  const prepare = database.prepare.bind(database)
  const close = database.close.bind(database)
  database.prepare = ((...given: Parameters<typeof prepare>) => {
    const statement = prepare(...given)
    prepared.add(statement)
    const finalize = statement.finalize.bind(statement)
    statement.finalize = () => {
      prepared.delete(statement)
      finalize()
    }
    return statement
  }) as Database['prepare']
  database.close = () => {
    for (const statement of prepared) statement.finalize()
    prepared.clear()
    if (database.inTransaction) database.run('ROLLBACK')
    close(true)
  }
  return database
}

function prepareConnection(database: Database): void {
  // The switch to WAL takes a lock itself, so the timeout comes first.
  database.run(`PRAGMA busy_timeout = ${busyTimeoutMs}`)
  database.run('PRAGMA journal_mode = WAL')
  database.run('PRAGMA synchronous = FULL')
  database.run('PRAGMA mmap_size = 0')
  database.run(`PRAGMA wal_autocheckpoint = ${pagesPerCheckpoint}`)
  database.run(`PRAGMA journal_size_limit = ${largestLogBytes}`)
  database.run('PRAGMA foreign_keys = ON')
  const version = String(one(database, 'SELECT sqlite_version()'))
  if (olderThan(version, oldestSafeVersion)) {
    throw new StoreOpenError(`SQLite ${version} can lose commits; Weir needs ${oldestSafeVersion} or later`)
  }
  if (one(database, 'PRAGMA journal_mode') !== 'wal') {
    throw new StoreOpenError('the file system of the data directory does not support write-ahead logging')
  }
  if (one(database, 'PRAGMA synchronous') !== 2n)
    throw new StoreOpenError('SQLite refuses synchronous = FULL')
}

/**
 * Runs one write that may be lost in a power cut, and that waits for nothing: not until it is on disk, not for the lock
 * of another process (SQLITE_BUSY is thrown), not for the log to be written back. Commits after it are as durable as
 * ever, and make it so too. Must not be called inside a transaction.
 */
export function withoutWaiting<T>(database: Database, write: () => T): T {
  const patience = Number(one(database, 'PRAGMA busy_timeout'))
  database.run('PRAGMA busy_timeout = 0')
  database.run('PRAGMA wal_autocheckpoint = 0')
  database.run('PRAGMA synchronous = NORMAL')
  try {
    return write()
  } finally {
    database.run('PRAGMA synchronous = FULL')
    database.run(`PRAGMA wal_autocheckpoint = ${pagesPerCheckpoint}`)
    database.run(`PRAGMA busy_timeout = ${patience}`)
  }
}

function olderThan(version: string, than: string): boolean {
  const [a, b] = [version, than].map((text) => text.split('.').map(Number))
  for (let at = 0; at < 3; at++) {
    const difference = (a![at] ?? 0) - (b![at] ?? 0)
    if (difference !== 0) return difference < 0
  }
  return false
}

// The schema: migrations that a file lacks; a file that is not ours or newer is refused.

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
