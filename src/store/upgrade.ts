// Before a newer program changes an older database: makes sure that nobody else serves it, and keeps a copy.

import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
} from 'node:fs'
import {
  applicationId,
  databasePath,
  isDamage,
  one,
  openDatabase,
  readingFrom,
  schemaVersion,
} from './sqlite/database/sqlite.ts'
import { StoreOpenError } from './store.ts'
import { takeServeLock } from './sqlite/database/serve-lock.ts'

export interface UpgradeOptions {
  /** Milliseconds since 1970. */
  readonly clock: () => number
  readonly notice?: (message: string, facts: Readonly<Record<string, unknown>>) => void
  /** Bytes that are free where the data directory is. */
  readonly freeBytes?: (dataDir: string) => number
}

/** What a migration may need beside the copy, whatever the size of the database. */
const spareBytes = 16 * 1024 * 1024

/**
 * Brings an older database to the schema of this program, after it has been copied to `weir.db.v<schema>.bak`. What is
 * up to date, and what is not there, is left alone. `locked` says whether the caller has the right to serve the data
 * directory; one that has not is refused beside a server, which must be of an older version. Throws StoreOpenError
 * for that, and when there is no room for a copy: the database is as it was then.
 */
export function upgrade(dataDir: string, options: UpgradeOptions, locked: boolean): void {
  const schema = olderSchema(databasePath(dataDir))
  if (schema === undefined) return
  const lock = locked ? undefined : lockBeside(dataDir, options, schema)
  try {
    // Another command may have upgraded it meanwhile: its copy is the one to keep.
    if (olderSchema(databasePath(dataDir)) !== schema) return
    const copy = keptCopy(dataDir, schema, options)
    options.notice?.('the database is brought to the schema of this version; a copy of it was made before', {
      from: schema,
      to: schemaVersion,
      copy,
    })
    openDatabase(dataDir, options.clock()).close()
  } finally {
    lock?.release()
  }
}

/** The schema version of a database that this program would change; undefined for any other file. */
function olderSchema(path: string): number | undefined {
  if (!existsSync(path) || statSync(path).size === 0) return undefined
  try {
    return readingFrom(path, (reader) => {
      const schema = Number(one(reader, 'PRAGMA user_version'))
      const ours = Number(one(reader, 'PRAGMA application_id')) === applicationId
      return ours && schema < schemaVersion ? schema : undefined
    })
  } catch {
    // Whoever opens it next reports what is wrong with it.
    return undefined
  }
}

function lockBeside(dataDir: string, { clock }: UpgradeOptions, schema: number): { release(): void } {
  const lock = takeServeLock(dataDir, clock())
  if (lock.kind === 'taken') return lock
  const name = lock.processId === null ? 'another process' : `process ${lock.processId}`
  throw new StoreOpenError(
    `${name} serves ${dataDir} with an older version of Weir (schema ${schema}, this program has ${schemaVersion}): ` +
      'stop it first, or use the program of its version. If it is a command that upgrades the database, wait for it',
  )
}

function keptCopy(dataDir: string, schema: number, options: UpgradeOptions): string {
  const source = databasePath(dataDir)
  const copy = `${source}.v${schema}.bak`
  requireRoom(dataDir, sizeOf(source), options.freeBytes ?? freeBytes)
  const unfinished = `${copy}.unfinished`
  rmSync(unfinished, { force: true })
  try {
    readingFrom(source, (reader) => reader.run('VACUUM INTO ?', [unfinished]))
    chmodSync(unfinished, 0o600)
    syncFile(unfinished)
    // That of an earlier upgrade from the same schema, or of one that did not come to its end.
    renameSync(unfinished, copy)
    syncFile(dataDir)
    return copy
  } catch (error) {
    rmSync(unfinished, { force: true })
    if (isDamage(error)) throw error
    const reason = error instanceof Error ? error.message : String(error)
    throw new StoreOpenError(`no copy of ${source} could be made before its upgrade: ${reason}`, error)
  }
}

/** Room for the copy, and as much again for what the migration writes. */
function requireRoom(dataDir: string, size: number, free: (dataDir: string) => number): void {
  const needed = 2 * size + spareBytes
  const there = free(dataDir)
  if (there >= needed) return
  throw new StoreOpenError(
    `the upgrade of the database needs ${megabytes(needed)} in ${dataDir}, half of it for a copy that is kept, and ` +
      `${megabytes(there)} are free: make room, or move the data directory`,
  )
}

function freeBytes(dataDir: string): number {
  const { bavail, bsize } = statfsSync(dataDir)
  return bavail * bsize
}

function sizeOf(path: string): number {
  const wal = `${path}-wal`
  return statSync(path).size + (existsSync(wal) ? statSync(wal).size : 0)
}

function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1_000_000)} MB`
}

/** Makes a file's content, or a folder's names, durable. */
export function syncFile(path: string): void {
  const handle = openSync(path, 'r')
  try {
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
}
