// Notes of upkeep, and the figures of a database that monitors ask for every few seconds.

import { statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Database } from 'bun:sqlite'
import type { UpkeepNote, UpkeepStore } from '../../../notify/upkeep.ts'
import type { StoreFigures } from '../../../observe/call-log.ts'
import type { Row } from '../../schema.ts'
import type { SpendingReader } from '../../store.ts'
import { one, orUnavailable, whenNeeded, withoutWaiting } from './sqlite.ts'

const keep = `INSERT INTO upkeep (name, at, value) VALUES (?,?,?)
  ON CONFLICT (name) DO UPDATE SET at = excluded.at, value = excluded.value`

export class SqliteUpkeep implements UpkeepStore {
  readonly #database: Database
  readonly #find: () => ReturnType<typeof findStatement>

  constructor(database: Database) {
    this.#database = database
    this.#find = whenNeeded(() => findStatement(database))
  }

  findNote(name: string): UpkeepNote | undefined {
    const row = orUnavailable(() => this.#find().get(name))
    if (!row) return undefined
    return { name, at: Number(row.at), value: JSON.parse(row.value) as UpkeepNote['value'] }
  }

  keepNote(note: UpkeepNote): void {
    orUnavailable(() => withoutWaiting(this.#database, () => noteIn(this.#database, note)))
  }
}

function findStatement(database: Database) {
  return database.prepare<Row<'upkeep'>, [string]>('SELECT * FROM upkeep WHERE name = ?')
}

/** The same for whoever has no store open. */
export function noteIn(database: Database, { name, at, value }: UpkeepNote): void {
  database.run(keep, [name, at, JSON.stringify(value)])
}

/** So many messages are counted; more are as many. */
const mostCounted = 100_000

/** What can be read in a moment, however many calls there have been: no table that grows with them is scanned. */
export function figuresOf(
  database: Database,
  path: string,
): Omit<StoreFigures, 'commandsWaiting' | 'commits' | 'syncs' | 'rowsDropped'> {
  return orUnavailable(() => ({
    openCalls: Number(one(database, 'SELECT count(*) FROM open_call')),
    heldUsd: Number(one(database, 'SELECT total(hold) FROM open_call')) / 1e12,
    webhooksWaiting: Number(
      one(
        database,
        `SELECT count(*) FROM (SELECT 1 FROM webhook_delivery WHERE state = 'waiting' LIMIT ${mostCounted})`,
      ),
    ),
    // What the log holds of it counts, too.
    databaseBytes: Number(
      one(database, 'SELECT page_count * page_size FROM pragma_page_count, pragma_page_size'),
    ),
    logBytes: statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0,
    ...diskOf(path),
  }))
}

function diskOf(path: string): Pick<StoreFigures, 'diskBytes' | 'diskFreeBytes'> {
  const { bsize, blocks, bavail } = statfsSync(dirname(path))
  return { diskBytes: blocks * bsize, diskFreeBytes: bavail * bsize }
}

/** Of the sums that are written with each call: a month is a few thousand rows. */
export class SqliteSpending implements SpendingReader {
  readonly #sql: () => ReturnType<typeof spendingStatements>

  constructor(database: Database) {
    this.#sql = whenNeeded(() => spendingStatements(database))
  }

  ofInstallation(from: number, until: number): number {
    return dollars(orUnavailable(() => this.#sql().ofInstallation.get(from, until)))
  }

  ofAccount(account: string, from: number, until: number): number {
    return dollars(orUnavailable(() => this.#sql().ofAccount.get(account, from, until)))
  }

  ofDays(days: readonly number[]): ReadonlyMap<number, number> {
    const rows = orUnavailable(() => this.#sql().ofDays.all(JSON.stringify(days)))
    return new Map(rows.map((row) => [Number(row.day), dollars(row)]))
  }
}

interface Sum {
  /** Picodollars. */
  readonly sum: number
}

function spendingStatements(database: Database) {
  // total() is a float, which no sum overflows.
  return {
    ofInstallation: database.prepare<Sum, [number, number]>(
      'SELECT total(cost) AS sum FROM usage_total WHERE day >= ? AND day < ?',
    ),
    ofAccount: database.prepare<Sum, [string, number, number]>(
      'SELECT total(charged) AS sum FROM usage_day WHERE account = ? AND day >= ? AND day < ?',
    ),
    ofDays: database.prepare<Sum & { day: bigint }, [string]>(
      'SELECT day, total(cost) AS sum FROM usage_total WHERE day IN (SELECT value FROM json_each(?)) GROUP BY day',
    ),
  }
}

function dollars(row: Sum | null): number {
  return (row?.sum ?? 0) / 1e12
}
