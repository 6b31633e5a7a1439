// Prices as people write them (USD per million tokens, decimal strings), converted to exact rates and back.

import { createHash } from 'node:crypto'
import { z } from 'zod'
import { type TokenBucket, tokenBuckets } from '../../conversation/usage.ts'
import {
  formatUsd,
  formatUsdPerMillion,
  larger,
  parseUsd,
  parseUsdPerMillion,
  type Pico,
} from '../../credits/money.ts'
import type { Price, Rates, ServiceTier, Tier, TieredRates } from '../../credits/price.ts'

const perMillion = z
  .string('write the price as a string: "0.10"')
  .refine((text) => parseUsdPerMillion(text) !== undefined, {
    error: 'not a price: USD per million tokens, at least 0, a whole number of picodollars per token',
  })

const perCall = z
  .string('write the price as a string: "0.01"')
  .refine((text) => (parseUsd(text) ?? -1n) >= 0n, {
    error: 'not a price: USD for each call, at least 0, at most 12 decimals',
  })

/** The rates of one tier. Only fresh input and output are required; `buildPrice` defines the defaults of the others. */
const rateFields = {
  input: perMillion,
  cache_read: perMillion.optional(),
  cache_read_audio: perMillion.optional(),
  cache_write: perMillion.optional(),
  cache_write_1h: perMillion.optional(),
  output: perMillion,
  reasoning: perMillion.optional(),
  input_audio: perMillion.optional(),
  output_audio: perMillion.optional(),
  input_image: perMillion.optional(),
  output_image: perMillion.optional(),
}

const tierSchema = () => z.strictObject({ above_prompt_tokens: z.int().positive(), ...rateFields })

const factor = z
  .string('write the factor as a string: "0.5"')
  .regex(/^\d{1,3}(\.\d{1,4})?$/, 'not a factor: a decimal number such as "0.5" or "2"')

/** A price in USD per million tokens; `per_call` and `per_request` are USD each. Unknown fields are refused. */
export const priceSpecSchema = z.lazy(() =>
  z.strictObject({
    ...rateFields,
    per_call: z.record(z.string().min(1), perCall).optional(),
    per_request: perCall.optional(),
    /** The fee of a request by its search context (`low`, `medium`, `high`); `per_request` is the highest of them. */
    per_request_by_search_context: z.record(z.string().min(1), perCall).optional(),
    /** What other service tiers cost, as factors of the standard rates: `{ flex: "0.5" }`. */
    service_tiers: z.record(z.string().min(1), factor).optional(),
    tiers: z.array(tierSchema()).max(16).optional(),
  }),
)

export type PriceSpec = z.infer<typeof priceSpecSchema>
type RateSpec = Omit<z.infer<ReturnType<typeof tierSchema>>, 'above_prompt_tokens'>
export type RateField = keyof typeof rateFields
export const rateFieldNames = Object.keys(rateFields) as RateField[]

/** `price: free` in the configuration: every rate is zero on purpose. */
export const freePrice: PriceSpec = { input: '0', output: '0' }

/** Why a price cannot be charged, for people: the field and its value. */
export class PriceRefused extends Error {}

/**
 * The exact price of a spec. Absent rates default to one that is not too low: cache reads and writes cost as much as
 * fresh input, a one-hour write as much as a five-minute write, reasoning as much as output, a request as much as with
 * the most expensive search context. Throws PriceRefused for a rate that is missing, negative, or not a whole number of
 * picodollars per token, and for a fee per request that is below one of its search contexts: holds reserve it. Two tiers
 * that begin at the same length are refused, too.
 */
export function buildPrice(spec: PriceSpec): Price {
  const tiers: Tier[] = (spec.tiers ?? [])
    .map((tier) => ({ abovePromptTokens: tier.above_prompt_tokens, rates: buildRates(tier, spec) }))
    .toSorted((a, b) => a.abovePromptTokens - b.abovePromptTokens)
  const twice = tiers.find((tier, at) => tier.abovePromptTokens === tiers[at + 1]?.abovePromptTokens)
  if (twice) throw new PriceRefused(`two tiers begin above ${twice.abovePromptTokens} prompt tokens`)
  const perCallFees = fees('per_call', spec.per_call)
  const bySearchContext = fees('per_request_by_search_context', spec.per_request_by_search_context)
  const rates = buildRates(spec)
  const free = tokenBuckets.every((bucket) => rates[bucket] === 0n)
  const content = {
    rates,
    tiers,
    perCall: perCallFees,
    perRequest: requestFee(spec.per_request, bySearchContext),
    perRequestBySearchContext: bySearchContext,
    serviceTiers: serviceTiersOf(spec.service_tiers ?? {}, { rates, tiers }),
  }
  return { version: versionOf(content), ...content, unstated: free ? [] : unstatedIn(spec) }
}

/** Generated audio and images need rates of their own, which are many times that of text. */
const soldApart = ['input_audio', 'output_audio', 'output_image'] as const satisfies readonly RateField[]

/** Picodollars per request: never less than with any search context, which is known only when the call has ended. */
function requestFee(written: string | undefined, bySearchContext: Readonly<Record<string, Pico>>): Pico {
  const highest = Object.values(bySearchContext).reduce(larger, 0n)
  if (written === undefined) return highest
  const stated = fee('per_request', written)
  if (stated >= highest) return stated
  throw new PriceRefused(
    `per_request ${written} is less than ${formatUsd(highest)}, the highest of per_request_by_search_context`,
  )
}

function unstatedIn(spec: PriceSpec): TokenBucket[] {
  return soldApart.filter((field) => spec[field] === undefined).map((field) => bucketOf[field])
}

function serviceTiersOf(factors: Readonly<Record<string, string>>, standard: TieredRates) {
  const tiers: Record<string, ServiceTier> = {}
  for (const [name, factor] of Object.entries(factors).toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const times = (rates: Rates) => scale(rates, name, factor)
    tiers[name] = {
      factor,
      rates: times(standard.rates),
      tiers: standard.tiers.map((tier) => ({ ...tier, rates: times(tier.rates) })),
    }
  }
  return tiers
}

/** Throws PriceRefused if a rate is not a whole number of picodollars. */
function scale(rates: Rates, name: string, factor: string): Rates {
  const [whole = '0', fraction = ''] = factor.split('.')
  const numerator = BigInt(whole + fraction)
  const denominator = 10n ** BigInt(fraction.length)
  const entries = tokenBuckets.map((bucket) => {
    const product = rates[bucket] * numerator
    if (product % denominator === 0n) return [bucket, product / denominator] as const
    throw new PriceRefused(
      `service_tiers.${name}: ${factor} times the ${bucket} rate is not a whole number of picodollars per token`,
    )
  })
  return { ...rates, ...Object.fromEntries(entries) }
}

/** `base`: the rates of short prompts, for those of a tier. */
function buildRates(spec: RateSpec, base: Partial<RateSpec> = {}): Rates {
  const input = rate('input', spec.input)
  const output = rate('output', spec.output)
  const or = (field: RateField, otherwise: Pico) =>
    spec[field] === undefined ? otherwise : rate(field, spec[field])
  // Audio and images that a tier leaves out are not cheaper with a longer prompt.
  const apart = (field: (typeof soldApart)[number], text: Pico) =>
    or(field, base[field] === undefined ? text : larger(text, rate(field, base[field])))
  const cacheWrite5m = or('cache_write', input)
  const cacheRead = or('cache_read', input)
  const inputAudio = apart('input_audio', input)
  return {
    input,
    cacheRead,
    // A rate for cached text does not mean that cached audio is cheaper.
    cacheReadAudio: or(
      'cache_read_audio',
      (spec.input_audio ?? base.input_audio) === undefined ? cacheRead : inputAudio,
    ),
    cacheWrite5m,
    cacheWrite1h: or('cache_write_1h', cacheWrite5m),
    output,
    reasoning: or('reasoning', output),
    inputAudio,
    outputAudio: apart('output_audio', output),
    inputImage: or('input_image', input),
    outputImage: apart('output_image', output),
  }
}

function rate(field: string, text: string | undefined): Pico {
  const parsed = text === undefined ? undefined : parseUsdPerMillion(text)
  if (parsed !== undefined) return parsed
  throw new PriceRefused(
    text === undefined
      ? `no ${field} price`
      : `${field} ${text} is not a whole number of picodollars per token`,
  )
}

function fees(field: string, written: Readonly<Record<string, string>> = {}): Record<string, Pico> {
  const names = Object.keys(written).toSorted()
  return Object.fromEntries(names.map((name) => [name, fee(`${field}.${name}`, written[name])]))
}

function fee(field: string, text: string | undefined): Pico {
  const parsed = text === undefined ? undefined : parseUsd(text)
  if (parsed !== undefined && parsed >= 0n) return parsed
  throw new PriceRefused(`${field} ${text} is not a whole number of picodollars`)
}

/** The rates that are charged. A price that states the default rate for audio equals one that leaves it out. */
type PriceContent = Omit<Price, 'version' | 'unstated'>

/** The price as canonical JSON text: its hash is the version, and the permanent record keeps it. */
export function canonicalPrice(price: PriceContent): string {
  const plain = {
    rates: canonicalRates(price.rates),
    tiers: price.tiers.map((tier) => ({ ...tier, rates: canonicalRates(tier.rates) })),
    per_call: Object.fromEntries(Object.entries(price.perCall).toSorted(([a], [b]) => (a < b ? -1 : 1))),
    per_request: price.perRequest,
    ...(isEmpty(price.perRequestBySearchContext)
      ? {}
      : { per_request_by_search_context: price.perRequestBySearchContext }),
    ...(isEmpty(price.serviceTiers) ? {} : { service_tiers: factorsOf(price) }),
  }
  return JSON.stringify(plain, (_key, value: unknown) =>
    typeof value === 'bigint' ? value.toString() : value,
  )
}

/** The rate of cached audio was added later: if it equals that of cached text, the price keeps its version. */
function canonicalRates({ cacheReadAudio, ...rates }: Rates): Omit<Rates, 'cacheReadAudio'> {
  return cacheReadAudio === rates.cacheRead ? rates : ({ ...rates, cacheReadAudio } as Rates)
}

function factorsOf({ serviceTiers }: Pick<Price, 'serviceTiers'>): Record<string, string> {
  return Object.fromEntries(Object.entries(serviceTiers).map(([name, { factor }]) => [name, factor]))
}

/** `pv_` and 12 hex digits of a hash of the content: equal prices have the same version. */
function versionOf(content: PriceContent): string {
  return `pv_${createHash('sha256').update(canonicalPrice(content)).digest('hex').slice(0, 12)}`
}

const bucketOf: Readonly<Record<RateField, TokenBucket>> = {
  input: 'input',
  cache_read: 'cacheRead',
  cache_read_audio: 'cacheReadAudio',
  cache_write: 'cacheWrite5m',
  cache_write_1h: 'cacheWrite1h',
  output: 'output',
  reasoning: 'reasoning',
  input_audio: 'inputAudio',
  output_audio: 'outputAudio',
  input_image: 'inputImage',
  output_image: 'outputImage',
}

/** The spec of a price with all of its rates; `buildPrice` makes the same version of it. */
export function specOf(price: Price): PriceSpec {
  const tiers = price.tiers.map((tier) => ({
    above_prompt_tokens: tier.abovePromptTokens,
    ...rateSpecOf(tier.rates, price.unstated),
  }))
  const perCall = feesSpecOf(price.perCall)
  const bySearchContext = feesSpecOf(price.perRequestBySearchContext)
  const factors = factorsOf(price)
  return {
    ...rateSpecOf(price.rates, price.unstated),
    ...(isEmpty(perCall) ? {} : { per_call: perCall }),
    ...(isEmpty(bySearchContext) ? {} : { per_request_by_search_context: bySearchContext }),
    ...(isEmpty(factors) ? {} : { service_tiers: factors }),
    ...(price.perRequest === 0n ? {} : { per_request: formatUsd(price.perRequest) }),
    ...(tiers.length === 0 ? {} : { tiers }),
  }
}

function feesSpecOf(fees: Readonly<Record<string, Pico>>): Record<string, string> {
  return Object.fromEntries(Object.entries(fees).map(([name, amount]) => [name, formatUsd(amount)]))
}

function isEmpty(record: object): boolean {
  return Object.keys(record).length === 0
}

function rateSpecOf(rates: Rates, unstated: Price['unstated']): RateSpec {
  const stated = rateFieldNames.filter((field) => !unstated.includes(bucketOf[field]))
  const all = stated.map((field) => [field, formatUsdPerMillion(rates[bucketOf[field]])] as const)
  return {
    ...Object.fromEntries(all),
    input: formatUsdPerMillion(rates.input),
    output: formatUsdPerMillion(rates.output),
  }
}

// Exact decimals from JSON numbers: a price in a float is read by its digits, not by arithmetic.

const scientific = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i

/**
 * The decimal digits of a JSON number: its shortest representation that reads back the same, without an exponent
 * (`1.5e-7` → `0.00000015`). Undefined for NaN and the infinities.
 */
export function decimalOf(value: number): string | undefined {
  return Number.isFinite(value) ? shiftDecimal(String(value), 0) : undefined
}

/**
 * Moves the point of a decimal string to the right by `places` (to the left if negative): six places turn USD per
 * token into USD per million tokens, exactly. Undefined for other text and for numbers that are too long.
 */
export function shiftDecimal(text: string, places: number): string | undefined {
  const match = scientific.exec(text)
  if (!match) return undefined
  const exponent = Number(match[4] ?? 0) + places
  if (Math.abs(exponent) > 40) return undefined
  const digits = match[2]! + (match[3] ?? '')
  const point = match[2]!.length + exponent
  const padded = digits.padStart(digits.length + Math.max(0, 1 - point), '0').padEnd(point, '0')
  const cut = Math.max(point, 1)
  const whole = padded.slice(0, cut).replace(/^0+(?=\d)/, '')
  const fraction = padded.slice(cut).replace(/0+$/, '')
  const plain = fraction === '' ? whole : `${whole}.${fraction}`
  return match[1] === '-' && plain !== '0' ? `-${plain}` : plain
}

// Flash class: what the daily allowance pays for. Decided for each call, by the rates that can apply to it.

/** At most these, in picodollars per token: 0.50 USD per million input and 2.50 USD per million output tokens. */
const flashLimits: { readonly input: Pico; readonly output: Pico } = {
  input: 500_000n,
  output: 2_500_000n,
}

/** The buckets for tokens of a plain-text call. Cache reads and writes are input as well. */
const textInput = ['input', 'cacheRead', 'cacheWrite5m', 'cacheWrite1h'] as const
const textOutput = ['output', 'reasoning'] as const
const mediaOutput: ReadonlySet<TokenBucket> = new Set(['outputAudio', 'outputImage'])

/**
 * Whether every token of a call of at most `prompt` prompt tokens is within the limits, in every tier that its prompt
 * may reach. `media` are the buckets that the call can use besides text.
 */
export function isFlash(price: Price, prompt: number, media: readonly TokenBucket[] = []): boolean {
  const reached = price.tiers.filter((tier) => prompt > tier.abovePromptTokens)
  return [price.rates, ...reached.map((tier) => tier.rates)].every((rates) => isWithin(rates, media))
}

function isWithin(rates: Rates, media: readonly TokenBucket[]): boolean {
  const input = [...textInput, ...media.filter((bucket) => !mediaOutput.has(bucket))]
  const output = [...textOutput, ...media.filter((bucket) => mediaOutput.has(bucket))]
  return (
    input.every((bucket) => rates[bucket] <= flashLimits.input) &&
    output.every((bucket) => rates[bucket] <= flashLimits.output)
  )
}
