// Listeners for ended calls: the log, the request log, the token limiter, metrics.

import type { Log } from './log.ts'
import type { EndedCall } from './request-log.ts'

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
