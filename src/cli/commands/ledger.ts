// `weir ledger audit [--day D]`

import { readFileSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { dayMs } from '../../credits/calendar.ts'
import type { AuditReport, DayAudit } from '../../credits/ledger/ledger.ts'
import { reconcile, type Reconciliation } from '../../credits/ledger/reconcile.ts'
import { formatUsd, type Pico } from '../../credits/money.ts'
import { auditNote } from '../../notify/upkeep.ts'
import { plural } from '../../text/csv.ts'
import {
  CommandFailure,
  type Context,
  type Invocation,
  isoTime,
  print,
  table,
  usageFault,
} from '../context.ts'
import { type ColumnMap, FileFault, readUsageExport, type UsageExport } from '../usage-export.ts'
import { momentOf, pastDay } from '../values.ts'
import { withStore } from '../with-store.ts'

/** Checks every invariant of the whole journal or of one day. Fails with the first violation. */
export async function audit(context: Context, invocation: Invocation): Promise<void> {
  const day = invocation.option('day')
  if (day === undefined) return auditWhole(context)
  return auditOneDay(context, pastDay('--day', day, context.io.clock()))
}

async function auditWhole(context: Context): Promise<void> {
  const report = await withStore(context, async ({ ledger, upkeep }) => {
    const found = await ledger.audit()
    await upkeep.keepNote(auditNote(found, context.io.clock()))
    return found
  })
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
  const { acceptHistory } = await import('../../store/backup.ts')
  const { hasStore } = await import('../../store/open.ts')
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

// `weir ledger reconcile --provider P FILE`: the provider's bill against the ledger.

const largestExportBytes = 512 * 1024 * 1024
/** How many calls and lines the text lists; JSON has all. */
const namedInText = 20

/** Reads the export, matches it and reports. Fails only if the file cannot be read. */
export async function reconcileLedger(context: Context, invocation: Invocation): Promise<void> {
  const provider = invocation.option('provider') ?? ''
  const file = resolve(context.io.cwd, invocation.args[0] ?? '')
  const map = columnMap(invocation.option('map'))
  const since = boundOption(invocation, 'since') ?? -Infinity
  const until = boundOption(invocation, 'until') ?? Infinity
  const usage = readExport(file, map)
  const calls = await withStore(context, ({ reports }) => reports.callsOf(provider))
  const found = reconcile(
    calls.filter(({ at }) => at >= since && at < until),
    usage.lines,
  )
  print(context, { json: viewOf(provider, usage, found), text: render(provider, usage, found) })
}

function boundOption(invocation: Invocation, name: string): number | undefined {
  const text = invocation.option(name)
  return text === undefined ? undefined : momentOf(`--${name}`, text)
}

function columnMap(text: string | undefined): ColumnMap {
  if (text === undefined) return {}
  const map: { -readonly [Name in keyof ColumnMap]: ColumnMap[Name] } = {}
  for (const part of text.split(',')) {
    const [, meaning, column] = /^\s*(upstream_id|cost)\s*=\s*(.+?)\s*$/.exec(part) ?? []
    if (column === undefined) {
      throw usageFault(`--map takes upstream_id=COLUMN,cost=COLUMN, not ${JSON.stringify(part)}`)
    }
    map[meaning as keyof ColumnMap] = column
  }
  return map
}

function readExport(file: string, map: ColumnMap): UsageExport {
  try {
    if (statSync(file).size > largestExportBytes) throw new FileFault('it is larger than 512 MB: split it')
    return readUsageExport(readFileSync(file, 'utf8'), map)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new CommandFailure(`${file} cannot be reconciled: ${reason}`)
  }
}

function viewOf(provider: string, usage: UsageExport, found: Reconciliation) {
  const { matched, failed, billedOnly, bookedOnly, drifts } = found
  return {
    ok: agrees(found),
    provider,
    lines: usage.lines.length,
    rounded: usage.rounded,
    billed: formatUsd(found.billed),
    booked: formatUsd(found.booked),
    drift: formatUsd(found.drift),
    drift_picodollars: String(found.drift),
    drift_to_the_cent: toTheCent(found.drift),
    matched: {
      ids: matched.ids,
      billed: formatUsd(matched.billed),
      charged: formatUsd(matched.charged),
      absorbed: formatUsd(matched.absorbed),
    },
    failed_attempts_billed: { ids: failed.ids, billed: formatUsd(failed.billed) },
    billed_only: {
      ids: billedOnly.ids,
      billed: formatUsd(billedOnly.billed),
      lines: billedOnly.lines.map(({ upstreamId, cost }) => ({
        upstream_id: upstreamId === '' ? null : upstreamId,
        billed: formatUsd(cost),
      })),
    },
    booked_only: {
      ids: bookedOnly.ids,
      charged: formatUsd(bookedOnly.charged),
      absorbed: formatUsd(bookedOnly.absorbed),
      calls: bookedOnly.calls.map((call) => ({
        call: call.call,
        upstream_id: call.upstreamId,
        model: call.model,
        at: isoTime(call.at),
        charged: formatUsd(call.charged),
        absorbed: formatUsd(call.absorbed),
      })),
    },
    drifts: drifts.map((drift) => ({
      upstream_id: drift.upstreamId,
      calls: drift.calls,
      billed: formatUsd(drift.billed),
      booked: formatUsd(drift.booked),
      drift: formatUsd(drift.billed - drift.booked),
      drift_picodollars: String(drift.billed - drift.booked),
      estimated: drift.estimated,
    })),
  }
}

function agrees({ drifts, failed, billedOnly, bookedOnly }: Reconciliation): boolean {
  return drifts.length === 0 && failed.billed === 0n && billedOnly.ids === 0 && bookedOnly.ids === 0
}

/** Rounded half away from zero, always with two decimals. */
function toTheCent(amount: Pico): string {
  const cent = 10_000_000_000n
  const positive = amount < 0n ? -amount : amount
  const cents = (positive + cent / 2n) / cent
  const sign = amount < 0n && cents > 0n ? '-' : ''
  return `${sign}${cents / 100n}.${String(cents % 100n).padStart(2, '0')}`
}

function render(provider: string, usage: UsageExport, found: Reconciliation): string {
  const { matched, failed, billedOnly, bookedOnly, drifts } = found
  const sums = table(
    ['', 'IDS', 'BILLED USD', 'CHARGED USD', 'ABSORBED USD'],
    [
      [
        'matched',
        String(matched.ids),
        formatUsd(matched.billed),
        formatUsd(matched.charged),
        formatUsd(matched.absorbed),
      ],
      ['failed attempts billed', String(failed.ids), formatUsd(failed.billed), '', ''],
      ['billed, not booked', String(billedOnly.ids), formatUsd(billedOnly.billed), '', ''],
      [
        'booked, not billed',
        String(bookedOnly.ids),
        '',
        formatUsd(bookedOnly.charged),
        formatUsd(bookedOnly.absorbed),
      ],
    ],
  )
  const rounding =
    usage.rounded === 0
      ? []
      : [`${usage.rounded === 1 ? '1 cost was' : `${usage.rounded} costs were`} rounded to a picodollar`]
  return [
    `${provider} bills ${formatUsd(found.billed)} USD on ${plural(usage.lines.length, 'line')}; ${formatUsd(found.booked)} USD are booked`,
    `drift ${toTheCent(found.drift)} USD, exactly ${found.drift} ${found.drift === 1n ? 'picodollar' : 'picodollars'}`,
    ...rounding,
    sums,
    ...listLines(
      'differ',
      drifts,
      (drift) =>
        `${drift.upstreamId}: billed ${formatUsd(drift.billed)}, booked ${formatUsd(drift.booked)}` +
        `${drift.estimated ? ' (estimated)' : ''} ${drift.calls.join(' ')}`,
    ),
    ...listLines(
      'billed, not booked',
      billedOnly.lines,
      ({ upstreamId, cost }) => `${upstreamId === '' ? '(no id)' : upstreamId}: ${formatUsd(cost)}`,
    ),
    ...listLines(
      'booked, not billed',
      bookedOnly.calls,
      (call) => `${call.upstreamId}: ${formatUsd(call.charged + call.absorbed)} ${call.call}`,
    ),
  ].join('\n')
}

function listLines<T>(heading: string, items: readonly T[], line: (item: T) => string): string[] {
  if (items.length === 0) return []
  const more =
    items.length > namedInText ? [`  and ${items.length - namedInText} more (--json names all)`] : []
  return ['', `${heading}:`, ...items.slice(0, namedInText).map((item) => `  ${line(item)}`), ...more]
}
