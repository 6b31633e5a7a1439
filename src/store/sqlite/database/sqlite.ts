// Tells a fault of disk or database from a fault of ours: the first is a 503 and is retried, the second is a bug.

import type { Database, SQLQueryBindings } from 'bun:sqlite'
import { existsSync, renameSync } from 'node:fs'
import { unavailable } from '../../commits/durability.ts'

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

// One value of a query that has one.

/** The first column of the first row. */
export function one(database: Database, sql: string, ...values: SQLQueryBindings[]): unknown {
  const statement = database.prepare(sql)
  try {
    return statement.values(...values)[0]?.[0]
  } finally {
    statement.finalize()
  }
}

/**
 * Gives what `make` makes, from its first call on. For the statements of stores that few calls need: preparing them all
 * would take milliseconds of every start, and memory for good.
 */
export function whenNeeded<T>(make: () => T): () => T {
  let made: T | undefined
  return () => (made ??= make())
}

export function numberOrNull(value: bigint | null): number | null {
  return value === null ? null : Number(value)
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
