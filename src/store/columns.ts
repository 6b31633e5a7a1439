// The column types of the schema for SQLite. PostgreSQL gets a file with the same names.

import type { SQL } from 'drizzle-orm'
import { blob, index, integer, text, uniqueIndex } from 'drizzle-orm/sqlite-core'

/** Picodollars. The connection runs with safeIntegers, so that every integer arrives as a bigint. */
export const money = <Name extends string>(name: Name) => integer(name).$type<bigint>()
/** A count, or a number that orders rows. */
export const whole = <Name extends string>(name: Name) => integer(name).$type<bigint>()
/** Milliseconds since 1970. */
export const time = <Name extends string>(name: Name) => integer(name).$type<bigint>()
/** 0 or 1. */
export const flag = <Name extends string>(name: Name) => integer(name).$type<bigint>()
export const string = <Name extends string>(name: Name) => text(name)
/** JSON text, written and read by the store, never queried in the hot path. */
export const json = <Name extends string>(name: Name) => text(name)
export const bytes = <Name extends string>(name: Name) => blob(name).$type<Uint8Array<ArrayBuffer>>()

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
