// Audits while calls are served: each reads everything there is, so one runs at a time.

import type { AuditReport, DayAudit } from '../credits/ledger/ledger.ts'
import { GatewayError } from '../errors/errors.ts'

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
