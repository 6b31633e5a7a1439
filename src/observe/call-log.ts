// Records an ended call: a line in the log and a row in the request log.

import type { Log } from './log.ts'
import { createRedactor, type Redactor } from './redact.ts'
import type { EndedCall, RequestLogRow } from './request-log.ts'

interface CallLogParts {
  readonly log: Log
  readonly keep: (row: RequestLogRow) => void
  /** The same for a call that was refused before it began. */
  readonly keepRefused: (row: RequestLogRow) => void
  /** The same for a request that never became a call: it counts for no usage. */
  readonly keepTurnedAway: (row: RequestLogRow) => void
  /** Picodollars as a decimal string of US dollars. */
  readonly usd: (amount: bigint) => string
}

/** Refusals per account and minute that leave a row: a client in a loop must not fill the disk. */
export const refusalRowsPerMinute = 120
/** The same of a network, where the account is not known. */
export const strangerRowsPerMinute = 60
/** The same of all strangers together, and in a day; beyond that, one row a minute tells how many there were. */
export const strangersRowsPerMinute = 120
export const strangersRowsPerDay = 20_000
const lookUpsPerSecond = 100
const secondMs = 1_000
const minuteMs = 60_000
const dayMs = 86_400_000

/** Who was refused. */
interface Refusee {
  /** Empty if unknown. */
  readonly account: string
  readonly network: string
  /** Milliseconds since 1970. */
  readonly at: number
}

/** Counts what happens in each stretch of time, by name. */
class Counts {
  readonly #lengthMs: number
  readonly #counts = new Map<string, number>()
  #stretch = 0

  constructor(lengthMs: number) {
    this.#lengthMs = lengthMs
  }

  /** How often it has happened in this stretch, this time included. */
  next(name: string, at: number): number {
    const stretch = Math.floor(at / this.#lengthMs)
    if (stretch !== this.#stretch) this.#counts.clear()
    this.#stretch = stretch
    const count = (this.#counts.get(name) ?? 0) + 1
    // Names come from outside: beyond the bound all count as one.
    if (count === 1 && this.#counts.size >= mostNames) return name === others ? 1 : this.next(others, at)
    this.#counts.set(name, count)
    return count
  }
}

const mostNames = 10_000
const others = ''

export class CallLog {
  readonly #parts: CallLogParts
  readonly #noted = new WeakSet<object>()
  readonly #refusals = new Counts(minuteMs)
  readonly #strangers = new Counts(minuteMs)
  readonly #allStrangers = new Counts(minuteMs)
  readonly #ofDay = new Counts(dayMs)
  readonly #lookUps = new Counts(secondMs)
  /** Refusals of strangers without a row since the last row of one. */
  #unlisted = 0
  #redactor: Redactor | undefined

  constructor(parts: CallLogParts) {
    this.#parts = parts
  }

  /** A failure is logged once, by whoever knows most about it. */
  onEnded(call: EndedCall, failure: object | undefined): void {
    if (!this.#isNew(failure)) return
    this.#line(call)
    this.#parts.keep(call)
  }

  onRefused(call: EndedCall, failure: object): void {
    if (!this.#isNew(failure)) return
    this.#line(call)
    if (this.#mayKeep(call)) this.#parts.keepRefused(call)
  }

  /** Logs a request that was refused before it became a call; false if the failure has been noted already. */
  turnedAway(fields: Readonly<Record<string, unknown>>, failure: object): boolean {
    if (!this.#isNew(failure)) return false
    this.#parts.log.info('a request was refused', fields)
    return true
  }

  /** A text from a request, such as its path, without what looks like a secret. */
  withoutSecrets(text: string): string {
    return (this.#redactor ??= createRedactor({ secrets: [], prompts: false })).text(text)
  }

  /** Whether it may be looked up who was refused; this uses one of the look-ups of this second up. */
  mayLookUp(at: number): boolean {
    return this.#lookUps.next(others, at) <= lookUpsPerSecond
  }

  /**
   * Keeps the row of such a request, unless its account, or strangers like it, have filled their share. `make` is given
   * how many refusals of strangers have left no row since the last one that did.
   */
  keepTurnedAway(who: Refusee, make: (unlisted: number) => RequestLogRow): void {
    if (who.account !== '') {
      if (this.#mayKeep(who)) this.#parts.keepTurnedAway(make(0))
      return
    }
    if (!this.#mayListStranger(who)) {
      this.#unlisted += 1
      return
    }
    this.#parts.keepTurnedAway(make(this.#unlisted))
    this.#unlisted = 0
  }

  #mayListStranger({ network, at }: Refusee): boolean {
    // One network alone must not use up what there is for all.
    if (this.#strangers.next(network, at) > strangerRowsPerMinute) return false
    const ofMinute = this.#allStrangers.next(others, at)
    if (ofMinute > strangersRowsPerMinute) return false
    return this.#ofDay.next(others, at) <= strangersRowsPerDay || ofMinute === 1
  }

  #isNew(failure: object | undefined): boolean {
    if (failure === undefined) return true
    if (this.#noted.has(failure)) return false
    this.#noted.add(failure)
    return true
  }

  #mayKeep({ account, at }: Pick<Refusee, 'account' | 'at'>): boolean {
    return this.#refusals.next(account, at) <= refusalRowsPerMinute
  }

  #line(call: EndedCall): void {
    this.#parts.log.info('call', {
      request_id: call.requestId,
      account: call.account,
      key: call.lastFour === null ? null : `…${call.lastFour}`,
      model: call.model,
      provider: call.provider,
      status: call.status,
      code: call.code,
      ending: call.ending,
      prompt_tokens: call.promptTokens,
      completion_tokens: call.completionTokens,
      cost_usd: this.#parts.usd(call.cost),
      first_byte_ms: call.firstByteMs,
      ms: call.totalMs,
      attempts: call.attempts,
    })
  }
}

// Listeners for ended calls: the log, the request log, the token limiter, metrics.

/** Called once for each ended call. `failure` is the error it ended with. Never throws. */
export type OnCallEnded = (call: EndedCall, failure: object | undefined) => void

/** Combines listeners, in order: an exception in one is logged and does not affect the others. */
export function callEnded(listeners: readonly OnCallEnded[], log: Pick<Log, 'error'>): OnCallEnded {
  return (call, failure) => {
    for (const listener of listeners) {
      try {
        listener(call, failure)
      } catch (error) {
        log.error('a listener of ended calls failed', { request_id: call.requestId, error })
      }
    }
  }
}

/**
 * Tells of calls at the end of the turn of the event loop that they end in: clients have their answers before anything is
 * noted, and calls that end together are noted one after another, which costs each of them less. Of a failure it tells at
 * once: whoever passes the error on is to find it noted.
 */
export class AtEndOfTurn {
  readonly #tell: OnCallEnded
  #ended: EndedCall[] = []

  constructor(tell: OnCallEnded) {
    this.#tell = tell
  }

  readonly callEnded: OnCallEnded = (call, failure) => {
    if (failure !== undefined) return this.#tell(call, failure)
    this.#ended.push(call)
    if (this.#ended.length === 1) setImmediate(() => this.flush())
  }

  /** Tells of all that have ended so far. */
  flush(): void {
    const ended = this.#ended
    this.#ended = []
    for (const call of ended) this.#tell(call, undefined)
  }
}
