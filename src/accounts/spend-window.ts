// The window of a key's spending limit: UTC days, weeks from Monday, calendar months, or unlimited.

import type { LimitWindow } from './api-key.ts'

/** The start of the window that contains `now`, milliseconds since 1970. */
export function windowStart(window: LimitWindow, now: number): number {
  const day = new Date(now)
  day.setUTCHours(0, 0, 0, 0)
  switch (window) {
    case 'day':
      return day.getTime()
    case 'week':
      return day.setUTCDate(day.getUTCDate() - ((day.getUTCDay() + 6) % 7))
    case 'month':
      return day.setUTCDate(1)
    case 'total':
      return 0
    default:
      return window satisfies never
  }
}

/** The end of the window that contains `now`, milliseconds since 1970; null for a limit that never resets. */
export function windowEnd(window: LimitWindow, now: number): number | null {
  if (window === 'total') return null
  const start = new Date(windowStart(window, now))
  if (window === 'day') return start.setUTCDate(start.getUTCDate() + 1)
  if (window === 'week') return start.setUTCDate(start.getUTCDate() + 7)
  return start.setUTCMonth(start.getUTCMonth() + 1)
}
