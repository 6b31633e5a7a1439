// One value of a query that has one.

import type { Database, SQLQueryBindings } from 'bun:sqlite'

/** The first column of the first row. */
export function one(database: Database, sql: string, ...values: SQLQueryBindings[]): unknown {
  const statement = database.prepare(sql)
  try {
    return statement.values(...values)[0]?.[0]
  } finally {
    statement.finalize()
  }
}
