// What takes seconds, beside the calls: audits of the ledger, long reports of usage and searches of a long request log
// run in a thread with a connection of its own (beside-worker.ts). No call waits for any of it.

import type { Database } from 'bun:sqlite'
import type { AccountPage, AccountQuery } from '../accounts/account.ts'
import type { AuditReport, DayAudit } from '../credits/ledger/ledger.ts'
import type { StatementQuery, StatementSums } from '../credits/ledger/monthly.ts'
import { GatewayError } from '../errors/errors.ts'
import type { RequestPage, RequestQuery, UsageQuery, UsageReader, UsageReport } from '../observe/call-log.ts'
import { type AuditBeside, oneAtATime } from './audits.ts'
import { unavailable } from './commits/durability.ts'
import { type LongReports, type LongWork, rowsOfSmall } from './long-reports.ts'
import { isSmall, usageCsv, usageReport } from './sql/usage-reports.ts'
import { openReader, orUnavailable, SqliteTables } from './sqlite/database/sqlite.ts'

/** What the thread of an audit is asked, and what it answers. */
export interface ToAudit {
  readonly kind: 'audit'
  readonly path: string
  readonly day: number | undefined
}
export type Audited = { readonly report: AuditReport | DayAudit } | { readonly fault: string }

const longestMs = 15 * 60_000

/** Audits the ledger in the database at `path`, or one UTC day of it, in a thread. */
export function auditingFile(path: string): AuditBeside {
  return oneAtATime((day) => auditBeside({ kind: 'audit', path, day }))
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

// Reports of usage, and searches of the request log: small ones at once, long ones in the thread.

/** After so long a report in a command gives way to others, milliseconds. */
const stepMs = 4
/** A thread without work ends after so long, milliseconds. */
const idleMs = 30_000

/** The thread's input. A piece of a CSV is made when it is asked for. */
export type ToReports =
  | {
      readonly id: number
      readonly kind: 'report'
      readonly path: string
      readonly query: UsageQuery
      readonly most: number
    }
  | { readonly id: number; readonly kind: 'csv'; readonly path: string; readonly query: UsageQuery }
  | { readonly id: number; readonly kind: 'search'; readonly path: string; readonly query: RequestQuery }
  | { readonly id: number; readonly kind: 'accounts'; readonly path: string; readonly query: AccountQuery }
  | { readonly id: number; readonly kind: 'statement'; readonly path: string; readonly query: StatementQuery }
  | { readonly id: number; readonly kind: 'next' }
  | { readonly id: number; readonly kind: 'end' }
/** And its output. */
export type FromReports =
  | { readonly id: number; readonly kind: 'search'; readonly page: RequestPage }
  | { readonly id: number; readonly kind: 'accounts'; readonly page: AccountPage }
  | { readonly id: number; readonly kind: 'statement'; readonly sums: StatementSums }
  | { readonly id: number; readonly kind: 'report'; readonly report: UsageReport }
  | { readonly id: number; readonly kind: 'piece'; readonly text: string; readonly last: boolean }
  | { readonly id: number; readonly kind: 'fault'; readonly fault: string; readonly outage: boolean }

interface Waiting {
  resolve(message: FromReports): void
  reject(error: unknown): void
}

/** Reports of usage: those that read little, and all in a command, are made on the event loop. */
export class Reports implements UsageReader {
  readonly #tables: SqliteTables
  readonly #long: LongReports | undefined

  /** Without `long` in a command, whose loop serves nobody. */
  constructor(database: Database, long?: LongReports) {
    this.#tables = new SqliteTables(database)
    this.#long = long
  }

  async report(query: UsageQuery, most: number, signal?: AbortSignal): Promise<UsageReport> {
    const long = this.#longFor(query)
    if (long) return long.report(query, most, signal)
    if (this.#long) return this.#tables.reads(() => usageReport(query, most))
    // On a connection of its own it is of one moment, whatever this process writes between the steps.
    using database = openReader(this.#tables.database.filename)
    database.run('BEGIN')
    const steps = new SqliteTables(database).steps(usageReport(query, most), stepMs)
    for (;;) {
      const step = orUnavailable(() => steps.next())
      if (step.done) return step.value
      await nextTurn()
    }
  }

  async *csv(query: UsageQuery, signal?: AbortSignal): AsyncGenerator<string, void> {
    const long = this.#longFor(query)
    if (long) {
      yield* long.csv(query, signal)
      return
    }
    const steps = this.#tables.steps(usageCsv(query), stepMs)
    for (;;) {
      const step = orUnavailable(() => steps.next())
      if (step.done) return
      if (step.value !== undefined) yield step.value
      if (!this.#long) await nextTurn()
    }
  }

  #longFor(query: UsageQuery): LongReports | undefined {
    return this.#long && !this.#tables.do(() => isSmall(query, rowsOfSmall)) ? this.#long : undefined
  }
}

/** Makes long reports in the thread, which is there while it has something to do. */
export class ReportThread implements LongWork {
  readonly #path: string
  readonly #waiting = new Map<number, Waiting>()
  #underWay = 0
  #ids = 0
  #worker: Worker | undefined
  #idle: ReturnType<typeof setTimeout> | undefined

  constructor(path: string) {
    this.#path = path
  }

  async report(query: UsageQuery, most: number, signal: AbortSignal): Promise<UsageReport> {
    const answer = await this.#make((id) => ({ id, kind: 'report', path: this.#path, query, most }), signal)
    if (answer.kind !== 'report') throw wrongAnswer()
    return answer.report
  }

  async search(query: RequestQuery, signal: AbortSignal): Promise<RequestPage> {
    const answer = await this.#make((id) => ({ id, kind: 'search', path: this.#path, query }), signal)
    if (answer.kind !== 'search') throw wrongAnswer()
    return answer.page
  }

  async accounts(query: AccountQuery, signal: AbortSignal): Promise<AccountPage> {
    const answer = await this.#make((id) => ({ id, kind: 'accounts', path: this.#path, query }), signal)
    if (answer.kind !== 'accounts') throw wrongAnswer()
    return answer.page
  }

  async statement(query: StatementQuery, signal: AbortSignal): Promise<StatementSums> {
    const answer = await this.#make((id) => ({ id, kind: 'statement', path: this.#path, query }), signal)
    if (answer.kind !== 'statement') throw wrongAnswer()
    return answer.sums
  }

  async *csv(query: UsageQuery, signal: AbortSignal): AsyncGenerator<string, void> {
    using job = this.#begin()
    const end = () => this.#cancel(job.id, signal.reason)
    signal.addEventListener('abort', end)
    let last = false
    try {
      this.#post({ id: job.id, kind: 'csv', path: this.#path, query })
      while (!last) {
        signal.throwIfAborted()
        const piece = await this.#ask({ id: job.id, kind: 'next' })
        if (piece.kind !== 'piece') throw wrongAnswer()
        last = piece.last
        yield piece.text
      }
    } finally {
      signal.removeEventListener('abort', end)
      if (!last) this.#post({ id: job.id, kind: 'end' })
    }
  }

  close(): void {
    clearTimeout(this.#idle)
    for (const waiting of this.#waiting.values())
      waiting.reject(unavailable(new Error('the store was closed')))
    this.#waiting.clear()
    this.#worker?.terminate()
    this.#worker = undefined
  }

  /** What the thread answers, in one piece. */
  async #make(messageFor: (id: number) => ToReports, signal: AbortSignal): Promise<FromReports> {
    using job = this.#begin()
    const end = () => this.#cancel(job.id, signal.reason)
    signal.addEventListener('abort', end)
    try {
      return await this.#ask(messageFor(job.id))
    } finally {
      signal.removeEventListener('abort', end)
    }
  }

  #begin(): { readonly id: number } & Disposable {
    this.#underWay++
    clearTimeout(this.#idle)
    return {
      id: ++this.#ids,
      [Symbol.dispose]: () => {
        this.#underWay--
        if (this.#underWay === 0) this.#endWhenIdle()
      },
    }
  }

  #endWhenIdle(): void {
    clearTimeout(this.#idle)
    this.#idle = setTimeout(() => {
      this.#worker?.terminate()
      this.#worker = undefined
    }, idleMs)
    this.#idle.unref()
  }

  #cancel(id: number, reason: unknown): void {
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    this.#post({ id, kind: 'end' })
    waiting?.reject(reason)
  }

  #ask(message: ToReports): Promise<FromReports> {
    return new Promise((resolve, reject) => {
      this.#waiting.set(message.id, { resolve, reject })
      this.#post(message)
    })
  }

  #post(message: ToReports): void {
    if (this.#worker === undefined && message.kind === 'end') return
    this.#worker ??= this.#startedWorker()
    this.#worker.postMessage(message)
  }

  #startedWorker(): Worker {
    const worker = startWorker()
    worker.addEventListener('message', ({ data }: MessageEvent<FromReports>) => {
      const waiting = this.#waiting.get(data.id)
      this.#waiting.delete(data.id)
      if (data.kind !== 'fault') waiting?.resolve(data)
      else {
        const cause = new Error(data.fault)
        waiting?.reject(data.outage ? unavailable(cause) : new GatewayError('internal_error', { cause }))
      }
    })
    worker.addEventListener('error', ({ message }) => {
      const error = new GatewayError('internal_error', { cause: new Error(message) })
      for (const waiting of this.#waiting.values()) waiting.reject(error)
      this.#waiting.clear()
      if (this.#worker === worker) this.#worker = undefined
    })
    return worker
  }
}

function wrongAnswer(): Error {
  return new Error('the thread has answered something else')
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

function startWorker(): Worker {
  // The executable keeps all code in one folder, the worker where the build put its file.
  const inSource = import.meta.url.endsWith('.ts')
  return new Worker(new URL(inSource ? './beside-worker.ts' : './store/beside-worker.ts', import.meta.url))
}
