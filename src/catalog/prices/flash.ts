// Flash class: what the daily allowance pays for. Decided for each call, by the rates that can apply to it.

import type { TokenBucket } from '../../conversation/usage.ts'
import type { Pico } from '../../credits/money.ts'
import type { Price, Rates } from '../../credits/price.ts'

/** At most these, in picodollars per token: 0.50 USD per million input and 2.50 USD per million output tokens. */
export const flashLimits: { readonly input: Pico; readonly output: Pico } = {
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
