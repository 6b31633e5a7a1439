// The database file: opened the way money needs it, brought to the schema of this program, and its faults. A library or
// a file that cannot keep the promise is refused.

import { Database, type Statement as Prepared, type SQLQueryBindings } from 'bun:sqlite'
import {
  appendFileSync,
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  statfsSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import { migrations } from '../../../../drizzle/sqlite/migrations.ts'
import { wholeSchema } from '../../../../drizzle/sqlite/whole.ts'
import type { Awaitable } from '../../../async/async.ts'
import type { Replacement } from '../../../credits/ledger/ledger.ts'
import type { StoreFigures } from '../../../observe/call-log.ts'
import { missingPages, unavailable } from '../../commits/durability.ts'
import type { WriteAheadLog } from '../../sql/retention.ts'
import {
  AlreadyThere,
  type Changes,
  type OrderedTables,
  type PieceWork,
  type Statement,
  type Step,
  type StepResult,
  type Tables,
  type Work,
} from '../../sql/work.ts'
import { StoreOpenError } from '../../store.ts'

// Stores heads of the hash chain beside the database. The chain alone cannot show that its end is missing: a truncated
// log, or an older copy of the file, verifies to its last line. An anchored head must be in the journal.

/** The last transaction of a journal, and the hash of its last line. */
export interface Head {
  readonly tx: number
  readonly hash: Uint8Array
}

const anchorSchema = z.object({
  at: z.string(),
  /** `restored` and `accepted` begin a new history: what was anchored before may be missing. */
  kind: z.enum(['head', 'restored', 'accepted']),
  tx: z.int().min(0),
  hash: z.string(),
  note: z.string().optional(),
})
export type Anchor = z.infer<typeof anchorSchema>

/** One anchor per this many commits and at most one a second; the sweep adds the last. */
const everyCommits = 256
const everyMs = 1_000
/** A larger file is cut to its newest lines. */
const mostBytes = 4 * 1024 * 1024
const keptLines = 1_000

export function anchorsBeside(databasePath: string): string {
  return join(dirname(databasePath), 'ledger.anchors')
}

/** All anchors of the file, oldest first; empty if there is no file. Invalid lines are skipped. */
export function readAnchors(path: string): Anchor[] {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return []
    throw error
  }
  return text.split('\n').flatMap((line) => anchorOf(line) ?? [])
}

/** A line cut off by a crash is not an anchor. */
function anchorOf(line: string): Anchor | undefined {
  try {
    // At a start there are few: compiling the schema would take longer than checking them.
    return anchorSchema.safeParse(JSON.parse(line), { jitless: true }).data
  } catch {
    return undefined
  }
}

/** Adds one line. `now` in milliseconds since 1970. */
export function appendAnchor(path: string, now: number, anchor: Head & Pick<Anchor, 'kind' | 'note'>): void {
  const { kind, tx, hash, note } = anchor
  const line: Anchor = {
    at: new Date(now).toISOString(),
    kind,
    tx,
    hash: hash.toHex(),
    ...(note && { note }),
  }
  appendFileSync(path, `${JSON.stringify(line)}\n`, { mode: 0o600 })
}

/**
 * The first anchor that the journal contradicts, as text; null if there is none. Read `anchors` before opening the
 * database snapshot, otherwise the newest could be later than the snapshot.
 */
export function missingAnchor(database: Database, anchors: readonly Anchor[]): string | null {
  const start = anchors.findLastIndex(({ kind }) => kind !== 'head')
  const at = database.prepare<{ hash: Uint8Array }, [number]>(
    'SELECT hash FROM journal WHERE tx = ? ORDER BY leg DESC LIMIT 1',
  )
  for (const anchor of anchors.slice(Math.max(0, start))) {
    const found = at.get(anchor.tx)?.hash
    if (anchor.tx === 0 || found?.toHex() === anchor.hash) continue
    const named = `transaction ${anchor.tx}, which was the last one at ${anchor.at},`
    return found ? `${named} is another one now` : `${named} is not in the journal`
  }
  return null
}

/** The end of a journal, read from its file; transaction 0 for an empty one. */
export function headOf(database: Database): Head {
  const last = database
    .prepare<{ tx: bigint; hash: Uint8Array }, []>(
      'SELECT tx, hash FROM journal ORDER BY tx DESC, leg DESC LIMIT 1',
    )
    .get()
  return last ? { tx: Number(last.tx), hash: last.hash } : { tx: 0, hash: new Uint8Array(32) }
}

/** Where a history was replaced on purpose, oldest first. */
export function replacements(anchors: readonly Anchor[]): Replacement[] {
  return anchors.flatMap(({ kind, at, tx, note = '' }) => (kind === 'head' ? [] : [{ kind, at, tx, note }]))
}

/** Writes the heads of a ledger that is at work. A file that cannot be written must not keep a charge from being made. */
export class Anchors {
  readonly #path: string
  readonly #clock: () => number
  readonly #anchored: (head: Head) => void
  #last: number | null = null
  #commits = 0
  #writtenAt = Number.NEGATIVE_INFINITY
  #mayThin = false

  constructor(path: string, clock: () => number, anchored: (head: Head) => void) {
    this.#path = path
    this.#clock = clock
    this.#anchored = anchored
  }

  /** To be called once all anchors were found in the journal: from now on old lines may be dropped. */
  allowThinning(): void {
    this.#mayThin = true
  }

  /** Whether this process has committed something that is not anchored. */
  get behind(): boolean {
    return this.#commits > 0
  }

  /** To be called after every commit with the head that it made durable. */
  onCommitted(head: Head): void {
    if (head.tx === this.#last || ++this.#commits < everyCommits) return
    if (performance.now() - this.#writtenAt >= everyMs) this.write(head)
  }

  /** Anchors a durable head unless it was the last one anchored. */
  write(head: Head): void {
    if (head.tx === this.#last || head.tx === 0) return
    this.#last = head.tx
    this.#commits = 0
    this.#writtenAt = performance.now()
    try {
      appendAnchor(this.#path, this.#clock(), { kind: 'head', ...head })
      if (this.#mayThin && statSync(this.#path).size > mostBytes) this.#thin()
    } catch {
      // The log below gets the head all the same, and the next anchor is tried again.
    }
    this.#anchored(head)
  }

  #thin(): void {
    const lines = readFileSync(this.#path, 'utf8').trimEnd().split('\n')
    const old = lines.slice(0, -keptLines).filter((line) => anchorOf(line)?.kind !== 'head')
    const fresh = `${this.#path}.new`
    writeFileSync(fresh, [...old, ...lines.slice(-keptLines), ''].join('\n'), { mode: 0o600 })
    renameSync(fresh, this.#path)
  }
}

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
  const prepared = new Set<Prepared>()
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

// Drives work on SQLite: at once, so that nothing else runs between the statements of a transaction.

export class SqliteTables implements Tables {
  readonly database: Database
  readonly #prepared = new WeakMap<Statement<unknown>, Prepared<unknown, SQLQueryBindings[]>>()
  #version: Prepared | undefined
  #dataVersion: unknown

  constructor(database: Database) {
    this.database = database
  }

  do<T>(work: () => Work<T>): T {
    return orUnavailable(() => this.drive(work()))
  }

  together<T>(work: () => Work<T>): T {
    return inTransaction(this.database, () => this.drive(work()))
  }

  /** The file says that another process has written, and not what. */
  changedElsewhere(): Changes {
    this.#version ??= this.database.prepare('PRAGMA data_version')
    const version = orUnavailable(() => this.#version!.values()[0]?.[0])
    const changed = version !== this.#dataVersion
    this.#dataVersion = version
    return changed ? 'everything' : 'nothing'
  }

  /** At once, as everything here: no other work of this process comes in between. */
  reads<T>(work: () => Work<T>): T {
    if (this.database.inTransaction) return this.do(work)
    return orUnavailable(() => this.database.transaction(() => this.drive(work())).deferred())
  }

  async *pieces(work: () => PieceWork): AsyncGenerator<string, void> {
    const steps = this.steps(work(), Number.POSITIVE_INFINITY)
    for (;;) {
      const step = orUnavailable(() => steps.next())
      if (step.done) return
      if (step.value !== undefined) yield step.value
    }
  }

  withoutWaiting<T>(work: () => Work<T>): T {
    return orUnavailable(() => withoutWaiting(this.database, () => this.drive(work())))
  }

  /** In the transaction that the caller is in, if any. */
  drive<T>(work: Work<T>): T {
    let next = work.next()
    while (!next.done) next = this.#answer(work, next.value)
    return next.value
  }

  /** The same for whoever does other things meanwhile: stops after `stepMs` milliseconds of statements, and at each piece. */
  *steps<T>(work: Generator<Step | string, T, StepResult>, stepMs: number): Generator<string | undefined, T> {
    let since = performance.now()
    let next = work.next()
    try {
      while (!next.done) {
        if (typeof next.value === 'string') {
          yield next.value
          next = work.next([])
        } else next = this.#answer(work, next.value)
        if (performance.now() - since < stepMs) continue
        yield undefined
        since = performance.now()
      }
    } finally {
      work.return(undefined as never)
    }
    return next.value
  }

  /** Goes on with what the database says to a statement. */
  #answer<S, T>(work: Generator<S, T, StepResult>, { statement, values, wants }: Step): IteratorResult<S, T> {
    let answer: StepResult
    try {
      const prepared = this.#prepare(statement)
      const bound = values as SQLQueryBindings[]
      if (wants === 'count') answer = Number(prepared.run(...bound).changes)
      else if (wants === 'rows') answer = prepared.all(...bound)
      else {
        const row = prepared.get(...bound)
        answer = row === null ? [] : [row]
      }
    } catch (error) {
      const isTaken = sqliteCode(error).startsWith('SQLITE_CONSTRAINT')
      return work.throw(isTaken ? new AlreadyThere('there is such a row', { cause: error }) : error)
    }
    return work.next(answer)
  }

  #prepare(statement: Statement<unknown>): Prepared<unknown, SQLQueryBindings[]> {
    const known = this.#prepared.get(statement)
    if (known) return known
    const text = statement.text
      .replaceAll(/\b(?:LIST|NUMBERS)\((\?\d*)\)/g, '(SELECT value FROM json_each($1))')
      .replaceAll(/\bFLAG\(/g, '(')
    const prepared = this.database.prepare<unknown, SQLQueryBindings[]>(text)
    this.#prepared.set(statement, prepared)
    return prepared
  }
}

/** What the ledger's queue offers to others that write the same file. */
interface Queue {
  admit<T>(run: () => T): Promise<T>
  persist<T>(run: () => T): Promise<T>
  whenDurable<T>(value: T): Awaitable<T>
}

/** Work that shares the ledger's commits, which puts it in order with the ends of calls. */
export class QueuedTables extends SqliteTables implements OrderedTables {
  readonly #queue: Queue

  constructor(database: Database, queue: Queue) {
    super(database)
    this.#queue = queue
  }

  admit<T>(work: () => Work<T>): Promise<T> {
    return this.#queue.admit(() => this.drive(work()))
  }

  async persist(_of: string, ...works: readonly (() => Work<unknown>)[]): Promise<void> {
    await Promise.all(works.map((work) => this.#queue.persist(() => this.drive(work()))))
  }

  whenDurable<T>(value: T): Awaitable<T> {
    return this.#queue.whenDurable(value)
  }
}

/** The write-ahead log of a database, for whoever makes it long. */
export function logOf(database: Database): WriteAheadLog {
  const checkpoint = database.prepare<{ log: bigint; checkpointed: bigint }, []>(
    'PRAGMA wal_checkpoint(PASSIVE)',
  )
  return {
    writeBack() {
      const { log, checkpointed } = checkpoint.get()!
      return checkpointed >= log
    },
    isBusy: (error) => error instanceof Error && isBusy(error.cause),
  }
}

// The figures of a database that monitors ask for every few seconds.

/** So many messages are counted; more are as many. */
const mostCounted = 100_000

/** What can be read in a moment, however many calls there have been: no table that grows with them is scanned. */
export function figuresOf(
  database: Database,
  path: string,
): Omit<StoreFigures, 'commandsWaiting' | 'commits' | 'syncs' | 'rowsDropped'> {
  return orUnavailable(() => ({
    openCalls: Number(one(database, 'SELECT count(*) FROM open_call')),
    heldUsd: Number(one(database, 'SELECT total(hold) FROM open_call')) / 1e12,
    webhooksWaiting: Number(
      one(
        database,
        `SELECT count(*) FROM (SELECT 1 FROM webhook_delivery WHERE state = 'waiting' LIMIT ${mostCounted})`,
      ),
    ),
    // What the log holds of it counts, too.
    databaseBytes: Number(
      one(database, 'SELECT page_count * page_size FROM pragma_page_count, pragma_page_size'),
    ),
    logBytes: statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0,
    ...diskOf(path),
  }))
}

function diskOf(path: string): Pick<StoreFigures, 'diskBytes' | 'diskFreeBytes'> {
  const { bsize, blocks, bavail } = statfsSync(dirname(path))
  return { diskBytes: blocks * bsize, diskFreeBytes: bavail * bsize }
}
