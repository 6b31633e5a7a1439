// A whole installation on SQLite is copied into an empty PostgreSQL, in one transaction or not at all. Its hash chain becomes
// a closed chain there, line by line the same; both sides are proven before the copy is committed.

import type { Database } from 'bun:sqlite'
import { genesis } from './ledger-rows.ts'
import { type DatabaseServer, StoreOpenError } from './store.ts'
import { actsBookedNote, auditOf, movedNote, settingsOfAudit } from './postgres/audit.ts'
import { type Connection, withoutNul } from './postgres/connection.ts'
import { factsOf, migrate, placeOf, requireUsable, usingServer } from './postgres/server.ts'
import { anchorsBeside, databasePath, openReader, readAnchors } from './sqlite/database/sqlite.ts'
import { actsBooked, auditOf as auditOfSqlite } from './sqlite/audit/audit.ts'
import { takeServeLock } from './sqlite/database/serve-lock.ts'
import { SpillFile } from './commits/spill.ts'
import { upgrade } from './upgrade.ts'

export interface MoveReport {
  /** The server, without its password. */
  readonly to: string
  readonly tables: number
  readonly rows: number
  readonly journalEntries: number
  /** The hash of the journal's last line, the same on both sides. */
  readonly headHash: string
}

export interface MoveOptions {
  /** Milliseconds since 1970. */
  readonly clock: () => number
  /** The text of the catalog file that was imported there. */
  readonly catalog?: string | undefined
  readonly notice?: (message: string, facts: Readonly<Record<string, unknown>>) => void
}

/** All rows of a large ledger take their time, and so does its proof. */
const deadlineMs = 6 * 3_600_000
/** What is sent at once, and in memory. */
const charactersAtOnce = 512 * 1024
/** A table with more rows gets its indices when they are there: a new tree for a few rows takes longer than the rows. */
const fewRows = 10_000
/** For the making of one index. */
const memoryOfIndex = '256MB'
/** A server that is in the middle of a statement would keep the database locked for a move that is over. Not every system can tell. */
const noticingInterruption = `DO $$ BEGIN PERFORM set_config('client_connection_check_interval', '2s', true);
  EXCEPTION WHEN OTHERS THEN NULL; END $$`
/** What processes note of themselves. */
const ofProcesses: ReadonlySet<string> = new Set([
  'migration',
  'chain',
  'leader',
  'server',
  'rate',
  'attempt_count',
])

/**
 * Moves a data directory that nobody serves to a server. Throws StoreOpenError where either side is in no state for it,
 * and where one of them does not hold: nothing is on the server then.
 */
export async function moveToPostgres(
  dataDir: string,
  server: DatabaseServer,
  options: MoveOptions,
): Promise<MoveReport> {
  const { clock } = options
  const lock = takeServeLock(dataDir, clock())
  if (lock.kind === 'held')
    throw new StoreOpenError(
      `a server has ${dataDir} open (process ${lock.processId ?? 'unknown'}): stop it first`,
    )
  try {
    requireNoSpill(dataDir, clock())
    upgrade(dataDir, options, true)
    requireUsable(server, await factsOf(server, clock))
    await migrate(server, clock())
    const from = openReader(databasePath(dataDir))
    try {
      // One state of the file, whatever a command writes meanwhile.
      from.run('BEGIN')
      const report = auditOfSqlite(from, readAnchors(anchorsBeside(databasePath(dataDir))))
      const broken = report.checks.find(({ ok }) => !ok)
      if (broken) throw new StoreOpenError(`the ledger of ${dataDir} does not hold: ${broken.name}`)
      return await usingServer(
        server,
        (to) => copy(from, to, { ...options, server, before: report }),
        deadlineMs,
      )
    } finally {
      from.close()
    }
  } finally {
    lock.release()
  }
}

/** Ends of calls that wait for a disk would be lost. */
function requireNoSpill(dataDir: string, now: number): void {
  const spill = new SpillFile(dataDir, now)
  try {
    if (spill.read().length > 0)
      throw new StoreOpenError(
        `${dataDir} has ends of calls that are not in the database yet: start weir serve on it once, and stop it`,
      )
  } finally {
    spill.close()
  }
}

interface CopyParts extends Pick<MoveOptions, 'clock' | 'catalog'> {
  readonly server: DatabaseServer
  /** What the audit of the file has found. */
  readonly before: { readonly journalEntries: number; readonly headHash: string }
}

async function copy(
  from: Database,
  to: Connection,
  { server, clock, catalog, before }: CopyParts,
): Promise<MoveReport> {
  await to.run('BEGIN; LOCK TABLE account, chain, journal IN SHARE ROW EXCLUSIVE MODE')
  const tables = await tablesOf(to)
  for (const name of tables.keys()) if (!ofProcesses.has(name)) await requireEmpty(to, name, server)
  const [chain] = await to.send<{ readonly id: bigint }>(
    `INSERT INTO chain (owner, epoch, batch, tx, head, at, heartbeat_until) VALUES ('over:sqlite', 1, 0, 0, $1, 0, 0) RETURNING id`,
    [genesis],
  )
  const closing = new ClosedChain(chain!.id, holdsOfBudgets(from))
  let rows = 0
  const names = namesIn(from)
  for (const each of [...settingsOfAudit, `maintenance_work_mem = '${memoryOfIndex}'`])
    await to.run(`SET LOCAL ${each}`)
  await to.run(noticingInterruption)
  for (const name of names) {
    const columns = tables.get(name)
    if (columns === undefined) throw new Error(`PostgreSQL has no table ${name}`)
    // What a trigger would write is copied, too.
    await to.run(`ALTER TABLE "${name}" DISABLE TRIGGER USER`)
    const copied = await copyTable(from, to, { name, columns, closing })
    await to.run(`ALTER TABLE "${name}" ENABLE TRIGGER USER`)
    const [there] = await to.send<{ readonly count: bigint }>(`SELECT count(*) AS count FROM "${name}"`)
    const stood = ofProcesses.has(name) ? copied : Number(there!.count)
    if (stood !== copied) throw new Error(`${copied} rows of ${name} were sent, and ${stood} are there`)
    rows += copied
  }
  const booked = from
    .query<{ applied_at: bigint }, [string]>('SELECT applied_at FROM migration WHERE name = ?')
    .get(actsBooked)
  await to.send("INSERT INTO upkeep (name, at, value) VALUES ($1, $2, '{}'), ($3, $4, '{}')", [
    actsBookedNote,
    booked?.applied_at ?? 0n,
    movedNote,
    BigInt(clock()),
  ])
  if (catalog !== undefined)
    await to.send('INSERT INTO imported_catalog (revision, at, file) VALUES (1, $1, $2)', [
      BigInt(clock()),
      catalog,
    ])
  await closing.finish(to)
  // Else the proof, and the first pages after it, would be planned for empty tables.
  await to.run('ANALYZE')
  const report = await auditOf(to)
  const broken = report.checks.find(({ ok }) => !ok)
  if (broken)
    throw new StoreOpenError(
      `the copy on ${placeOf(server)} does not hold, and was taken back: ${broken.name} (${broken.detail ?? ''})`,
    )
  if (report.journalEntries !== before.journalEntries || closing.headHash !== before.headHash)
    throw new StoreOpenError(`the copy on ${placeOf(server)} is not the same journal, and was taken back`)
  if (!(await to.commit())) throw new StoreOpenError(`${placeOf(server)} has not taken the copy`)
  return {
    to: placeOf(server),
    tables: names.length,
    rows,
    journalEntries: report.journalEntries,
    headHash: closing.headHash,
  }
}

async function requireEmpty(to: Connection, name: string, server: DatabaseServer): Promise<void> {
  const [row] = await to.send(`SELECT 1 FROM "${name}" LIMIT 1`)
  if (row !== undefined)
    throw new StoreOpenError(
      `${placeOf(server)} is not empty (${name}): a ledger is moved into a new database alone`,
    )
}

// The tables of both sides.

interface Column {
  readonly name: string
  readonly type: string
  readonly identity: boolean
}

/** The tables of the server, with the columns that are written. */
async function tablesOf(to: Connection): Promise<ReadonlyMap<string, readonly Column[]>> {
  const rows = await to.send<Column & { readonly table: string }>(
    `SELECT c.table_name AS table, c.column_name AS name, c.data_type AS type, c.is_identity = 'YES' AS identity
     FROM information_schema.columns AS c JOIN information_schema.tables AS t USING (table_schema, table_name)
     WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE' AND c.is_generated = 'NEVER'
     ORDER BY c.table_name, c.ordinal_position`,
  )
  return Map.groupBy(rows, ({ table }) => table)
}

/** The tables of the file: accounts first, since others refer to them. */
function namesIn(from: Database): readonly string[] {
  const names = from
    .query<{ name: string }, []>(
      `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'migration' ORDER BY name`,
    )
    .all()
    .map(({ name }) => name)
  return ['account', ...names.filter((name) => name !== 'account')]
}

type Cells = Record<string, unknown>

interface TableCopy {
  readonly name: string
  readonly columns: readonly Column[]
  readonly closing: ClosedChain
}

/** Copies all rows of a table, in their order. Gives how many. */
async function copyTable(
  from: Database,
  to: Connection,
  { name, columns, closing }: TableCopy,
): Promise<number> {
  const own = new Set(
    from
      .query<{ name: string }, [string]>('SELECT name FROM pragma_table_info(?)')
      .all(name)
      .map((column) => column.name),
  )
  const ofChains = columns.filter((column) => !own.has(column.name) && closing.knows(column.name))
  const written = columns.filter((column) => own.has(column.name) || ofChains.includes(column))
  const unfilled = columns.find((column) => !column.identity && !written.includes(column))
  if (unfilled) throw new Error(`nothing is known for ${name}.${unfilled.name}`)
  const list = written.map((column) => `"${column.name}"`).join(', ')
  let count = 0
  function* pieces(): Generator<string> {
    let piece = ''
    for (const row of rowsOf(from, `SELECT * FROM "${name}" ${orderOf(from, name)}`)) {
      const cells = { ...row, ...closing.columnsOf(name, row) }
      piece += `${written.map((column) => cellOf(cells[column.name])).join('\t')}\n`
      count++
      if (piece.length > charactersAtOnce) {
        yield piece
        piece = ''
      }
    }
    if (piece !== '') yield piece
  }
  const laidAside = isLarge(from, name) ? await layKeysAside(to, name) : undefined
  const frozen = laidAside?.isNew === true ? ' WITH (FREEZE)' : ''
  await to.copyIn(`COPY "${name}" (${list}) FROM STDIN${frozen}`, pieces())
  for (const text of laidAside?.toMake ?? []) await to.run(text)
  const counted = written.find((column) => column.identity)
  if (counted && count > 0)
    await to.send(
      `SELECT setval(pg_get_serial_sequence($1, $2), (SELECT max("${counted.name}") FROM "${name}"))`,
      [`"${name}"`, counted.name],
    )
  return count
}

/** The order in which rows came to be, where the file knows it: that of identities on the other side. */
function orderOf(from: Database, name: string): string {
  if (name === 'journal') return 'ORDER BY tx, leg'
  const found = from
    .query<{ wr: bigint }, [string]>(`SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?`)
    .get(name)
  return found?.wr === 0n ? 'ORDER BY rowid' : ''
}

function rowsOf(from: Database, text: string): Iterable<Cells> {
  return from.query<Cells, []>(text).iterate()
}

const specials = /[\\\t\n\r]/g
const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' }

/** A value as COPY reads it. */
function cellOf(value: unknown): string {
  if (value === null || value === undefined) return '\\N'
  if (value instanceof Uint8Array) return String.raw`\\x${value.toHex()}`
  return withoutNul(String(value)).replace(specials, (one) => escapes[one]!)
}

function isLarge(from: Database, name: string): boolean {
  return from.query(`SELECT 1 FROM "${name}" LIMIT 1 OFFSET ${fewRows}`).get() !== null
}

interface LaidAside {
  /** Its file is one of this transaction: what is written to it needs no look at who may see it. */
  readonly isNew: boolean
  /** Statements that make keys and indices as they were. */
  readonly toMake: readonly string[]
}

/**
 * Takes the keys and indices from a table, until its rows are there: sorted once, they take a third of the time. A key that
 * other tables refer to stays.
 */
async function layKeysAside(to: Connection, name: string): Promise<LaidAside> {
  const found = await to.send<{ readonly take: string; readonly make: string }>(
    `SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) AS take,
       format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) AS make
     FROM pg_constraint AS one WHERE conrelid = $1::text::regclass AND (contype = 'f' OR (contype IN ('p', 'u')
       AND NOT EXISTS (SELECT 1 FROM pg_constraint AS other WHERE other.contype = 'f' AND other.conindid = one.conindid)))
     UNION ALL
     SELECT format('DROP INDEX %s', indexrelid::regclass), pg_get_indexdef(indexrelid)
     FROM pg_index WHERE indrelid = $1::text::regclass
       AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = indexrelid)`,
    [`"${name}"`],
  )
  for (const { take } of found) await to.run(take)
  const [referred] = await to.send(
    "SELECT 1 FROM pg_constraint WHERE contype = 'f' AND confrelid = $1::text::regclass LIMIT 1",
    [`"${name}"`],
  )
  const isNew = referred === undefined
  if (isNew) await to.run(`TRUNCATE "${name}"`)
  return { isNew, toMake: found.map(({ make }) => make) }
}

// What PostgreSQL keeps beside the columns of SQLite.

const walletOf = /^wallet:(.*):[^:]*$/

/** What the open calls hold of each budget, by scope and window. */
function holdsOfBudgets(from: Database): Map<string, bigint> {
  const held = new Map<string, bigint>()
  for (const { hold, in_group } of rowsOf(
    from,
    'SELECT hold, in_group FROM open_call WHERE in_group IS NOT NULL',
  )) {
    const { budgets } = JSON.parse(String(in_group)) as { readonly budgets: readonly [string, number][] }
    for (const [scope, window] of budgets) {
      const name = `${scope} ${window}`
      held.set(name, (held.get(name) ?? 0n) + (hold as bigint))
    }
  }
  return held
}

/** The chain that the journal of SQLite becomes, and the versions of its accounts. */
class ClosedChain {
  readonly #id: string
  readonly #held: Map<string, bigint>
  readonly #heads = new Map<string, { version: number; tx: unknown; at: bigint }>()
  #last: { readonly tx: bigint; readonly hash: Uint8Array; readonly at: bigint } | undefined

  constructor(id: bigint, held: Map<string, bigint>) {
    this.#id = String(id)
    this.#held = held
  }

  get headHash(): string {
    return (this.#last?.hash ?? genesis).toHex()
  }

  /** Whether a column is one that SQLite has no need of. */
  knows(column: string): boolean {
    return ['chain', 'settle_chain', 'version', 'held'].includes(column)
  }

  /** What the other side keeps beside a row. */
  columnsOf(table: string, row: Cells): Cells {
    const chain = this.#id
    switch (table) {
      case 'journal':
        return { chain, version: this.#versionOf(row) }
      case 'call':
        return { settle_chain: row['settle_tx'] === null ? null : chain }
      case 'budget_spend': {
        const name = `${String(row['scope'])} ${String(row['window'])}`
        const held = this.#held.get(name) ?? 0n
        this.#held.delete(name)
        return { held, version: 0n }
      }
      default:
        return { chain }
    }
  }

  /** Each transaction that changes the wallets of an account is one version of it. */
  #versionOf({ account, tx, at, hash }: Cells): number | null {
    this.#last = { tx: tx as bigint, hash: hash as Uint8Array, at: at as bigint }
    const name = walletOf.exec(String(account))?.[1]
    if (name === undefined) return null
    const head = this.#heads.get(name) ?? { version: 0, tx: undefined, at: 0n }
    if (head.tx !== tx) head.version++
    head.tx = tx
    head.at = at as bigint
    this.#heads.set(name, head)
    return head.version
  }

  /** Writes the ends: of the chain, of each account, and of budgets that nothing was spent of. */
  async finish(to: Connection): Promise<void> {
    const heads = [...this.#heads].map(([account, { version, at }]) => ({ account, version, at: String(at) }))
    await to.send(
      `INSERT INTO wallet_head (account, version, at)
       SELECT account, version, at FROM json_to_recordset($1::text::json) AS given (account text, version bigint, at bigint)`,
      [JSON.stringify(heads)],
    )
    for (const [name, held] of this.#held) {
      const at = name.lastIndexOf(' ')
      await to.send(
        'INSERT INTO budget_spend (scope, "window", spent, held, version) VALUES ($1, $2, 0, $3, 0)',
        [name.slice(0, at), BigInt(name.slice(at + 1)), held],
      )
    }
    if (this.#last)
      await to.send('UPDATE chain SET tx = $1, head = $2, at = $3 WHERE id = $4', [
        this.#last.tx,
        this.#last.hash,
        this.#last.at,
        BigInt(this.#id),
      ])
  }
}
