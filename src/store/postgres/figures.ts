// The figures of a database that monitors ask for every few seconds.

import type { StoreFigures } from '../../observe/call-log.ts'
import { sql, type Tables } from '../sql/work.ts'

/** So many messages are counted; more are as many. */
const mostCounted = 100_000

const figures = sql<{
  readonly calls: bigint
  readonly held: number
  readonly waiting: bigint
  readonly bytes: bigint
}>(
  `SELECT open.calls, open.held, messages.waiting, pg_database_size(current_database()) AS bytes
   FROM (SELECT count(*) AS calls, coalesce(sum(hold::double precision), 0) AS held FROM open_call) AS open,
     (SELECT count(*) AS waiting FROM
       (SELECT 1 FROM webhook_delivery WHERE state = 'waiting' LIMIT ${mostCounted}) AS counted) AS messages`,
)

type Read = Omit<StoreFigures, 'commandsWaiting' | 'commits' | 'syncs' | 'rowsDropped'>

/** What can be read in a moment, however many calls there have been. The disk and the log are the server's: they are 0 here. */
export async function figuresOf(tables: Tables): Promise<Read> {
  const { calls, held, waiting, bytes } = (await tables.do(() => figures.first()))!
  return {
    openCalls: Number(calls),
    heldUsd: held / 1e12,
    webhooksWaiting: Number(waiting),
    databaseBytes: Number(bytes),
    logBytes: 0,
    diskBytes: 0,
    diskFreeBytes: 0,
  }
}
