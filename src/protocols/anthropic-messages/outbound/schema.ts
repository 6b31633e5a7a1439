// The wire schemas of Anthropic's Messages protocol, and what its counters mean.

import { z } from 'zod'
import type { CacheMark, JsonObject } from '../../../conversation/request.ts'
import {
  count,
  counter,
  noUsage,
  serviceTierOf,
  type Usage,
  withUncounted,
} from '../../../conversation/usage.ts'
import { isObject, list, number, object, text, type ValueRead } from '../../lenient.ts'

/** A cache mark on the wire; five minutes is the protocol's default and left out. */
export function cacheControl(mark: CacheMark | undefined): JsonObject {
  if (mark === undefined) return {}
  return { cache_control: mark.ttl === '1h' ? { type: 'ephemeral', ttl: '1h' } : { type: 'ephemeral' } }
}

// ---- answers ----------------------------------------------------------------------------------------------
// Loose on purpose: a field that is missing or of another type must not lose the rest of the answer.

const counters = {
  input_tokens: number,
  output_tokens: number,
  cache_read_input_tokens: number,
  cache_creation_input_tokens: number,
  cache_creation: object({ ephemeral_5m_input_tokens: number, ephemeral_1h_input_tokens: number }),
  output_tokens_details: object({ thinking_tokens: number }),
}

/** The counters of an answer; undefined without any. */
export const readUsage = object({
  ...counters,
  server_tool_use: object({ web_search_requests: number }),
  iterations: list(object(counters)),
  service_tier: text,
})

export type MessagesUsage = ValueRead<typeof readUsage>
type WireCounters = Pick<MessagesUsage, keyof typeof counters>

/** One block of content. `type` decides which of the fields matter. */
export interface WireBlock {
  readonly type: string
  readonly text: string
  readonly thinking: string
  readonly signature: string
  readonly data: string
  readonly id: string
  readonly tool_use_id: string
  readonly name: string
  readonly input: unknown
  readonly content: unknown
  readonly citations: readonly unknown[]
}

/** A block as it is sent; undefined for something else. A field that is missing or of another type is empty. */
export function readBlock(block: unknown): WireBlock | undefined {
  if (!isObject(block) || typeof block.type !== 'string') return undefined
  return {
    type: block.type,
    text: text(block.text) ?? '',
    thinking: text(block.thinking) ?? '',
    signature: text(block.signature) ?? '',
    data: text(block.data) ?? '',
    id: text(block.id) ?? '',
    tool_use_id: text(block.tool_use_id) ?? '',
    name: text(block.name) ?? '',
    input: block.input,
    content: block.content,
    citations: Array.isArray(block.citations) ? block.citations : [],
  }
}

export const citationSchema = z.lazy(() =>
  z.object({
    type: z.string(),
    url: z.string().nullish().catch(undefined),
    source: z.string().nullish().catch(undefined),
    title: z.string().nullish().catch(undefined),
  }),
)

export const messageSchema = z.lazy(() =>
  z.object({
    type: z.literal('message').optional(),
    id: z.unknown().optional(),
    model: z.unknown().optional(),
    content: z.array(z.unknown()),
    stop_reason: z.unknown().optional(),
    stop_sequence: z.unknown().optional(),
    stop_details: z.unknown().optional(),
    usage: z.unknown().optional(),
  }),
)

export const errorSchema = z.lazy(() =>
  z.object({ error: z.object({ type: z.string().optional(), message: z.string().optional() }) }),
)
export type WireError = z.infer<typeof errorSchema>['error']

// Converts Anthropic's counters to disjoint buckets: cached tokens are separate from the input count, thinking is
// inside the output.

/**
 * Merges a stream's counters with those of its next event, field by field. They are cumulative: later values replace
 * earlier ones unless they are smaller. Only `message_start` has the 5-minute and 1-hour split, so missing fields are
 * kept.
 */
export function mergeUsage(before: MessagesUsage | undefined, after: MessagesUsage): MessagesUsage {
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
export function keptCounters(
  before: MessagesUsage | undefined,
  after: MessagesUsage,
): Partial<MessagesUsage> {
  if (before === undefined) return {}
  const earlier = spentOf(before)
  const later = spentOf(joinUsage(before, after))
  const promptShrinks = promptOf(later) < promptOf(earlier)
  const completionShrinks = later.completion < earlier.completion
  const fields: (keyof MessagesUsage)[] = []
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
function joinUsage(before: MessagesUsage | undefined, after: MessagesUsage): MessagesUsage {
  const split = before?.cache_creation
  const written = counter(after.cache_creation_input_tokens)
  if (split === undefined || written === undefined || after.cache_creation !== undefined)
    return { ...before, ...after }
  const long = Math.min(written, count(split.ephemeral_1h_input_tokens))
  const short = Math.min(written - long, count(split.ephemeral_5m_input_tokens))
  const cache_creation = { ephemeral_1h_input_tokens: long, ephemeral_5m_input_tokens: short }
  return { ...before, ...after, cache_creation }
}

function keptSearches(
  before: MessagesUsage,
  { server_tool_use: later }: MessagesUsage,
): Partial<MessagesUsage> {
  const searches = count(before.server_tool_use?.web_search_requests)
  if (later === undefined || count(later.web_search_requests) >= searches) return {}
  return { server_tool_use: { ...later, web_search_requests: searches } }
}

/**
 * The whole call in disjoint buckets. Server-side rounds (compaction, an advisor) are listed in `iterations`, and
 * the top level leaves some of them out, so the sum of the rounds is what was consumed. Should the list be the
 * shorter account, the top level holds.
 */
export function usageOf(wire: MessagesUsage): Usage {
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
function spentOf(wire: MessagesUsage): Buckets {
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
