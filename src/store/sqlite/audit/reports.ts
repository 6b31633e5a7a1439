// Reports, read from a snapshot of the file on a connection of their own.

import type { Database } from 'bun:sqlite'
import type {
  Debt,
  HistoryEntry,
  LedgerReports,
  ProviderCall,
  Unpaid,
} from '../../../credits/ledger/statements.ts'
import { pools, type Pool } from '../../../credits/pool.ts'
import { openReader } from '../database/connection.ts'
import { reading } from '../database/outage.ts'

interface HistoryRow extends Omit<HistoryEntry, 'tx' | 'at' | 'pool' | 'balance'> {
  readonly tx: bigint
  readonly at: bigint
  /** `wallet:<account>:<pool>` */
  readonly wallet: string
}

interface CallRow extends Omit<ProviderCall, 'at' | 'estimated'> {
  readonly at: bigint
  readonly estimated: bigint
}

interface UnpaidRow {
  readonly provider: string
  readonly absorbedCalls: bigint
  /** The sum in two parts: in one it may exceed SQLite's integers. */
  readonly high: bigint
  readonly low: bigint
  readonly overLimitCalls: bigint
}

export class SqliteReports implements LedgerReports {
  readonly #path: string

  constructor(path: string) {
    this.#path = path
  }

  history(account: string): readonly HistoryEntry[] {
    const wallets = pools.map((pool) => `wallet:${account}:${pool}`)
    const rows = this.#read((database) => database.prepare<HistoryRow, string[]>(historySql).all(...wallets))
    let balance = 0n
    return rows.map(({ tx, at, wallet, ...row }) => {
      balance += row.amount
      const pool = wallet.slice(wallet.lastIndexOf(':') + 1) as Pool
      return { ...row, tx: Number(tx), at: Number(at), pool, balance }
    })
  }

  debts(): readonly Debt[] {
    return this.#read((database) =>
      database
        .prepare<Debt, []>(`SELECT account, debt FROM wallet WHERE debt > 0 ORDER BY debt DESC, account`)
        .all(),
    )
  }

  callsOf(provider: string): readonly ProviderCall[] {
    const rows = this.#read((database) => database.prepare<CallRow, [string]>(callsSql).all(provider))
    return rows.map(({ at, estimated, ...row }) => ({ ...row, at: Number(at), estimated: estimated === 1n }))
  }

  unpaid(since: number): readonly Unpaid[] {
    const rows = this.#read((database) => database.prepare<UnpaidRow, [number]>(unpaidSql).all(since))
    return rows
      .map(({ provider, absorbedCalls, high, low, overLimitCalls }) => ({
        provider,
        absorbedCalls: Number(absorbedCalls),
        absorbed: (high << 32n) + low,
        overLimitCalls: Number(overLimitCalls),
      }))
      .toSorted((a, b) => (a.absorbed > b.absorbed ? -1 : 1))
  }

  #read<T>(read: (database: Database) => T): T {
    return reading(() => {
      const database = openReader(this.#path)
      try {
        return read(database)
      } finally {
        database.close()
      }
    })
  }
}

const historySql = `
  SELECT journal.tx, journal.at, journal.kind, journal.lot, journal.amount,
    journal.account AS wallet,
    call.id AS call, call.model, iif(journal.kind IN ('grant', 'adjust') AND journal.amount > 0, lot.source, NULL) AS source
  FROM journal LEFT JOIN call ON call.settle_tx = journal.tx LEFT JOIN lot ON lot.id = journal.lot
  WHERE journal.account IN (${pools.map(() => '?').join(', ')}) ORDER BY journal.tx, journal.leg`

const callsSql = `
  SELECT id AS call, upstream_id AS upstreamId, model, ended_at AS at, 'served' AS outcome, charged, absorbed, estimated
  FROM call WHERE state = 'settled' AND upstream_id IS NOT NULL AND json_extract(receipt, '$.served.provider') = ?1
  UNION ALL
  SELECT call.id, attempt.upstream_id, call.model, coalesce(call.ended_at, call.opened_at), 'failed', 0, 0, 0
  FROM attempt JOIN call ON call.id = attempt.call
  WHERE attempt.provider = ?1 AND attempt.upstream_id IS NOT NULL
  ORDER BY 4, 1`

const unpaidSql = `
  SELECT coalesce(json_extract(receipt, '$.served.provider'), 'unknown') AS provider,
    sum(absorbed > 0) AS absorbedCalls, sum(absorbed >> 32) AS high, sum(absorbed & 4294967295) AS low,
    sum(json_extract(receipt, '$.overLimit') IS NOT NULL) AS overLimitCalls
  FROM call WHERE state = 'settled' AND ended_at >= ?
    AND (absorbed > 0 OR json_extract(receipt, '$.overLimit') IS NOT NULL)
  GROUP BY 1`
