// Cohere's counters: `tokens` is what the model processed, `billed_units` what is charged.

import { count, counter, disjoint, type Usage } from '../../conversation/usage.ts'
import type { WireUsage } from './schema.ts'

/**
 * The counts of an answer, if any. Cached tokens are inside the input, reasoning inside the output. Cohere adds a
 * prompt of its own and does not charge for it (11 of 506 tokens in one recording), so the billed units are kept
 * separately.
 */
export function usageOf(wire: WireUsage | null | undefined): Usage | undefined {
  const counted = wire?.tokens ?? wire?.billed_units
  if (!wire || !counted) return undefined
  const usage = disjoint({
    prompt: counter(counted.input_tokens),
    completion: counter(counted.output_tokens),
    cacheRead: count(wire.cached_tokens),
    reasoning: count(counted.reasoning_tokens),
  })
  if (!wire.billed_units) return usage
  return {
    ...usage,
    billed: { input: count(wire.billed_units.input_tokens), output: count(wire.billed_units.output_tokens) },
  }
}
