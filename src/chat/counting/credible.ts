// Whether a provider can have counted right. A counter gone wrong (bytes, nanoseconds, 10^30) must not empty an account.

import type { Model } from '../../catalog/model.ts'
import {
  completionTokens,
  promptTokens,
  type Side,
  type TokenBucket,
  type Usage,
} from '../../conversation/usage.ts'

/** Of a model whose context the catalog does not know. */
const largestContext = 10_000_000
/** A provider that runs tools of its own counts the context once for each of their rounds. */
const roundsCounted = 10
/** Calls of one such tool: the longest research makes some hundred. */
const mostToolCalls = 1_000

const sides: Readonly<Record<Side, readonly TokenBucket[]>> = {
  prompt: [
    'input',
    'cacheRead',
    'cacheReadAudio',
    'cacheWrite5m',
    'cacheWrite1h',
    'inputAudio',
    'inputImage',
  ],
  completion: ['output', 'reasoning', 'outputAudio', 'outputImage'],
}

/**
 * The usage without what is beyond the model's limits: such a side counts as uncounted, and calls of tools without end
 * as none. The same object where all of it can be.
 */
export function credibleUsage(
  usage: Usage,
  { contextLength, maxOutputTokens }: Pick<Model, 'contextLength' | 'maxOutputTokens'>,
  choices: number,
): Usage {
  const rounds = roundsCounted * choices
  const context = contextLength ?? largestContext
  const wrong: Side[] = []
  if (promptTokens(usage) > context * rounds) wrong.push('prompt')
  if (completionTokens(usage) > (maxOutputTokens ?? context) * rounds) wrong.push('completion')
  const endless = Object.values(usage.toolCalls).some((times) => times > mostToolCalls * choices)
  if (wrong.length === 0 && !endless) return usage
  const none = Object.fromEntries(wrong.flatMap((side) => sides[side]).map((bucket) => [bucket, 0]))
  const uncounted = [...new Set([...(usage.uncounted ?? []), ...wrong])]
  return { ...usage, ...none, uncounted, ...(endless ? { toolCalls: {} } : {}) }
}
