// How long a stream may get: the client's max_tokens, and what an amount of money pays for. Pure.

import { completionTokens, promptTokens, type Usage } from '../../conversation/usage.ts'
import { larger, type Pico } from '../../credits/money.ts'
import { costOf, ratesFor, type Price } from '../../credits/price.ts'
import { outputWithin, type Need } from './need.ts'

/**
 * A provider counts max_tokens with its own tokenizer, which may make far fewer tokens of a text than ours. It must
 * never be cut short of its own limit.
 */
const tokenizerMargin = 1.5
const tokenizerSlack = 32

/** Whether a provider ignores its output limit: `tokens` is what it delivered over all `choices`. */
export function ignoresBound(tokens: number, maxTokens: number | undefined, choices: number): boolean {
  return maxTokens !== undefined && tokens > maxTokens * choices * tokenizerMargin + tokenizerSlack
}

/**
 * How many output tokens `amount` picodollars pay for in all. The bound of the prompt is used until it is counted; if
 * the count is larger, nothing may be left.
 */
export function tokensWithin(amount: Pico, usage: Usage | undefined, need: Need, price: Price): number {
  if (usage === undefined || promptTokens(usage) === 0) return outputWithin(amount, need, price, 1)
  const rates = ratesFor(price, promptTokens(usage))
  const perToken = larger(rates.output, rates.reasoning)
  const left = amount - costOf({ ...usage, output: 0, reasoning: 0 }, price).total
  if (left < 0n) return 0
  if (perToken === 0n) return Number.MAX_SAFE_INTEGER
  // Audio and images are in the cost already, at their own rates.
  const apart = completionTokens(usage) - usage.output - usage.reasoning
  return Number(left / perToken) + apart
}
