// The trials: what becomes of a call whose process dies at each named failpoint, and how often calls pass it first.

import { callFailpoints } from '../../src/credits/ledger/failpoint.ts'

/** The points that calls pass; those of payments have their own trials. */
export type CallFailpoint = keyof typeof callFailpoints

/** What the ledger says in the end about the call that passed the point when its process died. */
export type Fate =
  /** It never was: no row, no request to the provider. */
  | 'unknown'
  /** Recovery has returned its hold. */
  | 'voided'
  /** Recovery has ended it, by its last checkpoint if there was one. */
  | 'recovered'
  /** It is charged: by recovery, or by its own settle where that came with the same commit. */
  | 'charged'
  /** It is charged by its own settle: what it used, as the provider counted. */
  | 'settled'
  /** Its own release has returned its hold. */
  | 'released'
  /** The point is no single call's. */
  | 'many'

interface Trial {
  readonly fate: Fate
  /** The most passings before the last: enough for all lanes to be at work. */
  readonly most: number
  /** At the next start, not while it serves. */
  readonly atStart: boolean
}

const serving = (fate: Fate, most: number): Trial => ({ fate, most, atStart: false })
const starting = (fate: Fate, most: number): Trial => ({ fate, most, atStart: true })

export const trials: Readonly<Record<CallFailpoint, Trial>> = {
  'hold-queued': serving('unknown', 150),
  'hold-written': serving('unknown', 150),
  'hold-decided': serving('voided', 150),
  // Of a first round nothing is charged, of a later one what the rounds before have used.
  'request-sent': serving('recovered', 150),
  'answer-begun': serving('recovered', 100),
  'answer-read': serving('recovered', 50),
  'checkpoint-queued': serving('recovered', 60),
  'checkpoint-written': serving('recovered', 60),
  'checkpoint-committed': serving('charged', 60),
  'round-ended': serving('recovered', 20),
  'tool-called': serving('recovered', 20),
  'tool-ran': serving('recovered', 20),
  'round-begun': serving('recovered', 20),
  'settle-queued': serving('recovered', 120),
  'end-written': serving('recovered', 120),
  'settle-committed': serving('settled', 120),
  'release-committed': serving('released', 12),
  'last-frame': serving('settled', 80),
  'answer-kept': serving('settled', 40),
  'recovery-written': starting('recovered', 10),
  'recovery-committed': starting('many', 1),
}

export const everyFailpoint = Object.keys(callFailpoints) as CallFailpoint[]

/** Calls that the process before has left are ended at start: that many may pass `end-written` before any is served. */
export function passingOf(point: CallFailpoint, below: (most: number) => number, lanes: number): number {
  return 1 + below(trials[point].most) + (point === 'end-written' ? lanes : 0)
}
