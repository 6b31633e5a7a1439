// What reads much has connections of its own: no call and no sign-in waits for one that a report has.

import { GatewayError } from '../../errors/errors.ts'
import type { LongWork } from '../long-reports.ts'
import { pageOf } from '../sql/directory.ts'
import { requestPage } from '../sql/request-reader.ts'
import { usageCsv, usageReport } from '../sql/usage-reports.ts'
import type { DatabaseServer } from '../store.ts'
import { PostgresTables } from './tables.ts'

/** Few: many at once would only take the database's time from calls. They are opened when they are first needed. */
const connections = 2
/** How long one statement of a report may take, milliseconds: while calls are served, and in a command. */
const servingMs = 30_000
const commandMs = 15 * 60_000

/** Tables for work that reads much. A statement that takes too long is given up with `overloaded`. */
export function tablesForReports(
  server: string | DatabaseServer,
  { serves, deadlineMs = serves ? servingMs : commandMs }: { serves: boolean; deadlineMs?: number },
): PostgresTables {
  const seconds = deadlineMs / 1000
  const message = `The database took longer than ${seconds} s for one step of this: ask for a shorter time or for less at once, or ask later.`
  const tooLong = () => new GatewayError('overloaded', { message })
  return new PostgresTables({ server, connections, deadlineMs, tooLong })
}

export function longWork(tables: PostgresTables): LongWork {
  return {
    report: (query, most, signal) => tables.reads(() => usageReport(query, most), signal),
    csv: (query, signal) => tables.pieces(() => usageCsv(query), signal),
    search: (query, signal) => tables.reads(() => requestPage(query), signal),
    accounts: (query, signal) => tables.reads(() => pageOf(query), signal),
  }
}
