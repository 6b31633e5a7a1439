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

// Currencies, amounts of money in them, and what an amount is as credit: exactly, in whole smallest units and picodollars.
// The only place that rounds.

/** An amount in the smallest unit of its currency, such as paise. */
export type Minor = bigint

/** Units of a currency per US dollar in millionths: "89.015" is 89,015,000. */
export type Rate = bigint

/**
 * The decimals of the currencies that processors take, by ISO 4217. Those that processors count otherwise than ISO 4217
 * are left out: the same number would be another amount there (ISK, MGA, UGX; docs.stripe.com/currencies).
 */
const codes: Readonly<Record<0 | 2 | 3, string>> = {
  0: 'BIF CLP DJF GNF JPY KMF KRW PYG RWF VND VUV XAF XOF XPF',
  2:
    'AED ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BRL BSD BWP BZD CAD CDF CHF CNY COP CRC CVE CZK DKK ' +
    'DOP DZD EGP ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR JMD KES KGS KHR KYD KZT LAK LBP ' +
    'LKR LRD LSL MAD MDL MKD MMK MNT MOP MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON ' +
    'RSD SAR SBD SCR SEK SGD SHP SLE SOS SRD SZL THB TJS TOP TRY TTD TWD TZS UAH USD UYU UZS WST XCD YER ZAR ZMW',
  3: 'BHD JOD KWD OMR TND',
}

const decimals: ReadonlyMap<string, number> = new Map(
  ([0, 2, 3] as const).flatMap((places) => codes[places].split(' ').map((code) => [code, places] as const)),
)

export const currencies: readonly string[] = [...decimals.keys()].toSorted()

/** The decimals of an amount; two of a currency that is not known, such as one that a message names. */
export function decimalsOf(currency: string): number {
  return decimals.get(currency) ?? 2
}

/** The decimals that an amount may be given with: processors take no third one (docs.stripe.com/currencies). */
export function givenDecimals(currency: string): number {
  return Math.min(2, decimalsOf(currency))
}

/** Reads an amount such as "500" or "500.50"; undefined if it is not one, or has more decimals than can be paid. */
export function parseMinor(text: string, currency: string): Minor | undefined {
  const match = /^(\d{1,12})(?:\.(\d{1,2}))?$/.exec(text)
  const fraction = match?.[2] ?? ''
  if (!match || fraction.length > givenDecimals(currency)) return undefined
  const places = decimalsOf(currency)
  return BigInt(match[1]!) * 10n ** BigInt(places) + BigInt(fraction.padEnd(places, '0') || '0')
}

/** "500" or "500.50": without decimals if they are zero, and otherwise with all that its currency has. */
export function formatMinor(amount: Minor, currency: string): string {
  const places = decimalsOf(currency)
  const unit = 10n ** BigInt(places)
  const rest = amount % unit
  return rest === 0n ? String(amount / unit) : `${amount / unit}.${String(rest).padStart(places, '0')}`
}

const ratePerUnit = 1_000_000n
const picoPerUsdTimesRate = 1_000_000_000_000n * ratePerUnit

/** Reads units per US dollar, "89.015"; undefined unless positive with at most six decimals. */
export function parseRate(text: string): Rate | undefined {
  const match = /^(\d{1,6})(?:\.(\d{1,6}))?$/.exec(text)
  if (!match) return undefined
  const rate = BigInt(match[1]!) * ratePerUnit + BigInt((match[2] ?? '').padEnd(6, '0'))
  return rate > 0n ? rate : undefined
}

/** "89.015": without zeros at the end. */
export function formatRate(rate: Rate): string {
  const fraction = String(rate % ratePerUnit)
    .padStart(6, '0')
    .replace(/0+$/, '')
  return fraction === '' ? String(rate / ratePerUnit) : `${rate / ratePerUnit}.${fraction}`
}

/** An amount, its currency and the rate that it is exchanged at. */
export interface Priced {
  readonly amount: Minor
  readonly currency: string
  readonly rate: Rate
}

/** The value of an amount: `credit` is rounded down, `rounding` is what was cut off, 0 or 1 picodollars. */
interface Exchanged {
  readonly credit: Pico
  readonly rounding: Pico
}

/** floor(smallest units × 10¹⁸ / (rate in millionths × 10^decimals)) picodollars. */
export function exchange({ amount, currency, rate }: Priced): Exchanged {
  const dividend = amount * picoPerUsdTimesRate
  const divisor = rate * 10n ** BigInt(decimalsOf(currency))
  return { credit: dividend / divisor, rounding: dividend % divisor === 0n ? 0n : 1n }
}

/** The rate at which an amount becomes this credit, rounded down, and at least the smallest there is. */
export function rateOf(amount: Minor, currency: string, credit: Pico): Rate {
  const rate = (amount * picoPerUsdTimesRate) / (credit * 10n ** BigInt(decimalsOf(currency)))
  return rate > 0n ? rate : 1n
}

/**
 * The credit of a refunded part of a payment, when `before` of it was refunded already. All parts together are exactly
 * the credit of the whole, whatever their sizes.
 */
export function creditOfPart(payment: Omit<Priced, 'amount'>, before: Minor, part: Minor): Pico {
  const creditOf = (amount: Minor) => exchange({ ...payment, amount }).credit
  return creditOf(before + part) - creditOf(before)
}
