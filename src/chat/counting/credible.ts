// Whether a provider's count is plausible. A broken counter (bytes, nanoseconds, 10^30) must not empty an account.

import type { Model } from '../../catalog/model.ts'
import { parseUsd } from '../../credits/money.ts'
import { ceilingOf, type Price } from '../../credits/price.ts'
import { bucketsOf, completionTokens, promptTokens, type Side, type Usage } from '../../conversation/usage.ts'

/** Used if the catalog does not know the model's context length. */
const largestContext = 10_000_000
/** A provider that runs its own tools counts the context again in each round. */
const roundsCounted = 10
/** Calls of one such tool: the longest research makes a few hundred. */
const mostToolCalls = 1_000

/** What a count is held against. */
export interface CountedOffer {
  readonly model: Pick<Model, 'contextLength' | 'maxOutputTokens'>
  readonly offer: { readonly price: Price }
}

/**
 * The usage without what exceeds the model's limits: such a side becomes uncounted, implausible numbers of tool calls
 * become zero, and a reported cost that no plausible usage comes to at the catalog's price is dropped. Returns the same
 * object if all of it is plausible.
 */
export function credibleUsage(reported: Usage, { model, offer }: CountedOffer, choices: number): Usage {
  const { contextLength, maxOutputTokens } = model
  const rounds = roundsCounted * choices
  const context = contextLength ?? largestContext
  const mostPrompt = context * rounds
  const mostCompletion = (maxOutputTokens ?? context) * rounds
  const { reportedCost } = reported
  const isPossible =
    reportedCost === undefined ||
    canCost(reportedCost, mostPrompt, mostCompletion, mostToolCalls * choices, offer.price)
  const usage = isPossible ? reported : { ...reported, reportedCost: undefined }
  const wrongPrompt = promptTokens(usage) > mostPrompt
  const wrongCompletion = completionTokens(usage) > mostCompletion
  const endless = anyAbove(usage.toolCalls, mostToolCalls * choices)
  if (!wrongPrompt && !wrongCompletion && !endless) return usage
  const wrong: Side[] = []
  if (wrongPrompt) wrong.push('prompt')
  if (wrongCompletion) wrong.push('completion')
  const none = Object.fromEntries(wrong.flatMap((side) => bucketsOf[side]).map((bucket) => [bucket, 0]))
  const uncounted = [...new Set([...(usage.uncounted ?? []), ...wrong])]
  return { ...usage, ...none, uncounted, ...(endless ? { toolCalls: {} } : {}) }
}

function anyAbove(counts: Readonly<Record<string, number>>, most: number): boolean {
  for (const name in counts) if (counts[name]! > most) return true
  return false
}

/** Whether usage within these bounds can cost that much at this price. A price of nothing says nothing about it. */
function canCost(
  reportedUsd: string,
  promptTokens: number,
  outputTokens: number,
  callsOfEach: number,
  price: Price,
): boolean {
  const toolCalls = Object.fromEntries(Object.keys(price.perCall).map((name) => [name, callsOfEach]))
  const ceiling = ceilingOf({ promptTokens, outputTokens, toolCalls }, price)
  const cost = parseUsd(reportedUsd)
  return cost === undefined || ceiling === 0n || cost <= ceiling
}
