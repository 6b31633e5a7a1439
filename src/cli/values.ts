// Parses arguments: dates, durations, amounts of money. A wrong one is a usage fault with an example.

import { dayMs, startOfDay } from '../credits/calendar.ts'
import { creditAmount, type Pico } from '../credits/money.ts'
import { type Month, monthNamed } from '../credits/ledger/monthly.ts'
import { type Invocation, usageFault } from './context.ts'

/** A date (`2027-01-31` is its first moment in UTC) or an ISO moment, milliseconds since 1970. */
export function momentOf(option: string, text: string): number {
  const written = /^\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d))?$/.test(text)
  const at = written && isDay(text.slice(0, 10)) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(at))
    throw usageFault(`${option} takes a date such as 2027-01-31, not ${JSON.stringify(text)}`)
  return at
}

/** A moment in the future. */
export function futureDate(option: string, text: string, now: number): number {
  const at = momentOf(option, text)
  if (at <= now) throw usageFault(`${option} ${text} has passed`)
  return at
}

/** `--expires` of a grant: a date in the future, `never`, or null without it. */
export function endOfGrant(invocation: Invocation, now: number): number | 'never' | null {
  const text = invocation.option('expires')
  if (text === undefined) return null
  return text === 'never' ? text : futureDate('--expires', text, now)
}

/** The month of `--month`; without it the one that `now` is in. */
export function monthOf(invocation: Invocation, now: number): Month {
  const name = invocation.option('month') ?? new Date(now).toISOString().slice(0, 7)
  const month = monthNamed(name)
  if (month === undefined)
    throw usageFault(`--month takes a month such as 2026-11, not ${JSON.stringify(name)}`)
  return month
}

/** The first moment of a UTC day that has begun: a date, `today` or `yesterday`. */
export function pastDay(option: string, text: string, now: number): number {
  const today = startOfDay(now)
  if (text === 'today') return today
  if (text === 'yesterday') return today - dayMs
  if (!/^\d{4}-\d\d-\d\d$/.test(text) || !isDay(text)) {
    throw usageFault(
      `${option} takes a UTC date such as 2027-01-31, today or yesterday, not ${JSON.stringify(text)}`,
    )
  }
  const day = Date.parse(text)
  if (day > now) throw usageFault(`${option} ${text} has not begun`)
  return day
}

/** JavaScript reads some invalid dates as later days: 2026-02-30 as the second of March. */
function isDay(text: string): boolean {
  const day = Date.parse(text)
  return !Number.isNaN(day) && new Date(day).toISOString().startsWith(text)
}

const unitMs: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** `90s`, `30m`, `24h`, `7d` or `0`, in milliseconds. */
export function duration(option: string, text: string): number {
  if (text === '0') return 0
  const [, count, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? []
  const ms = unit === undefined ? undefined : unitMs[unit]
  if (ms === undefined)
    throw usageFault(`${option} takes a time such as 30m, 24h or 7d, not ${JSON.stringify(text)}`)
  return Number(count) * ms
}

/** More than zero, at most the limit of a lot. */
export function amountOfUsd(option: string, text: string): Pico {
  const amount = creditAmount(text)
  if (amount !== undefined) return amount
  throw usageFault(
    `${option} takes US dollars such as 10 or 0.50, above 0 and at most 1000000, not ${JSON.stringify(text)}`,
  )
}

export function oneOf<Word extends string>(option: string, text: string, words: readonly Word[]): Word {
  const found = words.find((word) => word === text)
  if (found === undefined)
    throw usageFault(`${option} takes ${words.join(', ')}, not ${JSON.stringify(text)}`)
  return found
}
