// `weir ledger audit [--day D]`

import { plural } from '../../../counted.ts'
import { dayMs } from '../../../credits/calendar.ts'
import type { AuditReport, DayAudit } from '../../../credits/ledger/ledger.ts'
import { CommandFailure, type Context, type Invocation, print, usageFault } from '../../context.ts'
import { pastDay } from '../../values.ts'
import { withStore } from '../../with-store.ts'

/** Checks every invariant of the whole journal or of one day. Fails with the first violation. */
export async function audit(context: Context, invocation: Invocation): Promise<void> {
  const day = invocation.option('day')
  if (day === undefined) return auditWhole(context)
  return auditOneDay(context, pastDay('--day', day, context.io.clock()))
}

async function auditWhole(context: Context): Promise<void> {
  const report = await withStore(context, ({ ledger }) => ledger.audit())
  const heading = `${report.journalEntries} journal entries, head ${report.headHash}`
  print(context, {
    json: {
      ok: report.ok,
      journal_entries: report.journalEntries,
      head_hash: report.headHash,
      checks: report.checks,
      replaced: report.replaced,
    },
    text: [heading, ...linesOf(report), ...report.replaced.map(replacementLine)].join('\n'),
  })
  requireSound(report, 'the ledger does not hold')
}

/** Accepts the database's history after the anchored one was cut short or replaced by hand. */
export async function accept(context: Context, invocation: Invocation): Promise<void> {
  const reason = invocation.option('reason')?.trim() ?? ''
  if (reason === '') throw usageFault('--reason takes a sentence: it stays beside the ledger')
  const { acceptHistory } = await import('../../../store/backup.ts')
  const { hasStore } = await import('../../../store/open.ts')
  const dataDir = context.config.data_dir
  if (!hasStore(dataDir)) throw new CommandFailure(`there is no database in ${dataDir}`)
  const found = acceptHistory(dataDir, reason, context.io.clock())
  print(context, {
    json: { accepted: found !== null, found, reason },
    text:
      found === null
        ? 'nothing to accept: nothing that was anchored is missing'
        : `accepted, although ${found}`,
  })
}

async function auditOneDay(context: Context, day: number): Promise<void> {
  const report = await withStore(context, ({ ledger }) => ledger.auditDay(day))
  const date = new Date(day).toISOString().slice(0, 10)
  const over = context.io.clock() >= day + dayMs
  print(context, {
    json: {
      ok: report.ok,
      day: date,
      over,
      first_transaction: report.journal?.firstTransaction ?? null,
      last_transaction: report.journal?.lastTransaction ?? null,
      journal_entries: report.journalEntries,
      calls: report.calls,
      given_hash: report.journal?.givenHash ?? null,
      head_hash: report.journal?.headHash ?? null,
      checks: report.checks,
      not_checked: report.notChecked,
    },
    text: [
      `${date} (UTC)${over ? '' : ', so far'}: ${coveredBy(report)}`,
      ...linesOf(report),
      'not checked for a day (weir ledger audit checks it all):',
      ...report.notChecked.map((name) => `       ${name}`),
    ].join('\n'),
  })
  requireSound(report, `${date} does not hold`)
}

function coveredBy({ journal, journalEntries, calls }: DayAudit): string {
  const ended = `${plural(calls, 'call')} ended`
  if (!journal) return `no journal entries, ${ended}`
  const { firstTransaction, lastTransaction, givenHash, headHash } = journal
  return (
    `${plural(journalEntries, 'journal entry', 'journal entries')}, transactions ${firstTransaction} to ${lastTransaction}, ${ended}\n` +
    `from hash ${givenHash}, taken as given, to head ${headHash}`
  )
}

function linesOf({ checks }: Pick<AuditReport, 'checks'>): string[] {
  return checks.map(
    ({ name, ok, detail }) => `${ok ? 'ok   ' : 'BROKEN'} ${name}${detail ? `: ${detail}` : ''}`,
  )
}

function replacementLine({ at, kind, tx, note }: AuditReport['replaced'][number]): string {
  return `note   ${at}: the history goes on from transaction ${tx} (${kind}: ${note})`
}

function requireSound({ ok, checks }: Pick<AuditReport, 'ok' | 'checks'>, otherwise: string): void {
  const broken = checks.find((check) => !check.ok)
  if (broken) {
    throw new CommandFailure(`${otherwise}: ${broken.name}${broken.detail ? `: ${broken.detail}` : ''}`)
  }
  if (!ok) throw new CommandFailure(otherwise)
}
