// Whether a server of PostgreSQL can keep a ledger: what it is asked before anything is kept on it, and what an operator has
// to do where it cannot.

import { type DatabaseServer, StoreOpenError } from '../store.ts'
import { Connection, ConnectionLost, databaseNow, lookupsOnly, stateOf } from './connection.ts'
import { findTableScans } from './plans.ts'

/** The oldest that the statements are tried on. */
const oldestVersion = 15
/** Long enough for a server that has to be woken. */
const patienceMs = 10_000

export interface ServerFacts {
  /** As it writes it, such as `18.4`. */
  readonly version: string
  readonly encoding: string
  readonly encrypted: boolean
  /** It only reads, as a replica does. */
  readonly isReplica: boolean
  /** Settings under which a crash loses what was acknowledged, such as `fsync = off`. */
  readonly losing: readonly string[]
  /** Whether a commit waits for a second server. */
  readonly standby: 'synchronous' | 'named' | 'none' | 'unknown'
  /** How far its clock is ahead of this machine's, milliseconds. */
  readonly clockAheadMs: number
  /** Whether it has had any migration of ours. */
  readonly hasTables: boolean
  /** Bytes. */
  readonly size: number
}

/** The address of a server for people: without its password and without what it asks of the connection. */
export function placeOf(server: string | DatabaseServer): string {
  const { protocol, username, host, pathname } = new URL(typeof server === 'string' ? server : server.url)
  return `${protocol}//${username}@${host}${pathname}`
}

/** Asks a server what it is. Throws StoreOpenError with what to do where it cannot be asked. */
export async function factsOf(server: DatabaseServer, clock: () => number): Promise<ServerFacts> {
  return usingServer(server, async (connection) => {
    const sentAt = clock()
    const [now] = await connection.send<{ readonly now: bigint }>(`SELECT ${databaseNow} AS now`)
    const clockAheadMs = Math.round(Number(now!.now) - (sentAt + clock()) / 2)
    const [row] = await connection.send<FactsRow>(factsText)
    const { durable, standbys, names, managed, ...found } = row!
    const off = Object.entries(JSON.parse(durable) as Record<string, string>)
    return {
      version: found.version,
      encoding: found.encoding,
      encrypted: found.encrypted,
      isReplica: found.replica,
      losing: off.filter(([, value]) => value === 'off').map(([name]) => `${name} = off`),
      standby: standbyOf(managed, names, standbys),
      clockAheadMs,
      hasTables: found.tables,
      size: Number(found.size),
    }
  })
}

interface FactsRow {
  readonly version: string
  readonly encoding: string
  readonly encrypted: boolean
  readonly replica: boolean
  readonly tables: boolean
  readonly size: bigint
  readonly durable: string
  readonly names: string
  readonly managed: boolean
  /** How many wait for each commit; null where the user may not see it. */
  readonly standbys: bigint | null
}

const factsText = `SELECT current_setting('server_version') AS version, current_setting('server_encoding') AS encoding,
  coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS encrypted,
  pg_is_in_recovery() AS replica, to_regclass('migration') IS NOT NULL AS tables,
  pg_database_size(current_database()) AS size,
  json_build_object('fsync', current_setting('fsync'), 'full_page_writes', current_setting('full_page_writes'),
    'synchronous_commit', current_setting('synchronous_commit'))::text AS durable,
  current_setting('synchronous_standby_names') AS names,
  EXISTS (SELECT 1 FROM pg_settings
    WHERE split_part(name, '.', 1) IN ('rds', 'aurora', 'azure', 'neon', 'cloudsql', 'alloydb')) AS managed,
  CASE WHEN pg_has_role(current_user, 'pg_read_all_stats', 'usage')
    THEN (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')) END AS standbys`

/**
 * What would make the ledger's statements slow, and what to do; nothing where all is well. The server has its tables.
 * Throws StoreOpenError where it cannot be asked.
 */
export async function planFaultsOf(server: DatabaseServer): Promise<readonly string[]> {
  return usingServer(server, async (connection) => {
    const rows = await connection.send<{ readonly fault: string }>(faultsText)
    // Through a pooler no setting of a session holds, so the role has to have them.
    const isPooled = server.prepare === false
    const [row] = await connection.send<{ readonly seqscan: string }>(
      "SELECT current_setting('enable_seqscan') AS seqscan",
    )
    const { username } = new URL(server.url)
    const ofRole =
      isPooled && row?.seqscan !== 'off'
        ? [
            `with store.prepare: false the role needs its settings: ALTER ROLE ${username} SET enable_seqscan = off`,
          ]
        : []
    const scans = await findTableScans(connection, isPooled ? [] : lookupsOnly)
    return [...rows.map(({ fault }) => fault), ...ofRole, ...scans]
  })
}

const faultsText = `SELECT 'the index ' || indexrelid::regclass || ' is not whole: REINDEX INDEX it' AS fault FROM pg_index
    WHERE NOT indisvalid AND indrelid::regclass::text IN (SELECT tablename FROM pg_tables WHERE schemaname = current_schema())
  UNION ALL SELECT table_name || '.' || column_name || ' has another order of texts than COLLATE "C"'
    FROM information_schema.columns
    WHERE table_schema = current_schema() AND data_type = 'text' AND collation_name IS DISTINCT FROM 'C'
      AND table_name IN ('call', 'open_call', 'journal', 'lot', 'wallet', 'wallet_head', 'chain')`

/** A managed service keeps its copies out of sight of the settings. */
function standbyOf(managed: boolean, names: string, standbys: bigint | null): ServerFacts['standby'] {
  if (names === '') return managed ? 'unknown' : 'none'
  if (standbys === null) return 'unknown'
  return standbys > 0n ? 'synchronous' : 'named'
}

/** Throws StoreOpenError where a server is none that a ledger can be kept on. */
export function requireUsable(server: DatabaseServer, { version, encoding, isReplica }: ServerFacts): void {
  const place = placeOf(server)
  if (Number.parseInt(version, 10) < oldestVersion)
    throw new StoreOpenError(
      `${place} is PostgreSQL ${version}, and weir needs ${oldestVersion} or newer: upgrade the server`,
    )
  if (encoding !== 'UTF8')
    throw new StoreOpenError(
      `${place} keeps texts as ${encoding}: make a database with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`,
    )
  if (isReplica)
    throw new StoreOpenError(`${place} is a replica, which only reads: store.url has to lead to the primary`)
}

/** Runs `act` with a connection of its own. Throws StoreOpenError for whatever the server refuses. */
export async function usingServer<T>(
  server: DatabaseServer,
  act: (connection: Connection) => Promise<T>,
  deadlineMs: number = patienceMs,
): Promise<T> {
  const connection = new Connection(server, { deadlineMs })
  try {
    await connection.open()
    return await act(connection)
  } catch (error) {
    throw unusableServer(server, error)
  } finally {
    await connection.close()
  }
}

/** What a server answered, or that it did not, in words for an operator. What is no fault of a server stays as it is. */
export function unusableServer(server: DatabaseServer, error: unknown): unknown {
  if (error instanceof StoreOpenError) return error
  const cause = error instanceof ConnectionLost && error.cause !== undefined ? error.cause : error
  const state = stateOf(cause)
  if (!(error instanceof ConnectionLost) && state === '') return error
  const place = placeOf(server)
  const said = cause instanceof Error ? cause.message : String(cause)
  const advice = adviceFor(state, codeOf(cause), server)
  return new StoreOpenError(`${place} ${advice ?? `cannot be used: ${said}`}`, error)
}

function adviceFor(state: string, code: string, { url }: DatabaseServer): string | undefined {
  const { pathname, username } = new URL(url)
  const database = decodeURIComponent(pathname.slice(1))
  switch (state) {
    case '28P01':
    case '28000':
      return 'refuses the user or the password: see store.url and store.password, and pg_hba.conf of the server'
    case '3D000':
      return `has no database ${JSON.stringify(database)}: make it with CREATE DATABASE ${database} OWNER ${username} ENCODING 'UTF8' TEMPLATE template0`
    case '42501':
      return `does not let ${username} make tables: make it the owner with ALTER DATABASE ${database} OWNER TO ${username}`
    case '53300':
      return 'has no connection left: raise max_connections, or take a pooler (store.prepare: false)'
    case '57P03':
      return 'is starting or stopping: try again in a moment'
    case '25006':
      return 'only reads, as a replica does: store.url has to lead to the primary'
  }
  if (code === 'ERR_POSTGRES_TLS_NOT_AVAILABLE')
    return 'has no TLS: set ssl = on there, or say sslmode=disable in store.url where the network is your own'
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return 'shows a certificate for another name: connect by a name that it is for, or with sslmode=verify-ca'
  if (/CERT|SIGNATURE|ISSUER/.test(code))
    return `shows a certificate that is not trusted (${code}): name the authority that has signed it in store.ca`
  if (/^ERR_POSTGRES_(CONNECTION|AUTHENTICATION)|^E[A-Z]+$|^FailedToOpenSocket$/.test(code))
    return 'cannot be reached: is it running, and do the host and the port in store.url lead there?'
  return undefined
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}
