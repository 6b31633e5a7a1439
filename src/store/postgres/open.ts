// Everything that is kept on PostgreSQL.

import { defaultGroupLimits, type GroupLimits } from '../commits/durability.ts'
import { oneAtATime } from '../audits.ts'
import { GatewayError } from '../../errors/errors.ts'
import { LongReports, type LongWork } from '../long-reports.ts'
import type { SpillFile } from '../commits/spill.ts'
import { clockMessage, defaultClockBackMs, type SpillRecord } from '../ledger-core.ts'
import { SqlAccounts } from '../sql/account-store.ts'
import { SqlIdentities } from '../sql/identity-store.ts'
import { pageOf, SqlDirectory } from '../sql/directory.ts'
import { SqlBackground } from '../sql/background.ts'
import { SqlItemConversations } from '../sql/item-conversations.ts'
import { SqlResponses } from '../sql/response-store.ts'
import { defaultRetention, DeletedContents, Retention } from '../sql/retention.ts'
import { SqlIdempotency } from '../sql/idempotency.ts'
import { SqlReports } from '../sql/reports.ts'
import { SqlProvisioning } from '../sql/records.ts'
import { sqlStores } from '../sql/stores.ts'
import { SqlStatements, sumsOf } from '../sql/statements.ts'
import type { DatabaseServer, RetentionTimes, Store } from '../store.ts'
import { bookingsOfPostgres } from './bookings.ts'
import { PostgresCatalogs } from './catalogs.ts'
import { addressOf, ledgerDeadlineMs } from './connection.ts'
import { Listener } from './listener.ts'
import { Soon, SqlSignatures } from '../sql/work.ts'
import { PostgresGateways } from './gateways.ts'
import { PostgresLimits } from './limits.ts'
import { SqlFinder } from '../sql/search.ts'
import { requestPage, SqlRequestReader } from '../sql/request-reader.ts'
import { SqlUsage, usageCsv, usageReport } from '../sql/usage-reports.ts'
import { callsByUpstreamId, PostgresLedger } from './ledger.ts'
import { hasEnded, Peers, type PeersParts } from './peers.ts'
import { placeOf } from './server.ts'
import { figuresOf, PostgresRecentCalls } from './figures.ts'
import { PostgresRequestLog } from './request-log.ts'
import { PostgresTables } from './tables.ts'

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
  const here = { clock, owner, isDead: (name: string) => tables.do(() => hasEnded(name)) }
  const responses = new SqlResponses(tables, clock, sumsTrustedMs)
  const background = new SqlBackground(tables, here)
  const itemConversations = new SqlItemConversations(tables, clock)
  const retention = new Retention(tables, options.retention ?? defaultRetention)
  const whenAccountsChange: (() => void)[] = []
  const accounts = new SqlAccounts(tables, clock, {
    // The figures of a key are loaded with those of its line, and replace what memory has of the others.
    onRotated: () => undefined,
    onChanged: () => {
      for (const act of whenAccountsChange) act()
    },
  })
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
    ...sqlStores(tables),
    provisioning: new SqlProvisioning(tables, here, (id) => accounts.forgetAccount(id)),
    ledger,
    accounts,
    groups: accounts.groups,
    identities: new SqlIdentities(tables, (session) => accounts.forget(session)),
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
    idempotency: new SqlIdempotency(tables, here),
    responses,
    background,
    itemConversations,
    deletedContents: new DeletedContents(tables, [background, itemConversations, responses]),
    retention,
    limits: new PostgresLimits(tables, owner),
    catalogs: new PostgresCatalogs(tables),
    gateways: new PostgresGateways(tables, owner),
    recentCalls: new PostgresRecentCalls(tables),
    finder: new SqlFinder({ tables, clock, byUpstreamId: callsByUpstreamId }),
    requests: new SqlRequestReader(tables, long.search),
    usage: new SqlUsage(tables, long),
    leads: peers.leads,
    resign: peers.resign,
    auditBeside: oneAtATime((day) => (day === undefined ? ledger.audit() : ledger.auditDay(day))),
    path: placeOf(server),
    // What a server has lost is found by the processes that wrote it: the end of its chain is in the memory of each.
    anchor: () => undefined,
    whenAccountsChange: (act) => void whenAccountsChange.push(act),
    refreshAccounts: () => accounts.refresh(),
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

/** Tables for work that reads much. A statement that takes too long is given up with `overloaded`. */
export function tablesForReports(
  server: string | DatabaseServer,
  { serves, deadlineMs = serves ? servingMs : commandMs }: { serves: boolean; deadlineMs?: number },
): PostgresTables {
  const seconds = deadlineMs / 1000
  const message = `The database took longer than ${seconds} s for one step of this: ask for a shorter time or for less at once, or ask later.`
  const tooLong = () => new GatewayError('overloaded', { message })
  return new PostgresTables({ server, connections: reportConnections, deadlineMs, tooLong })
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
