// The thread of beside.ts: audits at once, and makes reports side by side, a step of each in turn.

import type { Database } from 'bun:sqlite'
import { parentPort } from 'node:worker_threads'
import type { AccountPage, AccountQuery } from '../accounts/account.ts'
import type { StatementSums } from '../credits/ledger/monthly.ts'
import type { RequestPage, UsageReport } from '../observe/call-log.ts'
import type { Audited, FromReports, ToAudit, ToReports } from './beside.ts'
import { pageOf } from './sql/directory.ts'
import { auditDay } from './sqlite/audit/audit-day.ts'
import { auditFile } from './sqlite/audit/audit.ts'
import { bookingsOfSqlite } from './sqlite/audit/bookings.ts'
import { isOutage, openReader, SqliteTables } from './sqlite/database/sqlite.ts'
import { requestPage } from './sql/request-reader.ts'
import { sumsOf } from './sql/statements.ts'
import { usageCsv, usageReport } from './sql/usage-reports.ts'

/** Characters of a piece of a CSV. */
const pieceLength = 64 * 1024

interface Job {
  readonly id: number
  readonly database: Database
  readonly steps:
    | { readonly kind: 'report'; readonly run: Generator<unknown, UsageReport> }
    | { readonly kind: 'csv'; readonly run: Generator<string | undefined, void> }
    | { readonly kind: 'search'; readonly run: Generator<unknown, RequestPage> }
    | { readonly kind: 'statement'; readonly run: Generator<unknown, StatementSums> }
    | { readonly kind: 'accounts'; readonly run: Generator<undefined, AccountPage> }
  /** Whether somebody waits for what comes next. */
  wanted: boolean
  text: string
}

/** After so long a page gives way to others, milliseconds. */
const stepMs = 4

const jobs = new Map<number, Job>()
let isRunning = false

parentPort?.on('message', (message: ToAudit | ToReports) => {
  if (message.kind === 'audit') parentPort?.postMessage(audit(message))
  else onRequest(message)
})

function audit({ path, day }: ToAudit): Audited {
  try {
    return { report: day === undefined ? auditFile(path) : auditDay(path, day) }
  } catch (error) {
    return { fault: error instanceof Error ? error.message : String(error) }
  }
}

function onRequest(message: ToReports): void {
  const { id } = message
  try {
    if ('path' in message) jobs.set(id, begin(message))
    else if (message.kind === 'end') end(id)
    else {
      const job = jobs.get(id)
      if (job) job.wanted = true
    }
  } catch (error) {
    fail(id, error)
  }
  if (!isRunning) {
    isRunning = true
    setImmediate(round)
  }
}

function begin(message: Extract<ToReports, { path: string }>): Job {
  const { id, path } = message
  const database = openReader(path)
  try {
    // A report is of one moment. A file may be read for long by a slow client, and holds back nobody's log.
    if (message.kind !== 'csv') database.run('BEGIN')
    return { id, database, steps: stepsOf(database, message), wanted: message.kind !== 'csv', text: '' }
  } catch (error) {
    database.close()
    throw error
  }
}

function stepsOf(database: Database, message: Extract<ToReports, { path: string }>): Job['steps'] {
  const { kind } = message
  switch (kind) {
    case 'report':
      return { kind, run: new SqliteTables(database).steps(usageReport(message.query, message.most), stepMs) }
    case 'csv':
      return { kind, run: new SqliteTables(database).steps(usageCsv(message.query), stepMs) }
    case 'search':
      return { kind, run: new SqliteTables(database).steps(requestPage(message.query), stepMs) }
    case 'statement':
      return { kind, run: new SqliteTables(database).steps(sumsOf(bookingsOfSqlite, message.query), stepMs) }
    case 'accounts':
      return { kind, run: accountSteps(database, message.query) }
    default:
      return kind satisfies never
  }
}

/** Few statements, and so one step. */
// oxlint-disable-next-line require-yield
function* accountSteps(database: Database, query: AccountQuery): Generator<undefined, AccountPage> {
  return new SqliteTables(database).drive(pageOf(query))
}

/** A step of each that somebody waits for, and the next round after the messages that came meanwhile. */
function round(): void {
  for (const job of jobs.values()) {
    if (!job.wanted) continue
    try {
      step(job)
    } catch (error) {
      fail(job.id, error)
    }
  }
  isRunning = jobs.values().some(({ wanted }) => wanted)
  if (isRunning) setImmediate(round)
}

function step(job: Job): void {
  const { id, steps } = job
  if (steps.kind === 'report') {
    const next = steps.run.next()
    if (!next.done) return
    post({ id, kind: 'report', report: next.value })
    end(id)
    return
  }
  if (steps.kind === 'search') {
    const next = steps.run.next()
    if (!next.done) return
    post({ id, kind: 'search', page: next.value })
    end(id)
    return
  }
  if (steps.kind === 'statement') {
    const next = steps.run.next()
    if (!next.done) return
    post({ id, kind: 'statement', sums: next.value })
    end(id)
    return
  }
  if (steps.kind === 'accounts') {
    const next = steps.run.next()
    if (!next.done) return
    post({ id, kind: 'accounts', page: next.value })
    end(id)
    return
  }
  const next = steps.run.next()
  job.text += next.done ? '' : (next.value ?? '')
  if (!next.done && job.text.length < pieceLength) return
  post({ id, kind: 'piece', text: job.text, last: next.done === true })
  job.text = ''
  job.wanted = false
  if (next.done) end(id)
}

function end(id: number): void {
  const job = jobs.get(id)
  if (!job) return
  jobs.delete(id)
  job.steps.run.return(undefined as never)
  job.database.close()
}

function fail(id: number, error: unknown): void {
  const fault = error instanceof Error ? error.message : String(error)
  post({ id, kind: 'fault', fault, outage: isOutage(error) })
  end(id)
}

function post(message: FromReports): void {
  parentPort?.postMessage(message)
}
