// Rows of the request log for tests of the store, and what deletes them.

import type { Database } from 'bun:sqlite'
import type { RequestLogRow } from '../../../src/observe/call-log.ts'
import { Retention } from '../../../src/store/sql/retention.ts'
import { logOf, SqliteTables } from '../../../src/store/sqlite/database/sqlite.ts'
import { noon } from '../../credits/support.ts'

/** A call that was served, streamed to its end, to Anna. */
export function logRowOf(requestId: string, more: Partial<RequestLogRow> = {}): RequestLogRow {
  return {
    requestId,
    at: noon,
    account: 'anna',
    key: 'k',
    model: 'sim/echo',
    provider: 'sim',
    stream: true,
    status: 200,
    code: null,
    ending: 'finished',
    promptTokens: 3,
    completionTokens: 4,
    cost: 2n ** 60n,
    attempts: 1,
    firstByteMs: 12,
    totalMs: 30,
    detail: null,
    contents: null,
    tags: null,
    ...more,
  }
}

/** What deletes rows of a SQLite file. */
export function retentionOf(file: Database, times: ConstructorParameters<typeof Retention>[1]): Retention {
  return new Retention(new SqliteTables(file), times, logOf(file))
}
