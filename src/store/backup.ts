// Backup and restore of a data directory's database. Copies are consistent snapshots and audited before use.

import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { Database } from 'bun:sqlite'
import { notes } from '../notify/alarms.ts'
import {
  anchorsBeside,
  appendAnchor,
  applicationId,
  asideName,
  databasePath,
  headOf,
  isBusy,
  missingAnchor,
  one,
  openDatabase,
  openReader,
  readAnchors,
  readingFrom,
  schemaVersion,
  SqliteTables,
} from './sqlite/database/sqlite.ts'
import { auditFile } from './sqlite/audit/audit.ts'
import { writeNote } from './sql/records.ts'
import { takeServeLock } from './sqlite/database/serve-lock.ts'
import { syncFile } from './upgrade.ts'

/** Why a backup or restore was refused, in words for an operator. Nothing has been changed. */
export class BackupRefused extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'BackupRefused'
  }
}

export interface BackupReport {
  readonly file: string
  readonly bytes: number
  readonly schema: number
  readonly journalEntries: number
  /** The hash of the journal's last line: the same in the backup and in the database restored from it. */
  readonly headHash: string
  /** The first thing an audit of the copy found wrong, if any. */
  readonly broken: string | null
}

/**
 * Copies the database of a data directory to a new file, as a consistent snapshot, beside a running server. The file
 * gets its name when it is complete and on disk. Throws BackupRefused if the name is taken or there is no database of
 * ours.
 */
export function backUp(dataDir: string, file: string): BackupReport {
  const source = databasePath(dataDir)
  if (!existsSync(source)) throw new BackupRefused(`there is no database in ${dataDir}`)
  const target = resolve(file)
  if (existsSync(target)) throw new BackupRefused(`${file} exists: a backup overwrites nothing`)
  const work = workFolder(dirname(target), basename(target))
  try {
    const copy = join(work, 'copy.db')
    const schema = copyDatabase(source, copy)
    const report = proven(copy, file, schema, work)
    chmodSync(copy, 0o600)
    syncFile(copy)
    publish(copy, target, file)
    syncFile(dirname(target))
    return report
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

/**
 * Notes in the database of a data directory that it was backed up, for those who watch over that. A database of another
 * schema, or one that cannot be written, stays as it is.
 */
export function noteBackup(dataDir: string, { file, bytes, broken }: BackupReport, now: number): void {
  let database: Database | undefined
  try {
    database = new Database(databasePath(dataDir), { readwrite: true, create: false })
    database.run('PRAGMA busy_timeout = 2000')
    if (Number(one(database, 'PRAGMA user_version')) !== schemaVersion) return
    const note = { name: notes.backup, at: now, value: { file, bytes, ok: broken === null } }
    new SqliteTables(database).do(() => writeNote(note))
  } catch {
    // The backup is there, and that is what was asked for.
  } finally {
    database?.close()
  }
}

/** Renames the file without replacing another. Without hard links only the earlier check prevents that. */
function publish(copy: string, target: string, file: string): void {
  try {
    linkSync(copy, target)
  } catch (error) {
    if (existsSync(target)) throw new BackupRefused(`${file} exists: a backup overwrites nothing`, error)
    renameSync(copy, target)
  }
}

/**
 * Puts a backup in the place of the database of a data directory. The backup is copied, brought to this program's
 * schema and audited first; what was there before is moved aside, never deleted. Throws BackupRefused when the backup
 * does not hold, is newer than this program or not Weir's, when a server or another command has the data directory
 * open, and when there is a database that `existing` says to keep.
 */
export function restore(
  file: string,
  dataDir: string,
  options: { readonly existing: 'keep' | 'replace'; readonly now: number },
): BackupReport & { readonly movedAside: string | null } {
  if (!existsSync(file)) throw new BackupRefused(`there is no file ${file}`)
  const target = databasePath(dataDir)
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const lock = lockOut(dataDir, options.now)
  const work = workFolder(dataDir, 'restore')
  try {
    if (existsSync(target) && options.existing === 'keep') {
      throw new BackupRefused(`${dataDir} has a database: --force puts it aside and the backup in its place`)
    }
    const copy = databasePath(work)
    copyDatabase(file, copy)
    migrateCopy(work, options.now)
    const report = proven(copy, file, schemaVersion, work)
    if (report.broken !== null)
      throw new BackupRefused(`the ledger in ${file} does not hold: ${report.broken}`)
    chmodSync(copy, 0o600)
    syncFile(copy)
    const movedAside = swap(copy, target, options.now)
    anchorReplacement(target, options.now, 'restored', basename(file))
    syncFile(dataDir)
    return { ...report, movedAside }
  } finally {
    rmSync(work, { recursive: true, force: true })
    lock.release()
  }
}

/**
 * Accepts the current history of a data directory although an anchored one was cut short or replaced, for a copy that
 * was put back by hand. Returns what the anchors found missing; null, without effect, if nothing was.
 */
export function acceptHistory(dataDir: string, reason: string, now: number): string | null {
  const path = databasePath(dataDir)
  const anchors = readAnchors(anchorsBeside(path))
  const found = readingFrom(path, (database) => missingAnchor(database, anchors))
  if (found !== null) anchorReplacement(path, now, 'accepted', reason)
  return found
}

/** Anchors the current history as the valid one; what was anchored before may be missing. */
function anchorReplacement(path: string, now: number, kind: 'restored' | 'accepted', note: string): void {
  const head = readingFrom(path, headOf)
  appendAnchor(anchorsBeside(path), now, { ...head, kind, note })
}

/** Takes the server's lock, so that none starts to write meanwhile. */
function lockOut(dataDir: string, now: number): { release(): void } {
  const lock = takeServeLock(dataDir, now)
  if (lock.kind === 'taken') return lock
  const name = lock.processId === null ? '' : ` (process ${lock.processId})`
  throw new BackupRefused(`a server runs on ${dataDir}${name}: stop it first`)
}

/** Moves the old database aside and the new one into its place. Returns the old one's new name. */
function swap(copy: string, target: string, now: number): string | null {
  if (!existsSync(target)) {
    renameSync(copy, target)
    return null
  }
  const aside = asideName(target, 'before', now)
  const held = heldAlone(target)
  try {
    // Call ends that the old server could not write belong to the old database.
    const spill = join(dirname(target), 'settles.spill')
    if (existsSync(spill)) renameSync(spill, `${aside}.spill`)
    renameSync(target, aside)
    // Left by a database too damaged to open: its log must never be read into the new one.
    if (existsSync(`${target}-wal`)) renameSync(`${target}-wal`, `${aside}-wal`)
    rmSync(`${target}-shm`, { force: true })
    renameSync(copy, target)
  } finally {
    held?.close()
  }
  return aside
}

/** The old database opened exclusively, with its log written back; undefined if it cannot be opened at all. */
function heldAlone(path: string): Database | undefined {
  // SQLite would discard the log of a file that it does not recognise.
  if (!readHead(path).startsWith('SQLite format 3')) return undefined
  let held: Database | undefined
  try {
    held = new Database(path, { readwrite: true, create: false })
    held.run('PRAGMA busy_timeout = 0')
    held.run('PRAGMA locking_mode = EXCLUSIVE')
    held.run('PRAGMA journal_mode = DELETE')
    held.run('BEGIN EXCLUSIVE')
    return held
  } catch (error) {
    held?.close()
    if (isBusy(error)) throw new BackupRefused(`another program has ${path} open`, error)
    return undefined
  }
}

function readHead(path: string): string {
  const head = Buffer.alloc(16)
  const handle = openSync(path, 'r')
  try {
    readSync(handle, head)
  } finally {
    closeSync(handle)
  }
  return head.toString('latin1')
}

/** Copies a snapshot of one of our databases, and returns its schema version. */
function copyDatabase(from: string, to: string): number {
  let database: Database | undefined
  try {
    database = openReader(from)
    const schema = schemaOf(database, from)
    database.run('VACUUM INTO ?', [to])
    return schema
  } catch (error) {
    if (error instanceof BackupRefused) throw error
    const reason = error instanceof Error ? error.message : String(error)
    throw new BackupRefused(`${from} cannot be copied: ${reason}`, error)
  } finally {
    database?.close()
  }
}

function schemaOf(database: Database, file: string): number {
  if (Number(one(database, 'PRAGMA application_id')) !== applicationId) {
    throw new BackupRefused(`${file} is not a database of Weir`)
  }
  const schema = Number(one(database, 'PRAGMA user_version'))
  if (schema <= schemaVersion) return schema
  throw new BackupRefused(
    `${file} was written by a newer Weir (schema ${schema}, this program knows ${schemaVersion}): run the newer program`,
  )
}

/** Migrates the database of a folder to this program's schema, and checkpoints it into its main file. */
function migrateCopy(folder: string, now: number): void {
  const database = openDatabase(folder, now)
  try {
    database.run('PRAGMA journal_mode = DELETE')
  } finally {
    database.close()
  }
}

/** The audit of the copy. An older schema is migrated in a work folder first: the audit knows the current one. */
function proven(copy: string, file: string, schema: number, work: string): BackupReport {
  let audited = copy
  if (schema < schemaVersion) {
    const folder = mkdtempSync(join(work, 'audit-'))
    audited = databasePath(folder)
    copyFileSync(copy, audited)
    // All of it was booked before the migration, whatever the clock says.
    migrateCopy(folder, Number.MAX_SAFE_INTEGER)
  }
  const { journalEntries, headHash, checks } = auditFile(audited)
  const broken = checks.find(({ ok }) => !ok)
  return {
    file,
    bytes: statSync(copy).size,
    schema,
    journalEntries,
    headHash,
    broken: broken === undefined ? null : `${broken.name}: ${broken.detail ?? 'it does not hold'}`,
  }
}

/** A folder on the target's file system, so that a rename is enough. */
function workFolder(parent: string, name: string): string {
  try {
    return mkdtempSync(join(parent, `.${name}-`))
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new BackupRefused(`${parent} cannot be written: ${reason}`, error)
  }
}
