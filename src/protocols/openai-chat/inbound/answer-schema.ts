// The wire schemas of answers of chat completions, whole and streamed. The OpenAPI page is generated from them, and
// tests check real answers against them.

import { z } from 'zod'
import { image, reasoningDetail, toolCall } from './schema.ts'

const text = z.string()
const json = z.looseObject({})
const tokens = z.int().min(0)

const wireUsageSchema = z.looseObject({
  prompt_tokens: tokens,
  completion_tokens: tokens,
  total_tokens: tokens,
  prompt_tokens_details: z.looseObject({
    cached_tokens: tokens,
    cache_write_tokens: tokens,
    audio_tokens: tokens,
  }),
  completion_tokens_details: z.looseObject({ reasoning_tokens: tokens, audio_tokens: tokens }),
  /** US dollars. */
  cost: z.number(),
  /** Decimal strings in US dollars that add up to the total. */
  cost_details: z.object({
    input: text,
    cache_read: text,
    cache_write: text,
    output: text,
    reasoning: text,
    tools: text,
    total: text,
  }),
  server_tool_use: z.looseObject({ web_search_requests: tokens }),
})

const finishReason = z.enum(['stop', 'length', 'tool_calls', 'content_filter'])

const urlCitation = z.looseObject({
  type: z.literal('url_citation'),
  url_citation: z.looseObject({ url: text, title: text, start_index: tokens, end_index: tokens }),
})

/** Providers have other annotations too (files read), which are passed through. */
const annotation = z.union([urlCitation, z.looseObject({ type: text })])

const logprobs = z
  .looseObject({ content: z.array(json).nullable(), refusal: z.array(json).nullable() })
  .nullable()

const additions = {
  reasoning_content: text.optional(),
  reasoning_details: z.array(reasoningDetail()).optional(),
  images: z.array(image()).optional(),
  /** The calls of gateway tools; sent back with the message, the model can read them again. */
  web_search_calls: z.array(json).optional(),
  mcp_calls: z.array(json).optional(),
}

export const chatCompletion = z.looseObject({
  id: text,
  object: z.literal('chat.completion'),
  created: z.int(),
  model: text,
  choices: z.array(
    z.looseObject({
      index: tokens,
      message: z.looseObject({
        role: z.literal('assistant'),
        content: text.nullable(),
        refusal: text.nullable(),
        annotations: z.array(annotation),
        tool_calls: z.array(toolCall()).optional(),
        ...additions,
      }),
      logprobs,
      finish_reason: finishReason,
    }),
  ),
  usage: wireUsageSchema,
  warnings: z.array(z.object({ param: text, message: text })).optional(),
})

export const chatCompletionChunk = z.looseObject({
  id: text,
  object: z.literal('chat.completion.chunk'),
  created: z.int(),
  model: text,
  choices: z.array(
    z.looseObject({
      index: tokens,
      delta: z.looseObject({
        role: z.literal('assistant').optional(),
        content: text.nullish(),
        refusal: text.nullish(),
        annotations: z.array(annotation).optional(),
        tool_calls: z
          .array(
            z.looseObject({
              index: tokens,
              id: text.optional(),
              type: z.literal('function').optional(),
              function: z.looseObject({ name: text.optional(), arguments: text }),
            }),
          )
          .optional(),
        ...additions,
      }),
      logprobs: logprobs.optional(),
      finish_reason: z.union([finishReason, z.literal('error')]).nullable(),
    }),
  ),
  /** null on all chunks except the last if `stream_options.include_usage` is set. */
  usage: wireUsageSchema.nullish(),
})
