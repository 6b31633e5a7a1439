// The proof of the ledger on PostgreSQL, over all chains, on a connection of its own and as of one moment.

import { type Check, checksOfBoth, grantedLots } from '../audits.ts'
import { dayMs } from '../../credits/calendar.ts'
import type { AuditReport, DayAudit } from '../../credits/ledger/ledger.ts'
import { genesis, type HashedFields, hashOf } from '../ledger-rows.ts'
import { costColumns } from '../sql/usage-figures.ts'
import type { DatabaseServer } from '../store.ts'
import { Connection, stateOf } from './connection.ts'

/** It reads everything there is. */
const deadlineMs = 3_600_000
/** It sorts and adds up whole tables. */
export const settingsOfAudit: readonly string[] = ['jit = off', "work_mem = '64MB'"]
/** How many lines of the journal are in memory at once. */
const linesAtOnce = 10_000

const pins = `SELECT o.id, o.account, o.funding, o.key, pin.value ->> 0 AS lot, (pin.value ->> 1)::numeric AS amount
  FROM open_call AS o, json_array_elements(o.pins::json) AS pin`
const budgetsOf = (table: string) =>
  `SELECT budget.value ->> 0 AS scope, (budget.value ->> 1)::bigint AS "window", one.*
   FROM ${table} AS one, json_array_elements(one.in_group::json -> 'budgets') AS budget WHERE one.in_group IS NOT NULL`
const personOf = `(CASE WHEN in_group IS NULL THEN account ELSE in_group::json ->> 'person' END)`
const figures = ['calls', 'errors', 'input_tokens', 'output_tokens', 'cost', 'charged', 'timed', 'ms']

/** The note of when the acts of operators were first booked in a ledger that has moved here, and before that there are none. */
export const actsBookedNote = 'acts booked since'
const actsBookedAt = `coalesce((SELECT at FROM upkeep WHERE name = '${actsBookedNote}'), 0)`

/** The note of when a ledger moved here. */
export const movedNote = 'moved from SQLite'
const movedAt = `coalesce((SELECT at FROM upkeep WHERE name = '${movedNote}'), -1)`

const both = checksOfBoth({
  charges: 'call.settle_chain = journal.chain AND call.settle_tx = journal.tx',
  settle: 'settle_chain, settle_tx',
  startsWith: (text, start) => `starts_with(${text}, '${start}')`,
  position: (text, part) => `strpos(${text}, ${part})`,
  withoutLast: (text, count) => `left(${text}, -${count})`,
  beforeColon: (text) => `split_part(${text}, ':', 1)`,
  // A NUL, which no text of PostgreSQL has, may stand in what an operator wrote.
  json: (column) =>
    String.raw`(CASE WHEN strpos(${column}, '\u0000') > 0 THEN replace(${column}, '\u0000', '\ufffd') ELSE ${column} END)::json`,
  elementsOf: (column, member) => `json_array_elements(${column}::json -> '${member}')`,
  actsBookedAt,
})

/** What adjustments took, by their notes and by the journal. Notes of older versions do not tell the amount. */
const misnoted = `SELECT 'account ' || account AS broken FROM (
            SELECT account, taken AS amount FROM correction WHERE kind = 'adjust' AND taken > 0
            UNION ALL
            SELECT lot.account, amount FROM journal JOIN lot ON lot.id = journal.lot WHERE journal.kind = 'adjust') AS sums
          GROUP BY account HAVING sum(amount) <> 0
            AND account NOT IN (SELECT account FROM correction WHERE kind = 'adjust' AND taken = 0)`

const misgranted = `(starts_with(source, 'daily:') AND (pool <> 'daily' OR expires_at % ${dayMs} <> 0
              OR source IS DISTINCT FROM 'daily:' || account || ':'
                || to_char(to_timestamp(expires_at / 1000 - 1) AT TIME ZONE 'UTC', 'YYYY-MM-DD')))
            OR (starts_with(source, 'welcome:') AND source <> 'welcome:' || account)`

const checks: readonly Check[] = [
  {
    name: "every transaction's legs sum to zero",
    sql: `SELECT 'transaction ' || chain || '.' || tx AS broken FROM journal GROUP BY chain, tx HAVING sum(amount) <> 0`,
  },
  {
    name: 'transactions and legs are numbered without gaps',
    sql: `SELECT 'transaction ' || chain || '.' || tx AS broken FROM (
            SELECT chain, tx, leg, lag(tx) OVER line AS last_tx, lag(leg) OVER line AS last_leg FROM journal
            WINDOW line AS (PARTITION BY chain ORDER BY tx, leg)) AS lines
          WHERE NOT (tx = coalesce(last_tx, 0) + 1 AND leg = 0) AND NOT (tx = last_tx AND leg = last_leg + 1)
          UNION ALL SELECT 'chain ' || id FROM chain WHERE tx <> coalesce((SELECT max(tx) FROM journal WHERE chain = chain.id), 0)`,
    ofDay: `SELECT 'transaction ' || chain || '.' || tx AS broken FROM (
            SELECT chain, tx, leg, lag(tx) OVER line AS last_tx, lag(leg) OVER line AS last_leg FROM journal
            WINDOW line AS (PARTITION BY chain ORDER BY tx, leg)) AS lines
          WHERE NOT (leg = 0 AND tx = 1 + coalesce(last_tx,
              (SELECT coalesce(max(before.tx), 0) FROM whole_journal AS before WHERE before.chain = lines.chain AND before.tx < lines.tx)))
            AND NOT (tx = last_tx AND leg = last_leg + 1)`,
  },
  {
    name: "a wallet's posted − debt is the sum of its journal legs",
    sql: `SELECT 'wallet ' || name AS broken FROM (
            SELECT account AS name, amount FROM journal WHERE account LIKE 'wallet:%'
            UNION ALL SELECT 'wallet:' || account || ':' || pool, debt - posted FROM wallet) AS legs
          GROUP BY name HAVING sum(amount) <> 0`,
    ofDay: null,
  },
  both.sumsOfLots,
  both.overdrawn,
  {
    name: 'what lots have pinned is what open calls hold',
    sql: `SELECT 'lot ' || lot AS broken FROM (
            SELECT lot, amount FROM (${pins}) AS pins UNION ALL SELECT id, -pinned FROM lot WHERE pinned <> 0) AS sums
          GROUP BY lot HAVING sum(amount) <> 0
          UNION ALL SELECT 'call ' || id FROM open_call AS o
          WHERE hold <> (SELECT coalesce(sum((value ->> 1)::numeric), 0) FROM json_array_elements(o.pins::json))`,
  },
  {
    name: 'an open call holds credit of its own account and pools alone',
    sql: `SELECT 'call ' || pins.id AS broken FROM (${pins}) AS pins LEFT JOIN lot ON lot.id = pins.lot
          WHERE lot.id IS NULL OR lot.account <> pins.account OR NOT lot.pool = ANY (string_to_array(pins.funding, ','))
            OR (pins.key IS NOT NULL AND lot.pool <> 'purchased')`,
  },
  {
    name: 'a call is open or has ended, never both',
    sql: `SELECT 'call ' || id AS broken FROM open_call JOIN call USING (id)`,
    ofDay: `SELECT 'call ' || id AS broken FROM open_call JOIN whole_call USING (id)`,
  },
  both.parts,
  both.expiry,
  both.pools,
  {
    name: 'a call ends once: settled with one transaction of its cost, or voided with none',
    // Sums, and no join: what is thought of two million calls made it one that took minutes and more.
    sql: `SELECT coalesce('call ' || min(id), 'transaction ' || chain || '.' || tx) AS broken FROM (
            SELECT settle_chain AS chain, settle_tx AS tx, id, 0 AS is_first, cost, charged, absorbed
            FROM call WHERE settle_tx IS NOT NULL
            UNION ALL
            SELECT chain, tx, NULL, CASE leg WHEN 0 THEN 1 ELSE 0 END,
              CASE WHEN account LIKE 'provider:%' THEN -amount ELSE 0 END,
              CASE WHEN lot IS NOT NULL THEN amount ELSE 0 END,
              CASE account WHEN 'absorbed' THEN amount ELSE 0 END
            FROM journal WHERE kind = 'settle') AS sums
          GROUP BY chain, tx HAVING sum(cost) <> 0 OR sum(charged) <> 0 OR sum(absorbed) <> 0
            OR (min(id) IS NULL AND sum(is_first) > 0)
          UNION ALL SELECT 'call ' || id FROM call
          WHERE (state = 'settled' AND settle_tx IS NULL AND (cost <> 0 OR charged <> 0 OR absorbed <> 0))
            OR (state <> 'settled' AND settle_tx IS NOT NULL)`,
  },
  {
    name: "a key's spending is the sum of its calls",
    sql: `SELECT 'key ' || key AS broken FROM (
            SELECT key, day, spent FROM key_spend
            UNION ALL SELECT key, ended_at - ended_at % 86400000, -charged FROM call WHERE key IS NOT NULL) AS sums
          GROUP BY key, day HAVING sum(spent) <> 0`,
    ofDay: `SELECT 'key ' || key AS broken FROM (
            SELECT key, spent FROM key_spend
            UNION ALL SELECT key, -charged FROM call, day WHERE key IS NOT NULL AND ended_at >= day.start AND ended_at < day.next) AS sums
          GROUP BY key HAVING sum(spent) <> 0`,
  },
  {
    // Over the windows that a call was held in, wherever its person or its group is moved afterwards.
    name: "a budget's spending is the sum of the calls that were held on it",
    sql: `SELECT 'budget ' || scope AS broken FROM (
            SELECT scope, "window", spent FROM budget_spend
            UNION ALL SELECT scope, "window", -charged FROM (${budgetsOf('call')}) AS calls WHERE state = 'settled') AS sums
          GROUP BY scope, "window" HAVING sum(spent) <> 0`,
    ofDay: null,
  },
  {
    name: 'what a budget holds is what its open calls hold',
    sql: `SELECT 'budget ' || scope AS broken FROM (
            SELECT scope, "window", held FROM budget_spend
            UNION ALL SELECT scope, "window", -hold FROM (${budgetsOf('open_call')}) AS calls) AS sums
          GROUP BY scope, "window" HAVING sum(held) <> 0`,
  },
  {
    // Calls that were refused count as well. Of a ledger that has moved here this holds from the next day on: SQLite does not
    // prove it, and earlier versions counted by other rules.
    name: 'the usage of a day is that of its calls',
    sql: `SELECT 'day of ' || account AS broken FROM (
            SELECT account, day, key, model, calls, cost, charged FROM usage_day
            UNION ALL SELECT ${personOf}, ended_at - ended_at % 86400000, coalesce(key, ''), model, -1, -cost, -charged FROM call) AS sums
          WHERE day > ${movedAt} GROUP BY account, day, key, model
          HAVING sum(calls) < 0 OR sum(cost) <> 0 OR sum(charged) <> 0
          UNION ALL
          SELECT 'total of ' || model FROM (
            SELECT day, model, ${figures.join(', ')} FROM usage_day
            UNION ALL SELECT day, model, ${figures.map((name) => `-${name}`).join(', ')} FROM usage_total) AS sums
          WHERE day > ${movedAt} GROUP BY day, model HAVING ${figures.map((name) => `sum(${name}) <> 0`).join(' OR ')}
          UNION ALL
          SELECT 'months of ' || account FROM (
            SELECT account, key, model, ${figures.join(', ')}, cost AS of_days FROM usage_day
            UNION ALL SELECT account, key, model, ${figures.map((name) => `-${name}`).join(', ')},
              ${costColumns.map((name) => `- coalesce(${name}, 0)`).join(' ')} FROM usage_month) AS sums
          WHERE ${movedAt} < 0 GROUP BY account, key, model
          HAVING ${[...figures, 'of_days'].map((name) => `sum(${name}) <> 0`).join(' OR ')}`,
    ofDay: null,
  },
  both.order,
  both.groups,
  {
    name: 'one Idempotency-Key is one call of its account',
    sql: `SELECT 'key ' || idempotency.key AS broken FROM idempotency JOIN call ON call.id = idempotency.call
          WHERE ${personOf.replaceAll(/in_group|account/g, 'call.$&')} IS DISTINCT FROM idempotency.account`,
  },
  both.payments,
  { ...both.adjustments, sql: `${both.adjustments.sql} UNION ALL ${misnoted}` },
  both.repeated,
  {
    // Every refund has its row, which keeps it from being booked twice, and every row its transactions.
    name: 'every refund is noted under its id',
    sql: `SELECT name AS broken FROM (
            SELECT 'wallet:' || account || ':purchased' AS name, taken + debt AS amount FROM correction WHERE kind = 'refund'
            UNION ALL
            SELECT account, amount FROM journal WHERE kind = 'refund' AND amount < 0 AND account LIKE 'wallet:%') AS sums
          GROUP BY name HAVING sum(amount) <> 0`,
    ofDay: null,
  },
  {
    // A failed refund leaves the sum, and all together take no more than was paid.
    name: 'a payment is refunded by what its refunds and lost disputes say',
    sql: `SELECT 'top-up ' || top_up.id AS broken FROM top_up LEFT JOIN payment_reversal AS reversal ON reversal.top_up = top_up.id
          GROUP BY top_up.id HAVING top_up.refunded <> least(top_up.amount,
            coalesce(sum(reversal.amount) FILTER (WHERE kind = 'lost'), 0) + greatest(0,
              coalesce(sum(reversal.amount) FILTER (WHERE kind = 'refund'), 0)
              - coalesce(sum(reversal.amount) FILTER (WHERE kind = 'failed'), 0)))`,
    ofDay: null,
  },
  {
    name: 'one allowance for each account and UTC day, one welcome for each account',
    sql: `SELECT 'lot ' || id AS broken FROM lot WHERE ${misgranted}`,
    ofDay: `SELECT 'lot ' || id AS broken FROM lot WHERE id IN (${grantedLots}) AND (${misgranted})`,
  },
  {
    // Two decisions from one state of a wallet would give two transactions one version; a repayment shares that of its cause.
    name: 'the bookings of an account have one order',
    sql: `SELECT 'account ' || name AS broken FROM (
            SELECT DISTINCT split_part(account, ':', 2) AS name, version, chain, tx, kind FROM journal WHERE version IS NOT NULL) AS lines
          WHERE kind <> 'repay' GROUP BY name, version HAVING count(*) > 1
          UNION ALL
          SELECT 'account ' || journal.account FROM journal LEFT JOIN wallet_head AS head ON head.account = split_part(journal.account, ':', 2)
          WHERE journal.version IS NOT NULL AND (head.version IS NULL OR journal.version > head.version)`,
  },
]

const chainName = 'every hash chain is whole, to the end that its process has written'

/** Audits the whole ledger. Throws only if it cannot be read. */
export function auditAll(server: string | DatabaseServer): Promise<AuditReport> {
  return readingFrom(server, auditOf)
}

/** The same as a transaction that is under way sees it. */
export async function auditOf(connection: Connection): Promise<AuditReport> {
  const found = await runChecks(connection, checks)
  const { lines, broken } = await readChains(connection)
  const all = [...found, { name: chainName, ok: broken === null, detail: broken }]
  // Each process has an end of its own, in `chain`: there is no single head.
  return { ok: isSound(all), journalEntries: lines, headHash: '', checks: all, replaced: [] }
}

/**
 * Audits the UTC day that begins at `day`: of each chain all transactions from its first of that day to its last, and all
 * calls that ended that day or were charged in one of them. Throws only if it cannot be read.
 */
export function auditDay(server: string | DatabaseServer, day: number): Promise<DayAudit> {
  return readingFrom(server, async (connection) => {
    const spans = await connection.send<DaySpan>(
      `SELECT chain, min(tx) AS first, max(tx) AS last FROM journal WHERE at >= $1 AND at < $2 GROUP BY chain ORDER BY chain`,
      [BigInt(day), BigInt(day + dayMs)],
    )
    const rows = narrow(day, spans)
    const found = await runChecks(
      connection,
      checks.flatMap(({ name, sql, ofDay = sql }) =>
        ofDay === null ? [] : [{ name, sql: `${rows} ${ofDay}` }],
      ),
    )
    const chains: Awaited<ReturnType<typeof readDay>>[] = []
    for (const span of spans) chains.push(await readDay(connection, span))
    const broken = chains.find((chain) => chain.broken !== null)?.broken ?? null
    const all = [{ name: 'the hash chains verify', ok: broken === null, detail: broken }, ...found]
    const [ended] = await connection.send<{ readonly calls: bigint }>(
      'SELECT count(*) AS calls FROM call WHERE ended_at >= $1 AND ended_at < $2',
      [BigInt(day), BigInt(day + dayMs)],
    )
    return {
      ok: isSound(all),
      journalEntries: chains.reduce((sum, { lines }) => sum + lines, 0),
      calls: Number(ended!.calls),
      journal: chains.map(({ journal }) => journal),
      checks: all,
      notChecked: [
        'the hash chains before and after the day',
        chainName,
        ...checks.filter(({ ofDay }) => ofDay === null).map(({ name }) => name),
      ],
    }
  })
}

/** All that is read is of one moment. */
async function readingFrom<T>(
  server: string | DatabaseServer,
  read: (connection: Connection) => Promise<T>,
): Promise<T> {
  const connection = new Connection(server, { deadlineMs, settings: settingsOfAudit })
  try {
    await connection.open()
    await connection.run('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
    return await read(connection)
  } finally {
    await connection.close()
  }
}

async function runChecks(
  connection: Connection,
  wanted: readonly Pick<Check, 'name' | 'sql'>[],
): Promise<AuditReport['checks']> {
  const found: AuditReport['checks'][number][] = []
  for (const { name, sql } of wanted) {
    const detail = await firstBroken(connection, sql)
    found.push({ name, ok: detail === null, detail })
  }
  return found
}

async function firstBroken(connection: Connection, sql: string): Promise<string | null> {
  const [, checked] = await Promise.allSettled([
    connection.send('SAVEPOINT before_check'),
    connection.send<{ readonly broken: string }>(`${sql} LIMIT 1`),
  ])
  if (checked.status === 'fulfilled') return checked.value[0]?.broken ?? null
  const error: unknown = checked.reason
  if (stateOf(error) === '') throw error
  // A forged figure can overflow a sum, and what is no JSON cannot be read: these are findings too.
  await connection.send('ROLLBACK TO SAVEPOINT before_check')
  return `the check could not be computed: ${String(error)}`
}

function isSound(found: AuditReport['checks']): boolean {
  return found.every(({ ok }) => ok)
}

/** The first and the last transaction of a day in a chain. */
interface DaySpan {
  readonly chain: bigint
  readonly first: bigint
  readonly last: bigint
}

/** Rows of one day under the names of their tables, which are `whole_journal` and `whole_call` then: what precedes a check. */
function narrow(day: number, spans: readonly DaySpan[]): string {
  const next = day + dayMs
  const list = spans.length === 0 ? ['(0::bigint, 1::bigint, 0::bigint)'] : spans.map(spanRow)
  const isOfDay = `(ended_at >= ${day} AND ended_at < ${next})`
  return `WITH day AS (SELECT ${day}::bigint AS start, ${next}::bigint AS next),
    spans (chain, first, last) AS (VALUES ${list.join(', ')}),
    whole_journal AS NOT MATERIALIZED (SELECT * FROM journal),
    whole_call AS NOT MATERIALIZED (SELECT * FROM call),
    journal AS (SELECT line.* FROM spans JOIN journal AS line ON line.chain = spans.chain AND line.tx BETWEEN spans.first AND spans.last),
    call AS (
      SELECT * FROM call WHERE ${isOfDay}
      UNION ALL SELECT one.* FROM spans JOIN call AS one
        ON one.settle_chain = spans.chain AND one.settle_tx BETWEEN spans.first AND spans.last WHERE NOT ${isOfDay}),
    key_spend AS (
      SELECT spend.* FROM (SELECT id FROM api_key UNION SELECT key FROM call WHERE key IS NOT NULL) AS known
        JOIN key_spend AS spend ON spend.key = known.id AND spend.day = ${day})`
}

function spanRow({ chain, first, last }: DaySpan): string {
  return `(${chain}::bigint, ${first}::bigint, ${last}::bigint)`
}

/** A chain from the entry before the day, whose hash is trusted, to the entry after it, which must follow from it. */
async function readDay(connection: Connection, { chain, first, last }: DaySpan) {
  type End = { readonly hash: Uint8Array; readonly prev_hash: Uint8Array; readonly tx: bigint }
  const [before] = await connection.send<End>(
    'SELECT tx, prev_hash, hash FROM journal WHERE chain = $1 AND tx < $2 ORDER BY tx DESC, leg DESC LIMIT 1',
    [chain, first],
  )
  const given = before?.hash ?? genesis
  const { lines, head, broken } = await readChain(connection, chain, given, { first, last })
  const [after] = await connection.send<End>(
    'SELECT tx, prev_hash, hash FROM journal WHERE chain = $1 AND tx > $2 ORDER BY tx, leg LIMIT 1',
    [chain, last],
  )
  const isTorn = after !== undefined && Buffer.compare(after.prev_hash, head) !== 0
  return {
    lines,
    broken: broken ?? (isTorn ? `transaction ${chain}.${after.tx}` : null),
    journal: {
      chain: Number(chain),
      firstTransaction: Number(first),
      lastTransaction: Number(last),
      givenHash: given.toHex(),
      headHash: head.toHex(),
    },
  }
}

type Line = HashedFields & {
  readonly tx: bigint
  readonly leg: bigint
  readonly prev_hash: Uint8Array
  readonly hash: Uint8Array
}

async function readChains(
  connection: Connection,
): Promise<{ readonly lines: number; readonly broken: string | null }> {
  let count = 0
  const chains = await connection.send<{ readonly id: bigint; readonly head: Uint8Array }>(
    'SELECT id, head FROM chain ORDER BY id',
  )
  for (const { id, head } of chains) {
    const read = await readChain(connection, id, genesis, { first: 0n, last: largestTransaction })
    count += read.lines
    if (read.broken !== null) return { lines: count, broken: read.broken }
    if (Buffer.compare(read.head, head) !== 0) return { lines: count, broken: `the end of chain ${id}` }
  }
  return { lines: count, broken: null }
}

const largestTransaction = 2n ** 63n - 1n

/** The lines of some transactions of a chain, each after the one before; `head`: the hash of the last that was as it should be. */
async function readChain(
  connection: Connection,
  chain: bigint,
  given: Uint8Array,
  { first, last }: Pick<DaySpan, 'first' | 'last'>,
): Promise<{ readonly lines: number; readonly head: Uint8Array; readonly broken: string | null }> {
  let count = 0
  let head = given
  let after = { tx: first, leg: -1n }
  for (;;) {
    const lines = await connection.send<Line>(
      `SELECT tx, leg, kind, account, lot, amount, at, prev_hash, hash FROM journal
       WHERE chain = $1 AND (tx, leg) > ($2, $3) AND tx <= $4 ORDER BY tx, leg LIMIT ${linesAtOnce}`,
      [chain, after.tx, after.leg, last],
    )
    for (const line of lines) {
      const hash = hashOf(head, line)
      if (Buffer.compare(line.prev_hash, head) !== 0 || Buffer.compare(line.hash, hash) !== 0)
        return { lines: count, head, broken: `transaction ${chain}.${line.tx}` }
      head = hash
      count++
    }
    const end = lines.at(-1)
    if (!end) return { lines: count, head, broken: null }
    after = end
  }
}
