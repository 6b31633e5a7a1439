// What the gateway notes of its own upkeep: when it was audited and backed up last, how far its log was sent, which alarms
// are open. A note has a name and replaces the one before it.

import type { Awaitable } from '../async/async.ts'
import type { AuditReport, DayAudit } from '../credits/ledger/ledger.ts'

export interface UpkeepNote {
  readonly name: string
  /** Milliseconds since 1970. */
  readonly at: number
  readonly value: Readonly<Record<string, unknown>>
}

export interface UpkeepStore {
  findNote(name: string): Awaitable<UpkeepNote | undefined>
  /** Throws `store_unavailable`. A power cut may take the latest notes. */
  keepNote(note: UpkeepNote): Awaitable<void>
}

/** The names of notes. */
export const notes = {
  audit: 'audit',
  auditOfDay: 'audit of a day',
  backup: 'backup',
  logExport: 'log export',
  alarms: 'alarms',
  spending: 'spending by hour',
  refusals: 'refusals of a day',
} as const

/** What is noted of an audit of the whole ledger, or of the UTC day that began at `day`. */
export function auditNote(
  { ok, checks }: Pick<AuditReport | DayAudit, 'ok' | 'checks'>,
  at: number,
  day?: number,
): UpkeepNote {
  const broken = checks.find((check) => !check.ok)
  const value = { ok, broken: broken?.name ?? null, detail: broken?.detail ?? null }
  if (day === undefined) return { name: notes.audit, at, value }
  return { name: notes.auditOfDay, at, value: { ...value, day: new Date(day).toISOString().slice(0, 10) } }
}
