// Opens a data directory: the one door to everything that is kept. Nothing else knows that it is SQLite.

import { existsSync } from 'node:fs'
import type { AccountStore } from '../accounts/account.ts'
import type { LedgerBooks } from '../credits/books.ts'
import type { IdempotencyStore } from '../credits/idempotency.ts'
import type { LedgerStore, LedgerUpkeep } from '../credits/ledger.ts'
import type { RequestReader } from '../observe/request-log.ts'
import type { ResponseStore } from '../responses/response-store.ts'
import { SqliteAccounts } from './sqlite/account-store.ts'
import { SqliteBooks } from './sqlite/books.ts'
import { databasePath, openDatabase, unusable } from './sqlite/connection.ts'
import { defaultGroupLimits, type GroupLimits } from './sqlite/group-commit.ts'
import { SqliteIdempotency } from './sqlite/idempotency.ts'
import { SqliteLedger, type SpillRecord } from './sqlite/ledger-store.ts'
import { SqliteRequestLog } from './sqlite/request-log.ts'
import { SqliteRequestReader } from './sqlite/request-reader.ts'
import { SqliteResponses } from './sqlite/response-store.ts'
import { SqliteSignatures } from './sqlite/signature-memory.ts'
import { SpillFile } from './sqlite/spill.ts'
import { Succession } from './sqlite/succession.ts'

export { StoreOpenError } from './sqlite/connection.ts'

/** A lock that another process holds must not stop the event loop for longer than this; the ledger retries by itself. */
const serverBusyTimeoutMs = 50

export interface StoreOptions {
  /** Milliseconds since 1970. */
  readonly clock: () => number
  /**
   * Given by a process that runs calls: its name in holds (`owner`), different for every process and start. It gets
   * the spill file, and the calls of its dead predecessors. The command line leaves it out.
   */
  readonly serveAs?: string
  readonly group?: Partial<GroupLimits>
}

export interface Store {
  readonly ledger: LedgerStore & LedgerUpkeep
  readonly accounts: AccountStore
  readonly books: LedgerBooks
  readonly idempotency: IdempotencyStore
  readonly responses: ResponseStore
  readonly requestLog: SqliteRequestLog
  readonly requests: RequestReader
  readonly signatures: SqliteSignatures
  readonly path: string
  /** False while another process serves the same data directory. */
  alone(): boolean
  /** Writes what is waiting and closes the file. */
  close(): Promise<void>
}

/** Whether a data directory has a database; one that has none gets it when it is opened. */
export function hasStore(dataDir: string): boolean {
  return existsSync(databasePath(dataDir))
}

/**
 * Opens or creates the store of a data directory. Throws StoreOpenError with a reason that an operator can act on:
 * a file of a newer version or of another program, a directory that cannot be written, a SQLite that loses commits.
 */
export function openStore(dataDir: string, options: StoreOptions): Store {
  const { clock, serveAs } = options
  const database = openDatabase(dataDir, clock())
  const path = databasePath(dataDir)
  if (serveAs !== undefined) database.run(`PRAGMA busy_timeout = ${serverBusyTimeoutMs}`)
  const succession = serveAs === undefined ? undefined : new Succession(database, dataDir, serveAs)
  const signatures = new SqliteSignatures(database, clock)
  // An empty transaction is enough: it takes the buffered rows along.
  const requestLog = new SqliteRequestLog(database, () => ledger.group.probe(() => undefined))
  const ledger: SqliteLedger = new SqliteLedger({
    database,
    path,
    clock,
    limits: { ...defaultGroupLimits, ...options.group },
    riders: [requestLog, signatures],
    deadOwners: () => {
      succeed()
      return succession?.deadOwners() ?? new Set()
    },
  })

  let spill: SpillFile | undefined
  /** Takes over from servers that are gone: the ends of calls they could not write are written now. */
  function succeed(): void {
    if (!succession || spill || !succession.claim()) return
    succession.register(clock())
    spill = new SpillFile(dataDir)
    const records = spill.read() as SpillRecord[]
    ledger.group.spillTo(spill)
    if (records.length === 0) return
    // When the disk is still full the records stay in the file, and wait in memory ahead of any recovery.
    if (ledger.replay(records)) spill.clear()
  }
  try {
    succeed()
  } catch (error) {
    succession?.close()
    database.close()
    throw unusable(dataDir, error)
  }

  return {
    ledger,
    accounts: new SqliteAccounts(database, clock, () => ledger.forgetKeys()),
    books: new SqliteBooks(path),
    idempotency: new SqliteIdempotency({
      database,
      group: ledger,
      clock,
      owner: serveAs ?? '',
      // Asked inside a transaction, where the dead cannot be succeeded: the ledger has done that at start.
      deadOwners: () => succession?.deadOwners() ?? new Set(),
    }),
    responses: new SqliteResponses(database, ledger, clock),
    requestLog,
    requests: new SqliteRequestReader(database),
    signatures,
    path,
    alone: () => succession?.alone ?? true,
    async close() {
      try {
        while (requestLog.waiting && ledger.group.writable) ledger.group.probe(() => undefined)
        if (signatures.waiting) ledger.group.probe(() => undefined)
        await ledger.close()
      } finally {
        requestLog.close()
        spill?.close()
        succession?.close()
        database.close()
      }
    },
  }
}
