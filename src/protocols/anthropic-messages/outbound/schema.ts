// The wire schemas of Anthropic's Messages protocol.

import { z } from 'zod'
import type { CacheMark, JsonObject } from '../../../conversation/request.ts'

/** A cache mark on the wire; five minutes is the protocol's default and left out. */
export function cacheControl(mark: CacheMark | undefined): JsonObject {
  if (mark === undefined) return {}
  return { cache_control: mark.ttl === '1h' ? { type: 'ephemeral', ttl: '1h' } : { type: 'ephemeral' } }
}

// ---- answers ----------------------------------------------------------------------------------------------
// Loose on purpose: a field that is missing or of another type must not lose the rest of the answer. Built when they
// are first needed.

const counter = z.number().nullish().catch(undefined)

const countersSchema = () =>
  z.object({
    input_tokens: counter,
    output_tokens: counter,
    cache_read_input_tokens: counter,
    cache_creation_input_tokens: counter,
    cache_creation: z
      .object({ ephemeral_5m_input_tokens: counter, ephemeral_1h_input_tokens: counter })
      .nullish()
      .catch(undefined),
    output_tokens_details: z.object({ thinking_tokens: counter }).nullish().catch(undefined),
  })

const usageSchema = () =>
  countersSchema().extend({
    server_tool_use: z.object({ web_search_requests: counter }).nullish().catch(undefined),
    iterations: z.array(countersSchema()).nullish().catch(undefined),
    service_tier: z.string().nullish().catch(undefined),
  })

export type WireUsage = z.infer<ReturnType<typeof usageSchema>>
export type WireCounters = z.infer<ReturnType<typeof countersSchema>>

const text = z.string().catch('')
const usage = () => usageSchema().nullish().catch(undefined)

/** One block of content. `type` decides which of the fields matter. */
const blockSchema = () =>
  z.object({
    type: z.string(),
    text,
    thinking: text,
    signature: text,
    data: text,
    id: text,
    tool_use_id: text,
    name: text,
    input: z.unknown().optional(),
    content: z.unknown().optional(),
    citations: z.array(z.unknown()).nullish().catch(undefined),
  })

export type WireBlock = z.infer<ReturnType<typeof blockSchema>>

export const citationSchema = z.lazy(() =>
  z.object({
    type: z.string(),
    url: z.string().nullish().catch(undefined),
    source: z.string().nullish().catch(undefined),
    title: z.string().nullish().catch(undefined),
  }),
)

const stopDetails = () =>
  z
    .object({ explanation: z.string().nullish().catch(undefined) })
    .nullish()
    .catch(undefined)

export type StopDetails = z.infer<ReturnType<typeof stopDetails>>

export const messageSchema = z.lazy(() =>
  z.object({
    type: z.literal('message').optional(),
    id: z.string().optional().catch(undefined),
    model: z.string().optional().catch(undefined),
    content: z.array(z.unknown()),
    stop_reason: z.string().nullish().catch(undefined),
    stop_details: stopDetails(),
    usage: usage(),
  }),
)

const name = z.string().optional().catch(undefined)

/**
 * The schemas of stream events by type, except for deltas and stops of blocks, which are too frequent for a schema.
 * Unknown event types are ignored, as the protocol demands.
 */
export const eventSchemas = {
  message_start: z.lazy(() => z.object({ message: z.object({ id: name, model: name, usage: usage() }) })),
  content_block_start: z.lazy(() => z.object({ index: z.number(), content_block: blockSchema() })),
  message_delta: z.lazy(() =>
    z.object({
      delta: z
        .object({ stop_reason: z.string().nullish().catch(undefined), stop_details: stopDetails() })
        .catch({ stop_reason: undefined, stop_details: undefined }),
      usage: usage(),
    }),
  ),
  message_stop: z.object({}),
  error: z.lazy(() =>
    z.object({ error: z.object({ type: z.string().optional(), message: z.string().optional() }) }),
  ),
} as const
