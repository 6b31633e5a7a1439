// The wire schema of requests for chat completions. The OpenAPI page is generated from it by z.toJSONSchema, so it
// contains no transforms. Unknown fields are allowed everywhere. What fields are made of is built when it is first
// needed: plain requests are checked without it, and a start would spend milliseconds and megabytes on it. A field is
// lazy as a whole, since zod parses what holds a lazy schema that was never needed at half the speed.

import { z } from 'zod'
import { reasoningEffort } from '../../openai/parameters.ts'
import { costDetailsSchema } from '../../openai/usage.ts'
import { cacheBreakpoint, cacheControl } from '../../request/prompt-parts.ts'
import { seed } from '../../request/fields.ts'
import { gatewayShape } from '../../request/gateway-tools.ts'

const text = z.string()
const flag = z.boolean()
export const longestName = 256
const name = z.string().min(1).max(longestName)
const countFrom = (least: number) => z.int().min(least)
const json = z.looseObject({})

/** Shared by fields of the same type. */
const maybe = {
  text: text.nullish(),
  flag: flag.nullish(),
  json: json.nullish(),
  texts: z.array(text).nullish(),
  effort: reasoningEffort.nullish(),
}

/** What a part may carry to be cached with all before it. */
const marks = { cache_control: cacheControl, prompt_cache_breakpoint: cacheBreakpoint }

const contentPart = () =>
  z.discriminatedUnion('type', [
    z.looseObject({ type: z.literal('text'), text, ...marks }),
    z.looseObject({ type: z.literal('refusal'), refusal: text }),
    z.looseObject({
      type: z.literal('image_url'),
      image_url: z.looseObject({
        url: text.min(1),
        detail: z.enum(['auto', 'low', 'high', 'original']).nullish(),
      }),
      ...marks,
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
          filename: maybe.text,
        })
        .refine((file) => file.file_data != null || file.file_id != null || file.file_url != null, {
          error: 'needs one of file_data, file_id and file_url',
        }),
      ...marks,
    }),
    z.looseObject({ type: z.literal('video_url'), video_url: z.looseObject({ url: text.min(1) }) }),
  ])

const signature = {
  extra_content: z
    .looseObject({ google: z.looseObject({ thought_signature: maybe.text }).nullish() })
    .nullish(),
}

const functionCall = () =>
  z.looseObject({
    id: text.min(1),
    type: z.literal('function').nullish(),
    function: z.looseObject({ name, arguments: text }),
    cache_control: cacheControl,
    ...signature,
  })

const customCall = () =>
  z.looseObject({
    id: text.min(1),
    type: z.literal('custom'),
    custom: z.looseObject({ name, input: text }),
    cache_control: cacheControl,
    ...signature,
  })

const toolCall = () => z.union([functionCall(), customCall()])

const reasoningDetail = () =>
  z.looseObject({
    type: text.min(1),
    format: maybe.text,
    index: countFrom(0).nullish(),
    id: maybe.text,
    text: maybe.text,
    summary: maybe.text,
    signature: maybe.text,
    data: maybe.text,
  })

const image = () =>
  z.looseObject({ type: z.literal('image_url'), image_url: z.looseObject({ url: text.min(1) }) })
/** One message of a conversation. */
export const chatMessage = z.lazy(() => {
  const content = z.union([text, z.array(contentPart())])
  const plainMessage = { content, name: maybe.text, cache_control: cacheControl }
  return z.discriminatedUnion('role', [
    z.looseObject({ role: z.literal('system'), ...plainMessage }),
    z.looseObject({ role: z.literal('developer'), ...plainMessage }),
    z.looseObject({ role: z.literal('user'), ...plainMessage }),
    z.looseObject({
      role: z.literal('assistant'),
      ...plainMessage,
      content: content.nullish(),
      refusal: maybe.text,
      tool_calls: z.array(toolCall()).nullish(),
      function_call: z.looseObject({ name, arguments: text }).nullish(),
      reasoning_content: maybe.text,
      reasoning: z.union([text, json]).nullish(),
      reasoning_details: z.array(reasoningDetail()).nullish(),
      images: z.array(image()).nullish(),
      web_search_calls: z.array(json).nullish(),
      mcp_calls: z.array(json).nullish(),
    }),
    z.looseObject({
      role: z.literal('tool'),
      content,
      tool_call_id: text.min(1),
      is_error: maybe.flag,
      cache_control: cacheControl,
    }),
    z.looseObject({ role: z.literal('function'), name, content: maybe.text }),
  ])
})

const functionDefinition = { name, description: maybe.text, parameters: maybe.json }

const functionGiven = z.lazy(() => z.looseObject(functionDefinition))

const functionTool = () =>
  z.looseObject({
    type: z.literal('function'),
    function: z.looseObject({ ...functionDefinition, strict: maybe.flag }),
    cache_control: cacheControl,
  })

/** A tool whose argument is a text, which may have to follow a grammar. */
const customTool = () =>
  z.looseObject({
    type: z.literal('custom'),
    custom: z.looseObject({
      name,
      description: maybe.text,
      format: z
        .union([
          z.looseObject({ type: z.literal('text') }),
          z.looseObject({
            type: z.literal('grammar'),
            grammar: z.looseObject({ syntax: z.enum(['lark', 'regex']), definition: text }),
          }),
        ])
        .nullish(),
    }),
    cache_control: cacheControl,
  })

/** The type is checked before the schema. */
const gatewayTool = () =>
  z.looseObject({
    type: text.refine((type) => type !== 'function' && type !== 'custom', {
      error: 'is not a function',
      abort: true,
    }),
  })

/** One declared tool. */
export const tool = z.lazy(() => z.union([functionTool(), customTool(), gatewayTool()]))
export const mostTools = 1024

const namedFunction = () => z.looseObject({ type: z.literal('function'), function: z.looseObject({ name }) })
const namedCustom = () => z.looseObject({ type: z.literal('custom'), custom: z.looseObject({ name }) })

const gatewayChoice = () =>
  z.looseObject({
    type: text.refine((type) => !['function', 'custom', 'allowed_tools'].includes(type), {
      error: 'is not a choice of this type',
      abort: true,
    }),
  })

const toolChoice = z.lazy(() =>
  z.union([
    z.enum(['none', 'auto', 'required']),
    namedFunction(),
    namedCustom(),
    z.looseObject({
      type: z.literal('allowed_tools'),
      allowed_tools: z.looseObject({
        mode: z.enum(['auto', 'required']),
        tools: z.array(z.union([namedFunction(), namedCustom(), gatewayChoice()])).min(1),
      }),
    }),
    gatewayChoice(),
  ]),
)

const responseFormat = z.lazy(() =>
  z.discriminatedUnion('type', [
    z.looseObject({ type: z.literal('text') }),
    z.looseObject({ type: z.literal('json_object') }),
    z.looseObject({
      type: z.literal('json_schema'),
      json_schema: z.looseObject({
        name,
        description: maybe.text,
        schema: maybe.json,
        strict: maybe.flag,
      }),
    }),
  ]),
)

const reasoning = z.lazy(() =>
  z.looseObject({
    effort: maybe.effort,
    max_tokens: countFrom(0).nullish(),
    enabled: maybe.flag,
    exclude: maybe.flag,
  }),
)

export const chatCompletionRequest = z.looseObject({
  model: text.min(1).max(512),
  messages: z.array(chatMessage).min(1),
  stream: maybe.flag,
  stream_options: z.looseObject({ include_usage: maybe.flag }).nullish(),
  max_tokens: countFrom(1).nullish(),
  max_completion_tokens: countFrom(1).nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  top_k: countFrom(0).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  frequency_penalty: z.number().min(-2).max(2).nullish(),
  presence_penalty: z.number().min(-2).max(2).nullish(),
  repetition_penalty: z.number().min(0).max(2).nullish(),
  seed: seed.nullish(),
  stop: z.union([text, z.array(text).max(64)]).nullish(),
  logit_bias: z.record(z.string(), z.number().min(-100).max(100)).nullish(),
  logprobs: maybe.flag,
  top_logprobs: countFrom(0).max(20).nullish(),
  n: countFrom(1).max(128).nullish(),
  tools: z.array(tool).max(mostTools).nullish(),
  tool_choice: toolChoice.nullish(),
  parallel_tool_calls: maybe.flag,
  web_search_options: maybe.json,
  functions: z.array(functionGiven).max(1024).nullish(),
  function_call: z.union([z.enum(['none', 'auto']), z.looseObject({ name })]).nullish(),
  response_format: responseFormat.nullish(),
  reasoning_effort: maybe.effort,
  reasoning: reasoning.nullish(),
  modalities: maybe.texts,
  audio: maybe.json,
  prediction: maybe.json,
  user: maybe.text,
  safety_identifier: maybe.text,
  prompt_cache_key: maybe.text,
  prompt_cache_retention: maybe.text,
  prompt_cache_options: maybe.json,
  service_tier: maybe.text,
  metadata: z.record(z.string(), z.string()).nullish(),
  store: maybe.flag,
  verbosity: maybe.text,
  ...gatewayShape,
})

export type ChatCompletionRequest = z.infer<typeof chatCompletionRequest>
export type WireMessage = ChatCompletionRequest['messages'][number]
export type WireCustom = z.infer<ReturnType<typeof customTool>>
export type WireFunction = z.infer<ReturnType<typeof functionTool>>
export type WirePart = z.infer<ReturnType<typeof contentPart>>

// The wire schemas of answers of chat completions, whole and streamed. The OpenAPI page is generated from them, and
// tests check real answers against them.

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
  cost_details: costDetailsSchema('prompt', 'completions'),
  server_tool_use: z.looseObject({ web_search_requests: tokens }),
})

const finishReason = z
  .enum(['stop', 'length', 'tool_calls', 'content_filter', 'other'])
  .describe('`other`: the provider ended the answer in a way of its own, and it did not finish well.')

const nativeFinish = text
  .nullish()
  .describe('With `other`: the provider’s own word for how the answer ended.')

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
      native_finish_reason: nativeFinish,
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
              type: z.enum(['function', 'custom']).optional(),
              function: z.looseObject({ name: text.optional(), arguments: text }).optional(),
              custom: z.looseObject({ name: text.optional(), input: text }).optional(),
            }),
          )
          .optional(),
        ...additions,
      }),
      logprobs: logprobs.optional(),
      finish_reason: z.union([finishReason, z.literal('error')]).nullable(),
      native_finish_reason: nativeFinish,
    }),
  ),
  /** null on all chunks except the last if `stream_options.include_usage` is set. */
  usage: wireUsageSchema.nullish(),
})
