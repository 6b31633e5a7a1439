// The gateways of a database as whoever looks sees them: which there are, and the calls that run at the others.

import { completionTokens } from '../../conversation/usage.ts'
import { checkpointOf } from '../ledger-rows.ts'
import { sql, type Tables } from '../sql/work.ts'
import type { CallElsewhere, GatewayAlive, Gateways } from '../store.ts'
import { databaseNow } from './connection.ts'
import { heartbeatMs } from './transactions.ts'

export class PostgresGateways implements Gateways {
  readonly #tables: Tables
  readonly #owner: string

  /** `owner`: the name of this process in holds. */
  constructor(tables: Tables, owner: string) {
    this.#tables = tables
    this.#owner = owner
  }

  async list(): Promise<readonly GatewayAlive[]> {
    const rows = await this.#tables.do(() => gateways.list.all())
    return rows.map(({ owner, program, until, now, leads, sells }) => ({
      name: owner,
      version: program,
      seenAt: Number(until) - heartbeatMs,
      isSilent: until < now,
      leads: leads === 1n,
      sells,
    }))
  }

  async tell(sells: string): Promise<void> {
    await this.#tables.do(() => gateways.tell.run(sells, this.#owner))
  }

  async callsElsewhere(account: string): Promise<readonly CallElsewhere[]> {
    const rows = await this.#tables.do(() => gateways.calls.all(account, this.#owner))
    return rows.map(({ id, model, key, hold, opened_at, progress }) => {
      const checkpoint = checkpointOf(progress)
      return {
        id,
        model,
        key,
        hold,
        startedAt: Number(opened_at),
        outputTokens: checkpoint && completionTokens(checkpoint.usage),
      }
    })
  }
}

const gateways = {
  // A command has a chain for a moment.
  list: sql<{ owner: string; program: string; until: bigint; now: bigint; leads: bigint; sells: string }>(
    `SELECT chain.owner, chain.program, chain.sells, chain.heartbeat_until AS until, ${databaseNow} AS now,
       CASE WHEN leader.owner IS NULL THEN 0 ELSE 1 END::bigint AS leads
     FROM chain LEFT JOIN leader ON leader.duty = 'upkeep' AND leader.owner = chain.owner
     WHERE NOT starts_with(chain.owner, 'over:') AND NOT starts_with(chain.owner, 'cli ') ORDER BY chain.id`,
  ),
  tell: sql('UPDATE chain SET sells = ? WHERE owner = ?'),
  calls: sql<{
    id: string
    model: string
    key: string | null
    hold: bigint
    opened_at: bigint
    progress: string | null
  }>(
    `SELECT open.id, open.model, open.key, open.hold, open.opened_at, open.progress
     FROM open_call AS open JOIN chain ON chain.owner = open.owner
     WHERE (open.in_group IS NULL AND open.account = ?1 OR open.in_group::json ->> 'person' = ?1) AND open.owner <> ?2
     ORDER BY open.opened_at, open.id LIMIT 1000`,
  ),
}
