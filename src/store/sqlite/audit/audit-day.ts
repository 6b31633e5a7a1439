// Audits one UTC day of the ledger without reading the rest: the checks of audit.ts over that day's rows only. Reads a
// snapshot on a connection of its own, so it works beside a running server.

import type { Database } from 'bun:sqlite'
import { dayMs } from '../../../credits/calendar.ts'
import type { DayAudit } from '../../../credits/ledger/ledger.ts'
import { readingFrom } from '../database/sqlite.ts'
import { genesis } from '../../ledger-rows.ts'
import { anchoredHistory, chainOf, checks, consumptionOrder, firstBroken, result } from './audit.ts'
import type { Row } from '../../schema.ts'

const notChecked: readonly string[] = [
  'the file is sound',
  'the hash chain before and after the day',
  anchoredHistory,
  consumptionOrder,
  'a payment that was paid but not credited',
  ...checks.filter(({ ofDay }) => ofDay === null).map(({ name }) => name),
]

/**
 * Audits the UTC day that begins at `day`: all transactions from its first to its last, and all calls that ended that
 * day or were charged in one of them. Throws only if the file cannot be read.
 */
export function auditDay(path: string, day: number): DayAudit {
  return readingFrom(path, (database) => {
    database.run('BEGIN')
    const span = transactionsOf(database, day)
    narrow(database, day, span)
    const { journal, entries, broken } = chainOfDay(database, span)
    const found = checks.flatMap(({ name, sql, ofDay = sql }) =>
      ofDay === null ? [] : [result(name, firstBroken(database, ofDay))],
    )
    const all = [result('the hash chain verifies', broken), ...found]
    return {
      ok: all.every((check) => check.ok),
      journalEntries: entries,
      calls: callsOf(database),
      journal,
      checks: all,
      notChecked,
    }
  })
}

/** The day's first and last transaction. Everything between is included, whatever its timestamp. */
function transactionsOf(database: Database, day: number): Window | null {
  const near = windowOf(timelineOf(database, 'journal', 'tx', 'at'), day, day + dayMs)
  if (!near) return null
  return spanOf(
    database,
    'SELECT min(tx) AS first, max(tx) AS last FROM journal WHERE tx BETWEEN ? AND ? AND at >= ? AND at < ?',
    [near.first, near.last, BigInt(day), BigInt(day + dayMs)],
  )
}

/**
 * Creates views limited to the day over the tables, under the same names: the checks are written once, and SQLite
 * turns the bounds of each view into an index search. The views are temporary.
 */
function narrow(database: Database, day: number, span: Window | null): void {
  const next = day + dayMs
  const charged = span ? `BETWEEN ${span.first} AND ${span.last}` : 'IS NULL AND 0'
  const calls = callsNear(database, day, span)
  const view = (name: string, select: string) => database.run(`CREATE TEMP VIEW ${name} AS ${select}`)
  view('day', `SELECT ${day} AS start, ${next} AS next`)
  view('journal', `SELECT * FROM main.journal WHERE tx ${charged}`)
  view(
    'call',
    `SELECT * FROM main.call WHERE seq BETWEEN ${calls.first} AND ${calls.last}
       AND ((ended_at >= ${day} AND ended_at < ${next}) OR settle_tx ${charged})`,
  )
  // By key: the table has a row per key and day, in the order of keys.
  view(
    'key_spend',
    `SELECT spend.* FROM (SELECT id FROM api_key UNION SELECT key FROM call WHERE key IS NOT NULL) AS known
       CROSS JOIN main.key_spend AS spend ON spend.key = known.id AND spend.day = ${day}`,
  )
}

/** A range of calls, by the order in which they ended, that contains all of the day's. */
function callsNear(database: Database, day: number, span: Window | null): Window {
  const ended = windowOf(timelineOf(database, 'call', 'seq', 'ended_at'), day, day + dayMs)
  const charged =
    span &&
    spanOf(database, 'SELECT min(seq) AS first, max(seq) AS last FROM call WHERE settle_tx BETWEEN ? AND ?', [
      span.first,
      span.last,
    ])
  if (!ended || !charged) return ended ?? charged ?? { first: 1n, last: 0n }
  return {
    first: ended.first < charged.first ? ended.first : charged.first,
    last: ended.last > charged.last ? ended.last : charged.last,
  }
}

function spanOf(database: Database, sql: string, bounds: bigint[]): Window | null {
  const span = database.prepare<{ first: bigint | null; last: bigint | null }, bigint[]>(sql).get(...bounds)
  return span && span.first !== null && span.last !== null ? { first: span.first, last: span.last } : null
}

function timelineOf(database: Database, table: string, key: string, at: string): Timeline {
  const ends = spanOf(
    database,
    `SELECT (SELECT min(${key}) FROM ${table}) AS first, (SELECT max(${key}) FROM ${table}) AS last`,
    [],
  )
  const row = database.prepare<{ key: bigint; at: bigint }, [bigint]>(
    `SELECT ${key} AS key, ${at} AS at FROM ${table} WHERE ${key} >= ? ORDER BY ${key} LIMIT 1`,
  )
  return {
    ends,
    rowFrom(from) {
      const found = row.get(from)
      return found ? { key: found.key, at: Number(found.at) } : undefined
    },
  }
}

/** The chain from the entry before the day, whose hash is trusted, to the entry after it, which must follow from it. */
function chainOfDay(
  database: Database,
  span: Window | null,
): { journal: DayAudit['journal']; entries: number; broken: string | null } {
  if (!span) return { journal: [], entries: 0, broken: null }
  const before = neighbour(database, 'WHERE tx < ? ORDER BY tx DESC, leg DESC', span.first)
  const given = before?.hash ?? genesis
  const { entries, head, broken } = chainOf(database, given)
  const after = neighbour(database, 'WHERE tx > ? ORDER BY tx, leg', span.last)
  const torn = after !== null && Buffer.compare(after.prev_hash, head) !== 0
  return {
    journal: [
      {
        chain: 1,
        firstTransaction: Number(span.first),
        lastTransaction: Number(span.last),
        givenHash: Buffer.from(given).toString('hex'),
        headHash: Buffer.from(head).toString('hex'),
      },
    ],
    entries,
    broken: broken ?? (torn ? `transaction ${after.tx} leg ${after.leg}` : null),
  }
}

function neighbour(database: Database, where: string, tx: bigint) {
  return database
    .prepare<Pick<Row<'journal'>, 'tx' | 'leg' | 'prev_hash' | 'hash'>, [bigint]>(
      `SELECT tx, leg, prev_hash, hash FROM main.journal ${where} LIMIT 1`,
    )
    .get(tx)
}

function callsOf(database: Database): number {
  const counted = database
    .prepare<{ calls: bigint }, []>(
      'SELECT count(*) AS calls FROM call, day WHERE ended_at >= day.start AND ended_at < day.next',
    )
    .get()
  return Number(counted?.calls ?? 0n)
}

// Finds the rows of a time span in a table ordered by time except where a clock was set back. Searches the primary
// key: an index on time would cost every call, while this costs an audit milliseconds.

/** Rows by an increasing key, perhaps with gaps. */
export interface Timeline {
  /** The smallest and largest key; null if there are no rows. */
  readonly ends: Window | null
  /** The first row whose key is at least `key`. */
  rowFrom(key: bigint): { readonly key: bigint; readonly at: number } | undefined
}

/** The keys from `first` to `last`, both included. */
interface Window {
  readonly first: bigint
  readonly last: bigint
}

/** A clock may be set back by this much without missing a row. */
const clockToleranceMs = 3_600_000
/** All rows this close to a boundary are checked, then one per tenth of the distance to the end of the table. */
const nearRows = 64n

/**
 * A window that holds every row with `from` <= at < `until`, and some of its neighbours; null when no row can be one.
 * Where a clock was set back by more than an hour the table crosses a moment several times. The crossings are looked for
 * over the whole table, in steps that grow with the distance: what is missed at worst is a stretch of rows shorter than a
 * tenth of its distance from the window.
 */
export function windowOf(timeline: Timeline, from: number, until: number): Window | null {
  if (!timeline.ends) return null
  const first = firstCrossing(timeline, timeline.ends, from - clockToleranceMs)
  const last = lastCrossing(timeline, timeline.ends, until + clockToleranceMs) - 1n
  return first <= last ? { first, last } : null
}

/** The first key whose row is at `moment` or later, as far as the probes show. */
function firstCrossing(timeline: Timeline, ends: Window, moment: number): bigint {
  let crossing = crossingWithin(timeline, moment, ends.first, ends.last + 1n)
  for (;;) {
    const stray = distances(crossing - ends.first)
      .map((distance) => timeline.rowFrom(crossing - distance))
      .find((row) => row && row.key < crossing && row.at >= moment)
    if (!stray) return crossing
    crossing = crossingWithin(timeline, moment, ends.first, stray.key)
  }
}

/** One past the last key whose row is earlier than `moment`, as far as the probes show. */
function lastCrossing(timeline: Timeline, ends: Window, moment: number): bigint {
  let crossing = crossingWithin(timeline, moment, ends.first, ends.last + 1n)
  for (;;) {
    const stray = distances(ends.last + 1n - crossing)
      .map((distance) => timeline.rowFrom(crossing + distance - 1n))
      .find((row) => row && row.at < moment)
    if (!stray) return crossing
    crossing = crossingWithin(timeline, moment, stray.key + 1n, ends.last + 1n)
  }
}

/** A key in [low, high] whose row is at `moment` or later (or is `high`), while the row before it is not. */
function crossingWithin(timeline: Timeline, moment: number, low: bigint, high: bigint): bigint {
  while (low < high) {
    const middle = (low + high) / 2n
    const row = timeline.rowFrom(middle)
    if (!row || row.key >= high || row.at >= moment) high = middle
    else low = row.key + 1n
  }
  return low
}

/** Distances up to `furthest`, largest first, so that one step back passes all stray rows. */
function distances(furthest: bigint): bigint[] {
  const all: bigint[] = []
  for (let distance = 1n; distance <= furthest; distance += distance < nearRows ? 1n : distance / 10n) {
    all.push(distance)
  }
  return all.toReversed()
}
