// Money: whole picodollars in a bigint. 1 USD = 1 credit = 10^12 picodollars; no float ever holds an amount.

/** An amount of money in picodollars (10^-12 US dollars). */
export type Pico = bigint

export const picoPerUsd: Pico = 1_000_000_000_000n

/** The largest amount one lot may hold, and the largest balance; both far inside a signed 64-bit integer. */
export const largestLot: Pico = 1_000_000n * picoPerUsd
export const largestBalance: Pico = 4_000_000n * picoPerUsd

/** What a signed 64-bit integer can hold: databases wrap or refuse anything beyond. */
const largestInteger = 2n ** 63n - 1n

const decimal = /^(-?)(\d{1,12})(?:\.(\d{1,24}))?$/

/**
 * Reads a decimal string of US dollars. Returns undefined for what is not one, for an amount that is not a whole
 * number of picodollars (money is never rounded silently), and for one beyond a signed 64-bit integer.
 */
export function parseUsd(text: string): Pico | undefined {
  const match = decimal.exec(text)
  if (!match) return undefined
  const fraction = (match[3] ?? '').replace(/0+$/, '')
  if (fraction.length > 12) return undefined
  const amount = BigInt(match[2]!) * picoPerUsd + BigInt(fraction.padEnd(12, '0'))
  if (amount > largestInteger) return undefined
  return match[1] === '-' ? -amount : amount
}

/** An amount that a lot may hold: more than zero, at most `largestLot`; undefined for any other text. */
export function creditAmount(text: string): Pico | undefined {
  const amount = parseUsd(text)
  return amount !== undefined && amount > 0n && amount <= largestLot ? amount : undefined
}

/** A literal amount in code and tests. Throws RangeError for what is not a whole number of picodollars. */
export function usd(amount: number | string): Pico {
  const parsed = parseUsd(String(amount))
  if (parsed === undefined) throw new RangeError(`not a whole number of picodollars: ${amount}`)
  return parsed
}

/** An amount as a decimal string of US dollars, exact, without trailing zeros (`0.0000025`, `0`, `-1.5`). */
export function formatUsd(amount: Pico): string {
  if (amount === 0n) return '0'
  const sign = amount < 0n ? '-' : ''
  const digits = (amount < 0n ? -amount : amount).toString()
  const point = digits.length - fractionDigits
  let end = digits.length
  while (end > 0 && end > point && digits.charCodeAt(end - 1) === digitZero) end--
  if (point <= 0) return sign + belowOne[-point]! + digits.slice(0, end)
  const whole = sign + digits.slice(0, point)
  return end === point ? whole : `${whole}.${digits.slice(point, end)}`
}

const digitZero = 0x30
const fractionDigits = 12
/** What stands before the first digit of an amount below one dollar, by the zeros behind its point. */
const belowOne = Array.from({ length: fractionDigits }, (_, zeros) => `0.${'0'.repeat(zeros)}`)

/**
 * A price in USD per million tokens as picodollars per token ($1 per million is exactly 10^6). Returns undefined
 * for a negative price and for one that is not a whole number of picodollars per token.
 */
export function parseUsdPerMillion(text: string): Pico | undefined {
  const perMillion = parseUsd(text)
  if (perMillion === undefined || perMillion < 0n || perMillion % 1_000_000n !== 0n) return undefined
  return perMillion / 1_000_000n
}

export function formatUsdPerMillion(perToken: Pico): string {
  return formatUsd(perToken * 1_000_000n)
}

export function smaller(a: Pico, b: Pico): Pico {
  return a < b ? a : b
}

export function larger(a: Pico, b: Pico): Pico {
  return a > b ? a : b
}
