// Records an ended call: a line in the log and a row in the request log.

import type { Log } from './log.ts'
import type { EndedCall, RequestLogRow } from './request-log.ts'

export interface CallLogParts {
  readonly log: Log
  readonly keep: (row: RequestLogRow) => void
  /** The same for a call that was refused before it began. */
  readonly keepRefused: (row: RequestLogRow) => void
  /** Picodollars as a decimal string of US dollars. */
  readonly usd: (amount: bigint) => string
}

/** Refusals per account and minute that leave a row: a client in a loop must not fill the disk. */
export const refusalRowsPerMinute = 120
const minuteMs = 60_000

export class CallLog {
  readonly #parts: CallLogParts
  readonly #noted = new WeakSet<object>()
  readonly #refusals = new Map<string, number>()
  #minute = 0

  constructor(parts: CallLogParts) {
    this.#parts = parts
  }

  /** A failure is logged once, by whoever knows most about it. */
  ended(call: EndedCall, failure: object | undefined): void {
    if (!this.#isNew(failure)) return
    this.#line(call)
    this.#parts.keep(call)
  }

  refused(call: EndedCall, failure: object): void {
    if (!this.#isNew(failure)) return
    this.#line(call)
    if (this.#mayKeep(call)) this.#parts.keepRefused(call)
  }

  /** A request that was refused before it became a call. */
  turnedAway(fields: Readonly<Record<string, unknown>>, failure: object): void {
    if (this.#isNew(failure)) this.#parts.log.info('a request was refused', fields)
  }

  #isNew(failure: object | undefined): boolean {
    if (failure === undefined) return true
    if (this.#noted.has(failure)) return false
    this.#noted.add(failure)
    return true
  }

  #mayKeep({ account, at }: EndedCall): boolean {
    const minute = Math.floor(at / minuteMs)
    if (minute !== this.#minute) this.#refusals.clear()
    this.#minute = minute
    const count = (this.#refusals.get(account) ?? 0) + 1
    this.#refusals.set(account, count)
    return count <= refusalRowsPerMinute
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
