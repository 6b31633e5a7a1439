// Reports, read from a snapshot of the file on a connection of their own.

import type { Database, Statement } from 'bun:sqlite'
import {
  type BookedSum,
  changeOf,
  type Debt,
  type HistoryEntry,
  type LedgerReports,
  nothing,
  plus,
  type PoolTotal,
  type ProviderCall,
  type Span,
  type StatementBalance,
  type StatementEntry,
  type StatementPage,
  type StatementReader,
  type Unpaid,
} from '../../../credits/ledger/monthly.ts'
import { tokenBuckets } from '../../../conversation/usage.ts'
import { type Pool, pools } from '../../../credits/pool.ts'
import type { TransactionKind } from '../../../credits/wallet.ts'
import { orUnavailable, readingFrom } from '../database/sqlite.ts'

interface HistoryRow extends Omit<HistoryEntry, 'tx' | 'at' | 'pool' | 'balance'> {
  readonly tx: bigint
  readonly at: bigint
  /** `wallet:<account>:<pool>` */
  readonly wallet: string
}

interface ProviderCallRow extends Omit<ProviderCall, 'at' | 'estimated'> {
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

/** Sums in two parts each, as above. */
interface PoolTotalRow {
  readonly pool: Pool
  readonly creditHigh: bigint
  readonly creditLow: bigint
  readonly heldHigh: bigint
  readonly heldLow: bigint
  readonly owedHigh: bigint
  readonly owedLow: bigint
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
    const rows = this.#read((database) => database.prepare<ProviderCallRow, [string]>(callsSql).all(provider))
    return rows.map(({ at, estimated, ...row }) => ({ ...row, at: Number(at), estimated: estimated === 1n }))
  }

  sumsOf(provider: string, from: number, until: number): readonly BookedSum[] {
    const rows = this.#read((database) =>
      database.prepare<BookedRow, [string, number, number]>(sumsSql).all(provider, from, until),
    )
    return rows.map((row) => ({
      day: row.day,
      model: row.model,
      tier: row.tier,
      calls: Number(row.calls),
      cost: (row.high << 32n) + row.low,
      tokens: Number(row.tokens),
      estimated: Number(row.estimated),
      estimatedCost: (row.estimatedHigh << 32n) + row.estimatedLow,
      unpriced: Number(row.unpriced),
      failed: Number(row.failed),
    }))
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

  poolTotals(): readonly PoolTotal[] {
    const rows = this.#read((database) => database.prepare<PoolTotalRow, []>(poolTotalsSql).all())
    const whole = (high: bigint, low: bigint) => (high << 32n) + low
    return rows.map((row) => ({
      pool: row.pool,
      credit: whole(row.creditHigh, row.creditLow),
      held: whole(row.heldHigh, row.heldLow),
      owed: whole(row.owedHigh, row.owedLow),
    }))
  }

  #read<T>(read: (database: Database) => T): T {
    return orUnavailable(() => readingFrom(this.#path, read))
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

interface BookedRow {
  readonly day: string
  readonly model: string
  readonly tier: string | null
  readonly calls: bigint
  readonly high: bigint
  readonly low: bigint
  readonly tokens: bigint
  readonly estimated: bigint
  readonly estimatedHigh: bigint
  readonly estimatedLow: bigint
  readonly unpriced: bigint
  readonly failed: bigint
}

const dayOf = (column: string) => `strftime('%Y-%m-%d', ${column} / 1000, 'unixepoch')`
const tokensOfReceipt = tokenBuckets
  .map((bucket) => `coalesce(json_extract(receipt, '$.usage.${bucket}'), 0)`)
  .join(' + ')

/** A failed attempt has no model of its own: it counts for that of its call, without the provider's prefix. */
const sumsSql = `
  SELECT day, model, tier, sum(calls) AS calls, sum(cost >> 32) AS high, sum(cost & 4294967295) AS low,
    sum(tokens) AS tokens, sum(estimated) AS estimated, sum(iif(estimated, cost, 0) >> 32) AS estimatedHigh,
    sum(iif(estimated, cost, 0) & 4294967295) AS estimatedLow, sum(unpriced) AS unpriced, sum(failed) AS failed
  FROM (
    SELECT ${dayOf('ended_at')} AS day, json_extract(receipt, '$.served.upstreamModel') AS model,
      json_extract(receipt, '$.usage.serviceTier') AS tier, 1 AS calls, cost, ${tokensOfReceipt} AS tokens,
      estimated, json_extract(receipt, '$.served.unpriced') IS NOT NULL AS unpriced, 0 AS failed
    FROM call WHERE state = 'settled' AND ended_at >= ?2 AND ended_at < ?3
      AND json_extract(receipt, '$.served.provider') = ?1
    UNION ALL
    SELECT ${dayOf('call.ended_at')}, substr(call.model, instr(call.model, '/') + 1), NULL, 0, 0, 0, 0, 0, 1
    FROM attempt JOIN call ON call.id = attempt.call
    WHERE attempt.provider = ?1 AND call.ended_at >= ?2 AND call.ended_at < ?3)
  GROUP BY day, model, tier ORDER BY day, model, tier`

const unpaidSql = `
  SELECT coalesce(json_extract(receipt, '$.served.provider'), 'unknown') AS provider,
    sum(absorbed > 0) AS absorbedCalls, sum(absorbed >> 32) AS high, sum(absorbed & 4294967295) AS low,
    sum(json_extract(receipt, '$.overLimit') IS NOT NULL) AS overLimitCalls
  FROM call WHERE state = 'settled' AND ended_at >= ?
    AND (absorbed > 0 OR json_extract(receipt, '$.overLimit') IS NOT NULL)
  GROUP BY 1`

const inParts = (column: string, name: string) =>
  `sum(${column} >> 32) AS ${name}High, sum(${column} & 4294967295) AS ${name}Low`

const poolTotalsSql = `
  SELECT pool, ${inParts('posted', 'credit')}, ${inParts('held', 'held')}, ${inParts('debt', 'owed')}
  FROM wallet GROUP BY pool`

// Pages of an account's statement, newest first. The journal is ordered by transaction only, so a page reads it
// backwards in short steps and ends when it has read enough, even if it found nothing.

/** About 3,000 entries or 3 ms: other work runs between steps. */
const transactionsPerStep = 1_000
const stepsPerPage = 40

interface StatementRow {
  readonly tx: bigint
  readonly at: bigint
  readonly kind: TransactionKind
  /** `wallet:<account>:<pool>` */
  readonly wallet: string
  readonly lot: string | null
  readonly amount: bigint
  readonly call: string | null
  readonly model: string | null
  readonly source: string | null
}

export class SqliteStatements implements StatementReader {
  readonly #head: Statement<{ tx: bigint | null }, []>
  readonly #standing: Statement<{ tx: bigint | null; posted: bigint; debt: bigint }, [string]>
  readonly #timeOf: Statement<{ at: bigint }, [number]>
  readonly #step: Statement<StatementRow, (string | number)[]>

  constructor(database: Database) {
    this.#head = database.prepare('SELECT max(tx) AS tx FROM journal')
    // A statement is one snapshot, whatever other processes write.
    this.#standing = database.prepare(
      'SELECT (SELECT max(tx) FROM journal) AS tx, posted, debt FROM wallet WHERE account = ?',
    )
    this.#timeOf = database.prepare('SELECT at FROM journal WHERE tx = ? LIMIT 1')
    this.#step = database.prepare(
      `SELECT journal.tx, journal.at, journal.kind, journal.account AS wallet, journal.lot, journal.amount,
         call.id AS call, call.model,
         iif(journal.kind IN ('grant', 'adjust') AND journal.amount > 0, lot.source, NULL) AS source
       FROM journal LEFT JOIN call ON call.settle_tx = journal.tx LEFT JOIN lot ON lot.id = journal.lot
       WHERE journal.tx > ? AND journal.tx <= ? AND journal.account IN (${pools.map(() => '?').join(', ')})
       ORDER BY journal.tx DESC, journal.leg DESC`,
    )
  }

  async page(account: string, limit: number, before?: number, since?: number): Promise<StatementPage> {
    const entries: StatementEntry[] = []
    const end = since === undefined ? 0 : this.firstSince(since) - 1
    let bottom = Math.max(end, (before ?? this.#last() + 1) - 1)
    let steps = 0
    for await (const step of this.#backwards(account, bottom, end)) {
      entries.push(...step.entries)
      bottom = step.bottom
      steps++
      if (steps === stepsPerPage || entries.length >= limit) break
    }
    if (entries.length <= limit) return { entries, next: bottom > end ? bottom + 1 : null }
    return cut(entries, limit)
  }

  /** Times in the journal never decrease and its transactions have no gaps, so a binary search works. */
  firstSince(at: number): number {
    let [low, high] = [1, this.#last() + 1]
    while (low < high) {
      const middle = Math.floor((low + high) / 2)
      if (Number(orUnavailable(() => this.#timeOf.get(middle))?.at ?? 0n) < at) low = middle + 1
      else high = middle
    }
    return low
  }

  async span(
    account: string,
    { from, to }: { readonly from: number; readonly to: number },
    each: (entry: StatementEntry) => void,
  ): Promise<Span> {
    const rows = orUnavailable(() => this.#standing.all(account))
    const now = rows.reduce((sum, { posted, debt }) => plus(sum, { credit: posted, owed: debt }), nothing)
    const first = this.firstSince(from)
    const after = this.firstSince(to)
    let [later, during] = [nothing, nothing]
    for await (const { entries } of this.#backwards(account, Number(rows[0]?.tx ?? 0n), first - 1)) {
      for (const entry of entries) {
        if (entry.tx >= after) later = plus(later, changeOf(entry))
        else {
          during = plus(during, changeOf(entry))
          each(entry)
        }
      }
    }
    const closing = less(now, later)
    return { opening: less(closing, during), closing }
  }

  #last(): number {
    return Number(orUnavailable(() => this.#head.get())?.tx ?? 0n)
  }

  /** The entries of transactions from `top` down to above `end`. */
  async *#backwards(
    account: string,
    top: number,
    end: number,
  ): AsyncGenerator<{ readonly entries: readonly StatementEntry[]; readonly bottom: number }> {
    const wallets = pools.map((pool) => `wallet:${account}:${pool}`)
    for (let from = top; from > end;) {
      if (from < top) await new Promise((resolve) => setImmediate(resolve))
      const bottom = Math.max(end, from - transactionsPerStep)
      const rows = orUnavailable(() => this.#step.all(bottom, from, ...wallets))
      yield { entries: rows.map(entryOf), bottom }
      from = bottom
    }
  }
}

function less(a: StatementBalance, b: StatementBalance): StatementBalance {
  return { credit: a.credit - b.credit, owed: a.owed - b.owed }
}

/** A page ends between two transactions whatever its limit, since one may have several lines. */
function cut(entries: readonly StatementEntry[], limit: number): StatementPage {
  const last = entries[limit - 1]!.tx
  const rest = entries.findIndex(({ tx }) => tx < last)
  if (rest < 0) return { entries, next: last }
  return { entries: entries.slice(0, rest), next: last }
}

function entryOf({ tx, at, wallet, ...row }: StatementRow): StatementEntry {
  const pool = wallet.slice(wallet.lastIndexOf(':') + 1) as Pool
  return { ...row, tx: Number(tx), at: Number(at), pool }
}
