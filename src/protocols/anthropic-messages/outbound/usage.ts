// Converts Anthropic's counters to disjoint buckets: cached tokens are separate from the input count, thinking is
// inside the output.

import {
  count,
  counter,
  noUsage,
  serviceTierOf,
  type Usage,
  withUncounted,
} from '../../../conversation/usage.ts'
import type { WireCounters, WireUsage } from './schema.ts'

/**
 * Merges a stream's counters with those of its next event, field by field: later values replace earlier ones,
 * including zeros. Only `message_start` has the 5-minute and 1-hour split, so missing fields are kept.
 */
export function mergeUsage(before: WireUsage | undefined, after: WireUsage): WireUsage {
  return { ...before, ...after }
}

/**
 * The whole call in disjoint buckets. Server-side rounds (compaction, an advisor) are listed in `iterations`, and
 * the top level leaves some of them out, so the sum of the rounds is what was consumed. Should the list be the
 * shorter account, the top level holds.
 */
export function usageOf(wire: WireUsage): Usage {
  const top = bucketsOf(wire)
  const rounds = (wire.iterations ?? []).map(bucketsOf)
  const summed = rounds.reduce(add, emptyBuckets)
  const spent = total(summed) >= total(top) && rounds.length > 0 ? summed : top
  const thinking = Math.min(spent.completion, Math.max(summed.thinking, top.thinking))
  const serviceTier = serviceTierOf(wire.service_tier)
  const searches = count(wire.server_tool_use?.web_search_requests)
  const usage: Usage = {
    ...noUsage,
    input: spent.input,
    cacheRead: spent.cacheRead,
    cacheWrite5m: spent.cacheWrite5m,
    cacheWrite1h: spent.cacheWrite1h,
    output: spent.completion - thinking,
    reasoning: thinking,
    toolCalls: searches > 0 ? { web_search: searches } : {},
    ...(serviceTier && { serviceTier }),
  }
  return withUncounted(usage, {
    prompt: counter(wire.input_tokens) ?? positive(total(spent) - spent.completion),
    completion: counter(wire.output_tokens) ?? positive(spent.completion),
  })
}

function positive(tokens: number): number | undefined {
  return tokens > 0 ? tokens : undefined
}

interface Buckets {
  readonly input: number
  readonly cacheRead: number
  readonly cacheWrite5m: number
  readonly cacheWrite1h: number
  readonly completion: number
  readonly thinking: number
}

const emptyBuckets: Buckets = {
  input: 0,
  cacheRead: 0,
  cacheWrite5m: 0,
  cacheWrite1h: 0,
  completion: 0,
  thinking: 0,
}

function bucketsOf(wire: WireCounters): Buckets {
  const long = count(wire.cache_creation?.ephemeral_1h_input_tokens)
  const short = count(wire.cache_creation?.ephemeral_5m_input_tokens)
  // The total may have grown since the split was sent: the increase is attributed in the same way.
  const written = Math.max(count(wire.cache_creation_input_tokens), long + short)
  const onlyLong = long > 0 && short === 0
  return {
    input: count(wire.input_tokens),
    cacheRead: count(wire.cache_read_input_tokens),
    cacheWrite5m: onlyLong ? 0 : written - long,
    cacheWrite1h: onlyLong ? written : long,
    completion: count(wire.output_tokens),
    thinking: count(wire.output_tokens_details?.thinking_tokens),
  }
}

function add(a: Buckets, b: Buckets): Buckets {
  return {
    input: a.input + b.input,
    cacheRead: a.cacheRead + b.cacheRead,
    cacheWrite5m: a.cacheWrite5m + b.cacheWrite5m,
    cacheWrite1h: a.cacheWrite1h + b.cacheWrite1h,
    completion: a.completion + b.completion,
    thinking: a.thinking + b.thinking,
  }
}

function total(buckets: Buckets): number {
  return buckets.input + buckets.cacheRead + buckets.cacheWrite5m + buckets.cacheWrite1h + buckets.completion
}
