// An account's statement, page by page and as a month: the bookings of the account backwards, in steps that leave room for
// other work. Their order, and how they are found, is the database's (Bookings).

import type { Awaitable } from '../../async/async.ts'
import { dayMs } from '../../credits/calendar.ts'
import {
  changeOf,
  nothing,
  plus,
  type Span,
  type StatementBalance,
  type StatementEntry,
  type StatementPage,
  type StatementQuery,
  type StatementReader,
  type StatementSum,
  type StatementSums,
} from '../../credits/ledger/monthly.ts'
import { type Pool, pools } from '../../credits/pool.ts'
import type { TransactionKind } from '../../credits/ledger/ledger.ts'
import { rowsOfSmall } from '../long-reports.ts'
import { sql, type Statement, type Tables, type Work } from './work.ts'

/** How a database numbers the bookings of an account. The lines of a transaction have one number, and numbers grow with time. */
export interface Bookings {
  /** The column with the number of a line of `journal`. */
  readonly number: string
  /** Whether a row of `call` is charged by a line of `journal`. */
  readonly charges: string
  /** The number of the last booking, as a subquery over the row of `wallet` that it stands beside. */
  readonly last: string
  /** The first booking with this number or a higher one; may be another account's, where numbers are all accounts'. */
  from(account: string, number: number): Work<{ readonly number: bigint; readonly at: bigint } | undefined>
  /** Entries up to number `top`, the newest first, all down to above `bottom`, which is no less than `end`; about as many as wanted. */
  step(account: string, top: number, end: number, wanted: number): Work<StatementStep>
  /** The lines of these wallets (?1, a list) with numbers above ?2 and up to ?3, in the place of `journal`. */
  readonly lines: string
  /** How many numbers are read at once where they are added up. */
  readonly summedAtOnce: number
}

export interface StatementStep {
  readonly entries: readonly StatementEntry[]
  readonly bottom: number
}

export interface EntryRow {
  readonly tx: bigint
  readonly at: bigint
  readonly kind: TransactionKind
  /** `wallet:<account>:<pool>` */
  readonly wallet: string
  readonly lot: string | null
  readonly amount: bigint
  readonly call: string | null
  readonly model: string | null
  readonly source: string | null
}

/** Lines of `journal`, or of what is given in its place, as entries of a statement. */
export function selectEntries(
  { number, charges }: Pick<Bookings, 'number' | 'charges'>,
  journal = 'journal',
): string {
  return `SELECT ${number} AS tx, journal.at, journal.kind, journal.account AS wallet, journal.lot, journal.amount,
      call.id AS call, call.model,
      CASE WHEN journal.kind IN ('grant', 'adjust') AND journal.amount > 0 THEN lot.source END AS source
    FROM ${journal} LEFT JOIN call ON ${charges} LEFT JOIN lot ON lot.id = journal.lot`
}

/** The names of an account's pools in the journal, for LIST. */
export function walletsOf(account: string): string {
  return JSON.stringify(pools.map((pool) => `wallet:${account}:${pool}`))
}

export function entryOf({ tx, at, wallet, ...row }: EntryRow): StatementEntry {
  const pool = wallet.slice(wallet.lastIndexOf(':') + 1) as Pool
  return { ...row, tx: Number(tx), at: Number(at), pool }
}

interface SumRow extends Omit<EntryRow, 'tx' | 'call' | 'model'> {
  readonly entries: bigint
}

/** Charges of a day and pool as one row; every other line as a row of its own. */
function selectSums({ number, lines }: Pick<Bookings, 'number' | 'lines'>): string {
  const alone = (column: string) => `CASE journal.kind WHEN 'settle' THEN 0 ELSE journal.${column} END`
  const isDebt = 'CASE WHEN journal.lot IS NULL THEN 1 ELSE 0 END'
  return `SELECT sums.at, sums.kind, sums.wallet, sums.lot, sums.amount, sums.entries,
      CASE WHEN sums.kind IN ('grant', 'adjust') AND sums.amount > 0 THEN lot.source END AS source
    FROM (SELECT min(${number}) AS first, min(journal.at) AS at, journal.kind, journal.account AS wallet,
        min(journal.lot) AS lot, CAST(sum(journal.amount) AS bigint) AS amount, count(*) AS entries
      FROM ${lines}
      GROUP BY journal.at - journal.at % ${dayMs}, journal.kind, journal.account, ${isDebt}, ${alone('tx')}, ${alone('leg')}) AS sums
    LEFT JOIN lot ON lot.id = sums.lot ORDER BY sums.first`
}

/** Everything of an account from a time on, of one moment; opening and closing are those of the time asked for. */
export function* sumsOf(bookings: Bookings, query: StatementQuery): Work<StatementSums> {
  const { account, from, to } = query
  const { standing, sums: select } = statementsOf(bookings)
  const rows = yield* standing.all(account)
  const last = Number(rows[0]?.last ?? 0n)
  let [later, during] = [nothing, nothing]
  const sums: StatementSum[] = []
  const wallets = walletsOf(account)
  let bottom = (yield* numberSince(bookings, query, last)) - 1
  while (bottom < last) {
    const top = Math.min(last, bottom + bookings.summedAtOnce)
    for (const { wallet, ...row } of yield* select.all(wallets, bottom, top)) {
      const pool = wallet.slice(wallet.lastIndexOf(':') + 1) as Pool
      const sum = { ...row, pool, at: Number(row.at), entries: Number(row.entries) }
      if (sum.at >= to) later = plus(later, changeOf(sum))
      else if (sum.at >= from) {
        during = plus(during, changeOf(sum))
        sums.push(sum)
      }
    }
    bottom = top
  }
  const now = rows.reduce((sum, { posted, debt }) => plus(sum, { credit: posted, owed: debt }), nothing)
  const closing = less(now, later)
  return { sums, opening: less(closing, during), closing }
}

/** The first number of what is at or after `from`. Times never decrease along the numbers, so a binary search works. */
function* numberSince(
  { from: find }: Bookings,
  { account, from }: Pick<StatementQuery, 'account' | 'from'>,
  last: number,
): Work<number> {
  let [low, high] = [1, last + 1]
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    const found = yield* find(account, middle)
    if (found && found.at < from) low = Number(found.number) + 1
    else high = middle
  }
  return low
}

const statementsByBookings = new WeakMap<Bookings, ReturnType<typeof makeStatements>>()

function statementsOf(bookings: Bookings): ReturnType<typeof makeStatements> {
  const made = statementsByBookings.get(bookings) ?? makeStatements(bookings)
  statementsByBookings.set(bookings, made)
  return made
}

function makeStatements(bookings: Bookings) {
  return {
    // One statement, and so one snapshot, whatever other processes write.
    standing: sql<StandingRow>(
      `SELECT (${bookings.last}) AS last, posted, debt FROM wallet WHERE wallet.account = ?`,
    ),
    sums: sql<SumRow>(selectSums(bookings)),
  }
}

const stepsPerPage = 40
const entriesPerStep = 1_000

interface StandingRow {
  readonly last: bigint | null
  readonly posted: bigint
  readonly debt: bigint
}

type Beside = (query: StatementQuery, signal?: AbortSignal) => Promise<StatementSums>

export class SqlStatements implements StatementReader {
  readonly #tables: Tables
  readonly #bookings: Bookings
  readonly #standing: Statement<StandingRow>
  readonly #beside: Beside | undefined

  /** `beside` adds up what is long; the database itself, if left out. */
  constructor(tables: Tables, bookings: Bookings, beside?: Beside) {
    this.#tables = tables
    this.#bookings = bookings
    this.#standing = statementsOf(bookings).standing
    this.#beside = beside
  }

  async page(account: string, limit: number, before?: number, since?: number): Promise<StatementPage> {
    const entries: StatementEntry[] = []
    const end = since === undefined ? 0 : (await this.firstSince(account, since)) - 1
    let bottom = Math.max(end, (before ?? (await this.#last(account)) + 1) - 1)
    let steps = 0
    for await (const step of this.#backwards(account, bottom, end, limit + 1)) {
      entries.push(...step.entries)
      bottom = step.bottom
      steps++
      if (steps === stepsPerPage || entries.length >= limit) break
    }
    if (entries.length <= limit) return { entries, next: bottom > end ? bottom + 1 : null }
    return cut(entries, limit)
  }

  firstSince(account: string, at: number): Awaitable<number> {
    const [bookings, standing] = [this.#bookings, this.#standing]
    return this.#tables.do(function* (): Work<number> {
      const last = Number((yield* standing.first(account))?.last ?? 0n)
      return yield* numberSince(bookings, { account, from: at }, last)
    })
  }

  async sums(query: StatementQuery, signal?: AbortSignal): Promise<StatementSums> {
    const { account, from } = query
    const bookings = this.#bookings
    if (this.#beside) {
      const numbers = (await this.#last(account)) - (await this.firstSince(account, from))
      if (numbers > rowsOfSmall) return this.#beside(query, signal)
    }
    return this.#tables.reads(() => sumsOf(bookings, query), signal)
  }

  async span(
    account: string,
    { from, to }: { readonly from: number; readonly to: number },
    each: (entry: StatementEntry) => void,
  ): Promise<Span> {
    const rows = await this.#tables.do(() => this.#standing.all(account))
    const now = rows.reduce((sum, { posted, debt }) => plus(sum, { credit: posted, owed: debt }), nothing)
    const first = await this.firstSince(account, from)
    const after = await this.firstSince(account, to)
    let [later, during] = [nothing, nothing]
    const last = Number(rows[0]?.last ?? 0n)
    for await (const { entries } of this.#backwards(account, last, first - 1, entriesPerStep)) {
      for (const entry of entries) {
        if (entry.tx >= after) later = plus(later, changeOf(entry))
        else {
          during = plus(during, changeOf(entry))
          each(entry)
        }
      }
    }
    const closing = less(now, later)
    return { opening: less(closing, during), closing }
  }

  async #last(account: string): Promise<number> {
    const row = await this.#tables.do(() => this.#standing.first(account))
    return Number(row?.last ?? 0n)
  }

  /** The entries of bookings from `top` down to above `end`. */
  async *#backwards(
    account: string,
    top: number,
    end: number,
    wanted: number,
  ): AsyncGenerator<StatementStep> {
    for (let from = top; from > end;) {
      if (from < top) await new Promise((resolve) => setImmediate(resolve))
      const step = await this.#tables.do(() => this.#bookings.step(account, from, end, wanted))
      yield step
      from = step.bottom
    }
  }
}

function less(a: StatementBalance, b: StatementBalance): StatementBalance {
  return { credit: a.credit - b.credit, owed: a.owed - b.owed }
}

/** A page ends between two bookings whatever its limit, since one may have several lines. */
function cut(entries: readonly StatementEntry[], limit: number): StatementPage {
  const last = entries[limit - 1]!.tx
  const rest = entries.findIndex(({ tx }) => tx < last)
  if (rest < 0) return { entries, next: last }
  return { entries: entries.slice(0, rest), next: last }
}
