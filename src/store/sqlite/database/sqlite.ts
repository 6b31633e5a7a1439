// The database file: opened the way money needs it, brought to the schema of this program, and its faults. A library or
// a file that cannot keep the promise is refused.

import { Database, type SQLQueryBindings, type Statement } from 'bun:sqlite'
import { chmodSync, closeSync, existsSync, mkdirSync, openSync, renameSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { migrations } from '../../../../drizzle/sqlite/migrations.ts'
import { wholeSchema } from '../../../../drizzle/sqlite/whole.ts'
import { missingPages, unavailable } from '../../commits/durability.ts'
import { StoreOpenError } from '../../store.ts'
import { anchorsBeside, readAnchors } from '../audit/anchors.ts'

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

/** A database with all tables in the memory of this process: no other connection sees it, and it ends when it is closed. */
export function openDatabaseInMemory(now: number): Database {
  const database = closingWhole(new Database(':memory:', { safeIntegers: true, strict: true }))
  database.run('PRAGMA foreign_keys = ON')
  migrate(database, now)
  return database
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
 * Applies the migrations that the file lacks, or makes the tables of a new file, in one transaction: a process that dies
 * in the middle leaves the file as it was. The header's user_version counts them, so an up-to-date file costs two reads of the header.
 * Returns whether anything was applied.
 */
export function migrate(database: Database, now: number): boolean {
  if (!isBehind(database)) return false
  database.run('BEGIN IMMEDIATE')
  try {
    // Another process may have migrated while this one waited for the lock.
    const from = Number(one(database, 'PRAGMA user_version'))
    // All of them take five times as long on an empty file as the tables that they come to.
    if (from === 0) database.run(wholeSchema)
    else for (const migration of migrations.slice(from)) database.run(migration.sql)
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

// Tells a fault of disk or database from a fault of ours: the first is a 503 and is retried, the second is a bug.

const outages = [
  'SQLITE_FULL',
  'SQLITE_READONLY',
  'SQLITE_IOERR',
  'SQLITE_BUSY',
  'SQLITE_LOCKED',
  'SQLITE_CANTOPEN',
  'SQLITE_NOMEM',
  'SQLITE_PROTOCOL',
  'SQLITE_CORRUPT',
  'SQLITE_NOTADB',
  'SQLITE_PERM',
]

/** SQLite's name of the error (`SQLITE_FULL`), or an empty string for any other error. */
export function sqliteCode(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
}

export function isOutage(error: unknown): boolean {
  const code = sqliteCode(error)
  return outages.some((outage) => code.startsWith(outage))
}

/** Another process is writing; it will be done in a moment. */
export function isBusy(error: unknown): boolean {
  return sqliteCode(error).startsWith('SQLITE_BUSY')
}

/** A sync has failed: what the disk has of all that was written before it is not known. */
export function isFailedSync(error: unknown): boolean {
  return sqliteCode(error) === 'SQLITE_IOERR_FSYNC'
}

/** The file is not a database, or not one any more. */
export function isDamage(error: unknown): boolean {
  const code = sqliteCode(error)
  return code.startsWith('SQLITE_NOTADB') || code.startsWith('SQLITE_CORRUPT')
}

/** Reads or writes, and throws `store_unavailable` for a fault of the database. */
export function orUnavailable<T>(act: () => T): T {
  try {
    return act()
  } catch (error) {
    throw isOutage(error) ? unavailable(error) : error
  }
}

/** Carries out a write in a transaction of its own. Throws `store_unavailable` for a fault of the database. */
export function inTransaction<T>(database: Database, write: () => T): T {
  return orUnavailable(() => database.transaction(write).immediate())
}

/** What `read` gives of a database file, over a connection of its own that only reads. */
export function readingFrom<T>(path: string, read: (database: Database) => T): T {
  const database = openReader(path)
  try {
    return read(database)
  } finally {
    database.close()
  }
}

// One row or value, where there is one.

/** The first column of the first row. */
export function one(database: Database, sql: string, ...values: SQLQueryBindings[]): unknown {
  const statement = database.prepare(sql)
  try {
    return statement.values(...values)[0]?.[0]
  } finally {
    statement.finalize()
  }
}

/** A write that finds no row means that memory and file disagree: the group is undone and decided again. */
export function requireOne(changes: number | bigint, what: string): void {
  if (Number(changes) !== 1) throw new Error(`the ${what} in memory is not the one in the file`)
}

/**
 * Gives what `make` makes, from its first call on. For the statements of stores that few calls need: preparing them all
 * would take milliseconds of every start, and memory for good.
 */
export function whenNeeded<T>(make: () => T): () => T {
  let made: T | undefined
  return () => (made ??= make())
}

// Renames files that are in the way instead of deleting them.

/** An unused name for `path`: `<path>.<why>-<UTC time>`. */
export function asideName(path: string, why: string, now: number): string {
  const stamp = new Date(now).toISOString().replace(/[-:]|\.\d+/g, '')
  const wanted = `${path}.${why}-${stamp}`
  let name = wanted
  for (let n = 2; existsSync(name); n++) name = `${wanted}-${n}`
  return name
}

/** Renames an unreadable file and returns its new name. */
export function setAside(path: string, now: number): string {
  const name = asideName(path, 'damaged', now)
  renameSync(path, name)
  return name
}
