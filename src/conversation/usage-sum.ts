// What several rounds of one call consumed together.

import { noUsage, tokenBuckets, type TokenBucket, type Usage } from './usage.ts'

/**
 * The sum of two counts: for showing, since each was priced on its own (a tier goes by the prompt of one request). The
 * cost that a provider reported, and what it bills instead of its count, are in the prices already.
 */
export function addedUsage(a: Usage, b: Usage): Usage {
  const buckets = Object.fromEntries(tokenBuckets.map((bucket) => [bucket, a[bucket] + b[bucket]]))
  const toolCalls: Record<string, number> = { ...a.toolCalls }
  for (const [name, times] of Object.entries(b.toolCalls)) toolCalls[name] = (toolCalls[name] ?? 0) + times
  const serviceTier = b.serviceTier ?? a.serviceTier
  const uncounted = [...new Set([...(a.uncounted ?? []), ...(b.uncounted ?? [])])]
  return {
    ...noUsage,
    ...(buckets as Record<TokenBucket, number>),
    toolCalls,
    ...(serviceTier === undefined ? {} : { serviceTier }),
    ...(uncounted.length === 0 ? {} : { uncounted }),
  }
}
