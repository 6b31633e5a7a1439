import type { ChatLimits } from '../limits.ts'

/**
 * How long a call belongs to its process. Longer than every deadline: recovery must never end a call that is still
 * running.
 */
export function leaseUntil({ totalMs, drainMs, leaseMs }: ChatLimits, now: number): number {
  return now + totalMs + drainMs + leaseMs
}
