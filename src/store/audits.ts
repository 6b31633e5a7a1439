// What audits of both databases have in common.

import type { AuditReport, DayAudit } from '../credits/ledger/ledger.ts'
import { fundingOf } from '../credits/pool.ts'
import { GatewayError } from '../errors/errors.ts'
import { planSource } from '../payments/subscriptions.ts'
import { externalProcessorIds } from '../payments/top-up.ts'

// Audits while calls are served: each reads everything there is, so one runs at a time.

/** Audits the ledger, or the UTC day that begins at `day`. */
export type AuditBeside = (day?: number) => Promise<AuditReport | DayAudit>

/** The same request shares its report; another one is refused with `rate_limit_exceeded` meanwhile. */
export function oneAtATime(audit: AuditBeside): AuditBeside {
  let running: { readonly day: number | undefined; readonly report: ReturnType<AuditBeside> } | undefined
  return async (day) => {
    if (running?.day === day && running !== undefined) return running.report
    if (running) {
      const message = 'Another audit runs: one at a time.'
      throw new GatewayError('rate_limit_exceeded', { message, retryAfterMs: 5_000 })
    }
    const report = audit(day).finally(() => (running = undefined))
    running = { day, report }
    return report
  }
}

/** A query for violations: the first row names one in the column `broken`. */
export interface Check {
  readonly name: string
  readonly sql: string
  /** The same of one day, where `journal` and `call` are its rows; left out if it needs no change, null if only the whole journal can answer. */
  readonly ofDay?: string | null
}

/** What a database calls things: each gives an expression of its SQL. */
interface AuditSql {
  /** The condition that joins the journal to the call that it charges. */
  readonly charges: string
  /** The columns of `call` that name that transaction. */
  readonly settle: string
  readonly startsWith: (text: string, start: string) => string
  /** Where a part begins in a text, from 1; 0 where it is not in it. */
  readonly position: (text: string, part: string) => string
  /** A text without its last characters. */
  readonly withoutLast: (text: string, count: string) => string
  /** The part of a text before its first colon. */
  readonly beforeColon: (text: string) => string
  /** A column with JSON, for `->>`. */
  readonly json: (column: string) => string
  /** The members of an array in a column with JSON, for FROM. */
  readonly elementsOf: (column: string, member: string) => string
  /** Since when the acts of operators are booked with what they do. */
  readonly actsBookedAt: string
}

const spendingOrder = fundingOf('app', true).join(',')

/** Lots that were made by the day's transactions. */
export const grantedLots = 'SELECT lot FROM journal WHERE lot IS NOT NULL AND amount > 0'

const overdrawn = (lots: string) => `SELECT 'wallet ' || account || ':' || pool AS broken FROM wallet
          WHERE posted < 0 OR debt < 0 OR held NOT BETWEEN 0 AND posted
          UNION ALL
          SELECT 'lot ' || id FROM (SELECT * FROM ${lots}) AS lots
          WHERE remaining < 0 OR pinned NOT BETWEEN 0 AND remaining OR expired < 0 OR refunded < 0
            OR live <> CASE WHEN remaining > 0 THEN 1 ELSE 0 END`

/** The checks that read the same in both databases. */
export function checksOfBoth(of: AuditSql) {
  const { charges, startsWith, beforeColon, json } = of
  const afterColon = (text: string) => `substr(${text}, ${of.position(text, "':'")} + 1)`
  const isIn = (pool: string, funding: string) =>
    `${of.position(`',' || ${funding} || ','`, `',' || ${pool} || ','`)} > 0`

  // A top-up and the lot of its credit match, and no payment has a second lot. The account is no bare column: SQLite would
  // read all top-ups of the account for each of its lots.
  const payments = (
    lots: string,
  ) => `SELECT 'top-up ' || top_up.id AS broken FROM ${lots} AS lot JOIN top_up ON top_up.lot = lot.id
          WHERE lot.account <> top_up.account OR lot.granted <> top_up.credit OR lot.pool <> 'purchased'
            OR lot.source IS DISTINCT FROM 'payment:' || top_up.processor || ':' || top_up.payment_id
          UNION ALL
          SELECT 'lot ' || lot.id FROM ${lots} AS lot
          WHERE (${externalProcessorIds.map((id) => startsWith('lot.source', `payment:${id}:`)).join(' OR ')})
            AND NOT EXISTS (SELECT 1 FROM top_up WHERE (top_up.account || '') = lot.account
              AND top_up.processor = ${beforeColon(afterColon('lot.source'))}
              AND top_up.payment_id = ${afterColon(afterColon('lot.source'))})`
  const plans = findMisplacedPlans('lot')
  const lotsOfDay = `(SELECT * FROM lot WHERE id IN (${grantedLots}))`

  /** What asked for corrections of one kind: of each its id, its account, what it takes, and the request that its id names. */
  const requestsOf = (kind: string, request: string) => `(
            SELECT id, account, taken, ${request} AS request FROM correction
            WHERE kind = 'adjust' AND ${startsWith('id', `${kind}:`)}) AS asked`
  const isReversal = (reversal: string) =>
    `${reversal}.processor = ${beforeColon('request')} AND ${reversal}.id = ${afterColon('request')}`
  const actOf = (what: string, field: string) => `(SELECT subject, ${json('after')} ->> '${field}' FROM act
              WHERE what = '${what}' AND ${json('after')} ->> '${field}' IS NOT NULL)`

  return {
    sumsOfLots: {
      name: "a wallet's posted and held are the sums over its lots",
      sql: `SELECT 'wallet ' || account || ':' || pool AS broken FROM (
            SELECT account, pool, posted, held FROM wallet
            UNION ALL SELECT account, pool, -remaining, -pinned FROM lot WHERE live = 1) AS sums
          GROUP BY account, pool HAVING sum(posted) <> 0 OR sum(held) <> 0`,
    },
    // The tables forbid it too; but SQLite's quick_check leaves their constraints out on a connection that only reads.
    overdrawn: {
      name: 'no credit is below zero, and no more is held than there is',
      sql: overdrawn('lot'),
      ofDay: overdrawn('lot WHERE live = 1'),
    },
    // A refund undoes the expiry of what it takes: the only line but that of its grant that adds to a lot.
    parts: {
      name: 'per lot: granted = remaining + consumed + expired + refunded',
      sql: `SELECT 'lot ' || id AS broken FROM (
            SELECT id, 1 AS known, 0 AS moved, granted, granted - remaining - expired - refunded AS consumed, expired, refunded
            FROM lot
            UNION ALL
            SELECT lot, 0, 1,
              CASE WHEN amount > 0 AND kind <> 'refund' THEN -amount ELSE 0 END,
              CASE WHEN kind = 'settle' THEN amount ELSE 0 END,
              CASE WHEN kind = 'expire' OR (kind = 'refund' AND amount > 0) THEN amount ELSE 0 END,
              CASE WHEN kind NOT IN ('settle', 'expire') AND amount < 0 THEN amount ELSE 0 END
            FROM journal WHERE lot IS NOT NULL) AS sums
          GROUP BY id HAVING sum(known) <> 1 OR sum(moved) = 0 OR sum(granted) <> 0 OR sum(consumed) <> 0
            OR sum(expired) <> 0 OR sum(refunded) <> 0`,
      ofDay: null,
    },
    expiry: {
      name: 'no lot is consumed after its expiry unless pinned before',
      sql: `SELECT 'call ' || call.id || ' lot ' || lot.id AS broken FROM journal
          JOIN lot ON lot.id = journal.lot JOIN call ON ${charges}
          WHERE journal.kind = 'settle' AND journal.at > lot.expires_at AND call.opened_at >= lot.expires_at`,
    },
    pools: {
      name: "a call is paid by its own account's pools; an API key's by purchased credit alone",
      sql: `SELECT 'call ' || call.id AS broken FROM journal JOIN call ON ${charges}
          JOIN lot ON lot.id = journal.lot
          WHERE lot.account <> call.account OR journal.account <> 'wallet:' || call.account || ':' || lot.pool
            OR NOT (${isIn('lot.pool', 'call.funding')})
            OR (call.key IS NOT NULL AND lot.pool <> 'purchased')`,
    },
    order: {
      name: 'a call may spend pools in the order of spending alone',
      sql: `SELECT 'call ' || id AS broken FROM (
            SELECT id, funding FROM open_call UNION ALL SELECT id, funding FROM call
            WHERE funding NOT IN ('purchased', '${spendingOrder}')) AS calls
          WHERE ',${spendingOrder},' NOT LIKE '%,' || replace(funding, ',', ',%') || ',%'`,
    },
    groups: {
      name: 'a call of a group names it, its person, and no budget twice',
      sql: `SELECT 'call ' || id AS broken FROM (
            SELECT id, key, in_group FROM call WHERE in_group IS NOT NULL
            UNION ALL SELECT id, key, in_group FROM open_call WHERE in_group IS NOT NULL) AS calls
          WHERE key IS NULL OR ${json('in_group')} ->> 'group' IS NULL OR ${json('in_group')} ->> 'person' IS NULL
            OR (SELECT count(*) <> count(DISTINCT value ->> 0) FROM ${of.elementsOf('in_group', 'budgets')})`,
    },
    payments: {
      name: 'one payment is one credit',
      sql: `${payments('lot')}
          UNION ALL
          SELECT 'top-up ' || id FROM top_up WHERE lot IS NOT NULL AND NOT EXISTS (SELECT 1 FROM lot WHERE lot.id = top_up.lot)
          UNION ALL ${plans.payments} UNION ALL ${plans.lots}`,
      ofDay: `${payments(lotsOfDay)} UNION ALL ${findMisplacedPlans(lotsOfDay).lots}`,
    },
    /**
     * Each adjustment has its note, and what asked for it: the row of a refund, a dispute or a subscription, or the act of
     * an operator. Notes of older versions do not tell the amount, and their acts were logged after the fact.
     */
    adjustments: {
      name: 'every adjustment and grant of an operator is noted, and was asked for',
      sql: `SELECT 'lot ' || lot.id AS broken FROM lot LEFT JOIN correction ON correction.id = ${afterColon('lot.source')}
          WHERE ${startsWith('lot.source', 'adjust:')} AND (correction.id IS NULL OR correction.kind <> 'adjust'
            OR correction.account <> lot.account OR correction.taken NOT IN (0, -lot.granted))
          UNION ALL
          SELECT 'adjustment ' || id FROM correction
          WHERE kind = 'adjust' AND taken < 0 AND NOT EXISTS (SELECT 1 FROM lot WHERE source = 'adjust:' || correction.id)
          UNION ALL
          SELECT 'adjustment ' || asked.id FROM ${requestsOf('refund', afterColon('id'))}
          LEFT JOIN payment_reversal AS failed ON ${isReversal('failed')}
          LEFT JOIN top_up ON top_up.id = failed.top_up
          WHERE top_up.account IS DISTINCT FROM asked.account OR failed.kind <> 'failed' OR asked.taken NOT IN (0, -failed.credit)
          UNION ALL
          SELECT 'adjustment ' || asked.id FROM ${requestsOf('dispute', of.withoutLast(afterColon('id'), '5'))}
          LEFT JOIN payment_reversal AS dispute ON ${isReversal('dispute')}
          LEFT JOIN top_up ON top_up.id = dispute.top_up
          WHERE top_up.account IS DISTINCT FROM asked.account
            OR (asked.taken < 0 AND (dispute.kind NOT IN ('won', 'lost') OR asked.taken <> -dispute.held))
          UNION ALL
          SELECT 'adjustment ' || asked.id
          FROM ${requestsOf('subscription', of.withoutLast('id', "(CASE WHEN id LIKE '%:taken' THEN 6 ELSE 9 END)"))}
          LEFT JOIN subscription ON subscription.period = asked.request
          WHERE subscription.account IS DISTINCT FROM asked.account OR (asked.taken < 0
            AND (subscription.state <> 'refund_reversed' OR asked.taken IS DISTINCT FROM -subscription.taken_back))
          UNION ALL
          SELECT 'adjustment ' || id FROM correction
          WHERE kind = 'adjust'
            AND NOT (${['refund:', 'dispute:', 'subscription:'].map((start) => startsWith('id', start)).join(' OR ')})
            AND at > ${of.actsBookedAt} AND (account, id) NOT IN ${actOf('credits.adjust', 'id')}
          UNION ALL
          SELECT 'lot ' || id FROM lot
          WHERE ${startsWith('source', 'operator:')} AND granted_at > ${of.actsBookedAt}
            AND (account, id) NOT IN ${actOf('credits.grant', 'lot')}
          UNION ALL
          SELECT 'period ' || period FROM subscription
          WHERE source = '${planSource}' AND ${startsWith('subscription', 'by-hand-')}
            AND (account, period) NOT IN (
              SELECT subject, 'subscription:${planSource}:' || (${json('after')} ->> 'subscription') || ':' || (${json('after')} ->> 'from')
              FROM act WHERE what = 'plan.grant'
                AND ${json('after')} ->> 'subscription' IS NOT NULL AND ${json('after')} ->> 'from' IS NOT NULL)`,
      ofDay: null,
    },
    repeated: {
      name: 'every id, source and Idempotency-Key is used once',
      sql: findRepeated(of.settle),
      ofDay: null,
    },
  } satisfies Readonly<Record<string, Check>>
}

/** Of what exists once, by columns; the tables forbid another, but an index can be dropped. */
const uniques: readonly (readonly [table: string, columns: string, where?: string])[] = [
  ['idempotency', 'account, key'],
  ['idempotency', 'call'],
  ['lot', 'source'],
  ['call', 'id'],
  ['call', 'SETTLE', 'settle_tx IS NOT NULL'],
  ['correction', 'id'],
  ['top_up', 'account, idempotency_key', 'idempotency_key IS NOT NULL'],
  ['top_up', 'processor, payment_id', 'payment_id IS NOT NULL'],
  ['top_up', 'lot', 'lot IS NOT NULL'],
  ['payment_reversal', 'processor, id'],
  ['voucher', 'hash'],
  ['subscription', 'period'],
]

/**
 * SQL that finds where plans and their payments do not match: each paid plan has one period of its account and credit, each
 * period of a payment was paid, and each lot of `lots` from a plan is that of its period.
 */
function findMisplacedPlans(lots: string): { readonly payments: string; readonly lots: string } {
  const isPlan = `subscription.source = '${planSource}'`
  return {
    payments: `SELECT 'top-up ' || top_up.id AS broken FROM top_up
          LEFT JOIN subscription ON ${isPlan} AND subscription.subscription = top_up.id
          WHERE top_up.plan IS NOT NULL AND top_up.credited_at IS NOT NULL AND top_up.test = 0
          GROUP BY top_up.id HAVING count(subscription.period) <> 1 OR count(CASE WHEN
            subscription.account = top_up.account AND subscription.amount = top_up.credit THEN 1 END) <> 1
          UNION ALL
          SELECT 'period ' || period FROM subscription WHERE ${isPlan}
            AND subscription.subscription NOT LIKE 'by-hand-%'
            AND NOT EXISTS (SELECT 1 FROM top_up WHERE top_up.id = subscription.subscription
              AND top_up.account = subscription.account AND top_up.plan IS NOT NULL
              AND top_up.paid_at IS NOT NULL AND top_up.test = 0)
          UNION ALL
          SELECT 'period ' || period FROM subscription WHERE ${isPlan} AND subscription.lot IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM lot WHERE lot.id = subscription.lot AND lot.source = subscription.period)`,
    lots: `SELECT 'lot ' || lot.id AS broken FROM ${lots} AS lot WHERE lot.source LIKE 'subscription:${planSource}:%'
            AND NOT EXISTS (SELECT 1 FROM subscription WHERE subscription.period = lot.source
              AND subscription.account = lot.account AND subscription.amount = lot.granted
              AND subscription.ends_at = lot.expires_at AND lot.pool = 'subscription')`,
  }
}

/** SQL that finds what is there twice. `settle` are the columns of `call` that name the transaction of its end. */
function findRepeated(settle: string): string {
  return uniques
    .map(([table, given, where = 'TRUE']) => {
      const columns = given.replace('SETTLE', settle)
      return `SELECT '${table} ' || ${columns.replaceAll(', ', " || ' ' || ")} AS broken FROM ${table}
          WHERE ${where} GROUP BY ${columns} HAVING count(*) > 1`
    })
    .join('\n          UNION ALL\n          ')
}
