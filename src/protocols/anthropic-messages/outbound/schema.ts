// The wire schemas of Anthropic's Messages protocol.

import { z } from 'zod'
import type { CacheMark, JsonObject } from '../../../conversation/request.ts'
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

export type WireUsage = ValueRead<typeof readUsage>
export type WireCounters = Pick<WireUsage, keyof typeof counters>

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
