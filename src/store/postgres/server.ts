// Whether a server of PostgreSQL can keep a ledger: what it is asked before anything is kept on it, and what an operator has
// to do where it cannot.

import { migrations } from '../../../drizzle/postgres/migrations.ts'
import { version } from '../../version.ts'
import { type DatabaseServer, StoreOpenError } from '../store.ts'
import { Connection, ConnectionLost, databaseNow, lookupsOnly, stateOf } from './connection.ts'
import { textOfAll } from './group.ts'
import { lockBudgets, lockWallets } from './transactions.ts'
import { budgetsText, correctionsText, keysText, lotsText, sourcesText, walletsText } from './wallets.ts'

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

// Whether the database looks up the rows that the ledger asks for: a plan that reads a large table whole makes every call
// wait, and says so only here.

/** What is no larger is read in no time, bytes. */
const smallSize = 1024 * 1024

const loads = [walletsText, keysText, budgetsText, sourcesText, correctionsText, lotsText]

/**
 * What an operator has to do about tables that the ledger's statements read whole, by plans for any values, as the ledger
 * has them; nothing where there are none. `settings` are those of its session; none where the role has to have them.
 */
export async function findTableScans(
  connection: Connection,
  settings: readonly string[],
): Promise<readonly string[]> {
  const found = new Set<string>()
  const generic = 'plan_cache_mode = force_generic_plan'
  await connection.run(['BEGIN', ...[...settings, generic].map((each) => `SET LOCAL ${each}`)].join('; '))
  try {
    for (const text of [...loads, lockWallets, lockBudgets, textOfAll()])
      for (const table of await tablesReadWhole(connection, text)) found.add(table)
  } finally {
    await connection.run('ROLLBACK')
  }
  if (found.size === 0) return []
  const large = await connection.send<{
    readonly name: string
    readonly size: bigint
    readonly vacuum: string
  }>(
    `SELECT relname AS name, pg_relation_size(oid) AS size, current_setting('autovacuum') AS vacuum FROM pg_class
     WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace AND pg_relation_size(oid) > $1
       AND relname IN (SELECT value FROM json_array_elements_text($2::text::json)) ORDER BY relname`,
    [BigInt(smallSize), JSON.stringify([...found])],
  )
  return large.map(({ name, size, vacuum }) => {
    const always = vacuum === 'off' ? ', and set autovacuum = on' : ''
    return `the ledger would read all of ${name} (${Math.ceil(Number(size) / smallSize)} MB) for every call: ANALYZE ${name}${always}`
  })
}

/** A node of a plan as EXPLAIN writes it. */
interface Node {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Cond'?: string
  readonly Plans?: readonly Node[]
}

async function tablesReadWhole(connection: Connection, text: string): Promise<readonly string[]> {
  const places = new Set(text.match(/\$\d+/g))
  await connection.run(`PREPARE asked AS ${text}`)
  // The number of values decides nothing: a generic plan is made for any.
  const values = [...places].map(() => 'NULL').join(', ')
  const [row] = await connection.send<{ readonly 'QUERY PLAN': string | readonly { readonly Plan: Node }[] }>(
    `EXPLAIN (FORMAT JSON) EXECUTE asked(${values})`,
  )
  await connection.run('DEALLOCATE asked')
  const said = row!['QUERY PLAN']
  const [plan] = typeof said === 'string' ? (JSON.parse(said) as readonly { readonly Plan: Node }[]) : said
  return readWholeIn(plan!.Plan)
}

/** Also by an index in its order, when nothing is looked up in it. */
function readWholeIn(node: Node): readonly string[] {
  const below = (node.Plans ?? []).flatMap(readWholeIn)
  const table = node['Relation Name']
  const isScan = /^(Seq|Index|Index Only) Scan$/.test(node['Node Type'])
  return isScan && table !== undefined && node['Index Cond'] === undefined ? [table, ...below] : below
}

// Brings a PostgreSQL database to the schema of this program, while gateways of the version before go on: one version adds
// to the tables what it needs, and only the next one takes away what nobody uses any more.

/** Names the lock under which one process migrates; any number that nobody else uses. */
const lockName = 0x57656972

/** An index over a large table takes its time. */
const deadlineMs = 3_600_000

const tableInUse = '55P03'
const mostTries = 120

/** Milliseconds: how long a change of a table waits for whoever uses it, since all that come after it wait as well; and until the next try. */
export interface LockTimes {
  readonly waitMs: number
  readonly retryMs: number
}

const usualTimes: LockTimes = { waitMs: 2_000, retryMs: 1_000 }

/** By their names: how many migrations the oldest program has to know that can go on after one. Those that only add are not here. */
const needsOfAll: Needs = {
  // An older program would count calls in their month and not in its days, and an audit would find that.
  '0016_cost_of_days': 17,
  // An older program would grant the credit of a paid plan as purchased credit.
  '0018_plans': 19,
  // An older program cannot write the months, nor tell the others what a group's call did to the limit of its key.
  '0020_usage_month_of_models': 21,
}

type Needs = Readonly<Record<string, number>>

/** The migrations that a program knows, in order. */
export interface Program {
  readonly migrations: typeof migrations
  readonly needs: Needs
}

const thisProgram: Program = { migrations, needs: needsOfAll }

interface MigrateOptions extends Pick<ReadyOptions, 'notice'> {
  readonly program?: Program
  readonly times?: LockTimes
}

interface Missing {
  readonly missing: typeof migrations
  /** The newest migration that this program does not know, which it can live with. */
  readonly newer: string | undefined
}

/** The migrations that a database has not had. Throws StoreOpenError where it has had one that this program cannot live with. */
async function missingOf(connection: Connection, { migrations: known }: Program): Promise<Missing> {
  // The column is missing in databases of the first versions.
  const had = await connection.send<{ readonly name: string; readonly oldest: string | null }>(
    "SELECT name, to_jsonb(migration) ->> 'oldest_program' AS oldest FROM migration ORDER BY name",
  )
  const names = new Set(known.map(({ name }) => name))
  const tooNew = had.find(({ oldest }) => Number(oldest ?? 0) > known.length)
  if (tooNew)
    throw new StoreOpenError(
      `a newer version of weir has changed this database (${tooNew.name}), and this one (${version}) cannot work with it: run that version or a newer one`,
    )
  const applied = new Set(had.map(({ name }) => name))
  return {
    missing: known.filter(({ name }) => !applied.has(name)),
    newer: had.findLast(({ name }) => !names.has(name))?.name,
  }
}

/**
 * Applies the migrations that the database has not had, all or none. Of processes that begin together one applies them
 * and the others wait. Throws StoreOpenError for a database that a newer program has made its own, and while gateways run
 * that could not go on.
 */
export async function migrate(
  server: string | DatabaseServer,
  now: number,
  { program = thisProgram, notice, times = usualTimes }: MigrateOptions = {},
): Promise<void> {
  const connection = new Connection(server, { deadlineMs })
  try {
    await connection.open()
    for (let tries = 1; !(await isMigrated(connection, { server, now, program, times })); tries++) {
      if (tries === mostTries)
        throw new StoreOpenError(
          `the tables of ${placeOf(server)} are in use for too long to be changed: see pg_stat_activity for who holds them`,
        )
      notice?.('a table is in use and could not be changed; it is tried again', { tries })
      await Bun.sleep(times.retryMs)
    }
  } finally {
    await connection.close()
  }
}

interface Place {
  readonly server: string | DatabaseServer
  /** Milliseconds since 1970. */
  readonly now: number
}

/** False where a table was in use for too long. */
async function isMigrated(
  connection: Connection,
  { server, now, program, times }: Required<Omit<MigrateOptions, 'notice'>> & Place,
): Promise<boolean> {
  await connection.run(`BEGIN; SELECT pg_advisory_xact_lock(${lockName});
    CREATE TABLE IF NOT EXISTS migration
      (name text COLLATE "C" PRIMARY KEY, applied_at bigint NOT NULL, oldest_program bigint NOT NULL DEFAULT 0)`)
  try {
    const { missing } = await missingOf(connection, program)
    if (missing.length > 0) await connection.run(`SET LOCAL lock_timeout = ${times.waitMs}`)
    for (const { name, sql } of missing) {
      const oldest = program.needs[name] ?? 0
      if (oldest > 0) await requireNobodyOlder(connection, server, oldest)
      await connection.run(sql)
      await connection.run(
        'ALTER TABLE migration ADD COLUMN IF NOT EXISTS oldest_program bigint NOT NULL DEFAULT 0',
      )
      await connection.send('INSERT INTO migration (name, applied_at, oldest_program) VALUES ($1, $2, $3)', [
        name,
        BigInt(now),
        BigInt(oldest),
      ])
    }
    await connection.run('COMMIT')
    return true
  } catch (error) {
    if (stateOf(error) !== tableInUse) throw error
    await connection.run('ROLLBACK')
    return false
  }
}

/** Throws StoreOpenError while a gateway lives whose program knows fewer migrations than that. */
async function requireNobodyOlder(
  connection: Connection,
  server: string | DatabaseServer,
  oldest: number,
): Promise<void> {
  const [other] = await connection.send<{ readonly owner: string; readonly program: string }>(
    `SELECT owner, program FROM chain WHERE heartbeat_until >= ${databaseNow} AND migrations < $1
       AND NOT starts_with(owner, 'over:') AND NOT starts_with(owner, 'cli ') LIMIT 1`,
    [BigInt(oldest)],
  )
  if (other)
    throw new StoreOpenError(
      `${placeOf(server)} is served by ${other.owner}, whose version (${other.program || 'an early one'}) cannot go on with the tables of this one (${version}): stop it first, or update it to the version before this one`,
    )
}

export interface ReadyOptions {
  /** Milliseconds since 1970. */
  readonly clock: () => number
  /** Whether the process serves: it may change the tables of an older version, and says what is not as it should be. */
  readonly serves: boolean
  readonly notice?: ((message: string, facts: Readonly<Record<string, unknown>>) => void) | undefined
}

/** How far clocks may differ before it is said, milliseconds. */
const clocksApartMs = 1_000

/**
 * Makes a server ready for a process: looks whether it can keep a ledger, and makes or changes the tables. Gives the
 * ledger's time, milliseconds since 1970, and whether there were no tables. Throws StoreOpenError with what an operator has to do.
 */
export async function makeReady(
  server: DatabaseServer,
  { clock, serves, notice }: ReadyOptions,
): Promise<{ readonly ledgerTime: number; readonly isNew: boolean }> {
  const facts = await factsOf(server, clock)
  requireUsable(server, facts)
  if (serves) {
    for (const setting of facts.losing)
      notice?.('a crash of the database server would lose what was acknowledged', { setting })
    if (Math.abs(facts.clockAheadMs) > clocksApartMs)
      notice?.('the clocks of this machine and of the database server differ', {
        database_ahead_ms: facts.clockAheadMs,
      })
  }
  if (serves || !facts.hasTables) await usingServer(server, () => migrate(server, clock(), { notice }))
  return usingServer(server, async (connection) => {
    const { missing, newer } = await missingOf(connection, thisProgram)
    if (newer !== undefined && serves)
      notice?.('a newer version of weir has changed the database, which this one can still work with', {
        newer,
      })
    if (missing.length > 0)
      throw new StoreOpenError(
        `${placeOf(server)} has the tables of an older version: start weir serve of this version first, which changes them`,
      )
    const [row] = await connection.send<{ readonly at: bigint }>(
      'SELECT coalesce(max(at), 0) AS at FROM chain',
    )
    return { ledgerTime: Number(row!.at), isNew: !facts.hasTables }
  })
}
