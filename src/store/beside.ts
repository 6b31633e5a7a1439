// What takes seconds, beside the calls: audits of the ledger, long reports of usage and searches of a long request log
// run in a thread with a connection of its own (beside-worker.ts). No call waits for any of it.

import type { Database } from 'bun:sqlite'
import type { AccountPage, AccountQuery } from '../accounts/account.ts'
import type { AuditReport, DayAudit } from '../credits/ledger/ledger.ts'
import { GatewayError } from '../errors/errors.ts'
import type { RequestPage, RequestQuery, UsageQuery, UsageReader, UsageReport } from '../observe/call-log.ts'
import { type AuditBeside, oneAtATime } from './audits.ts'
import { unavailable } from './commits/durability.ts'
import { isSmall, usageCsv, usageReport } from './sql/usage-reports.ts'
import { SqliteTables } from './sqlite/database/tables.ts'
import { orUnavailable } from './sqlite/database/sqlite.ts'

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

/** Rows that are read on the event loop: about 3 ms. */
const rowsOnLoop = 2_000
/** After so long a report in a command gives way to others, milliseconds. */
const stepMs = 4
/** Reports under way, and those of one account. */
const mostReports = 32
const mostOfAccount = 4
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
  | { readonly id: number; readonly kind: 'next' }
  | { readonly id: number; readonly kind: 'end' }
/** And its output. */
export type FromReports =
  | { readonly id: number; readonly kind: 'search'; readonly page: RequestPage }
  | { readonly id: number; readonly kind: 'accounts'; readonly page: AccountPage }
  | { readonly id: number; readonly kind: 'report'; readonly report: UsageReport }
  | { readonly id: number; readonly kind: 'piece'; readonly text: string; readonly last: boolean }
  | { readonly id: number; readonly kind: 'fault'; readonly fault: string; readonly outage: boolean }

interface Waiting {
  resolve(message: FromReports): void
  reject(error: unknown): void
}

interface Shared {
  readonly report: Promise<UsageReport>
  readonly left: AbortController
  waiting: number
}

export class Reports implements UsageReader {
  readonly #tables: SqliteTables
  readonly #path: string
  readonly #where: 'here' | 'beside'
  /** Reports that several ask for at once are made once. */
  readonly #shared = new Map<string, Shared>()
  readonly #waiting = new Map<number, Waiting>()
  readonly #ofAccount = new Map<string, number>()
  #underWay = 0
  #ids = 0
  #worker: Worker | undefined
  #idle: ReturnType<typeof setTimeout> | undefined

  /** `here` in a command, whose loop serves nobody. */
  constructor(database: Database, path: string, where: 'here' | 'beside') {
    this.#tables = new SqliteTables(database)
    this.#path = path
    this.#where = where
  }

  async report(query: UsageQuery, most: number, signal?: AbortSignal): Promise<UsageReport> {
    if (this.#where === 'beside' && !this.#tables.do(() => isSmall(query, rowsOnLoop)))
      return this.#sharedReport(query, most, signal)
    const steps = this.#tables.steps(usageReport(query, most), stepMs)
    for (;;) {
      const step = orUnavailable(() => steps.next())
      if (step.done) return step.value
      // Nobody waits for a command's loop; what is small needs no second step.
      if (this.#where === 'here') await nextTurn()
    }
  }

  /** Goes on with a page of the request log from `query.after`. In a command the caller does it. */
  async search(query: RequestQuery, signal?: AbortSignal): Promise<RequestPage> {
    const answer = await this.#make(query, (id) => ({ id, kind: 'search', path: this.#path, query }), signal)
    if (answer.kind !== 'search') throw wrongAnswer()
    return answer.page
  }

  /** A page of accounts that looks at all of them. */
  async accounts(query: AccountQuery, signal?: AbortSignal): Promise<AccountPage> {
    const answer = await this.#make({}, (id) => ({ id, kind: 'accounts', path: this.#path, query }), signal)
    if (answer.kind !== 'accounts') throw wrongAnswer()
    return answer.page
  }

  async *csv(query: UsageQuery, signal?: AbortSignal): AsyncGenerator<string, void> {
    if (this.#where === 'beside' && !this.#tables.do(() => isSmall(query, rowsOnLoop))) {
      yield* this.#csvBeside(query, signal)
      return
    }
    const steps = this.#tables.steps(usageCsv(query), stepMs)
    for (;;) {
      const step = orUnavailable(() => steps.next())
      if (step.done) return
      if (step.value !== undefined) yield step.value
      if (this.#where === 'here') await nextTurn()
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

  #sharedReport(query: UsageQuery, most: number, signal: AbortSignal | undefined): Promise<UsageReport> {
    const { account, key, model, line, mode, from, until, by, tagName, tag, per, provider, only } = query
    const asked = [account, key, model, line, mode, from, until, by, tagName, tag, per, provider, only, most]
    const name = JSON.stringify(asked)
    let shared = this.#shared.get(name)
    if (shared === undefined) {
      const left = new AbortController()
      const report = this.#reportBeside(query, most, left.signal).finally(() => this.#shared.delete(name))
      shared = { report, left, waiting: 0 }
      this.#shared.set(name, shared)
    }
    return follow(shared, signal)
  }

  async #reportBeside(query: UsageQuery, most: number, signal: AbortSignal): Promise<UsageReport> {
    const messageFor = (id: number): ToReports => ({ id, kind: 'report', path: this.#path, query, most })
    const answer = await this.#make(query, messageFor, signal)
    if (answer.kind !== 'report') throw wrongAnswer()
    return answer.report
  }

  /** What the thread answers, in one piece. Ends with the signal. */
  async #make(
    query: Pick<UsageQuery, 'account'>,
    messageFor: (id: number) => ToReports,
    signal: AbortSignal | undefined,
  ): Promise<FromReports> {
    if (signal?.aborted) throw clientLeft()
    using job = this.#begin(query)
    const end = () => this.#cancel(job.id)
    signal?.addEventListener('abort', end)
    try {
      return await this.#ask(messageFor(job.id))
    } finally {
      signal?.removeEventListener('abort', end)
    }
  }

  async *#csvBeside(query: UsageQuery, signal: AbortSignal | undefined): AsyncGenerator<string, void> {
    using job = this.#begin(query)
    const end = () => this.#cancel(job.id)
    signal?.addEventListener('abort', end)
    let last = false
    try {
      this.#post({ id: job.id, kind: 'csv', path: this.#path, query })
      while (!last) {
        if (signal?.aborted) throw clientLeft()
        const piece = await this.#ask({ id: job.id, kind: 'next' })
        if (piece.kind !== 'piece') throw wrongAnswer()
        last = piece.last
        yield piece.text
      }
    } finally {
      signal?.removeEventListener('abort', end)
      if (!last) this.#post({ id: job.id, kind: 'end' })
    }
  }

  /** Throws `rate_limit_exceeded` for one report too many. */
  #begin({ account = '' }: Pick<UsageQuery, 'account'>): { readonly id: number } & Disposable {
    const ofAccount = this.#ofAccount.get(account) ?? 0
    if (this.#underWay >= mostReports || ofAccount >= mostOfAccount) {
      const message = 'Too many long reports are being made: ask again when one is done.'
      throw new GatewayError('rate_limit_exceeded', { message, retryAfterMs: 1_000 })
    }
    this.#underWay++
    this.#ofAccount.set(account, ofAccount + 1)
    clearTimeout(this.#idle)
    return {
      id: ++this.#ids,
      [Symbol.dispose]: () => {
        this.#underWay--
        const left = this.#ofAccount.get(account)! - 1
        if (left === 0) this.#ofAccount.delete(account)
        else this.#ofAccount.set(account, left)
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

  #cancel(id: number): void {
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    this.#post({ id, kind: 'end' })
    waiting?.reject(clientLeft())
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

/** Waits for a report that others may wait for, too; it is cancelled when the last of them disconnects. */
function follow(shared: Shared, signal: AbortSignal | undefined): Promise<UsageReport> {
  shared.waiting++
  return new Promise((resolve, reject) => {
    const leave = () => {
      shared.waiting--
      if (shared.waiting === 0) shared.left.abort()
      reject(clientLeft())
    }
    if (signal?.aborted) leave()
    signal?.addEventListener('abort', leave)
    shared.report.then(resolve, reject).finally(() => signal?.removeEventListener('abort', leave))
  })
}

function wrongAnswer(): Error {
  return new Error('the thread has answered something else')
}

/** Nobody reads it; the log does. */
function clientLeft(): GatewayError {
  return new GatewayError('invalid_request', {
    message: 'The client disconnected before its report was made.',
  })
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

function startWorker(): Worker {
  // The executable keeps all code in one folder, the worker where the build put its file.
  const inSource = import.meta.url.endsWith('.ts')
  return new Worker(new URL(inSource ? './beside-worker.ts' : './store/beside-worker.ts', import.meta.url))
}
