// A price as people write it (USD per million tokens, decimal strings) and its way to exact rates and back.

import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { TokenBucket } from '../conversation/usage.ts'
import { formatUsd, formatUsdPerMillion, parseUsd, parseUsdPerMillion, type Pico } from '../credits/money.ts'
import type { Price, Rates, Tier } from '../credits/price.ts'

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

/** The rates of one tier. Only fresh input and output must be told; `buildPrice` says what stands in for the rest. */
const rateFields = {
  input: perMillion,
  cache_read: perMillion.optional(),
  cache_write: perMillion.optional(),
  cache_write_1h: perMillion.optional(),
  output: perMillion,
  reasoning: perMillion.optional(),
  input_audio: perMillion.optional(),
  output_audio: perMillion.optional(),
  input_image: perMillion.optional(),
  output_image: perMillion.optional(),
}

const tierSchema = z.strictObject({ above_prompt_tokens: z.int().positive(), ...rateFields })

/** A price in USD per million tokens; `per_call` and `per_request` are USD each. Unknown fields are refused. */
export const priceSpecSchema = z.strictObject({
  ...rateFields,
  per_call: z.record(z.string().min(1), perCall).optional(),
  per_request: perCall.optional(),
  tiers: z.array(tierSchema).max(16).optional(),
})

export type PriceSpec = z.infer<typeof priceSpecSchema>
export type RateSpec = Omit<z.infer<typeof tierSchema>, 'above_prompt_tokens'>
export type RateField = keyof typeof rateFields
export const rateFieldNames = Object.keys(rateFields) as RateField[]

/** What `price: free` in the configuration means: every rate is zero, on purpose. */
export const freePrice: PriceSpec = { input: '0', output: '0' }

/** Why a price cannot be sold, for a person to read: the field and its value. */
export class PriceRefused extends Error {}

/**
 * The exact price of a spec. Rates that it does not name are never cheaper than the truth: cached reads and writes
 * cost what fresh input costs, an hour's write what a five-minute write costs, reasoning what output costs.
 * Throws PriceRefused for a rate that is missing, negative, or not a whole number of picodollars per token.
 */
export function buildPrice(spec: PriceSpec): Price {
  const tiers: Tier[] = (spec.tiers ?? [])
    .map((tier) => ({ abovePromptTokens: tier.above_prompt_tokens, rates: buildRates(tier) }))
    .toSorted((a, b) => a.abovePromptTokens - b.abovePromptTokens)
  const perCallFees: Record<string, Pico> = {}
  for (const name of Object.keys(spec.per_call ?? {}).toSorted()) {
    perCallFees[name] = fee(`per_call.${name}`, spec.per_call?.[name])
  }
  const content = {
    rates: buildRates(spec),
    tiers,
    perCall: perCallFees,
    perRequest: spec.per_request === undefined ? 0n : fee('per_request', spec.per_request),
  }
  return { version: versionOf(content), ...content }
}

function buildRates(spec: RateSpec): Rates {
  const input = rate('input', spec.input)
  const output = rate('output', spec.output)
  const or = (field: RateField, otherwise: Pico) =>
    spec[field] === undefined ? otherwise : rate(field, spec[field])
  const cacheWrite5m = or('cache_write', input)
  return {
    input,
    cacheRead: or('cache_read', input),
    cacheWrite5m,
    cacheWrite1h: or('cache_write_1h', cacheWrite5m),
    output,
    reasoning: or('reasoning', output),
    inputAudio: or('input_audio', input),
    outputAudio: or('output_audio', output),
    inputImage: or('input_image', input),
    outputImage: or('output_image', output),
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

function fee(field: string, text: string | undefined): Pico {
  const parsed = text === undefined ? undefined : parseUsd(text)
  if (parsed !== undefined && parsed >= 0n) return parsed
  throw new PriceRefused(`${field} ${text} is not a whole number of picodollars`)
}

type PriceContent = Omit<Price, 'version'>

/** The price as one canonical JSON text: what its version is the hash of, and what the permanent record keeps. */
export function canonicalPrice(price: PriceContent): string {
  const plain = {
    rates: price.rates,
    tiers: price.tiers,
    per_call: Object.fromEntries(Object.entries(price.perCall).toSorted(([a], [b]) => (a < b ? -1 : 1))),
    per_request: price.perRequest,
  }
  return JSON.stringify(plain, (_key, value: unknown) =>
    typeof value === 'bigint' ? value.toString() : value,
  )
}

/** `pv_` and 12 hex digits of a hash of the content: equal prices share a version, any change is another one. */
function versionOf(content: PriceContent): string {
  return `pv_${createHash('sha256').update(canonicalPrice(content)).digest('hex').slice(0, 12)}`
}

const bucketOf: Readonly<Record<RateField, TokenBucket>> = {
  input: 'input',
  cache_read: 'cacheRead',
  cache_write: 'cacheWrite5m',
  cache_write_1h: 'cacheWrite1h',
  output: 'output',
  reasoning: 'reasoning',
  input_audio: 'inputAudio',
  output_audio: 'outputAudio',
  input_image: 'inputImage',
  output_image: 'outputImage',
}

/** The spec of a price with every rate written out; `buildPrice` of it gives the same version again. */
export function specOf(price: Price): PriceSpec {
  const tiers = price.tiers.map((tier) => ({
    above_prompt_tokens: tier.abovePromptTokens,
    ...rateSpecOf(tier.rates),
  }))
  const fees = Object.entries(price.perCall).map(([name, amount]) => [name, formatUsd(amount)] as const)
  return {
    ...rateSpecOf(price.rates),
    ...(fees.length === 0 ? {} : { per_call: Object.fromEntries(fees) }),
    ...(price.perRequest === 0n ? {} : { per_request: formatUsd(price.perRequest) }),
    ...(tiers.length === 0 ? {} : { tiers }),
  }
}

function rateSpecOf(rates: Rates): RateSpec {
  const all = rateFieldNames.map((field) => [field, formatUsdPerMillion(rates[bucketOf[field]])] as const)
  return {
    ...Object.fromEntries(all),
    input: formatUsdPerMillion(rates.input),
    output: formatUsdPerMillion(rates.output),
  }
}
