// What a call costs: tokens times rates, plus fees. A plain sum, exact to the picodollar.

import { noUsage, promptTokens, type TokenBucket, tokenBuckets, type Usage } from '../conversation/usage.ts'
import { larger, type Pico } from './money.ts'

/** Picodollars per token of each bucket. */
export type Rates = Readonly<Record<TokenBucket, Pico>>

/** Rates for every length of the prompt. */
export type TieredRates = Pick<Price, 'rates' | 'tiers'>

/** The rates of a service tier, and their factor against the standard tier as a decimal string. */
export interface ServiceTier extends TieredRates {
  readonly factor: string
}

export interface Tier {
  /** The tier applies to the whole call if its prompt has more than this many tokens. */
  readonly abovePromptTokens: number
  readonly rates: Rates
}

/** What one model costs at one provider. Immutable: another price is another version. */
export interface Price {
  /** The permanent name of this price, which receipts refer to. */
  readonly version: string
  readonly rates: Rates
  /** In ascending order of `abovePromptTokens`. */
  readonly tiers: readonly Tier[]
  /** Picodollars per call of a provider's own tool, by name (`web_search`). */
  readonly perCall: Readonly<Record<string, Pico>>
  /** Picodollars per request, whatever its tokens. */
  readonly perRequest: Pico
  /** Replaces `perRequest` if the usage reports the search context; never more than `perRequest`. */
  readonly perRequestBySearchContext: Readonly<Record<string, Pico>>
  /** The rates of the service tiers other than the standard one, by name. */
  readonly serviceTiers: Readonly<Record<string, ServiceTier>>
  /**
   * Buckets without a stated rate that providers sell at another rate than text: `rates` has the text rate, which is
   * too low. Requests known to use one are refused.
   */
  readonly unstated: readonly TokenBucket[]
}

/** The version of the price of test keys, which is zero. */
export const testPriceVersion = 'pv_test'

/** The price of what costs nothing, under a version of its own. */
export function priceOfNothing(version: string): Price {
  return {
    version,
    rates: Object.fromEntries(tokenBuckets.map((bucket) => [bucket, 0n])) as Rates,
    tiers: [],
    perCall: {},
    perRequest: 0n,
    perRequestBySearchContext: {},
    serviceTiers: {},
    unstated: [],
  }
}

/** One line of a receipt: `quantity × rate = amount`. */
export interface CostLine {
  readonly item: TokenBucket | 'request' | 'reported' | `call:${string}`
  readonly quantity: number
  readonly rate: Pico
  readonly amount: Pico
  /** The round it belongs to, from 1; absent if the call has only one. */
  readonly round?: number
}

export interface Cost {
  readonly lines: readonly CostLine[]
  readonly total: Pico
  /**
   * What was charged at the standard rate because its own is unknown, so that the provider's bill may differ:
   * `service_tier:priority`, or the name of a bucket. Empty if the cost is exact.
   */
  readonly unpriced: readonly string[]
}

const free = new WeakMap<Price, boolean>()

/** Whether every call is free at this price, whatever its usage. Computed once per price: every call asks. */
export function isFree(price: Price): boolean {
  const known = free.get(price)
  if (known !== undefined) return known
  const costsNothing = allZero(price)
  free.set(price, costsNothing)
  return costsNothing
}

function allZero(price: Price): boolean {
  const rates = [price.rates, ...price.tiers.map((tier) => tier.rates)].flatMap((each) => Object.values(each))
  return [...rates, ...Object.values(price.perCall), price.perRequest].every((amount) => amount === 0n)
}

/** The rates for a prompt of this many tokens: those of the highest tier it exceeds, for the whole call. */
export function ratesFor(price: TieredRates, prompt: number): Rates {
  return price.tiers.findLast((tier) => prompt > tier.abovePromptTokens)?.rates ?? price.rates
}

/**
 * The cost of a call as lines that add up to the total exactly; zero lines are left out. An answer that reports its
 * service tier is priced at that tier, whatever was requested.
 */
export function costOf(usage: Usage, price: Price): Cost {
  const { serviceTier } = usage
  const atTier = serviceTier === undefined ? price : ownValue(price.serviceTiers, serviceTier)
  const rates = ratesFor(atTier ?? price, promptTokens(usage))
  const charged = usage.billed === undefined ? usage : { ...noUsage, ...usage.billed }
  const lines: CostLine[] = []
  for (const bucket of tokenBuckets) {
    const quantity = charged[bucket]
    if (quantity !== 0) lines.push(lineOf(bucket, quantity, rates[bucket]))
  }
  for (const name in usage.toolCalls) {
    const quantity = usage.toolCalls[name]!
    if (quantity !== 0) lines.push(lineOf(`call:${name}`, quantity, price.perCall[name] ?? 0n))
  }
  const perRequest = requestFee(usage, price)
  if (perRequest > 0n) lines.push(lineOf('request', 1, perRequest))
  let total = 0n
  for (const { amount } of lines) total += amount
  return { lines, total, unpriced: unpricedIn(charged, price, atTier ? undefined : serviceTier) }
}

function lineOf(item: CostLine['item'], quantity: number, rate: Pico): CostLine {
  return { item, quantity, rate, amount: BigInt(quantity) * rate }
}

const nothing: readonly string[] = []

/** The buckets and the service tier that have no rate of their own at this price. */
function unpricedIn(
  charged: Readonly<Record<TokenBucket, number>>,
  { unstated }: Price,
  tier: string | undefined,
): readonly string[] {
  if (unstated.length === 0 && tier === undefined) return nothing
  const unpriced: string[] = unstated.filter((bucket) => charged[bucket] > 0)
  if (tier !== undefined) unpriced.push(`service_tier:${tier}`)
  return unpriced
}

function requestFee({ searchContext }: Usage, price: Price): Pico {
  const bySearchContext =
    searchContext === undefined ? undefined : ownValue(price.perRequestBySearchContext, searchContext)
  return bySearchContext ?? price.perRequest
}

/** By price: the prices that calls at a tier are held at. */
const held = new WeakMap<Price, Map<string, Price>>()

/**
 * What a call that asks for a service tier is held at: the rates of that tier, or the standard ones where they are higher,
 * since a provider may serve it at either. Undefined where the price does not know the tier. Always the same object.
 */
export function heldPriceAt(price: Price, tier: string): Price | undefined {
  const asked = ownValue(price.serviceTiers, tier)
  if (asked === undefined) return undefined
  if (Number(asked.factor) <= 1) return price
  let known = held.get(price)
  if (!known) held.set(price, (known = new Map()))
  let made = known.get(tier)
  if (!made) known.set(tier, (made = { ...price, rates: asked.rates, tiers: asked.tiers }))
  return made
}

/** The names come from providers, and could be names of Object.prototype. */
function ownValue<Value>(values: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(values, name) ? values[name] : undefined
}

/** The most that one token can cost. */
interface HighestRates {
  readonly input: Pico
  readonly output: Pico
  /** The same as numbers, exact unless they are beyond all reason. */
  readonly numbers: { readonly input: number; readonly output: number }
}

/** By price and number of reachable tiers: needed several times per call, always with the same result. */
const highest = new WeakMap<Price, HighestRates[]>()

/**
 * The highest rates per prompt and output token in a call of at most `prompt` tokens, over all buckets. A shorter
 * prompt may fall into a lower tier, which need not be cheaper.
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
    rates.cacheReadAudio,
    rates.cacheWrite5m,
    rates.cacheWrite1h,
    rates.inputAudio,
    rates.inputImage,
  ])
  const output = all.flatMap((rates) => [rates.output, rates.reasoning, rates.outputAudio, rates.outputImage])
  const most = { input: input.reduce(larger), output: output.reduce(larger) }
  return { ...most, numbers: { input: Number(most.input), output: Number(most.output) } }
}

/** What a hold must cover: a bound of the prompt, a bound of the output, and the fees per request. */
export interface Bound {
  readonly promptTokens: number
  readonly outputTokens: number
  /** Billed provider tool calls that the request allows, by name. */
  readonly toolCalls: Readonly<Record<string, number>>
}

/** An upper bound of the cost of any usage within `bound`, picodollars. */
export function ceilingOf(bound: Bound, price: Price): Pico {
  const { promptTokens, outputTokens } = bound
  const { input, output, numbers } = highestRates(price, promptTokens)
  // A number that is safe is exact, and so were both products: that saves five big ones per ceiling.
  const quick = promptTokens * numbers.input + outputTokens * numbers.output
  let ceiling = Number.isSafeInteger(quick)
    ? BigInt(quick)
    : BigInt(promptTokens) * input + BigInt(outputTokens) * output
  if (price.perRequest !== 0n) ceiling += price.perRequest
  for (const name in bound.toolCalls)
    ceiling += BigInt(bound.toolCalls[name] ?? 0) * (price.perCall[name] ?? 0n)
  return ceiling
}

/** How many output tokens `credit` pays for after prompt and fees; negative if it does not cover those. */
export function affordableOutput(credit: Pico, bound: Bound, price: Price): number {
  const fixed = ceilingOf({ ...bound, outputTokens: 0 }, price)
  if (credit < fixed) return -1
  const perToken = highestRates(price, bound.promptTokens).output
  if (perToken === 0n) return Number.MAX_SAFE_INTEGER
  const tokens = (credit - fixed) / perToken
  return tokens > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(tokens)
}
