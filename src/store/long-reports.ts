// Long reports of usage, searches of a long request log, long statements and pages that look at every account, on either
// database: so many are under way at once, one that several ask for is made once, and it is given up when nobody waits for it.

import type { AccountPage, AccountQuery } from '../accounts/account.ts'
import type { StatementQuery, StatementSums } from '../credits/ledger/monthly.ts'
import { GatewayError } from '../errors/errors.ts'
import type { RequestPage, RequestQuery, UsageQuery, UsageReport } from '../observe/call-log.ts'

/** Rows that a report may read where calls are served: about 3 ms. What reads more is made by LongWork. */
export const rowsOfSmall = 2_000
/** What is under way, and that of one account. */
const mostReports = 32
const mostOfAccount = 4

/** What makes them, beside the calls. Each rejects when its signal comes. */
export interface LongWork {
  report(query: UsageQuery, most: number, signal: AbortSignal): Promise<UsageReport>
  csv(query: UsageQuery, signal: AbortSignal): AsyncGenerator<string, void>
  /** Goes on with a page of the request log from `query.after`. */
  search(query: RequestQuery, signal: AbortSignal): Promise<RequestPage>
  /** A page of accounts that looks at all of them. */
  accounts(query: AccountQuery, signal: AbortSignal): Promise<AccountPage>
  /** A statement with many lines. */
  statement(query: StatementQuery, signal: AbortSignal): Promise<StatementSums>
}

interface Shared {
  readonly report: Promise<UsageReport>
  readonly left: AbortController
  waiting: number
}

/** The same, within limits. Everything throws `rate_limit_exceeded` for one too many. */
export class LongReports {
  readonly #work: LongWork
  readonly #shared = new Map<string, Shared>()
  readonly #ofAccount = new Map<string, number>()
  #underWay = 0

  constructor(work: LongWork) {
    this.#work = work
  }

  report(query: UsageQuery, most: number, signal?: AbortSignal): Promise<UsageReport> {
    const { account, key, model, line, mode, from, until, by, tagName, tag, per, provider, only } = query
    const asked = [account, key, model, line, mode, from, until, by, tagName, tag, per, provider, only, most]
    const name = JSON.stringify(asked)
    let shared = this.#shared.get(name)
    if (shared === undefined) {
      const left = new AbortController()
      const report = this.#make(account, left.signal, (until) => this.#work.report(query, most, until))
      const forget = () => this.#shared.get(name)?.left === left && this.#shared.delete(name)
      left.signal.addEventListener('abort', forget)
      shared = { report: report.finally(forget), left, waiting: 0 }
      this.#shared.set(name, shared)
    }
    return follow(shared, signal)
  }

  readonly search = (query: RequestQuery, signal?: AbortSignal): Promise<RequestPage> =>
    this.#make(query.account, signal, (until) => this.#work.search(query, until))

  readonly accounts = (query: AccountQuery, signal?: AbortSignal): Promise<AccountPage> =>
    this.#make(undefined, signal, (until) => this.#work.accounts(query, until))

  readonly statement = (query: StatementQuery, signal?: AbortSignal): Promise<StatementSums> =>
    this.#make(query.account, signal, (until) => this.#work.statement(query, until))

  async *csv(query: UsageQuery, signal = never): AsyncGenerator<string, void> {
    using _job = this.#begin(query.account)
    try {
      yield* this.#work.csv(query, signal)
    } catch (error) {
      throw signal.aborted ? clientLeft() : error
    }
  }

  async #make<T>(
    account: string | undefined,
    signal: AbortSignal | undefined,
    make: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    if (signal?.aborted) throw clientLeft()
    using _job = this.#begin(account)
    try {
      return await make(signal ?? never)
    } catch (error) {
      throw signal?.aborted ? clientLeft() : error
    }
  }

  #begin(account = ''): Disposable {
    const ofAccount = this.#ofAccount.get(account) ?? 0
    if (this.#underWay >= mostReports || ofAccount >= mostOfAccount) {
      const message = 'Too many long reports are being made: ask again when one is done.'
      throw new GatewayError('rate_limit_exceeded', { message, retryAfterMs: 1_000 })
    }
    this.#underWay++
    this.#ofAccount.set(account, ofAccount + 1)
    return {
      [Symbol.dispose]: () => {
        this.#underWay--
        const left = this.#ofAccount.get(account)! - 1
        if (left === 0) this.#ofAccount.delete(account)
        else this.#ofAccount.set(account, left)
      },
    }
  }
}

/** Of those who wait to the end. */
const never = new AbortController().signal

/** Waits for a report that others may wait for, too; it is given up when the last of them disconnects. */
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

/** Nobody reads it; the log does. */
function clientLeft(): GatewayError {
  return new GatewayError('invalid_request', {
    message: 'The client disconnected before its report was made.',
  })
}
