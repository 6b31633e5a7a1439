// What rupees are worth in dollars, shown before anything is paid: the same sum that the gateway makes, rounded down to
// picodollars.

const amountForm = /^(\d{1,9})(?:\.(\d{1,2}))?$/

/** Rupees as paise; undefined for what is no amount with at most two decimals. */
export function paiseOf(text: string): bigint | undefined {
  const match = amountForm.exec(text)
  return match ? BigInt(match[1]! + (match[2] ?? '').padEnd(2, '0')) : undefined
}

/** The credit of an amount in paise at a rate such as "89.015" rupees for a dollar, as a decimal string of dollars. */
export function creditOf(paise: bigint, rate: string): string {
  const [whole = '', fraction = ''] = rate.split('.')
  const millionths = BigInt(whole + fraction.padEnd(6, '0'))
  const pico = (paise * 10n ** 18n) / (millionths * 100n)
  const digits = String(pico).padStart(13, '0')
  const cents = digits.slice(-12).replace(/0+$/, '')
  return `${digits.slice(0, -12)}${cents === '' ? '' : `.${cents}`}`
}

/** What is wrong with a typed amount. */
export type AmountFault = 'empty' | 'no_amount' | 'decimals' | 'too_small' | 'too_large'

export function amountFault(text: string, least: string, most: string): AmountFault | undefined {
  if (text === '') return 'empty'
  const paise = paiseOf(text)
  if (paise === undefined) return /^\d+\.\d{3,}$/.test(text) ? 'decimals' : 'no_amount'
  if (paise < paiseOf(least)!) return 'too_small'
  return paise > paiseOf(most)! ? 'too_large' : undefined
}
