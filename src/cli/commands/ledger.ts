// `weir ledger audit [--day D]`

import { readFileSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { readTextFile, serverAt } from '../../config/config.ts'
import { importedCatalogPath } from '../../serve/gateway/catalog.ts'
import { dayMs } from '../../credits/calendar.ts'
import type { AuditedSpan, AuditReport, DayAudit } from '../../credits/ledger/ledger.ts'
import {
  type DayOfModel,
  type InvoiceLine,
  type InvoiceReconciliation,
  type Reason,
  reconcile,
  reconcileDays,
  type Reconciliation,
} from '../../credits/ledger/reconcile.ts'
import { formatUsd, type Pico } from '../../credits/money.ts'
import { auditNote } from '../../notify/alarms.ts'
import { plural } from '../../text/text.ts'
import {
  CommandFailure,
  type Context,
  type Invocation,
  isoTime,
  print,
  table,
  usageFault,
} from '../context.ts'
import { momentOf, pastDay } from '../values.ts'
import {
  type ColumnMap,
  FileFault,
  isInvoice,
  readInvoice,
  readUsageExport,
  type UsageExport,
} from '../usage-export.ts'
import { serverIn, withStore } from '../with-store.ts'

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
  const onServer = serverIn(context)
  if (onServer !== undefined)
    throw new CommandFailure(
      `${onServer} has no anchors beside it, so there is nothing to accept. What a server has lost is told by the gateways ` +
        'that wrote it, which stop; weir ledger audit proves what is there',
    )
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

/** Copies the SQLite of the data directory into an empty PostgreSQL. */
export async function move(context: Context, invocation: Invocation): Promise<void> {
  const { config, io } = context
  const { hasStore } = await import('../../store/open.ts')
  if (!hasStore(config.data_dir)) throw new CommandFailure(`there is no database in ${config.data_dir}`)
  const server = serverNamed(context, invocation)
  const { moveToPostgres } = await import('../../store/move.ts')
  const report = await moveToPostgres(config.data_dir, server, {
    clock: io.clock,
    catalog: readTextFile(importedCatalogPath(config.data_dir)),
    notice: (message) => io.err(`${message}\n`),
  })
  const { to, tables, rows, journalEntries, headHash } = report
  print(context, {
    json: { ok: true, to, tables, rows, journal_entries: journalEntries, head_hash: headHash },
    text:
      `copied ${plural(rows, 'row')} of ${plural(tables, 'table')} to ${to}\n` +
      `the ledger holds on both sides: ${plural(journalEntries, 'journal entry', 'journal entries')}, head ${headHash}\n` +
      `next: set store.url, and do not serve from ${config.data_dir} without it again`,
  })
}

function serverNamed({ io }: Context, invocation: Invocation): ReturnType<typeof serverAt> {
  const named = invocation.option('to') ?? ''
  const ca = invocation.option('ca')
  const path = (written: string) => resolve(io.cwd, written)
  try {
    const address = named.startsWith('file:') ? readFileSync(path(named.slice(5)), 'utf8').trim() : named
    return serverAt(address, ca === undefined ? undefined : path(ca))
  } catch (error) {
    throw usageFault(`--to: the address ${error instanceof Error ? error.message : String(error)}`)
  }
}

async function auditOneDay(context: Context, day: number): Promise<void> {
  const report = await withStore(context, ({ ledger }) => ledger.auditDay(day))
  const date = new Date(day).toISOString().slice(0, 10)
  const over = context.io.clock() >= day + dayMs
  const span = report.journal.length === 1 ? report.journal[0] : undefined
  print(context, {
    json: {
      ok: report.ok,
      day: date,
      over,
      first_transaction: span?.firstTransaction ?? null,
      last_transaction: span?.lastTransaction ?? null,
      journal_entries: report.journalEntries,
      calls: report.calls,
      given_hash: span?.givenHash ?? null,
      head_hash: span?.headHash ?? null,
      chains: report.journal.map(({ chain, firstTransaction, lastTransaction, givenHash, headHash }) => ({
        chain,
        first_transaction: firstTransaction,
        last_transaction: lastTransaction,
        given_hash: givenHash,
        head_hash: headHash,
      })),
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
  if (journal.length === 0) return `no journal entries, ${ended}`
  const entries = plural(journalEntries, 'journal entry', 'journal entries')
  const [span] = journal
  if (journal.length === 1) return `${entries}, transactions ${rangeOf(span!)}, ${ended}\n${hashesOf(span!)}`
  const chains = journal.map((each) => `chain ${each.chain}: ${rangeOf(each)}, ${hashesOf(each)}`)
  return [`${entries} in ${journal.length} chains, ${ended}`, ...chains].join('\n')
}

function rangeOf({ firstTransaction, lastTransaction }: AuditedSpan): string {
  return `${firstTransaction} to ${lastTransaction}`
}

function hashesOf({ givenHash, headHash }: AuditedSpan): string {
  return `from hash ${givenHash}, taken as given, to head ${headHash}`
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
  const text = readText(file)
  if (faultsNamed(file, () => isInvoice(text, map))) {
    const lines = faultsNamed(file, () => readInvoice(text, map))
    return reconcileInvoice(context, { provider, lines, names: modelNames(invocation), since, until })
  }
  const usage = faultsNamed(file, () => readUsageExport(text, map))
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
    const [, meaning, column] =
      /^\s*(upstream_id|cost|day|model|input_tokens|output_tokens)\s*=\s*(.+?)\s*$/.exec(part) ?? []
    if (column === undefined) {
      throw usageFault(
        `--map takes upstream_id=COLUMN,cost=COLUMN, or day, model, input_tokens and output_tokens, not ${JSON.stringify(part)}`,
      )
    }
    map[meaning as keyof ColumnMap] = column
  }
  return map
}

function readText(file: string): string {
  return faultsNamed(file, () => {
    if (statSync(file).size > largestExportBytes) throw new FileFault('it is larger than 512 MB: split it')
    return readFileSync(file, 'utf8')
  })
}

function faultsNamed<T>(file: string, read: () => T): T {
  try {
    return read()
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

// The same for an invoice by model and day.

/** What each reason means, for people. */
const reasonTexts: Readonly<Record<Reason, string>> = {
  rounding: 'within the digits of the invoice',
  another_day: 'the days in a row agree together: its days begin at another hour than UTC’s',
  not_booked: 'billed, and no call is booked',
  not_billed: 'booked, and not billed',
  failed_attempts: 'attempts failed, which charged nobody and may be billed',
  unpriced: 'calls used what the catalog has no rate for, and were charged at the standard one',
  tier: 'as much as a service tier makes: half or a multiple of the price',
  tokens: 'the tokens differ: calls are missing on one side',
  estimated: 'calls were cut off, and their tokens estimated',
  price: 'the same tokens at another price',
  unknown: 'nothing that the ledger knows explains it',
}

function modelNames(invocation: Invocation): ReadonlyMap<string, string> {
  const pairs = (invocation.options('model') ?? []).map((text) => {
    const at = text.lastIndexOf('=')
    if (at < 1 || at === text.length - 1)
      throw usageFault(`--model takes NAME=OURS, not ${JSON.stringify(text)}`)
    return [text.slice(0, at).trim(), text.slice(at + 1).trim()] as const
  })
  return new Map(pairs)
}

async function reconcileInvoice(
  context: Context,
  asked: {
    readonly provider: string
    readonly lines: readonly InvoiceLine[]
    readonly names: ReadonlyMap<string, string>
    readonly since: number
    readonly until: number
  },
): Promise<void> {
  const { provider, lines, names } = asked
  const bounds = boundsOf(lines, asked)
  const booked = await withStore(context, ({ reports }) =>
    reports.sumsOf(provider, bounds.since, bounds.until),
  )
  const found = reconcileDays(
    booked,
    lines.filter(({ day }) => Date.parse(day) >= bounds.since && Date.parse(day) < bounds.until),
    names,
  )
  const off = found.days.filter(({ reasons }) => reasons.length > 0 && !isHarmless(reasons))
  print(context, {
    json: {
      ok: off.length === 0,
      provider,
      lines: lines.length,
      billed: formatUsd(found.billed),
      booked: formatUsd(found.booked),
      drift: formatUsd(found.drift),
      drift_picodollars: String(found.drift),
      drift_to_the_cent: toTheCent(found.drift),
      days: found.days.map(dayView),
    },
    text: renderInvoice(provider, lines.length, found, off),
  })
}

/** What needs nobody to look at it. */
function isHarmless(reasons: readonly Reason[]): boolean {
  return reasons.every((reason) => reason === 'rounding' || reason === 'another_day')
}

/** From the first day of the invoice to its last, unless the command says otherwise. */
function boundsOf(
  lines: readonly InvoiceLine[],
  { since, until }: { readonly since: number; readonly until: number },
): { since: number; until: number } {
  const days = lines.map(({ day }) => Date.parse(day))
  const first = days.reduce((least, day) => Math.min(least, day), Infinity)
  const last = days.reduce((most, day) => Math.max(most, day), -Infinity)
  return {
    since: since === -Infinity ? (first === Infinity ? 0 : first) : since,
    until: until === Infinity ? (last === -Infinity ? 0 : last + dayMs) : until,
  }
}

function dayView({ day, model, billed, booked, calls, reasons, tiers, ...tokens }: DayOfModel) {
  return {
    day,
    model,
    billed: formatUsd(billed),
    booked: formatUsd(booked),
    drift: formatUsd(billed - booked),
    drift_picodollars: String(billed - booked),
    calls,
    billed_tokens: tokens.billedTokens,
    booked_tokens: tokens.bookedTokens,
    booked_by_tier: Object.fromEntries(
      Object.entries(tiers).map(([tier, amount]) => [tier, formatUsd(amount)]),
    ),
    reasons: reasons.map((reason) => ({ code: reason, means: reasonTexts[reason] })),
  }
}

function renderInvoice(
  provider: string,
  lines: number,
  found: InvoiceReconciliation,
  off: readonly DayOfModel[],
): string {
  const { days, billed, booked, drift } = found
  const agree = days.filter(({ reasons }) => reasons.length === 0).length
  const harmless = days.length - agree - off.length
  return [
    `${provider} bills ${formatUsd(billed)} USD on ${plural(lines, 'line')}, by model and day; ${formatUsd(booked)} USD are booked`,
    `drift ${toTheCent(drift)} USD, exactly ${drift} ${drift === 1n ? 'picodollar' : 'picodollars'}`,
    `${plural(agree, 'sum')} of a model and day agree, ${harmless} but for rounding or the hour at which days begin, ${off.length} differ`,
    ...listLines('differ', off, (day) => {
      const { billed: theirs, booked: ours, calls, reasons } = day
      const why = reasons.map((reason) => reasonTexts[reason]).join('; or ')
      const tokens =
        day.billedTokens === null ? '' : `, ${day.billedTokens} tokens against ${day.bookedTokens}`
      return `${day.day} ${day.model}: billed ${formatUsd(theirs)}, booked ${formatUsd(ours)} in ${plural(calls, 'call')}${tokens}: ${why}`
    }),
  ].join('\n')
}
