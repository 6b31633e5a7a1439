// Converts Bedrock's counters to disjoint buckets: cached tokens are separate from the input, reasoning is inside the
// output and not counted.

import {
  count,
  counter,
  noUsage,
  serviceTierOf,
  type Usage,
  withUncounted,
} from '../../conversation/usage.ts'
import type { WireUsage } from './schema.ts'

/** `servedAt`: the service tier named beside the counters. */
export function usageOf(wire: WireUsage, servedAt: unknown): Usage {
  const serviceTier = serviceTierOf(servedAt)
  const long = (wire.cacheDetails ?? [])
    .filter((detail) => detail.ttl === '1h')
    .reduce((sum, detail) => sum + count(detail.inputTokens), 0)
  const written = Math.max(count(wire.cacheWriteInputTokens), long)
  const cached = count(wire.cacheReadInputTokens) + written
  const counted = count(wire.inputTokens) + cached
  const output = counter(wire.outputTokens)
  const total = counter(wire.totalTokens)
  // What the total has beyond the other counters is output.
  const made = output === undefined || total === undefined ? output : Math.max(output, total - counted)
  const usage: Usage = {
    ...noUsage,
    input: count(wire.inputTokens),
    cacheRead: count(wire.cacheReadInputTokens),
    cacheWrite5m: written - long,
    cacheWrite1h: long,
    output: made ?? 0,
    ...(serviceTier && { serviceTier }),
  }
  return withUncounted(usage, {
    prompt: counter(wire.inputTokens) ?? (cached > 0 ? cached : undefined),
    completion: made,
  })
}
