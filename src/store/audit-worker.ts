// Audits a ledger for audit-beside.ts, in a thread of its own, by a connection of its own that only reads.

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
