// The wire schemas of chat completions, for requests and answers. The OpenAPI page is generated from them by
// z.toJSONSchema, so they contain no transforms. Unknown fields are allowed everywhere.

import { z } from 'zod'
import { reasoningEffort } from '../../openai/effort.ts'
import { gatewayShape } from '../../request/gateway-fields.ts'

const text = z.string()
const flag = z.boolean()
const name = z.string().min(1).max(256)
/** A whole number; seeds may exceed what a double holds exactly, which is harmless. */
const wholeNumber = z.number().refine(Number.isInteger, 'must be a whole number').meta({ type: 'integer' })
const countFrom = (least: number) => z.int().min(least)
const json = z.looseObject({})

const cacheControl = z
  .looseObject({ type: z.literal('ephemeral'), ttl: z.enum(['5m', '1h']).nullish() })
  .nullish()

const contentPart = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('text'), text, cache_control: cacheControl }),
  z.looseObject({ type: z.literal('refusal'), refusal: text }),
  z.looseObject({
    type: z.literal('image_url'),
    image_url: z.looseObject({
      url: text.min(1),
      detail: z.enum(['auto', 'low', 'high', 'original']).nullish(),
    }),
    cache_control: cacheControl,
  }),
  z.looseObject({
    type: z.literal('input_audio'),
    input_audio: z.looseObject({ data: text.min(1), format: text.min(1) }),
  }),
  z.looseObject({
    type: z.literal('file'),
    file: z
      .looseObject({
        file_data: text.min(1).nullish(),
        file_id: text.min(1).nullish(),
        file_url: text.min(1).nullish(),
        filename: text.nullish(),
      })
      .refine((file) => file.file_data != null || file.file_id != null || file.file_url != null, {
        error: 'needs one of file_data, file_id and file_url',
      }),
    cache_control: cacheControl,
  }),
  z.looseObject({ type: z.literal('video_url'), video_url: z.looseObject({ url: text.min(1) }) }),
])

const content = z.union([text, z.array(contentPart)])

const toolCall = z.looseObject({
  id: text.min(1),
  type: z.literal('function').nullish(),
  function: z.looseObject({ name, arguments: text }),
  extra_content: z
    .looseObject({ google: z.looseObject({ thought_signature: text.nullish() }).nullish() })
    .nullish(),
})

const reasoningDetail = z.looseObject({
  type: text.min(1),
  format: text.nullish(),
  index: countFrom(0).nullish(),
  id: text.nullish(),
  text: text.nullish(),
  summary: text.nullish(),
  signature: text.nullish(),
  data: text.nullish(),
})

const image = z.looseObject({ type: z.literal('image_url'), image_url: z.looseObject({ url: text.min(1) }) })
const plainMessage = { content, name: text.nullish(), cache_control: cacheControl }

const message = z.discriminatedUnion('role', [
  z.looseObject({ role: z.literal('system'), ...plainMessage }),
  z.looseObject({ role: z.literal('developer'), ...plainMessage }),
  z.looseObject({ role: z.literal('user'), ...plainMessage }),
  z.looseObject({
    role: z.literal('assistant'),
    ...plainMessage,
    content: content.nullish(),
    refusal: text.nullish(),
    tool_calls: z.array(toolCall).nullish(),
    function_call: z.looseObject({ name, arguments: text }).nullish(),
    reasoning_content: text.nullish(),
    reasoning: z.union([text, json]).nullish(),
    reasoning_details: z.array(reasoningDetail).nullish(),
    images: z.array(image).nullish(),
    web_search_calls: z.array(json).nullish(),
    mcp_calls: z.array(json).nullish(),
  }),
  z.looseObject({
    role: z.literal('tool'),
    content,
    tool_call_id: text.min(1),
    is_error: flag.nullish(),
    cache_control: cacheControl,
  }),
  z.looseObject({ role: z.literal('function'), name, content: text.nullish() }),
])

const functionDefinition = {
  name,
  description: text.nullish(),
  parameters: json.nullish(),
}

const functionTool = z.looseObject({
  type: z.literal('function'),
  function: z.looseObject({ ...functionDefinition, strict: flag.nullish() }),
  cache_control: cacheControl,
})

/** The type is checked before the schema. */
const gatewayTool = z.looseObject({
  type: text.refine((type) => type !== 'function', { error: 'is not a function', abort: true }),
})

const tool = z.union([functionTool, gatewayTool])

const namedFunction = z.looseObject({ type: z.literal('function'), function: z.looseObject({ name }) })

const gatewayChoice = z.looseObject({
  type: text.refine((type) => type !== 'function' && type !== 'allowed_tools', {
    error: 'is not a choice of this type',
    abort: true,
  }),
})

const toolChoice = z.union([
  z.enum(['none', 'auto', 'required']),
  namedFunction,
  z.looseObject({
    type: z.literal('allowed_tools'),
    allowed_tools: z.looseObject({
      mode: z.enum(['auto', 'required']),
      tools: z.array(z.union([namedFunction, gatewayChoice])).min(1),
    }),
  }),
  gatewayChoice,
])

const responseFormat = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('text') }),
  z.looseObject({ type: z.literal('json_object') }),
  z.looseObject({
    type: z.literal('json_schema'),
    json_schema: z.looseObject({
      name,
      description: text.nullish(),
      schema: json.nullish(),
      strict: flag.nullish(),
    }),
  }),
])

export const chatCompletionRequest = z.looseObject({
  model: text.min(1).max(512),
  messages: z.array(message).min(1),
  stream: flag.nullish(),
  stream_options: z.looseObject({ include_usage: flag.nullish() }).nullish(),
  max_tokens: countFrom(1).nullish(),
  max_completion_tokens: countFrom(1).nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  top_k: countFrom(0).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  frequency_penalty: z.number().min(-2).max(2).nullish(),
  presence_penalty: z.number().min(-2).max(2).nullish(),
  repetition_penalty: z.number().min(0).max(2).nullish(),
  seed: wholeNumber.nullish(),
  stop: z.union([text, z.array(text).max(64)]).nullish(),
  logit_bias: z.record(z.string(), z.number().min(-100).max(100)).nullish(),
  logprobs: flag.nullish(),
  top_logprobs: countFrom(0).max(20).nullish(),
  n: countFrom(1).max(128).nullish(),
  tools: z.array(tool).max(1024).nullish(),
  tool_choice: toolChoice.nullish(),
  parallel_tool_calls: flag.nullish(),
  web_search_options: json.nullish(),
  functions: z.array(z.looseObject(functionDefinition)).max(1024).nullish(),
  function_call: z.union([z.enum(['none', 'auto']), z.looseObject({ name })]).nullish(),
  response_format: responseFormat.nullish(),
  reasoning_effort: reasoningEffort.nullish(),
  reasoning: z
    .looseObject({
      effort: reasoningEffort.nullish(),
      max_tokens: countFrom(0).nullish(),
      enabled: flag.nullish(),
      exclude: flag.nullish(),
    })
    .nullish(),
  modalities: z.array(text).nullish(),
  audio: json.nullish(),
  prediction: json.nullish(),
  user: text.nullish(),
  safety_identifier: text.nullish(),
  prompt_cache_key: text.nullish(),
  prompt_cache_retention: text.nullish(),
  service_tier: text.nullish(),
  metadata: z.record(z.string(), z.string()).nullish(),
  store: flag.nullish(),
  verbosity: text.nullish(),
  ...gatewayShape,
})

export type ChatCompletionRequest = z.infer<typeof chatCompletionRequest>
export type WireMessage = ChatCompletionRequest['messages'][number]
export type NamedFunction = z.infer<typeof namedFunction>
export type FunctionTool = z.infer<typeof functionTool>
export type WirePart = z.infer<typeof contentPart>
export type WireCacheControl = z.infer<typeof cacheControl>

// ---- what clients receive ---------------------------------------------------------------------------------

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
  reasoning_details: z.array(reasoningDetail).optional(),
  images: z.array(image).optional(),
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
        tool_calls: z.array(toolCall).optional(),
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
