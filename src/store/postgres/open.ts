// Everything that is kept on PostgreSQL.

import type { Act } from '../../accounts/identity/identity-store.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { CallTotals, RecentCalls } from '../../notify/watch.ts'
import type { StoreFigures } from '../../observe/call-log.ts'
import { oneAtATime } from '../audits.ts'
import { defaultGroupLimits, type GroupLimits } from '../commits/durability.ts'
import type { SpillFile } from '../commits/spill.ts'
import { clockMessage, defaultClockBackMs, type SpillRecord } from '../ledger-core.ts'
import { LongReports, type LongWork } from '../long-reports.ts'
import { pageOf, SqlDirectory } from '../sql/directory.ts'
import { recordAct } from '../sql/records.ts'
import { SqlReports } from '../sql/reports.ts'
import {
  type Bookings,
  entryOf,
  type EntryRow,
  selectEntries,
  SqlStatements,
  sumsOf,
  walletsOf,
} from '../sql/statements.ts'
import { requestPage, SqlRequestReader } from '../sql/request-reader.ts'
import { defaultRetention, Retention } from '../sql/retention.ts'
import { sqlStores } from '../sql/stores.ts'
import { SqlUsage, usageCsv, usageReport } from '../sql/usage-reports.ts'
import { Soon, sql, SqlSignatures, type Tables } from '../sql/work.ts'
import type { DatabaseServer, ImportedCatalog, ImportedCatalogs, RetentionTimes, Store } from '../store.ts'
import { addressOf, ledgerDeadlineMs } from './connection.ts'
import { hasEnded, Peers, type PeersParts, PostgresGateways, PostgresLimits } from './peers.ts'
import { callsByUpstreamId, PostgresLedger } from './ledger.ts'
import { Listener, PostgresTables } from './tables.ts'
import { PostgresRequestLog } from './request-log.ts'
import { placeOf } from './server.ts'

// The bookings of an account in PostgreSQL, where many processes write: they are in the order of the versions that its
// wallet has had. An index has them, so that a page reads the lines of its account alone.

const order = {
  number: 'journal.version',
  charges: 'call.settle_chain = journal.chain AND call.settle_tx = journal.tx',
}

/** For each pool, whose lines have an index of their own, the lines that `where` says. */
const ofEachPool = (where: string) => `LIST(?1) AS wallets CROSS JOIN LATERAL (
    SELECT * FROM journal WHERE journal.account = wallets.value AND ${where}) AS journal`

const findFrom = sql<{ readonly number: bigint; readonly at: bigint }>(
  `SELECT journal.version AS number, journal.at FROM ${ofEachPool('version >= ?2 ORDER BY version LIMIT 1')}
   ORDER BY journal.version LIMIT 1`,
)
const findEntries = sql<EntryRow>(
  `${selectEntries(order, ofEachPool('version > ?2 AND version <= ?3 ORDER BY version DESC FETCH FIRST (?4) ROWS WITH TIES'))}
   ORDER BY journal.version DESC, journal.tx DESC, journal.leg DESC`,
)

export const bookingsOfPostgres: Bookings = {
  ...order,
  lines: ofEachPool('version > ?2 AND version <= ?3'),
  summedAtOnce: Number.MAX_SAFE_INTEGER,
  last: 'SELECT version FROM wallet_head WHERE wallet_head.account = wallet.account',
  from: (account, number) => findFrom.first(walletsOf(account), number),
  *step(account, top, end, wanted) {
    const entries = (yield* findEntries.all(walletsOf(account), end, top, wanted)).map(entryOf)
    // Below the last line of a pool of which not all lines came, others of that pool may be missing.
    const count = new Map<string, number>()
    for (const { pool } of entries) count.set(pool, (count.get(pool) ?? 0) + 1)
    const cutOff = entries.filter(({ pool }) => count.get(pool)! >= wanted)
    if (cutOff.length === 0) return { entries, bottom: end }
    const lowest = new Map(cutOff.map(({ pool, tx }) => [pool, tx]))
    const floor = Math.max(...lowest.values())
    return { entries: entries.filter(({ tx }) => tx >= floor), bottom: floor - 1 }
  },
}

// The catalog that operators have imported, for all gateways of a database.

/** Files that are kept: each has some hundred kilobytes. */
const mostKept = 10

export class PostgresCatalogs implements ImportedCatalogs {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  async revision(): Promise<number> {
    const row = await this.#tables.do(() => catalogs.revision.first())
    return Number(row!.revision)
  }

  async latest(): Promise<ImportedCatalog> {
    const row = await this.#tables.do(() => catalogs.latest.first())
    return row ? { revision: Number(row.revision), file: row.file } : { revision: 0, file: null }
  }

  async append(file: string | null, act: Act): Promise<number> {
    return this.#tables.together(function* () {
      const revision = Number((yield* catalogs.revision.first())!.revision) + 1
      yield* catalogs.insert.run(revision, act.at, file)
      yield* catalogs.forget.run(revision - mostKept)
      yield* recordAct(act)
      return revision
    })
  }
}

const catalogs = {
  revision: sql<{ revision: bigint }>('SELECT coalesce(max(revision), 0) AS revision FROM imported_catalog'),
  latest: sql<{ revision: bigint; file: string | null }>(
    'SELECT revision, file FROM imported_catalog ORDER BY revision DESC LIMIT 1',
  ),
  insert: sql('INSERT INTO imported_catalog (revision, at, file) VALUES (?,?,?)'),
  forget: sql('DELETE FROM imported_catalog WHERE revision <= ?'),
}

// The figures of a database that monitors ask for every few seconds, and what has ended at its gateways a moment ago.

/** So many messages are counted; more are as many. */
const mostCounted = 100_000

const figures = sql<{
  readonly calls: bigint
  readonly held: number
  readonly waiting: bigint
  readonly bytes: bigint
}>(
  `SELECT open.calls, open.held, messages.waiting, pg_database_size(current_database()) AS bytes
   FROM (SELECT count(*) AS calls, coalesce(sum(hold::double precision), 0) AS held FROM open_call) AS open,
     (SELECT count(*) AS waiting FROM
       (SELECT 1 FROM webhook_delivery WHERE state = 'waiting' LIMIT ${mostCounted}) AS counted) AS messages`,
)

type Read = Omit<StoreFigures, 'commandsWaiting' | 'commits' | 'syncs' | 'rowsDropped'>

/** What can be read in a moment, however many calls there have been. The disk and the log are the server's: they are 0 here. */
export async function figuresOf(tables: Tables): Promise<Read> {
  const { calls, held, waiting, bytes } = (await tables.do(() => figures.first()))!
  return {
    openCalls: Number(calls),
    heldUsd: held / 1e12,
    webhooksWaiting: Number(waiting),
    databaseBytes: Number(bytes),
    logBytes: 0,
    diskBytes: 0,
    diskFreeBytes: 0,
  }
}

/** So many accounts are told of. */
const mostSpenders = 10_000

const recent = {
  totals: sql<{ readonly refusal: string | null; readonly calls: bigint; readonly cost: number }>(
    `SELECT CASE WHEN provider IS NULL AND status < 500 THEN code END AS refusal, count(*) AS calls,
       coalesce(sum(cost::double precision), 0) AS cost FROM request_log WHERE at >= ? AND at < ? GROUP BY 1`,
  ),
  spenders: sql<{ readonly account: string }>(
    `SELECT DISTINCT account FROM request_log WHERE at >= ? AND cost > 0 LIMIT ${mostSpenders}`,
  ),
  refusedKeys: sql<{ readonly key: string; readonly at: bigint }>(
    `SELECT key, max(at) AS at FROM request_log WHERE at >= ? AND code = 'key_limit_exceeded' AND key IS NOT NULL
     GROUP BY key`,
  ),
}

/** By the request log, which every gateway writes: refusals that leave no row are not counted. */
export class PostgresRecentCalls implements RecentCalls {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  async totals(from: number, until: number): Promise<CallTotals> {
    const rows = await this.#tables.do(() => recent.totals.all(from, until))
    return {
      costUsd: rows.reduce((sum, { cost }) => sum + cost, 0) / 1e12,
      refusals: new Map(
        rows.flatMap(({ refusal, calls }) => (refusal === null ? [] : [[refusal, Number(calls)] as const])),
      ),
    }
  }

  async spenders(since: number): Promise<ReadonlySet<string>> {
    const rows = await this.#tables.do(() => recent.spenders.all(since))
    return new Set(rows.map(({ account }) => account))
  }

  async refusedKeys(since: number): Promise<ReadonlyMap<string, number>> {
    const rows = await this.#tables.do(() => recent.refusedKeys.all(since))
    return new Map(rows.map(({ key, at }) => [key, Number(at)]))
  }
}

export interface PostgresOptions {
  /** Milliseconds since 1970. */
  readonly clock: () => number
  /** The name in holds of this process, used once. */
  readonly owner?: string
  /** Where ends of calls wait while the server is away, first of this process; the others are of dead ones. */
  readonly spills?: readonly SpillFile[]
  /** Called with what a spill file has and cannot be carried out. */
  readonly refused?: (spill: SpillFile, record: SpillRecord, error: unknown) => void
  /** The name of a process that was seen to end: nobody waits until it has shown no sign of life for long enough. */
  readonly succeeds?: string | undefined
  /** Whether a call is in flight in this process. None is, if left out. */
  readonly isRunning?: (call: string) => boolean
  readonly group?: Partial<GroupLimits>
  /** Called with messages for the operator. */
  readonly notice?: (message: string, facts: Readonly<Record<string, unknown>>) => void
  /** How far the clock may be behind the ledger's time. */
  readonly clockBackMs?: number
  /** Called when what was acknowledged is not there any more, or another process has taken over: this one has to end. */
  readonly lost?: (error: unknown) => void
  readonly retention?: RetentionTimes
  /** Of the signs of life of this process. */
  readonly peers?: PeersParts['times']
}

/** How long it is believed how much an account has stored, while others store for it, milliseconds. */
const sumsTrustedMs = 60_000

/** Connects to a database that has the tables of this program (migrate). Throws ConnectionLost where it cannot be reached. */
export async function openOnPostgres(
  server: string | DatabaseServer,
  options: PostgresOptions,
): Promise<Store> {
  const { clock, owner = `cli ${crypto.randomUUID()}`, group, clockBackMs = defaultClockBackMs } = options
  const serves = options.owner !== undefined
  const tables = new PostgresTables({ server })
  const giveUp = async (error: unknown): Promise<never> => {
    await tables.close()
    throw error
  }
  await tables.open().catch(giveUp)
  const ofReports = tablesForReports(server, { serves })
  const long = new LongReports(longWork(ofReports))
  const peers = new Peers({
    server,
    owner,
    serves,
    isRunning: (call) => options.isRunning?.(call) === true,
    lost: options.lost,
    times: options.peers,
  })
  const ledger = await PostgresLedger.open({
    server,
    owner,
    time: {
      clock,
      backMs: clockBackMs,
      stepped: (behindMs) => options.notice?.(clockMessage, { behind_ms: behindMs }),
    },
    limits: { ...defaultGroupLimits, ...group },
    deadlineMs: ledgerDeadlineMs,
    isDead: peers.isDead,
    isRunning: peers.isRunning,
    lookFor: peers.lookFor,
    // Most commands only read: each would leave a row for ever.
    ...(serves ? {} : { chain: 'with-first-write' }),
    onBegun: () => peers.open(),
    lost: options.lost,
    before: () => tables.ordered,
  }).catch(giveUp)
  // Before its calls are ended: what they have cost is known.
  await ledger.takeOver(options.spills ?? [], options.refused ?? (() => undefined))
  if (options.succeeds !== undefined) await peers.bury(options.succeeds)
  // A command ends before it has heard anything, and through a pooler nothing is heard.
  const hears = serves && addressOf(server).prepare
  const listener = hears ? listenTo(server, tables, peers) : undefined
  const retention = new Retention(tables, options.retention ?? defaultRetention)
  const requestLog = new PostgresRequestLog(tables)
  const { signaturesMs: livesMs } = options.retention ?? defaultRetention
  const soon = new Soon(() => keepSignatures())
  const signatures = new SqlSignatures({ tables, clock, livesMs, onWaiting: () => soon.ask() })
  const keepSignatures = async () => {
    try {
      await tables.do(() => signatures.write())
      signatures.onWritten()
    } catch {
      // They wait for the next one.
    }
  }
  return {
    ...sqlStores({
      tables,
      clock,
      owner,
      isDead: (name) => tables.do(() => hasEnded(name)),
      byUpstreamId: callsByUpstreamId,
      // The figures of a key are loaded with those of its line, and replace what memory has of the others.
      onRotated: () => undefined,
      sumsTrustedMs,
    }),
    ledger,
    directory: new SqlDirectory(tables, long.accounts),
    requestLog,
    signatures,
    figures: async () => ({
      ...(await figuresOf(tables)),
      ...ledger.commits,
      rowsDropped: requestLog.dropped,
    }),
    reports: new SqlReports(ofReports, bookingsOfPostgres),
    statements: new SqlStatements(tables, bookingsOfPostgres, long.statement),
    retention,
    limits: new PostgresLimits(tables, owner),
    catalogs: new PostgresCatalogs(tables),
    gateways: new PostgresGateways(tables, owner),
    recentCalls: new PostgresRecentCalls(tables),
    requests: new SqlRequestReader(tables, long.search),
    usage: new SqlUsage(tables, long),
    leads: peers.leads,
    resign: peers.resign,
    auditBeside: oneAtATime((day) => (day === undefined ? ledger.audit() : ledger.auditDay(day))),
    path: placeOf(server),
    // What a server has lost is found by the processes that wrote it: the end of its chain is in the memory of each.
    anchor: () => undefined,
    async close() {
      retention.close()
      try {
        await listener?.close()
        await Promise.all([requestLog.close(), soon.now()])
        await Promise.all([tables.close(), ofReports.close()])
        await ledger.close()
      } finally {
        await peers.close()
      }
    },
  }
}

function listenTo(server: string | DatabaseServer, tables: PostgresTables, peers: Peers): Listener {
  const listener = new Listener({ server, onChange: (row) => tables.noteChange(row), say: peers.send })
  tables.trust(listener)
  listener.open()
  return listener
}

// What reads much has connections of its own: no call and no sign-in waits for one that a report has.

/** Few: many at once would only take the database's time from calls. They are opened when they are first needed. */
const reportConnections = 2
/** How long one statement of a report may take, milliseconds: while calls are served, and in a command. */
const servingMs = 30_000
const commandMs = 15 * 60_000

/**
 * A report is made by one process of the server, beside those of the calls. Compiling its statements took longer than
 * most of them, and groups by the hundred thousand are to be sorted in memory.
 */
const settingsOfReports = ['jit = off', 'max_parallel_workers_per_gather = 0', "work_mem = '32MB'"]

/** Tables for work that reads much. A statement that takes too long is given up with `overloaded`. */
export function tablesForReports(
  server: string | DatabaseServer,
  { serves, deadlineMs = serves ? servingMs : commandMs }: { serves: boolean; deadlineMs?: number },
): PostgresTables {
  const seconds = deadlineMs / 1000
  const message = `The database took longer than ${seconds} s for one step of this: ask for a shorter time or for less at once, or ask later.`
  const tooLong = () => new GatewayError('overloaded', { message })
  return new PostgresTables({
    server,
    connections: reportConnections,
    deadlineMs,
    tooLong,
    settings: settingsOfReports,
  })
}

export function longWork(tables: PostgresTables): LongWork {
  return {
    report: (query, most, signal) => tables.reads(() => usageReport(query, most), signal),
    csv: (query, signal) => tables.pieces(() => usageCsv(query), signal),
    search: (query, signal) => tables.reads(() => requestPage(query), signal),
    accounts: (query, signal) => tables.reads(() => pageOf(query), signal),
    statement: (query, signal) => tables.reads(() => sumsOf(bookingsOfPostgres, query), signal),
  }
}
