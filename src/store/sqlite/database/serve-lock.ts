// Who serves a data directory: one process, which holds a lock that the operating system drops when it dies. So its
// successor knows for certain that every process before it is dead, and need not wait for any lease.

import { closeSync, existsSync, openSync, readSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { Database } from 'bun:sqlite'
import { isBusy, isDamage, setAside } from './sqlite.ts'

export type ServeLock =
  | {
      readonly kind: 'taken'
      /** Where what lay in the lock's place is now, if it was no lock at all. */
      readonly movedAside: string | null
      release(): void
    }
  /** The process that has it; null when it is unknown. */
  | { readonly kind: 'held'; readonly processId: number | null }

/**
 * Takes the lock of a data directory without waiting. A file in its place that is no lock is set aside. Throws what
 * the file system throws when the directory cannot be written.
 */
export function takeServeLock(dataDir: string, now: number): ServeLock {
  // A file of its own: a lock on the database would keep the command line out.
  const path = join(dataDir, 'serve.lock')
  const movedAside = isNoDatabase(path) ? setAside(path, now) : null
  try {
    return takeLock(path, movedAside)
  } catch (error) {
    if (!isDamage(error)) throw error
    return takeLock(path, setAside(path, now))
  }
}

function takeLock(path: string, movedAside: string | null): ServeLock {
  const lock = new Database(path, { create: true, readwrite: true })
  try {
    lock.run('PRAGMA busy_timeout = 0')
    lock.run('PRAGMA journal_mode = MEMORY')
    // Keeps the lock after the commit that makes our process id readable.
    lock.run('PRAGMA locking_mode = EXCLUSIVE')
    lock.run('BEGIN EXCLUSIVE')
    lock.run(`PRAGMA user_version = ${process.pid}`)
    lock.run('COMMIT')
    return { kind: 'taken', movedAside, release: () => lock.close() }
  } catch (error) {
    lock.close()
    if (!isBusy(error)) throw error
    return { kind: 'held', processId: processIn(path) }
  }
}

/** The process that was the last to serve a data directory; null where none is known. It may have ended since. */
export function servingProcess(dataDir: string): number | null {
  const path = join(dataDir, 'serve.lock')
  return existsSync(path) ? processIn(path) : null
}

const smallestDatabaseBytes = 512
/** Where the header of a SQLite file has its user_version: readable past any lock. */
const userVersionAt = 60

function processIn(path: string): number | null {
  const bytes = Buffer.alloc(4)
  const file = openSync(path, 'r')
  try {
    return readSync(file, bytes, 0, 4, userVersionAt) === 4 ? bytes.readUInt32BE() || null : null
  } finally {
    closeSync(file)
  }
}

/** What SQLite would not complain of: it takes a few bytes for an empty file. */
function isNoDatabase(path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false })
  return (
    found !== undefined && (found.isDirectory() || (found.size > 0 && found.size < smallestDatabaseBytes))
  )
}
