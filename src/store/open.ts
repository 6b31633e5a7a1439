// Opens a data directory. Nothing outside this folder knows that it is SQLite.

import type { Database } from 'bun:sqlite'
import { mkdirSync, readdirSync, statSync } from 'node:fs'
import { formatUsd } from '../credits/money.ts'
import { auditingFile, Reports, ReportThread } from './beside.ts'
import { defaultGroupLimits, type GroupLimits, LogSync, noDisk } from './commits/durability.ts'
import { SpillFile } from './commits/spill.ts'
import { clockMessage, defaultClockBackMs, type SpillRecord } from './ledger-core.ts'
import { LongReports } from './long-reports.ts'
import { SqlDirectory } from './sql/directory.ts'
import { SqlReports } from './sql/reports.ts'
import { SqlStatements } from './sql/statements.ts'
import { SqlRequestReader } from './sql/request-reader.ts'
import { defaultRetention, Retention } from './sql/retention.ts'
import { sqlStores } from './sql/stores.ts'
import { SqlSignatures } from './sql/work.ts'
import { bookingsOfSqlite } from './sqlite/audit/bookings.ts'
import {
  Anchors,
  anchorsBeside,
  databasePath,
  figuresOf,
  logOf,
  missingAnchor,
  openDatabase,
  openDatabaseInMemory,
  QueuedTables,
  readAnchors,
  requireWhole,
  SqliteTables,
  unusable,
} from './sqlite/database/sqlite.ts'
import { type ServeLock, takeServeLock } from './sqlite/database/serve-lock.ts'
import { callsByUpstreamId, UsageDays } from './sqlite/ledger/calls.ts'
import { register, SqliteLedger, SqliteRequestLog } from './sqlite/ledger/ledger-store.ts'
import { type DatabaseServer, type RetentionTimes, type Store, StoreOpenError } from './store.ts'
import { upgrade } from './upgrade.ts'

export { type Store, StoreOpenError } from './store.ts'

/** Another process's lock must not block the event loop longer than this; the ledger retries by itself. */
const serverBusyTimeoutMs = 50
const cutMessage =
  'the history of the ledger was cut short or replaced: restore the database, or say why with weir ledger accept'
const unwritableMessage =
  'the database cannot be written, so calls are refused; this is logged once a minute while it lasts'
const usageMessage = 'what a call used could not be added to its day; it is tried again'
/** How long a stop tries to write the rows of the request log while another process has the database locked. */
const logPatienceMs = 1_000
export const garbageMessage = 'settles.spill held something that is no end of a call; a copy was set aside'
export const refusedMessage =
  'a record of settles.spill could not be carried out, so its call is charged up to its last checkpoint; a copy of the ' +
  'file was set aside'

export interface StoreOptions {
  /** Milliseconds since 1970. */
  readonly clock: () => number
  /**
   * The name in holds (`owner`) of a process that serves calls; different for every process and start. Such a process
   * takes the lock of the data directory, the spill file, and the calls of its dead predecessors. The command line
   * leaves it out.
   */
  readonly serveAs?: string
  /** What this process is among those that serve from one data directory; only where everything is kept on a server. */
  readonly beside?: Beside | undefined
  /** Whether a call is in flight in this process: no clock ends it. None is, if left out. */
  readonly isRunning?: (call: string) => boolean
  /** Called with messages for the operator, and the names of files that were set aside. */
  readonly notice?: (message: string, facts: Readonly<Record<string, unknown>>) => void
  readonly group?: Partial<GroupLimits>
  /** Called with each anchored head of the hash chain, for the log. */
  readonly anchored?: (head: { readonly transaction: number; readonly hash: string }) => void
  /** How far the clock may be behind the ledger's time; beyond that nothing is admitted and no server starts. */
  readonly clockBackMs?: number
  readonly retention?: RetentionTimes
  /**
   * Called when the disk has failed to keep what was committed. Nothing is answered from then on, and the process has
   * to end: only one that reads the disk anew knows what is there. Left out, the error is thrown where nobody
   * catches it.
   */
  readonly lost?: (error: unknown) => void
}

/** One of several processes, whose parent has the lock of the data directory. */
export interface Beside {
  /** Which of so many it is, from 1. */
  readonly number: number
  readonly processes: number
  /** The name in holds of the process in whose place it is; that one was seen to end. */
  readonly succeeds: string | undefined
}

/** Whether a data directory has a database. Opening it creates one. Throws StoreOpenError if it cannot be looked at. */
export function hasStore(dataDir: string): boolean {
  try {
    return statSync(databasePath(dataDir), { throwIfNoEntry: false }) !== undefined
  } catch (error) {
    // A file in the place of the directory: opening it says so.
    if (error instanceof Error && 'code' in error && error.code === 'ENOTDIR') return false
    throw unusable(dataDir, error)
  }
}

/**
 * Opens or creates the store of a data directory. Rejects with StoreOpenError and a reason that the operator can act
 * on: a file of a newer version or another program, a damaged file, a directory that cannot be written or is served by
 * another process, an SQLite build that loses commits.
 */
export async function openStore(dataDir: string, options: StoreOptions): Promise<Store> {
  const lock = options.serveAs === undefined ? undefined : lockFor(dataDir, options)
  try {
    upgrade(dataDir, options, lock !== undefined)
    if (lock) requireWhole(dataDir)
    return storeOver(openDatabase(dataDir, options.clock()), dataDir, options, lock)
  } catch (error) {
    lock?.release()
    throw unusable(dataDir, error)
  }
}

/**
 * A store of the same code in the memory of this process: it touches no file, and ends when it is closed. What reads the
 * file of a store (audits, long reports) finds nothing.
 */
export function openInMemory({ clock }: Pick<StoreOptions, 'clock'>): Store {
  return storeOver(openDatabaseInMemory(clock()), undefined, { clock }, undefined)
}

/** Takes the lock of the data directory, or throws StoreOpenError with the process that holds it. */
export function lockFor(dataDir: string, { clock, notice }: StoreOptions): ServeLock & { kind: 'taken' } {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 })
    const lock = takeServeLock(dataDir, clock())
    if (lock.kind === 'held') {
      const name = lock.processId === null ? 'another process' : `process ${lock.processId}`
      throw new StoreOpenError(
        `${name} serves ${dataDir} already: stop it first, or give this one a data directory of its own`,
      )
    }
    if (lock.movedAside) notice?.('serve.lock was no lock; it was set aside', { file: lock.movedAside })
    return lock
  } catch (error) {
    throw unusable(dataDir, error)
  }
}

/** Without a data directory there is nothing beside the database. */
function storeOver(
  database: Database,
  dataDir: string | undefined,
  options: StoreOptions,
  lock: { release(): void } | undefined,
): Store {
  const { clock, serveAs, notice, clockBackMs: backMs = defaultClockBackMs } = options
  const path = dataDir === undefined ? ':memory:' : databasePath(dataDir)
  // With the lock, every earlier server is known to be dead; without it none is.
  const isDead = (owner: string) => lock !== undefined && owner !== serveAs
  const anchors =
    dataDir === undefined
      ? undefined
      : new Anchors(anchorsBeside(path), clock, (head) =>
          options.anchored?.({ transaction: head.tx, hash: head.hash.toHex() }),
        )
  const times = options.retention ?? defaultRetention
  const plain = new SqliteTables(database)
  const signatures = new SqlSignatures({ tables: plain, clock, livesMs: times.signaturesMs })
  const signatureRows = {
    write: () => plain.drive(signatures.write()),
    onCommitted: () => signatures.onWritten(),
  }
  // An empty transaction is enough: it writes the buffered rows too.
  const usage = new UsageDays(database, ({ cost, charged, ...added }, error) =>
    notice?.(usageMessage, { ...added, cost: formatUsd(cost), charged: formatUsd(charged), error }),
  )
  const requestLog = new SqliteRequestLog(database, usage, () => void ledger.group.probe(() => undefined))
  // A command of the command line waits for its own sync. So does a server where this was not proven.
  const syncs = serveAs !== undefined && process.platform === 'linux'
  const log = dataDir === undefined ? noDisk : syncs ? new LogSync(path) : undefined
  const ledger: SqliteLedger = new SqliteLedger({
    database,
    path,
    time: { clock, backMs, stepped: (behindMs) => notice?.(clockMessage, { behind_ms: behindMs }) },
    limits: { ...defaultGroupLimits, ...options.group },
    usage,
    bufferedRows: [requestLog, signatureRows],
    isDead,
    isRunning: (call) => options.isRunning?.(call) === true,
    committed: (head) => anchors?.onCommitted(head),
    log,
    lost: options.lost,
    // A command that fails says so itself.
    unwritable: serveAs === undefined ? undefined : reporter(notice),
  })

  let spill: SpillFile | undefined
  try {
    if (serveAs !== undefined && dataDir !== undefined) {
      requireClock(ledger.now() - clock(), backMs)
      register(database, serveAs, clock())
      database.run(`PRAGMA busy_timeout = ${serverBusyTimeoutMs}`)
      spill = takeOver(dataDir, ledger, options)
      const cut = missingAnchor(database, readAnchors(anchorsBeside(path)))
      if (cut === null) anchors?.allowThinning()
      else notice?.(cutMessage, { found: cut })
      anchors?.write(ledger.head())
    }
  } catch (error) {
    database.close()
    throw error
  }

  const tables = new QueuedTables(database, ledger)
  const retention = new Retention(tables, times, logOf(database))
  const thread = new ReportThread(path)
  const long = serveAs === undefined ? undefined : new LongReports(thread)
  return {
    ...sqlStores({
      tables,
      clock,
      owner: serveAs ?? '',
      isDead,
      byUpstreamId: callsByUpstreamId,
      onRotated: () => ledger.forgetKeys(),
    }),
    ledger,
    reports: new SqlReports(tables, bookingsOfSqlite),
    statements: new SqlStatements(tables, bookingsOfSqlite, long?.statement),
    requestLog,
    requests: new SqlRequestReader(tables, long?.search),
    usage: new Reports(database, long),
    directory: new SqlDirectory(tables, long?.accounts),
    signatures,
    retention,
    figures: () => ({
      ...figuresOf(database, path),
      ...ledger.group.times,
      commandsWaiting: ledger.group.waiting,
      rowsDropped: requestLog.dropped,
    }),
    auditBeside: auditingFile(path),
    path,
    leads: () => true,
    anchor: () => anchors?.write(ledger.head()),
    async close() {
      retention.close()
      thread.close()
      try {
        const until = performance.now() + logPatienceMs
        while (requestLog.waiting && ledger.group.writable && performance.now() < until) {
          requestLog.hurry()
          await ledger.group.probe(() => undefined)
        }
        if (signatures.waiting) await ledger.group.probe(() => undefined)
        await ledger.close()
        if (anchors?.behind) anchors.write(ledger.head())
      } finally {
        requestLog.close()
        spill?.close()
        log?.close()
        database.close()
        lock?.release()
      }
    },
  }
}

/** Reports a database that cannot be written: it is tried again several times a second, and reported once a minute. */
function reporter(notice: StoreOptions['notice']): (error: unknown) => void {
  let reportedAt = Number.NEGATIVE_INFINITY
  return (error) => {
    const now = performance.now()
    if (now - reportedAt < 60_000) return
    reportedAt = now
    notice?.(unwritableMessage, { error })
  }
}

/** A server whose clock is far behind would refuse all calls, or all credit of the day, so it does not start. */
export function requireClock(behindMs: number, backMs: number): void {
  if (behindMs <= backMs) return
  throw new StoreOpenError(
    `the clock of this machine is ${Math.round(behindMs / 1000)} s behind the last entry of the ledger, whose time ` +
      'never runs backwards. Set the clock right; if it is the entry that is wrong, ledger.clock_back_ms lets the ' +
      'ledger stand still for so long until the clock has caught up',
  )
}

/** Takes over from dead servers: writes the call ends that they could not. */
function takeOver(dataDir: string, ledger: SqliteLedger, { clock, notice }: StoreOptions): SpillFile {
  const spill = new SpillFile(dataDir, clock())
  const records = spill.read() as SpillRecord[]
  if (spill.movedAside) notice?.(garbageMessage, { file: spill.movedAside })
  ledger.group.spillTo(spill)
  // While the disk is full the records stay in the file, and wait in memory ahead of any recovery.
  let copy: string | undefined
  const onRefused = ({ kind, command }: SpillRecord, error: unknown) => {
    copy ??= spill.copyAside()
    notice?.(refusedMessage, { kind, call: command.call, file: copy, error })
  }
  if (records.length > 0 && ledger.replay(records, onRefused)) spill.clear()
  return spill
}

// Where a store is kept, by the configuration: in the data directory, or on a server of PostgreSQL beside which the directory
// has what is this machine's own.

const unusedMessage =
  'the database on PostgreSQL was empty, and the one in the data directory is not used: weir ledger move copies it'

interface StorePlace {
  readonly dataDir: string
  /** Left out: SQLite in the data directory. */
  readonly server?: DatabaseServer | undefined
}

/** Whether there is a store that a command could open. Throws StoreOpenError where that cannot be looked at. */
export async function hasStoreIn({ dataDir, server }: StorePlace, clock: () => number): Promise<boolean> {
  if (server === undefined) return hasStore(dataDir)
  const { factsOf } = await import('./postgres/server.ts')
  return (await factsOf(server, clock)).hasTables
}

/** Opens a store, and makes it where there is none. Throws StoreOpenError with what an operator can do. */
export async function openStoreIn({ dataDir, server }: StorePlace, options: StoreOptions): Promise<Store> {
  return server === undefined ? openStore(dataDir, options) : openOnServer(dataDir, server, options)
}

async function openOnServer(dataDir: string, server: DatabaseServer, options: StoreOptions): Promise<Store> {
  const { serveAs: owner, clock, notice, clockBackMs = defaultClockBackMs } = options
  const serves = owner !== undefined
  const lock = serves && options.beside === undefined ? lockFor(dataDir, options) : undefined
  let spills: readonly SpillFile[] = []
  const copies = new Map<SpillFile, string>()
  const leave = () => {
    for (const spill of spills) spill.close()
    lock?.release()
  }
  try {
    const { makeReady } = await import('./postgres/server.ts')
    const { isNew, ledgerTime } = await makeReady(server, { clock, serves, notice })
    if (serves) requireClock(ledgerTime - clock(), clockBackMs)
    if (isNew && hasStore(dataDir)) notice?.(unusedMessage, { data_dir: dataDir })
    const { openOnPostgres } = await import('./postgres/open.ts')
    if (serves) spills = spillsOf(dataDir, options)
    const store = await openOnPostgres(server, {
      ...options,
      owner,
      spills,
      refused: (spill, { kind, command }, error) => {
        const file = copies.get(spill) ?? spill.copyAside()
        copies.set(spill, file)
        notice?.(refusedMessage, { kind, call: command.call, file, error })
      },
      succeeds: options.beside?.succeeds,
    })
    for (const { movedAside } of spills) if (movedAside) notice?.(garbageMessage, { file: movedAside })
    return {
      ...store,
      async close() {
        try {
          await store.close()
        } finally {
          leave()
        }
      },
    }
  } catch (error) {
    leave()
    const { unusableServer } = await import('./postgres/server.ts')
    throw unusableServer(server, error)
  }
}

/**
 * Where the ends of calls go while the server is away: a file for each process of the data directory, first its own. The
 * first process takes up those of numbers that there are no more, and every one that of its predecessor.
 */
function spillsOf(dataDir: string, { beside, clock }: StoreOptions): readonly SpillFile[] {
  const { number, processes } = beside ?? { number: 1, processes: 1 }
  const left = readdirSync(dataDir)
    .map((name) => Number(/^settles\.(\d+)\.spill$/.exec(name)?.[1] ?? 0))
    .filter((other) => number === 1 && other > processes)
  const spills: SpillFile[] = []
  try {
    for (const each of [number, ...left])
      spills.push(new SpillFile(dataDir, clock(), { name: `settles.${each}.spill` }))
  } catch (error) {
    for (const spill of spills) spill.close()
    throw unusable(dataDir, error)
  }
  return spills
}
