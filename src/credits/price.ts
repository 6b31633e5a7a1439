// What a call costs: tokens times rates, plus fees. A plain sum, exact to the picodollar.

import { noUsage, promptTokens, tokenBuckets, type TokenBucket, type Usage } from '../conversation/usage.ts'
import { larger, type Pico } from './money.ts'

/** Picodollars per token of each bucket. */
export type Rates = Readonly<Record<TokenBucket, Pico>>

export interface Tier {
  /** The tier applies to the whole call when its prompt has more than this many tokens. */
  readonly abovePromptTokens: number
  readonly rates: Rates
}

/** What one model costs at one provider. Immutable: another price is another version. */
export interface Price {
  /** Names this price for ever: receipts point to it. */
  readonly version: string
  readonly rates: Rates
  /** In ascending order of `abovePromptTokens`. */
  readonly tiers: readonly Tier[]
  /** Picodollars per call of a provider's own tool, by name (`web_search`). */
  readonly perCall: Readonly<Record<string, Pico>>
  /** Picodollars for the request itself, whatever its tokens. */
  readonly perRequest: Pico
}

/** The version of the price that test keys pay: nothing at all. */
export const testPriceVersion = 'pv_test'

/** One line of a receipt: `quantity × rate = amount`. */
export interface CostLine {
  readonly item: TokenBucket | 'request' | 'reported' | `call:${string}`
  readonly quantity: number
  readonly rate: Pico
  readonly amount: Pico
}

export interface Cost {
  readonly lines: readonly CostLine[]
  readonly total: Pico
}

/** Whether no call can cost anything at this price, whatever its usage. */
export function isFree(price: Price): boolean {
  const rates = [price.rates, ...price.tiers.map((tier) => tier.rates)].flatMap((each) => Object.values(each))
  return [...rates, ...Object.values(price.perCall), price.perRequest].every((amount) => amount === 0n)
}

/** The rates that apply to a prompt of this many tokens: the highest tier it exceeds, for the whole call. */
export function ratesFor(price: Price, prompt: number): Rates {
  return price.tiers.findLast((tier) => prompt > tier.abovePromptTokens)?.rates ?? price.rates
}

/** The cost of a call, line by line; lines of nothing are left out, and the lines add up to the total exactly. */
export function costOf(usage: Usage, price: Price): Cost {
  const rates = ratesFor(price, promptTokens(usage))
  const lines: CostLine[] = []
  let total = 0n
  const add = (item: CostLine['item'], quantity: number, rate: Pico) => {
    if (quantity === 0) return
    const amount = BigInt(quantity) * rate
    lines.push({ item, quantity, rate, amount })
    total += amount
  }
  const charged = usage.billed === undefined ? usage : { ...noUsage, ...usage.billed }
  for (const bucket of tokenBuckets) add(bucket, charged[bucket], rates[bucket])
  for (const name in usage.toolCalls) add(`call:${name}`, usage.toolCalls[name]!, price.perCall[name] ?? 0n)
  if (price.perRequest > 0n) add('request', 1, price.perRequest)
  return { lines, total }
}

/** The most that one token can cost. */
interface HighestRates {
  readonly input: Pico
  readonly output: Pico
}

/** By price, and by how many of its tiers a prompt may reach: asked for several times a call, and always the same. */
const highest = new WeakMap<Price, HighestRates[]>()

/**
 * The most a prompt token and an output token can cost in a call of at most `prompt` tokens, whatever bucket they
 * fall in. The prompt may turn out shorter and land in a lower tier, which need not be the cheaper one.
 */
export function highestRates(price: Price, prompt: number): HighestRates {
  let known = highest.get(price)
  if (!known) highest.set(price, (known = []))
  let reached = 0
  while (reached < price.tiers.length && prompt > price.tiers[reached]!.abovePromptTokens) reached++
  return (known[reached] ??= highestOf([
    price.rates,
    ...price.tiers.slice(0, reached).map((tier) => tier.rates),
  ]))
}

function highestOf(all: readonly Rates[]): HighestRates {
  const input = all.flatMap((rates) => [
    rates.input,
    rates.cacheRead,
    rates.cacheWrite5m,
    rates.cacheWrite1h,
    rates.inputAudio,
    rates.inputImage,
  ])
  const output = all.flatMap((rates) => [rates.output, rates.reasoning, rates.outputAudio, rates.outputImage])
  return { input: input.reduce(larger), output: output.reduce(larger) }
}

/** What a call must hold: a bound of its prompt, a bound of its output, and the fees of each request. */
export interface Bound {
  readonly promptTokens: number
  readonly outputTokens: number
  /** Calls of billed provider tools that the request allows, by name. */
  readonly toolCalls: Readonly<Record<string, number>>
}

/** An upper bound of the cost of any usage within `bound`, in picodollars. */
export function ceilingOf(bound: Bound, price: Price): Pico {
  const rates = highestRates(price, bound.promptTokens)
  let ceiling =
    BigInt(bound.promptTokens) * rates.input + BigInt(bound.outputTokens) * rates.output + price.perRequest
  for (const name in bound.toolCalls)
    ceiling += BigInt(bound.toolCalls[name] ?? 0) * (price.perCall[name] ?? 0n)
  return ceiling
}

/** How many output tokens `credit` pays for after the prompt and the fees; negative when not even those. */
export function affordableOutput(credit: Pico, bound: Bound, price: Price): number {
  const fixed = ceilingOf({ ...bound, outputTokens: 0 }, price)
  if (credit < fixed) return -1
  const perToken = highestRates(price, bound.promptTokens).output
  if (perToken === 0n) return Number.MAX_SAFE_INTEGER
  const tokens = (credit - fixed) / perToken
  return tokens > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(tokens)
}
