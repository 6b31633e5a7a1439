// The thread of audit-beside.ts: audits a ledger on a read-only connection of its own.

import { parentPort } from 'node:worker_threads'
import type { Audited, ToAudit } from './audit-beside.ts'
import { auditDay } from './sqlite/audit/audit-day.ts'
import { auditFile } from './sqlite/audit/audit.ts'

parentPort?.on('message', ({ path, day }: ToAudit) => {
  parentPort?.postMessage(answer(path, day))
})

function answer(path: string, day: number | undefined): Audited {
  try {
    return { report: day === undefined ? auditFile(path) : auditDay(path, day) }
  } catch (error) {
    return { fault: error instanceof Error ? error.message : String(error) }
  }
}
