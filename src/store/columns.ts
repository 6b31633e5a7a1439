// The column types of the schema for SQLite. Those for PostgreSQL are in postgres/columns.ts, under the same names.

import { type SQL, sql } from 'drizzle-orm'
import { blob, index, integer, text, uniqueIndex } from 'drizzle-orm/sqlite-core'

/** Picodollars. The connection runs with safeIntegers, so that every integer arrives as a bigint. */
export const money = <Name extends string>(name: Name) => integer(name).$type<bigint>()
/** A count, or a number that orders rows. */
export const whole = <Name extends string>(name: Name) => integer(name).$type<bigint>()
/** A number that the database gives each new row: it grows. */
export const sequence = <Name extends string>(name: Name) => integer(name).$type<bigint>()
/** Milliseconds since 1970. */
export const time = <Name extends string>(name: Name) => integer(name).$type<bigint>()
/** 0 or 1. */
export const flag = <Name extends string>(name: Name) => integer(name).$type<bigint>()
export const string = <Name extends string>(name: Name) => text(name)
/** JSON text, written and read by the store, never queried in the hot path. */
export const json = <Name extends string>(name: Name) => text(name)
export const bytes = <Name extends string>(name: Name) => blob(name).$type<Uint8Array<ArrayBuffer>>()

/** A column whose name is a word of SQL in one of the databases. */
export const columnOf = (name: string) => sql.raw(name)
/** Lots that expire, of those with something left. */
export const isEnding = sql`live = 1`
/** A condition as a flag says it. */
export const flagOf = (condition: SQL) => sql`(${condition})`
/** Whether the text of a column begins otherwise. */
export const beginsOtherwise = (column: string, start: string) => sql.raw(`${column} not glob '${start}*'`)
/**
 * What goes before a column with providers' ids in an index of calls. They are in no order. In blocks of 512 calls (seven
 * pages) the ids of a commit share recently used pages; over all calls each would change a page of its own, which cost
 * more than the rest of a settle.
 */
export const blockOfCalls: [SQL] = [sql`seq >> 9`]

/** Columns, indexes and parts of keys that only PostgreSQL has, where many processes write at once. */
export const shared = {
  journal: () => ({}),
  call: () => ({}),
  budgetSpend: () => ({}),
  usageTotal: () => ({}),
  /** The order in which rows were added, which SQLite has by itself. */
  rowid: () => ({}),
  rowidIndex: (_name: string, _table: object): [] => [],
  /** The chain of a table that has one, for its keys. */
  chain: (_table: object): [] => [],
  openCallIndexes: (_table: object): [] => [],
  journalIndexes: (_table: object): [] => [],
  callIndexes: (_table: object): [] => [],
}

type Indexed = Parameters<ReturnType<typeof index>['on']>

/** An index of only those rows for which `where` holds. */
export const partialIndex = (name: string, where: SQL, ...on: Indexed) =>
  index(name)
    .on(...on)
    .where(where)
export const partialUniqueIndex = (name: string, where: SQL, ...on: Indexed) =>
  uniqueIndex(name)
    .on(...on)
    .where(where)

export { index, uniqueIndex }
export { check, primaryKey, sqliteTable as table } from 'drizzle-orm/sqlite-core'
