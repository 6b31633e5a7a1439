// The column types of the schema for SQLite. PostgreSQL gets a file with the same names.

import { blob, integer, text } from 'drizzle-orm/sqlite-core'

/** Picodollars. The connection runs with safeIntegers, so that every integer arrives as a bigint. */
export const money = (name: string) => integer(name).$type<bigint>()
/** A count, or a number that orders rows. */
export const whole = (name: string) => integer(name).$type<bigint>()
/** Milliseconds since 1970. */
export const time = (name: string) => integer(name).$type<bigint>()
/** 0 or 1. */
export const flag = (name: string) => integer(name).$type<bigint>()
export const string = (name: string) => text(name)
/** JSON text, written and read by the store, never queried in the hot path. */
export const json = (name: string) => text(name)
export const bytes = (name: string) => blob(name).$type<Uint8Array>()

export { check, index, primaryKey, sqliteTable as table, uniqueIndex } from 'drizzle-orm/sqlite-core'
