// The wire schemas of answers in the Messages API. The API documentation is generated from them, and a test checks
// real answers against them.

import { z } from 'zod'

const count = z.int().min(0)
const usd = z.string().describe('US dollars, an exact decimal string.')

const counters = z.object({
  input_tokens: count.describe('Tokens of the prompt, without those of its cache.'),
  cache_creation_input_tokens: count,
  cache_read_input_tokens: count,
  cache_creation: z.object({ ephemeral_5m_input_tokens: count, ephemeral_1h_input_tokens: count }).nullable(),
  output_tokens: count.describe('Tokens of the answer, thinking included.'),
  output_tokens_details: z.object({ thinking_tokens: count }),
  server_tool_use: z.object({ web_fetch_requests: count, web_search_requests: count }),
  service_tier: z.string(),
  inference_geo: z.string().nullable(),
  speed: z.string().nullable(),
})

const usage = counters.extend({
  cost: z.number().describe('What the call cost, US dollars.'),
  cost_details: z.record(z.string(), usd).describe('Its parts, which add up to `total`.'),
})

const block = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text'), text: z.string(), citations: z.array(z.looseObject({})).optional() }),
  z.object({
    type: z.literal('thinking'),
    thinking: z.string(),
    signature: z
      .string()
      .describe('Send it back unchanged: the provider takes its thoughts back with it only.'),
  }),
  z.object({ type: z.literal('redacted_thinking'), data: z.string() }),
  z.object({ type: z.literal('compaction'), content: z.string().nullable() }),
  z.object({ type: z.literal('tool_use'), id: z.string(), name: z.string(), input: z.looseObject({}) }),
  z.object({
    type: z.literal('server_tool_use').describe('A web search, or a page that was opened.'),
    id: z.string(),
    name: z.string(),
    input: z.looseObject({}),
  }),
  z.looseObject({
    type: z.literal('mcp_tool_use').describe('A tool of an MCP server.'),
    id: z.string(),
    name: z.string(),
    server_name: z.string(),
    input: z.looseObject({}),
  }),
  ...(['web_search_tool_result', 'web_fetch_tool_result', 'mcp_tool_result'] as const).map((type) =>
    z.looseObject({ type: z.literal(type), tool_use_id: z.string() }),
  ),
])

const stopReason = z.string().describe('`end_turn`, `max_tokens`, `stop_sequence`, `tool_use`, `refusal` …')

/** What the gateway adds to an answer. */
const additions = {
  warnings: z
    .array(z.object({ param: z.string(), message: z.string() }))
    .optional()
    .describe('What was asked for and could not be honoured.'),
  mode: z.literal('test').optional(),
  metadata: z
    .looseObject({ stopped_by: z.enum(['max_cost', 'credits', 'max_tokens', 'max_tool_calls']).optional() })
    .optional()
    .describe('What cut the answer short, where it was neither its end nor its `max_tokens`.'),
}

export const message = z.object({
  id: z.string().describe('The request id of the call: GET /v1/generation finds its receipt by it.'),
  type: z.literal('message'),
  role: z.literal('assistant'),
  model: z.string(),
  content: z.array(block),
  stop_reason: stopReason.nullable(),
  stop_sequence: z.string().nullable(),
  usage,
  ...additions,
})

const wireError = z.object({
  type: z.string().describe("Anthropic's word for the kind of error."),
  message: z.string(),
  code: z.string().describe('One of the codes of GET /v1/errors.'),
  details: z.object({
    error_code: z
      .string()
      .describe('The same code; for a message thread Anthropic’s own, `thread_unsupported_request`.'),
    unsupported: z.array(z.string()).optional(),
  }),
  param: z.string().nullable().describe('The field of the request that is at fault.'),
  metadata: z.looseObject({}),
})

export const messagesError = z.object({
  type: z.literal('error'),
  error: wireError,
  request_id: z.string().nullable(),
})

const delta = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text_delta'), text: z.string() }),
  z.object({ type: z.literal('thinking_delta'), thinking: z.string() }),
  z.object({ type: z.literal('signature_delta'), signature: z.string() }),
  z.object({ type: z.literal('input_json_delta'), partial_json: z.string() }),
  z.object({ type: z.literal('citations_delta'), citation: z.looseObject({}) }),
  z.object({ type: z.literal('compaction_delta'), content: z.string().nullable() }),
])

export const messageEvent = z.discriminatedUnion('type', [
  z.object({ type: z.literal('message_start'), message: message.extend({ usage: counters }) }),
  z.object({ type: z.literal('content_block_start'), index: count, content_block: block }),
  z.object({ type: z.literal('content_block_delta'), index: count, delta }),
  z.object({ type: z.literal('content_block_stop'), index: count }),
  z.object({
    type: z.literal('message_delta'),
    delta: z.object({ stop_reason: stopReason, stop_sequence: z.string().nullable() }),
    usage,
    ...additions,
  }),
  z.object({ type: z.literal('message_stop') }),
  z.object({ type: z.literal('ping') }),
  messagesError,
])

export const tokenCount = z.object({ input_tokens: count })
