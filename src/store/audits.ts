// What audits of both databases have in common.

import type { AuditReport, DayAudit } from '../credits/ledger/ledger.ts'
import { GatewayError } from '../errors/errors.ts'
import { planSource } from '../payments/subscriptions.ts'

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
export function findMisplacedPlans(lots: string): { readonly payments: string; readonly lots: string } {
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
export function findRepeated(settle: string): string {
  return uniques
    .map(([table, given, where = 'TRUE']) => {
      const columns = given.replace('SETTLE', settle)
      return `SELECT '${table} ' || ${columns.replaceAll(', ', " || ' ' || ")} AS broken FROM ${table}
          WHERE ${where} GROUP BY ${columns} HAVING count(*) > 1`
    })
    .join('\n          UNION ALL\n          ')
}
