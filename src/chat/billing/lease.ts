import type { ChatLimits } from '../limits.ts'

/** Until when a call belongs to its process. Longer than every deadline: recovery must not end a running call. */
export function leaseUntil({ totalMs, drainMs, leaseMs }: ChatLimits, now: number): number {
  return now + totalMs + drainMs + leaseMs
}
