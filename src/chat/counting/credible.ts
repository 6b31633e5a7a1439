// Whether a provider's count is plausible. A broken counter (bytes, nanoseconds, 10^30) must not empty an account.

import type { Model } from '../../catalog/model.ts'
import { bucketsOf, completionTokens, promptTokens, type Side, type Usage } from '../../conversation/usage.ts'

/** Used if the catalog does not know the model's context length. */
const largestContext = 10_000_000
/** A provider that runs its own tools counts the context again in each round. */
const roundsCounted = 10
/** Calls of one such tool: the longest research makes a few hundred. */
const mostToolCalls = 1_000

/**
 * The usage without what exceeds the model's limits: such a side becomes uncounted, implausible numbers of tool calls
 * become zero. Returns the same object if all of it is plausible.
 */
export function credibleUsage(
  usage: Usage,
  { contextLength, maxOutputTokens }: Pick<Model, 'contextLength' | 'maxOutputTokens'>,
  choices: number,
): Usage {
  const rounds = roundsCounted * choices
  const context = contextLength ?? largestContext
  const wrongPrompt = promptTokens(usage) > context * rounds
  const wrongCompletion = completionTokens(usage) > (maxOutputTokens ?? context) * rounds
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
