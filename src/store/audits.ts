// What audits of both databases have in common.

import type { AuditReport, DayAudit } from '../credits/ledger/ledger.ts'
import { GatewayError } from '../errors/errors.ts'

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
