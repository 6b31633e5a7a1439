// Currencies, amounts of money in them, and what an amount is as credit: exactly, in whole smallest units and picodollars.
// The only place that rounds.

import type { Pico } from './money.ts'

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
