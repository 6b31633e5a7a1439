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
 * Merges a stream's counters with those of its next event, field by field. They are cumulative: later values replace
 * earlier ones unless they are smaller. Only `message_start` has the 5-minute and 1-hour split, so missing fields are
 * kept.
 */
export function mergeUsage(before: WireUsage | undefined, after: WireUsage): WireUsage {
  return { ...joinUsage(before, after), ...keptCounters(before, after) }
}

const promptFields = [
  'input_tokens',
  'cache_read_input_tokens',
  'cache_creation_input_tokens',
  'cache_creation',
] as const

/**
 * The earlier values of fields whose later ones are smaller. The prompt is compared as a whole: a later event may say
 * that tokens of the input came from the cache, and to keep the input as well would count them twice. So are rounds: the
 * top level of the last event may count the last round alone.
 */
export function keptCounters(before: WireUsage | undefined, after: WireUsage): Partial<WireUsage> {
  if (before === undefined) return {}
  const earlier = spentOf(before)
  const later = spentOf(joinUsage(before, after))
  const promptShrinks = promptOf(later) < promptOf(earlier)
  const completionShrinks = later.completion < earlier.completion
  const fields: (keyof WireUsage)[] = []
  if (promptShrinks) fields.push(...promptFields)
  if (completionShrinks) fields.push('output_tokens')
  if (later.thinking < earlier.thinking) fields.push('output_tokens_details')
  if ((promptShrinks || completionShrinks) && before.iterations !== undefined) fields.push('iterations')
  return {
    ...Object.fromEntries(fields.map((field) => [field, before[field]])),
    ...keptSearches(before, after),
  }
}

/** The fields of both. A split that is more than the later total would count what it has lost once more. */
function joinUsage(before: WireUsage | undefined, after: WireUsage): WireUsage {
  const split = before?.cache_creation
  const written = counter(after.cache_creation_input_tokens)
  if (split === undefined || written === undefined || after.cache_creation !== undefined)
    return { ...before, ...after }
  const long = Math.min(written, count(split.ephemeral_1h_input_tokens))
  const short = Math.min(written - long, count(split.ephemeral_5m_input_tokens))
  const cache_creation = { ephemeral_1h_input_tokens: long, ephemeral_5m_input_tokens: short }
  return { ...before, ...after, cache_creation }
}

function keptSearches(before: WireUsage, { server_tool_use: later }: WireUsage): Partial<WireUsage> {
  const searches = count(before.server_tool_use?.web_search_requests)
  if (later === undefined || count(later.web_search_requests) >= searches) return {}
  return { server_tool_use: { ...later, web_search_requests: searches } }
}

/**
 * The whole call in disjoint buckets. Server-side rounds (compaction, an advisor) are listed in `iterations`, and
 * the top level leaves some of them out, so the sum of the rounds is what was consumed. Should the list be the
 * shorter account, the top level holds.
 */
export function usageOf(wire: WireUsage): Usage {
  const spent = spentOf(wire)
  const { thinking } = spent
  const serviceTier = serviceTierOf(wire.service_tier)
  const searches = count(wire.server_tool_use?.web_search_requests)
  const rounds = wire.iterations?.length ?? 0
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
    ...(rounds > 1 && { rounds }),
  }
  return withUncounted(usage, {
    prompt: counter(wire.input_tokens) ?? positive(promptOf(spent)),
    completion: counter(wire.output_tokens) ?? positive(spent.completion),
  })
}

/** What was consumed, with the thinking of all rounds. */
function spentOf(wire: WireUsage): Buckets {
  const top = bucketsOf(wire)
  const rounds = (wire.iterations ?? []).map(bucketsOf)
  const summed = rounds.reduce(add, emptyBuckets)
  const spent = total(summed) >= total(top) && rounds.length > 0 ? summed : top
  return { ...spent, thinking: Math.min(spent.completion, Math.max(summed.thinking, top.thinking)) }
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

function promptOf(buckets: Buckets): number {
  return buckets.input + buckets.cacheRead + buckets.cacheWrite5m + buckets.cacheWrite1h
}

function total(buckets: Buckets): number {
  return promptOf(buckets) + buckets.completion
}
