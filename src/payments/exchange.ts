// Converts rupees to credit, exactly, in whole paise and picodollars. The only place that rounds.

import type { Pico } from '../credits/money.ts'

/** An amount in the smallest unit of its currency, such as paise. */
export type Minor = bigint

/** Rupees per US dollar in millionths: "89.015" is 89,015,000. */
export type Rate = bigint

const minorPerUnit = 100n
const ratePerUnit = 1_000_000n
const picoPerUsdTimesRate = 1_000_000_000_000n * ratePerUnit

/** Reads rupees per US dollar, "89.015"; undefined unless positive with at most six decimals. */
export function parseRate(text: string): Rate | undefined {
  const match = /^(\d{1,6})(?:\.(\d{1,6}))?$/.exec(text)
  if (!match) return undefined
  const rate = BigInt(match[1]!) * ratePerUnit + BigInt((match[2] ?? '').padEnd(6, '0'))
  return rate > 0n ? rate : undefined
}

export function formatRate(rate: Rate): string {
  return decimal(rate, 6)
}

/** Reads an amount such as "500" or "500.50"; undefined if it is not one or has more than two decimals. */
export function parseMinor(text: string): Minor | undefined {
  const match = /^(\d{1,12})(?:\.(\d{1,2}))?$/.exec(text)
  return match ? BigInt(match[1]!) * minorPerUnit + BigInt((match[2] ?? '').padEnd(2, '0')) : undefined
}

/** "500" or "500.50": without decimals if they are zero. */
export function formatMinor(amount: Minor): string {
  const whole = amount / minorPerUnit
  const rest = amount % minorPerUnit
  return rest === 0n ? String(whole) : `${whole}.${String(rest).padStart(2, '0')}`
}

/** The value of an amount: `credit` is rounded down, `rounding` is what was cut off, 0 or 1 picodollars. */
export interface Exchanged {
  readonly credit: Pico
  readonly rounding: Pico
}

/** floor(paise × 10¹⁸ / (rate in millionths × 100)) picodollars. */
export function exchangeAt(amount: Minor, rate: Rate): Exchanged {
  const dividend = amount * picoPerUsdTimesRate
  const divisor = rate * minorPerUnit
  return { credit: dividend / divisor, rounding: dividend % divisor === 0n ? 0n : 1n }
}

/**
 * The credit of a refunded part, when `before` of the payment was refunded already. All parts together are exactly the
 * credit of the whole, whatever their sizes.
 */
export function creditOfPart(before: Minor, part: Minor, rate: Rate): Pico {
  return exchangeAt(before + part, rate).credit - exchangeAt(before, rate).credit
}

function decimal(value: bigint, places: number): string {
  const unit = 10n ** BigInt(places)
  const fraction = String(value % unit)
    .padStart(places, '0')
    .replace(/0+$/, '')
  return fraction === '' ? String(value / unit) : `${value / unit}.${fraction}`
}
