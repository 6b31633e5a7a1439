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
