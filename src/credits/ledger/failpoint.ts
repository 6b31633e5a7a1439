// Named moments in the life of a call at which a crash could lose or double money. Recovery tests kill the process at
// one of them; a gateway in production never does.

import { writeSync } from 'node:fs'

/** Each point and the state of the call when it is reached, in order. */
export const callFailpoints = {
  'hold-queued': 'the hold waits for its commit',
  'hold-written': 'the hold is in a transaction that has not been committed',
  'hold-decided': 'the hold is committed, and nothing has been sent',
  'request-sent': 'the request is on its way to the provider',
  'answer-begun': "a stream's first content has been read, and nothing delivered",
  'answer-read': 'a whole answer has been read, and nothing booked',
  'checkpoint-queued': "a stream's progress waits for its commit",
  'checkpoint-written': "a stream's progress is in a transaction that has not been committed",
  'checkpoint-committed': "a stream's progress is on disk",
  'round-ended': 'a round has called tools of the gateway, and its charge waits for its commit',
  'tool-called': 'a tool of the gateway is about to run',
  'tool-ran': 'a tool of the gateway has run, and its cost waits for its commit',
  'round-begun': 'what the next round needs is held, and nothing of it has been sent',
  'settle-queued': 'the usage is known, and the settle waits for its commit',
  'end-written': 'a settle or release is in a transaction that has not been committed',
  'settle-committed': 'the charge is on disk, and the client has not been told',
  'release-committed': 'the hold has gone back, and the client has not been told',
  'last-frame': 'the last frame of a stream has been written',
  'answer-kept': 'the answer is kept for its Idempotency-Key, and the client does not have all of it',
  'recovery-written': 'a recovered end is in a transaction that has not been committed',
  'recovery-committed': 'the calls of the process before have been ended, and nothing is served yet',
} as const

/** The points of a top-up, between the proof of payment and the answer to its sender. */
export const paymentFailpoints = {
  'payment-noted': "a processor's message is on disk, and nothing was done about it",
  'payment-proven': 'the payment is on disk, and no credit was granted',
  'payment-granted': 'the credit is in the ledger, and the top-up does not know',
  'payment-credited': 'the top-up is credited, and whoever brought the news has not been told',
  'message-claimed': 'the message of a credit is taken from its queue, and was not sent',
  'message-answered': 'a webhook has taken the message, and the queue does not know',
  'refund-noted': 'what is to be taken back is on disk, and the ledger has none of it',
  'refund-booked': 'the ledger has taken it back, and the refund does not know',
} as const

export const failpoints = { ...callFailpoints, ...paymentFailpoints } as const

export type Failpoint = keyof typeof failpoints

/** A point, and which pass of it kills the process, from 1. */
export interface ArmedFailpoint {
  readonly point: Failpoint
  readonly passing: number
}

/** Reads `hold-decided:17`; undefined if that is not a point or not a count. */
export function parseFailpoint(text: string): ArmedFailpoint | undefined {
  const [, point, passing] = /^([a-z-]+):([1-9]\d{0,8})$/.exec(text) ?? []
  if (point === undefined || !Object.hasOwn(failpoints, point)) return undefined
  return { point: point as Failpoint, passing: Number(passing) }
}

let armed: ArmedFailpoint | undefined
let passed = 0

/** Makes this process kill itself, like `kill -9`, at that pass of the point. */
export function armFailpoint(failpoint: ArmedFailpoint): void {
  armed = failpoint
  passed = 0
}

export function pass(point: Failpoint, call: string): void {
  if (armed !== undefined) count(armed, point, call)
}

export function passAll(point: Failpoint, calls: { keys(): Iterable<string> }): void {
  if (armed === undefined) return
  for (const call of calls.keys()) count(armed, point, call)
}

function count(failpoint: ArmedFailpoint, point: Failpoint, call: string): void {
  if (point !== failpoint.point || ++passed !== failpoint.passing) return
  // Tells the test which call it was. Bypasses the log, whose buffers die with the process.
  writeSync(2, `failpoint ${point} ${call}\n`)
  process.kill(process.pid, 'SIGKILL')
}
