// Who wants to know that a call has ended: the log and its row, the limiter of tokens, later metrics.

import type { Log } from './log.ts'
import type { EndedCall } from './request-log.ts'

/** Called once for each call that has ended. `failure` is the error it ended with. Never throws. */
export type OnCallEnded = (call: EndedCall, failure: object | undefined) => void

/** One listener for many, in their order: what one of them throws is logged and changes nothing for the others. */
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
