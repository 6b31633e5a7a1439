// Reports of the whole ledger, each from one snapshot; read-only.

import { dayMs } from '../../credits/calendar.ts'
import { tokenBuckets } from '../../conversation/usage.ts'
import type {
  BookedSum,
  Debt,
  HistoryEntry,
  LedgerReports,
  PoolTotal,
  ProviderCall,
  Unpaid,
} from '../../credits/ledger/monthly.ts'
import type { Pool } from '../../credits/pool.ts'
import type { Awaitable } from '../../async/async.ts'
import { type Bookings, entryOf, type EntryRow, selectEntries, walletsOf } from './statements.ts'
import { sql, type Statement, type Tables, type Work } from './work.ts'

/** The two halves of a sum: the sum itself may exceed the integers of a database. */
const inParts = (amount: string, name: string) =>
  `CAST(sum((${amount}) >> 32) AS bigint) AS ${name}_high, CAST(sum((${amount}) & 4294967295) AS bigint) AS ${name}_low`
const whole = (high: bigint, low: bigint) => (high << 32n) + low
const sumOf = (value: string) => `CAST(sum(${value}) AS bigint)`
const flagOf = (condition: string) => `CASE WHEN ${condition} THEN 1 ELSE 0 END`

const provider = `json(receipt) -> 'served' ->> 'provider'`
const dayOf = (column: string) => `${column} - ${column} % ${dayMs}`

const findDebts = sql<Debt>('SELECT account, debt FROM wallet WHERE debt > 0 ORDER BY debt DESC, account')

interface ProviderCallRow extends Omit<ProviderCall, 'at' | 'upstreamId' | 'estimated'> {
  readonly upstream_id: string
  readonly at: bigint
  readonly estimated: bigint
}

const findCalls = sql<ProviderCallRow>(
  `SELECT id AS call, upstream_id, model, ended_at AS at, 'served' AS outcome, charged, absorbed, estimated
   FROM call WHERE state = 'settled' AND upstream_id IS NOT NULL AND (${provider}) = ?1
   UNION ALL
   SELECT call.id, attempt.upstream_id, call.model, call.ended_at, 'failed', 0, 0, 0
   FROM attempt JOIN call ON call.id = attempt.call
   WHERE attempt.provider = ?1 AND attempt.upstream_id IS NOT NULL
   ORDER BY 4, 1`,
)

interface BookedRow {
  readonly day: bigint
  readonly model: string
  readonly tier: string | null
  readonly calls: bigint
  readonly cost_high: bigint
  readonly cost_low: bigint
  readonly tokens: bigint
  readonly estimated: bigint
  readonly estimated_high: bigint
  readonly estimated_low: bigint
  readonly unpriced: bigint
}

const tokensOfReceipt = tokenBuckets
  .map((bucket) => `coalesce(CAST(json(receipt) -> 'usage' ->> '${bucket}' AS numeric), 0)`)
  .join(' + ')
const tier = `json(receipt) -> 'usage' ->> 'serviceTier'`
const upstreamModel = `json(receipt) -> 'served' ->> 'upstreamModel'`

const sumBooked = sql<BookedRow>(
  `SELECT day, model, tier, count(*) AS calls, ${inParts('cost', 'cost')}, ${sumOf('tokens')} AS tokens,
     ${sumOf('estimated')} AS estimated, ${inParts('cost * estimated', 'estimated')}, ${sumOf('unpriced')} AS unpriced
   FROM (
     SELECT ${dayOf('ended_at')} AS day, ${upstreamModel} AS model, ${tier} AS tier, cost, ${tokensOfReceipt} AS tokens, estimated,
       ${flagOf(`(json(receipt) -> 'served' ->> 'unpriced') IS NOT NULL`)} AS unpriced
     FROM call WHERE state = 'settled' AND ended_at >= ?2 AND ended_at < ?3 AND (${provider}) = ?1) AS calls
   GROUP BY day, model, tier`,
)

/** A failed attempt has no model of its own: it counts for that of its call. */
const countFailed = sql<{ readonly day: bigint; readonly model: string; readonly failed: bigint }>(
  `SELECT day, model, count(*) AS failed FROM (
     SELECT ${dayOf('call.ended_at')} AS day, call.model FROM attempt JOIN call ON call.id = attempt.call
     WHERE attempt.provider = ?1 AND call.ended_at >= ?2 AND call.ended_at < ?3) AS attempts
   GROUP BY day, model`,
)

interface UnpaidRow {
  readonly provider: string
  readonly absorbed_calls: bigint
  readonly absorbed_high: bigint
  readonly absorbed_low: bigint
  readonly over_limit: bigint
}

const overLimit = `(json(receipt) ->> 'overLimit') IS NOT NULL`
const findUnpaid = sql<UnpaidRow>(
  `SELECT provider, ${sumOf(flagOf('absorbed > 0'))} AS absorbed_calls, ${inParts('absorbed', 'absorbed')},
     ${sumOf('over_limit')} AS over_limit
   FROM (
     SELECT coalesce(${provider}, 'unknown') AS provider, absorbed, ${flagOf(overLimit)} AS over_limit
     FROM call WHERE state = 'settled' AND ended_at >= ? AND (absorbed > 0 OR ${overLimit})) AS calls
   GROUP BY provider`,
)

type PoolTotalRow = { readonly pool: Pool } & Record<
  `${'credit' | 'held' | 'owed'}_${'high' | 'low'}`,
  bigint
>

const sumPools = sql<PoolTotalRow>(
  `SELECT pool, ${inParts('posted', 'credit')}, ${inParts('held', 'held')}, ${inParts('debt', 'owed')}
   FROM wallet GROUP BY pool ORDER BY pool`,
)

export class SqlReports implements LedgerReports {
  readonly #tables: Tables
  readonly #history: Statement<EntryRow>

  constructor(tables: Tables, bookings: Bookings) {
    this.#tables = tables
    this.#history = sql<EntryRow>(
      `${selectEntries(bookings)} WHERE journal.account IN LIST(?) ORDER BY ${bookings.number}, journal.tx, journal.leg`,
    )
  }

  history(account: string): Awaitable<readonly HistoryEntry[]> {
    const find = this.#history
    return this.#tables.do(function* (): Work<readonly HistoryEntry[]> {
      let balance = 0n
      return (yield* find.all(walletsOf(account))).map((row) => {
        balance += row.amount
        return { ...entryOf(row), balance }
      })
    })
  }

  debts(): Awaitable<readonly Debt[]> {
    return this.#tables.do(() => findDebts.all())
  }

  callsOf(provider: string): Awaitable<readonly ProviderCall[]> {
    return this.#tables.do(function* (): Work<readonly ProviderCall[]> {
      return (yield* findCalls.all(provider)).map(({ at, upstream_id, estimated, ...row }) => ({
        ...row,
        upstreamId: upstream_id,
        at: Number(at),
        estimated: estimated === 1n,
      }))
    })
  }

  sumsOf(provider: string, from: number, until: number): Awaitable<readonly BookedSum[]> {
    return this.#tables.reads(function* (): Work<readonly BookedSum[]> {
      const booked = yield* sumBooked.all(provider, from, until)
      const failed = yield* countFailed.all(provider, from, until)
      return sumsIn(booked, failed)
    })
  }

  unpaid(since: number): Awaitable<readonly Unpaid[]> {
    return this.#tables.do(function* (): Work<readonly Unpaid[]> {
      return (yield* findUnpaid.all(since))
        .map((row) => ({
          provider: row.provider,
          absorbedCalls: Number(row.absorbed_calls),
          absorbed: whole(row.absorbed_high, row.absorbed_low),
          overLimitCalls: Number(row.over_limit),
        }))
        .toSorted((a, b) => (a.absorbed > b.absorbed ? -1 : 1))
    })
  }

  poolTotals(): Awaitable<readonly PoolTotal[]> {
    return this.#tables.do(function* (): Work<readonly PoolTotal[]> {
      const rows = yield* sumPools.all()
      return rows.map((row) => ({
        pool: row.pool,
        credit: whole(row.credit_high, row.credit_low),
        held: whole(row.held_high, row.held_low),
        owed: whole(row.owed_high, row.owed_low),
      }))
    })
  }
}

function sumsIn(
  booked: readonly BookedRow[],
  attempts: readonly { readonly day: bigint; readonly model: string; readonly failed: bigint }[],
): readonly BookedSum[] {
  const sums = new Map<string, BookedSum>()
  const nameOf = (day: string, model: string, tier: string | null) => JSON.stringify([day, model, tier ?? ''])
  for (const row of booked) {
    const day = dateOf(row.day)
    sums.set(nameOf(day, row.model, row.tier), {
      day,
      model: row.model,
      tier: row.tier,
      calls: Number(row.calls),
      cost: whole(row.cost_high, row.cost_low),
      tokens: Number(row.tokens),
      estimated: Number(row.estimated),
      estimatedCost: whole(row.estimated_high, row.estimated_low),
      unpriced: Number(row.unpriced),
      failed: 0,
    })
  }
  for (const { day: at, model: full, failed } of attempts) {
    const day = dateOf(at)
    // Without the provider's prefix, as the provider says it.
    const model = full.slice(full.indexOf('/') + 1)
    const before = sums.get(nameOf(day, model, null)) ?? { ...noneBooked, day, model }
    sums.set(nameOf(day, model, null), { ...before, failed: before.failed + Number(failed) })
  }
  return [...sums].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, sum]) => sum)
}

const noneBooked = {
  tier: null,
  calls: 0,
  cost: 0n,
  tokens: 0,
  estimated: 0,
  estimatedCost: 0n,
  unpriced: 0,
  failed: 0,
} satisfies Partial<BookedSum>

function dateOf(day: bigint): string {
  return new Date(Number(day)).toISOString().slice(0, 10)
}
