// The figures of a database that monitors ask for every few seconds, and what has ended at its gateways a moment ago.

import type { CallTotals, RecentCalls } from '../../notify/watch.ts'
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

/** So many accounts are told of. */
const mostSpenders = 10_000

const recent = {
  totals: sql<{ readonly refusal: string | null; readonly calls: bigint; readonly cost: number }>(
    `SELECT CASE WHEN provider IS NULL AND status < 500 THEN code END AS refusal, count(*) AS calls,
       coalesce(sum(cost::double precision), 0) AS cost FROM request_log WHERE at >= ? AND at < ? GROUP BY 1`,
  ),
  spenders: sql<{ readonly account: string }>(
    `SELECT DISTINCT account FROM request_log WHERE at >= ? AND cost > 0 LIMIT ${mostSpenders}`,
  ),
  refusedKeys: sql<{ readonly key: string; readonly at: bigint }>(
    `SELECT key, max(at) AS at FROM request_log WHERE at >= ? AND code = 'key_limit_exceeded' AND key IS NOT NULL
     GROUP BY key`,
  ),
}

/** By the request log, which every gateway writes: refusals that leave no row are not counted. */
export class PostgresRecentCalls implements RecentCalls {
  readonly #tables: Tables

  constructor(tables: Tables) {
    this.#tables = tables
  }

  async totals(from: number, until: number): Promise<CallTotals> {
    const rows = await this.#tables.do(() => recent.totals.all(from, until))
    return {
      costUsd: rows.reduce((sum, { cost }) => sum + cost, 0) / 1e12,
      refusals: new Map(
        rows.flatMap(({ refusal, calls }) => (refusal === null ? [] : [[refusal, Number(calls)] as const])),
      ),
    }
  }

  async spenders(since: number): Promise<ReadonlySet<string>> {
    const rows = await this.#tables.do(() => recent.spenders.all(since))
    return new Set(rows.map(({ account }) => account))
  }

  async refusedKeys(since: number): Promise<ReadonlyMap<string, number>> {
    const rows = await this.#tables.do(() => recent.refusedKeys.all(since))
    return new Map(rows.map(({ key, at }) => [key, Number(at)]))
  }
}
