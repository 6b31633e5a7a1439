// The catalogue of strings. English is written in the pages and is the key of each string; other languages are
// loaded when the reader's browser asks for them.

const catalogues: Readonly<Record<string, () => Promise<Readonly<Record<string, string>>>>> = {
  hi: async () => (await import('./hi.ts')).hi,
}

let translations: Readonly<Record<string, string>> = {}
const languageItem = 'weir.language'

/** The available languages, with their own names. */
export const languages = [
  ['en', 'English'],
  ['hi', 'हिन्दी'],
] as const

/** The user's choice, otherwise the first language of the browser that is available. */
export function language(): string {
  const isKnown = (code: string | undefined) => languages.some(([name]) => name === code)
  const chosen = localStorage.getItem(languageItem) ?? undefined
  if (isKnown(chosen)) return chosen!
  return navigator.languages.map((code) => code.split('-')[0]).find(isKnown) ?? 'en'
}

export function chooseLanguage(code: string): void {
  localStorage.setItem(languageItem, code)
  location.reload()
}

/** Loads the strings of the user's language; English needs none. */
export async function loadStrings(): Promise<void> {
  const code = language()
  document.documentElement.lang = code
  translations = (await catalogues[code]?.()) ?? {}
}

/** A string in the user's language, with its `{names}` filled in. */
export function t(english: string, values: Readonly<Record<string, string | number>> = {}): string {
  const text = translations[english] ?? english
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole))
}

// Formats amounts, counts and times for people, with Intl. Decimal strings stay exact.

/** How the browser writes numbers and dates, if it knows the language of the pages; otherwise as it is usual in it. */
function locale(): string {
  const code = language()
  const own = navigator.languages.find((name) => name.split('-')[0] === code)
  return own ?? (code === 'hi' ? 'hi-IN' : 'en-GB')
}

type Decimal = Intl.StringNumericLiteral

const dollarForms = new Map<number, Intl.NumberFormat>()

/** US dollars with all of their decimals, at least two, at most `most` if given. */
export function usd(amount: string, most = 20): string {
  let form = dollarForms.get(most)
  if (!form) {
    const digits = { minimumFractionDigits: Math.min(2, most), maximumFractionDigits: most }
    form = new Intl.NumberFormat(locale(), {
      style: 'currency',
      currency: 'USD',
      currencyDisplay: 'narrowSymbol',
      ...digits,
    })
    dollarForms.set(most, form)
  }
  return form.format(amount as Decimal)
}

/** An amount of a currency with the decimals that it is written with, rupees with Indian grouping. */
export function money(amount: string, currency: string): string {
  const digits = amount.includes('.') ? amount.length - amount.indexOf('.') - 1 : 0
  return new Intl.NumberFormat(currency === 'INR' ? 'en-IN' : locale(), {
    style: 'currency',
    currency,
    currencyDisplay: 'narrowSymbol',
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  }).format(amount as Decimal)
}

/** Dollars short enough for a column: four decimals, or up to the second significant one. */
export function usdShort(amount: string): string {
  const value = Math.abs(Number(amount))
  if (value === 0) return usd('0')
  if (value >= 0.01) return usd(amount, 4)
  return usd(amount, Math.min(20, 1 - Math.floor(Math.log10(value))))
}

let counts: Intl.NumberFormat | undefined
export function count(value: number): string {
  counts ??= new Intl.NumberFormat(locale())
  return counts.format(value)
}

/** One of two strings by a number, which is their `{count}`. */
export function countOf(
  value: number,
  one: string,
  many: string,
  values: Readonly<Record<string, string>> = {},
): string {
  return t(value === 1 ? one : many, { ...values, count: count(value) })
}

let compacts: Intl.NumberFormat | undefined
export function compact(value: number): string {
  compacts ??= new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })
  return compacts.format(value)
}

let moments: Intl.DateTimeFormat | undefined
/** Date and time, to the second. */
export function moment(iso: string): string {
  moments ??= new Intl.DateTimeFormat(locale(), { dateStyle: 'medium', timeStyle: 'medium' })
  return moments.format(new Date(iso))
}

let days: Intl.DateTimeFormat | undefined
let utcDays: Intl.DateTimeFormat | undefined
/** The day of a time, where the reader is; a day such as `2026-11-28` is of UTC and stays what it is. */
export function day(iso: string): string {
  if (iso.length === 'yyyy-mm-dd'.length) {
    utcDays ??= new Intl.DateTimeFormat(locale(), { dateStyle: 'medium', timeZone: 'UTC' })
    return utcDays.format(new Date(iso))
  }
  days ??= new Intl.DateTimeFormat(locale(), { dateStyle: 'medium' })
  return days.format(new Date(iso))
}

let months: Intl.DateTimeFormat | undefined
/** `November 2026`, of `2026-11`. */
export function monthName(month: string): string {
  months ??= new Intl.DateTimeFormat(locale(), { month: 'long', year: 'numeric', timeZone: 'UTC' })
  const at = Date.parse(`${month}-01`)
  return Number.isNaN(at) ? month : months.format(at)
}

const steps = [
  ['year', 365 * 86_400],
  ['month', 30 * 86_400],
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
] as const

let relatives: Intl.RelativeTimeFormat | undefined
/** `5 minutes ago`, `in 3 days`. */
export function ago(iso: string, now = Date.now()): string {
  relatives ??= new Intl.RelativeTimeFormat(locale(), { numeric: 'auto', style: 'short' })
  const seconds = (Date.parse(iso) - now) / 1000
  for (const [unit, length] of steps) {
    if (Math.abs(seconds) >= length) return relatives.format(Math.trunc(seconds / length), unit)
  }
  return relatives.format(Math.trunc(seconds / 10) * 10, 'second')
}

/** A share from 0 to 1; never rounded up to all of it. */
export function percent(share: number): string {
  const tenths = share === 1 ? 1000 : Math.min(999, Math.round(share * 1000))
  return `${tenths === 1000 || tenths === 0 ? tenths / 10 : (tenths / 10).toFixed(1)} %`
}

export function milliseconds(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`
}

// Arithmetic on decimal strings without rounding: a BigInt and the number of its decimals.

interface Exact {
  readonly units: bigint
  readonly scale: number
}

/** Throws for text other than a plain decimal number. */
export function exact(text: string): Exact {
  const [, sign, whole, fraction = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(text) ?? []
  if (whole === undefined) throw new Error(`${text} is no decimal number`)
  const units = BigInt(whole + fraction)
  return { units: sign === '-' ? -units : units, scale: fraction.length }
}

export function plus(a: Exact, b: Exact): Exact {
  const scale = Math.max(a.scale, b.scale)
  return { units: at(a, scale) + at(b, scale), scale }
}

export function times(a: Exact, b: Exact): Exact {
  return { units: a.units * b.units, scale: a.scale + b.scale }
}

export function equal(a: Exact, b: Exact): boolean {
  const scale = Math.max(a.scale, b.scale)
  return at(a, scale) === at(b, scale)
}

export function sumOf(texts: readonly string[]): Exact {
  return texts.map(exact).reduce(plus, { units: 0n, scale: 0 })
}

/** Without trailing zeros. */
export function decimal({ units, scale }: Exact): string {
  const digits = (units < 0n ? -units : units).toString().padStart(scale + 1, '0')
  const whole = digits.slice(0, digits.length - scale)
  const fraction = digits.slice(digits.length - scale).replace(/0+$/, '')
  return `${units < 0n ? '-' : ''}${whole}${fraction === '' ? '' : `.${fraction}`}`
}

function at({ units, scale }: Exact, wanted: number): bigint {
  return units * 10n ** BigInt(wanted - scale)
}
