// Audits the ledger in a thread of its own while the gateway serves: reading a long journal would block every call.

import { GatewayError } from '../errors/errors.ts'
import type { AuditReport, DayAudit } from '../credits/ledger/ledger.ts'

export type AuditBeside = (day?: number) => Promise<AuditReport | DayAudit>

/** The thread's input and output. */
export interface ToAudit {
  readonly path: string
  readonly day: number | undefined
}
export type Audited = { readonly report: AuditReport | DayAudit } | { readonly fault: string }

const longestMs = 15 * 60_000

/**
 * Audits the ledger in the database at `path`, or one UTC day of it. One audit runs at a time: the same request shares
 * its report, another is refused with `rate_limit_exceeded`.
 */
export function auditing(path: string): AuditBeside {
  let running: { readonly day: number | undefined; readonly report: ReturnType<AuditBeside> } | undefined
  return async (day) => {
    if (running?.day === day && running !== undefined) return running.report
    if (running) {
      const message = 'Another audit runs: one at a time.'
      throw new GatewayError('rate_limit_exceeded', { message, retryAfterMs: 5_000 })
    }
    const report = auditBeside({ path, day }).finally(() => (running = undefined))
    running = { day, report }
    return report
  }
}

function auditBeside(asked: ToAudit): Promise<AuditReport | DayAudit> {
  const worker = startWorker()
  const answer = new Promise<AuditReport | DayAudit>((resolve, reject) => {
    const onFailure = (cause: unknown) => reject(new GatewayError('internal_error', { cause }))
    const timer = setTimeout(() => onFailure(new Error('the audit took too long')), longestMs)
    timer.unref()
    worker.addEventListener('message', ({ data }: MessageEvent<Audited>) => {
      clearTimeout(timer)
      if ('report' in data) resolve(data.report)
      else onFailure(new Error(data.fault))
    })
    worker.addEventListener('error', ({ message }) => {
      clearTimeout(timer)
      onFailure(new Error(message))
    })
    worker.postMessage(asked)
  })
  return answer.finally(() => worker.terminate())
}

function startWorker(): Worker {
  // The executable keeps all code in one folder, the worker where the build put its file.
  const inSource = import.meta.url.endsWith('.ts')
  return new Worker(new URL(inSource ? './audit-worker.ts' : './store/audit-worker.ts', import.meta.url))
}
