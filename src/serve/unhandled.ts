import type { Log } from '../observe/log.ts'

/** What the log says of a rejection that nothing has handled; always a fault of ours. */
export const unhandled = 'a promise was rejected and nothing handled it; the gateway goes on'

/**
 * Keeps the process when a promise is rejected that nobody waits for: by default the runtime ends it, and with it the
 * calls of everybody. What is charged does not depend on such a promise: it is in the ledger, or the call is recovered.
 * An exception that nothing catches still ends the process: what it interrupted may be half done.
 */
export function outliveRejections(log: Log): void {
  process.on('unhandledRejection', (error) => log.error(unhandled, { error }))
}
