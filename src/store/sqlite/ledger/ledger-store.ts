// The ledger on SQLite: the commands of ledger-core.ts in transactions that many share, and reads of the same wallets.

import type { Database, SQLQueryBindings, Statement } from 'bun:sqlite'
import type { Awaitable } from '../../../async/async.ts'
import type { PriorGrant } from '../../../credits/decide.ts'
import type {
  AuditReport,
  Balance,
  CallRecord,
  CountedBudget,
  DayAudit,
  KeySpend,
  LedgerStore,
  LedgerUpkeep,
  Totals,
} from '../../../credits/ledger/ledger.ts'
import type { Pico } from '../../../credits/money.ts'
import { monthlyPrefix } from '../../../credits/calendar.ts'
import { balanceOf } from '../../../credits/wallet.ts'
import type { RequestLogRow } from '../../../observe/call-log.ts'
import { CommitQueue } from '../../commits/commit-queue.ts'
import type { GroupLimits, LogSync, QueueEvents } from '../../commits/durability.ts'
import {
  abandonedAmong,
  type ClockParts,
  LedgerClock,
  LedgerCore,
  type Lives,
  type SpillRecord,
} from '../../ledger-core.ts'
import { actOfGrant, genesis } from '../../ledger-rows.ts'
import { cellsOfRequest, KeyUses, RequestBuffer, Soon } from '../../sql/work.ts'
import { auditDay } from '../audit/audit-day.ts'
import { auditFile } from '../audit/audit.ts'
import { type Head, isOutage, orUnavailable } from '../database/sqlite.ts'
import { CallTable, PriceRecords, type UsageDays } from './calls.ts'
import {
  actsOf,
  BulkInsert,
  type CachedWallet,
  correctionsOf,
  type GroupHooks,
  Journal,
  SqliteTransactions,
  Wallets,
} from './wallets.ts'

/** Every table that a group writes, and the queue that makes its groups. */
type Tables = ReturnType<typeof tablesOf>

export class SqliteLedger extends LedgerCore<CachedWallet> implements LedgerStore, LedgerUpkeep {
  readonly group: CommitQueue
  readonly #tables: Tables
  /** Whether this turn of the event loop has asked for commits of other processes. */
  #askedForOthers = false
  #lastWriteCheck = Number.NEGATIVE_INFINITY

  constructor(parts: LedgerParts) {
    const tables = tablesOf(parts)
    const { time, wallets, journal, calls, sql, group } = tables
    const logAct = actsOf(parts.database)
    super({
      wallets,
      writes: {
        calls,
        journal,
        sources: {
          priorGrant: (source) => priorGrantOf(sql.lotBySource.get(source)),
          logGrant: (...given) => {
            const act = actOfGrant(...given)
            if (act) logAct(act)
          },
        },
        corrections: correctionsOf(parts.database, logAct),
        lines: new CreditLines(parts.database),
      },
      time,
      commands: group,
      written: { admit: (need, run) => group.admit(need, () => writeAll(tables, run)) },
      isDead: parts.isDead,
      isRunning: parts.isRunning,
      expiring: (now) => orUnavailable(() => sql.expiring.all(now)).map(({ account }) => account),
      abandoned: (now) => orUnavailable(() => abandonedAmong(calls.listOpen(), parts, now)),
    })
    this.#tables = tables
    this.group = group
  }

  /** A command that shares the commits and reads the tables: it finds calls, and leaves them, as the last one has. */
  admit<T>(run: () => T): Promise<T> {
    return this.group.admit({}, () => writeAll(this.#tables, run))
  }

  /** A command that is kept and retried while this process lives, in its order among the ends of calls. */
  persist<T>(run: () => T): Promise<T> {
    return this.group.conclude({}, run, null)
  }

  /** The end of the journal as the file has it; while a sync is under way, as the last one has left it. */
  head(): Head {
    if (this.group.durable) return this.#tables.durableHead.at ?? { tx: 0, hash: genesis }
    return orUnavailable(() => {
      validate(this.#tables)
      return this.#tables.journal.readHead()
    })
  }

  now(): number {
    return orUnavailable(() => this.#tables.time.now())
  }

  /**
   * Carries out the commands of the spill file; those whose call has ended have no effect. One that cannot be carried
   * out is passed to `refused`, and the others are carried out all the same. False when the database cannot be written
   * now: then they wait like any other end of a call.
   */
  replay(
    records: readonly SpillRecord[],
    refused: (record: SpillRecord, error: unknown) => void = () => undefined,
  ): boolean {
    try {
      this.transaction(() => {
        for (const record of records) this.carryOut(record)
      })
      return true
    } catch (error) {
      if (isOutage(error)) {
        // The process that waited for the answers has ended.
        for (const record of records) this.queue(record).catch(() => undefined)
        return false
      }
      if (records.length > 1) return records.map((record) => this.replay([record], refused)).every(Boolean)
      for (const record of records) refused(record, error)
      return true
    }
  }

  /** Runs something now, in a transaction of its own: for start-up, before anything is queued. Throws what it threw. */
  transaction<T>(run: () => T): T {
    return this.#tables.transactions.commitDurably(run)
  }

  /**
   * The value, when everything is durable that has been committed by now: for what may be shown of the end of a call
   * only when its charge is certain.
   */
  whenDurable<T>(value: T): Awaitable<T> {
    return this.group.durable?.then(() => value) ?? value
  }

  balance(account: string): Balance {
    return orUnavailable(() => {
      this.#seeOthers()
      return balanceOf(this.#tables.wallets.of(account).wallet, this.#tables.time.now())
    })
  }

  /** Keys are loaded again: one of them has got a successor, with which it shares its limit. */
  forgetKeys(): void {
    this.#tables.wallets.forgetKeys()
  }

  keySpend(key: string, windowStart: number): KeySpend {
    return orUnavailable(() => {
      this.#seeOthers()
      return this.#tables.wallets.keySpend(key, windowStart)
    })
  }

  budgetSpend(budgets: readonly CountedBudget[]): readonly KeySpend[] {
    return orUnavailable(() => {
      this.#seeOthers()
      return this.#tables.wallets.budgetSpend(budgets)
    })
  }

  /**
   * Finds what other processes, such as commands of the command line, have committed before this turn of the event
   * loop. Only what is shown may be a turn late: a decision asks again, inside its transaction.
   */
  #seeOthers(): void {
    if (this.#askedForOthers) return
    validate(this.#tables)
    this.#askedForOthers = true
    setImmediate(() => {
      this.#askedForOthers = false
    })
  }

  totals(account: string): Totals {
    let purchased = 0n
    let used = 0n
    // Added up here: a lifetime of top-ups may exceed what SQLite's integers hold.
    used += orUnavailable(() => this.#tables.sql.spentOnLine.get(account))?.spent ?? 0n
    for (const lot of orUnavailable(() => this.#tables.sql.lotsOf.all(account))) {
      if (lot.pool === 'purchased') purchased += lot.granted
      used += lot.granted - lot.remaining - lot.expired - lot.refunded
    }
    return { purchased, used }
  }

  hasMonthly(account: string, until: number): Awaitable<boolean> {
    return this.whenDurable(orUnavailable(() => this.#tables.sql.monthlyLot.get(account, until) !== null))
  }

  call(account: string, id: string): Awaitable<CallRecord | undefined> {
    return this.whenDurable(orUnavailable(() => this.#tables.calls.record(account, id)))
  }

  recordPrice(version: string, model: string, price: string): void {
    this.#tables.prices.note(version, model, price)
  }

  audit(): AuditReport {
    return auditFile(this.#tables.parts.path)
  }

  auditDay(day: number): DayAudit {
    return auditDay(this.#tables.parts.path, day)
  }

  /** Writes a byte when nothing has been asked for a second: a full disk shows before the first call meets it. */
  async writable(): Promise<boolean> {
    const { parts, sql, time } = this.#tables
    const now = performance.now()
    if (now - this.#lastWriteCheck > 1000) {
      this.#lastWriteCheck = now
      await this.group.probe(() => sql.touch.run(parts.time.clock()))
    }
    return this.group.writable && !time.tooFarBehind
  }

  close(): Promise<void> {
    return this.group.close()
  }
}

function tablesOf(parts: LedgerParts) {
  const { database } = parts
  const tables = {
    parts,
    time: new LedgerClock(parts.time, latestIn(database)),
    wallets: new Wallets(database),
    journal: new Journal(database),
    calls: new CallTable(database, parts.usage),
    prices: new PriceRecords(database, parts.time.clock),
    sql: statements(database),
    /** The last head that is certain to be on the disk. */
    durableHead: { at: null as Head | null },
  }
  const { time, wallets, journal, calls, prices } = tables
  const hooks: GroupHooks = {
    begin: () => validate(tables),
    finish: () => {
      write(tables)
      wallets.flush()
      wallets.trim()
      prices.write()
      for (const rows of parts.bufferedRows) rows.write()
    },
    onCommitted: () => {
      parts.usage.onCommitted()
      prices.onCommitted()
      for (const rows of parts.bufferedRows) rows.onCommitted()
    },
    // The journal goes on while the sync runs.
    durable: () => {
      const head = journal.head && { ...journal.head }
      return () => {
        if (!head) return
        tables.durableHead.at = head
        parts.committed(head)
      }
    },
    quiet: () => wallets.openCalls <= 1,
    abandon: () => {
      wallets.forget()
      journal.forget()
      calls.forget()
      time.forget()
    },
  }
  const transactions = new SqliteTransactions(database, hooks, parts.log)
  return { ...tables, transactions, group: new CommitQueue(transactions, parts.limits, parts) }
}

/** Drops what was read of the file when another process has written since. */
function validate({
  wallets,
  journal,
  calls,
  time,
}: Pick<Tables, 'wallets' | 'journal' | 'calls' | 'time'>): void {
  if (!wallets.validate()) return
  calls.forgetNewest()
  journal.forget()
  time.forget()
}

/** Writes what holds and ends of calls have left for the end of the group. */
function write({ journal, calls }: Pick<Tables, 'journal' | 'calls'>): void {
  journal.write()
  calls.write()
}

/** Runs what reads the tables, when all that the group has done is in them. */
function writeAll<T>(tables: Pick<Tables, 'journal' | 'calls'>, run: () => T): T {
  write(tables)
  const value = run()
  write(tables)
  return value
}

type PriorGrantRow = Omit<PriorGrant, 'grantedAt' | 'expiresAt'> & {
  readonly grantedAt: bigint
  readonly expiresAt: bigint | null
}

function priorGrantOf(row: PriorGrantRow | null): PriorGrant | null {
  return (
    row && {
      ...row,
      grantedAt: Number(row.grantedAt),
      expiresAt: row.expiresAt === null ? null : Number(row.expiresAt),
    }
  )
}

function statements(database: Database) {
  return {
    monthlyLot: database.prepare<{ id: string }, [string, number]>(
      `SELECT id FROM lot WHERE account = ? AND pool = 'purchased' AND expires_at = ? AND source LIKE '${monthlyPrefix}%' LIMIT 1`,
    ),
    lotBySource: database.prepare<PriorGrantRow, [string]>(
      `SELECT id AS lot, account, pool, granted AS amount, granted_at AS grantedAt, expires_at AS expiresAt
       FROM lot WHERE source = ?`,
    ),
    expiring: database.prepare<{ account: string }, [number]>(
      'SELECT DISTINCT account FROM lot WHERE live = 1 AND expires_at <= ? AND remaining > pinned',
    ),
    lotsOf: database.prepare<
      { pool: string; granted: bigint; remaining: bigint; expired: bigint; refunded: bigint },
      [string]
    >(
      `SELECT pool, granted, remaining, expired, refunded FROM lot WHERE account = ? AND id NOT GLOB 'line_*'`,
    ),
    spentOnLine: database.prepare<{ spent: bigint }, [string]>(
      'SELECT spent FROM credit_line WHERE account = ?',
    ),
    touch: database.prepare(
      `INSERT INTO server (owner, started_at) VALUES ('', ?) ON CONFLICT (owner) DO UPDATE SET started_at = excluded.started_at`,
    ) as Statement,
  }
}

// What the ledger on SQLite is made of.

/** Rows that are written with the next group: in its transaction, forgotten only after its commit. */
interface BufferedRows {
  write(): void
  onCommitted(): void
}

interface LedgerParts extends QueueEvents, Lives {
  readonly database: Database
  readonly path: string
  readonly time: ClockParts
  readonly limits: GroupLimits
  /** What ended calls add to their days. */
  readonly usage: UsageDays
  /** Rows of other tables that are written with the next group's commit. */
  readonly bufferedRows: readonly BufferedRows[]
  /** Called with the head of the journal when a commit is durable. */
  readonly committed: (head: Head) => void
  /** What takes the log to the disk on another thread; where it is left out every commit waits for its own sync. */
  readonly log?: Pick<LogSync, 'sync'> | undefined
}

// Which processes have served a data directory.

/** Notes that this process serves the data directory. */
export function register(database: Database, owner: string, now: number): void {
  const insert = database.prepare(
    'INSERT INTO server (owner, started_at) VALUES (?, ?) ON CONFLICT (owner) DO NOTHING',
  )
  insert.run(owner, now)
  insert.finalize()
}

/** The latest time in the file: of the head of the journal, and of what ends or begins without an entry in it. */
function latestIn(database: Database): () => number {
  const latest = database.prepare<{ at: bigint }, []>(
    `SELECT max(
       coalesce((SELECT at FROM journal ORDER BY tx DESC, leg DESC LIMIT 1), 0),
       coalesce((SELECT ended_at FROM call ORDER BY seq DESC LIMIT 1), 0),
       coalesce((SELECT max(opened_at) FROM open_call), 0)) AS at`,
  )
  return () => Number(latest.get()?.at ?? 0n)
}

// How much accounts may owe, and what their calls have spent of loans.

class CreditLines {
  readonly #put: Statement
  readonly #spent: Statement

  constructor(database: Database) {
    this.#put = database.prepare(
      `INSERT INTO credit_line (account, most, at) VALUES (?,?,?)
       ON CONFLICT (account) DO UPDATE SET most = excluded.most, at = excluded.at`,
    )
    this.#spent = database.prepare('UPDATE credit_line SET spent = spent + ? WHERE account = ?')
  }

  put(account: string, most: Pico, now: number): void {
    this.#put.run(account, most, now)
  }

  onSpent(account: string, amount: Pico): void {
    this.#spent.run(amount, account)
  }
}

// The request log on SQLite: rows are written with the commit of a ledger group, once there are enough of them, or after a
// quarter of a second. Each batch writes the pages of four indexes, which is dear for the few rows of one group.

const rowsPerCommit = 256
/** So many go with the next commit, whoever makes it. */
const rowsTogether = 128

export class SqliteRequestLog extends RequestBuffer implements BufferedRows {
  readonly #inserts: BulkInsert
  readonly #used: Statement
  readonly #usage: UsageDays
  readonly #uses = new KeyUses()
  readonly #soon: Soon
  #writing = 0
  /** Whether the next commit takes along what there is. */
  #due = false

  /** `flush` makes a commit, 250 ms after a row that no commit has taken along. */
  constructor(database: Database, usage: UsageDays, flush: () => void) {
    const soon = new Soon(() => {
      this.hurry()
      flush()
    })
    super(() => soon.ask())
    this.#soon = soon
    this.#usage = usage
    this.#used = database.prepare('UPDATE api_key SET used_at = max(coalesce(used_at, 0), ?) WHERE id = ?')
    this.#inserts = new BulkInsert(
      database,
      'request_log',
      `request_id, at, account, key, model, provider, stream, status, code, ending, prompt_tokens, completion_tokens,
       cost, attempts, first_byte_ms, total_ms, detail, contents, tags`,
    )
  }

  /** Has the next commit take all rows along, or as many as it can. */
  hurry(): void {
    this.#due = true
  }

  get waiting(): boolean {
    return this.size > 0
  }

  write(): void {
    this.#writing = 0
    if (!this.#due && this.size < rowsTogether) return
    const rows = this.first(rowsPerCommit)
    this.#writing = rows.length
    this.#insert(rows)
    for (const [key, at] of this.#uses.among(rows)) this.#used.run(at, key)
  }

  onCommitted(): void {
    if (this.#writing === 0) return
    this.remove(this.#writing)
    this.#due = this.waiting && this.#due
    this.#uses.onWritten()
    this.#writing = 0
    this.close()
    if (this.waiting) this.#soon.ask()
  }

  // A row that the database refuses must not undo the charge in the same transaction.
  #insert(rows: readonly RequestLogRow[]): void {
    for (const row of rows) this.#inserts.add(Object.values(cellsOfRequest(row)) as SQLQueryBindings[])
    const refused = new Set<number>()
    this.#inserts.writeEach((error, place) => {
      if (isOutage(error)) throw error
      refused.add(place)
    })
    this.dropped += refused.size
    for (const [n, row] of rows.entries()) {
      const usage = refused.has(n) ? undefined : this.usageOf(row)
      if (usage === undefined) continue
      this.#usage.add(usage)
      this.#usage.write()
    }
  }

  close(): void {
    this.#soon.forget()
  }
}
