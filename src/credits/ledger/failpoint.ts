// The moments of a call between which its money may be when the process dies, by name. Trials of recovery have the
// process killed at one of them; a gateway at work never is.

import { writeSync } from 'node:fs'

/** Each point of a call, and what is so when it is passed: in the order of a call's life. */
export const callFailpoints = {
  'hold-queued': 'the hold waits for its commit',
  'hold-written': 'the hold is in a transaction that has not been committed',
  'hold-durable': 'the hold is on disk, and nothing has been sent',
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

/** The same of a top-up: between the proof of a payment and the answer to whoever brought it. */
export const paymentFailpoints = {
  'payment-noted': "a processor's message is on disk, and nothing was done about it",
  'payment-proven': 'the payment is on disk, and no credit was granted',
  'payment-granted': 'the credit is in the ledger, and the top-up does not know',
  'payment-credited': 'the top-up is credited, and whoever brought the news has not been told',
  'refund-noted': 'what is to be taken back is on disk, and the ledger has none of it',
  'refund-booked': 'the ledger has taken it back, and the refund does not know',
} as const

export const failpoints = { ...callFailpoints, ...paymentFailpoints } as const

export type Failpoint = keyof typeof failpoints

/** A point, and which passing of it is the last, from 1. */
export interface ArmedFailpoint {
  readonly point: Failpoint
  readonly passing: number
}

/** Reads `hold-durable:17`; undefined when that names no point or no passing. */
export function parseFailpoint(text: string): ArmedFailpoint | undefined {
  const [, point, passing] = /^([a-z-]+):([1-9]\d{0,8})$/.exec(text) ?? []
  if (point === undefined || !Object.hasOwn(failpoints, point)) return undefined
  return { point: point as Failpoint, passing: Number(passing) }
}

let armed: ArmedFailpoint | undefined
let passed = 0

/** From now on this process kills itself, as `kill -9` does, at that passing of the point. */
export function armFailpoint(failpoint: ArmedFailpoint): void {
  armed = failpoint
  passed = 0
}

/** A call passes a point. */
export function pass(point: Failpoint, call: string): void {
  if (armed !== undefined) count(armed, point, call)
}

/** Several calls pass a point together. */
export function passAll(point: Failpoint, calls: { keys(): Iterable<string> }): void {
  if (armed === undefined) return
  for (const call of calls.keys()) count(armed, point, call)
}

function count(failpoint: ArmedFailpoint, point: Failpoint, call: string): void {
  if (point !== failpoint.point || ++passed !== failpoint.passing) return
  // Whoever runs the trial learns which call it was. Past the log: its buffers die with the process.
  writeSync(2, `failpoint ${point} ${call}\n`)
  process.kill(process.pid, 'SIGKILL')
}
