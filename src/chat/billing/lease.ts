// How long a call belongs to the process that runs it.

import type { ChatLimits } from '../limits.ts'

/** The lease outlives every deadline: recovery must never end a call that is still running here. */
export function leaseUntil({ totalMs, drainMs, leaseMs }: ChatLimits, now: number): number {
  return now + totalMs + drainMs + leaseMs
}
