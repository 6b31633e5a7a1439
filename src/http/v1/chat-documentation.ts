// The documentation of chats, text completions, embeddings and estimates.

import { z } from 'zod'
import { listedModelSchema, modelListSchema } from '../../catalog/wire.ts'
import type { Estimate, RouteExplanation } from '../../chat/estimate.ts'
import { embeddingList, embeddingRequest } from '../../protocols/embeddings/openai.ts'
import {
  chatCompletion,
  chatCompletionChunk,
  chatCompletionRequest,
} from '../../protocols/openai-chat/inbound/schema.ts'
import { textCompletion, textCompletionRequest } from '../../protocols/openai-completions/inbound.ts'
import {
  callHeaders,
  type Content,
  count,
  inPath,
  json,
  ofAnyRequest,
  ofBody,
  ofCaller,
  ofChatBody,
  ofModel,
  ofPaidChat,
  type Operation,
  schemaOf,
  text,
  usd,
} from '../docs/operation.ts'
import * as examples from './chat-examples.ts'
import { completionFields, requestFields } from './chat-examples.ts'
import { responseRequests } from './responses-documentation.ts'

export const estimateSchema = z.object({
  model: z.string(),
  prompt_tokens: z.object({ expected: count, maximum: count }),
  rounds: z
    .object({ expected: count, maximum: count })
    .optional()
    .describe(
      'How often the model is asked, where the request declares tools that the gateway runs: once, and again after each call of them, up to `max_tool_calls`.',
    ),
  low: usd.describe('With one token of output, and no call of a tool.'),
  expected: usd.describe(
    'With an answer of usual length; where a tool may be called, with one call of it and its price.',
  ),
  maximum: usd.describe(
    'The most the request allows: with every call of a tool at its price, and results as long as they may be.',
  ),
  affordable_output_tokens: count.describe('How long an answer the credit at hand pays for.'),
  pool: z.string().describe('The pool that pays first.'),
  refusal: z.string().optional().describe('The error code that the call would be refused with.'),
}) satisfies z.ZodType<Estimate>

const explanationSchema = z.object({
  model: z.string().describe('As it was asked for, but for another name of it.'),
  reason: z
    .string()
    .nullable()
    .describe('Of a route, what decides which member is first: order, weight, price, latency.'),
  candidates: z
    .array(
      z.object({
        model: z.string(),
        provider: z.string(),
        upstream_model: z.string(),
        standing: z.enum(['healthy', 'cooling', 'open']).describe('open: it is probed once a second.'),
        latency_ms: count.nullable().describe('Until its first content, of late.'),
        prompt: usd.describe('For one token.'),
        completion: usd,
      }),
    )
    .describe('In the order in which they would be asked.'),
  passed_over: z
    .array(z.object({ model: z.string(), reason: z.string() }))
    .describe('Members that this key is not served by, and why: an error code, or `not_sold`.'),
  refusal: z.string().optional().describe('The error code that the call would be refused with.'),
}) satisfies z.ZodType<RouteExplanation>

const chatBody: Content = {
  'application/json': { ...schemaOf('ChatCompletionRequest'), examples: examples.chatRequests },
}

/** Of a chat completion, or of a response. */
const estimatedBody: Content = {
  'application/json': {
    schema: {
      anyOf: [schemaOf('ChatCompletionRequest').schema, schemaOf('ResponseRequest').schema],
    },
    examples: {
      ...examples.chatRequests,
      response: { summary: 'A response', value: responseRequests['whole']!.value },
    },
  },
}

export const chat: Operation = {
  id: 'createChatCompletion',
  tag: 'Chat',
  summary: 'Create a chat completion',
  description: `Sends a conversation to a model and gives its answer, whole or streamed.

With \`stream: true\` the answer is a stream of server-sent events: \`data:\` lines, each a chunk with a \`delta\`, then \`data: [DONE]\`. After 15 seconds of silence a comment line keeps the connection open, also where the answer has not begun: then the status is 200 already, and an error is in the stream. An error after the first byte is a chunk with the finish reason \`error\`, then an event that holds nothing but \`error\`, then \`[DONE]\`: a stream that breaks off never ends with an invented \`stop\`. Errors before the first byte are real HTTP statuses.

The most the call can cost is held before it is sent, its actual cost is charged when it ends, and the rest of the hold returns. \`usage.cost\` is what was charged.

Custom tools, whose argument is a text, go to providers that know them; to others each is a function with one argument, \`input\`, its grammar in its description, and its calls come back as custom ones. Names of tools and ids of calls that a provider would refuse are changed for it, and changed back.

Unknown fields are tolerated: those that are known to change neither the price nor the length of an answer go on to the provider. Any other field, and a sampling parameter that the route cannot honour, is dropped and named in \`warnings\` (in the header \`x-weir-warnings\` of a stream), or refused where \`strict\` is set.`,
  security: 'key',
  parameters: callHeaders,
  body: chatBody,
  answers: {
    200: {
      description: 'The answer; a stream of chunks where the request asks for one.',
      content: {
        ...json('ChatCompletion', examples.completion),
        'text/event-stream': { ...schemaOf('ChatCompletionChunk'), example: examples.stream },
      },
    },
  },
  errors: ofPaidChat,
  schemas: {
    ChatCompletionRequest: { schema: chatCompletionRequest, fields: requestFields },
    ChatCompletion: chatCompletion,
    ChatCompletionChunk: chatCompletionChunk,
  },
}

export const completion: Operation = {
  id: 'createCompletion',
  tag: 'Chat',
  summary: 'Create a legacy text completion',
  description: `The older form of a chat, for programs that send a \`prompt\`: it becomes the one message of a chat with the model, and the answer's text comes back in \`choices[].text\`. All other fields, holds, charges, receipts, limits and idempotency are those of POST /v1/chat/completions. Without \`max_tokens\` the model ends by itself. What a model thinks before it answers is not returned here.`,
  security: 'key',
  parameters: callHeaders,
  body: {
    'application/json': { ...schemaOf('TextCompletionRequest'), examples: examples.completionRequests },
  },
  answers: {
    200: {
      description: 'The answer; a stream of chunks of the same shape where the request asks for one.',
      content: json('TextCompletion', examples.textCompletion),
    },
  },
  errors: ofPaidChat,
  schemas: {
    TextCompletionRequest: { schema: textCompletionRequest, fields: completionFields },
    TextCompletion: textCompletion,
  },
}

export const embeddings: Operation = {
  id: 'createEmbeddings',
  tag: 'Chat',
  summary: 'Create embeddings',
  description: `Turns texts into vectors, with the models whose \`output_modalities\` are \`embeddings\`.

An array of numbers is one input, the tokens of a text; providers that read texts only refuse it. With \`encoding_format: "base64"\` a vector is the base64 of its little-endian 32-bit floats. Fields that only some providers know, such as \`input_type\` or \`task_type\`, go on to them.`,
  security: 'key',
  parameters: callHeaders,
  body: { 'application/json': { ...schemaOf('EmbeddingRequest'), examples: examples.embeddingRequests } },
  answers: { 200: { description: 'The vectors.', content: json('EmbeddingList', examples.embeddingList) } },
  errors: ofPaidChat,
  schemas: { EmbeddingRequest: embeddingRequest, EmbeddingList: embeddingList },
}

export const estimate: Operation = {
  id: 'estimateCall',
  tag: 'Chat',
  summary: 'Estimate what a call would cost',
  description:
    'Takes the body of a chat completion or of a response. Nothing is called and nothing is charged. A refusal for want of credit is part of the answer.',
  security: 'key',
  body: estimatedBody,
  answers: { 200: { description: 'The estimate.', content: json('Estimate', examples.estimated) } },
  errors: [
    ...ofAnyRequest,
    ...ofCaller,
    ...ofBody,
    ...ofChatBody,
    'previous_response_not_found',
    'rate_limit_exceeded',
    'overloaded',
  ],
  schemas: { Estimate: estimateSchema },
}

export const route: Operation = {
  id: 'explainRoute',
  tag: 'Chat',
  summary: 'Get who would be asked for a chat with a model now, and why',
  description:
    'Nothing is called and nothing charged. For a virtual model: its members that this key may use, in order, how each is doing, and those that are passed over. A conversation stays with the member that has served it, which this does not know of.',
  security: 'key',
  parameters: [
    {
      name: 'model',
      in: 'query',
      required: true,
      description: 'A model, a route or an alias.',
      schema: { type: 'string', maxLength: 200 },
      example: 'sim/echo',
    },
  ],
  answers: {
    200: {
      description: 'Who would be asked.',
      content: json('RouteExplanation', {
        model: 'fast',
        reason: 'order',
        candidates: [
          {
            model: 'sim/echo',
            provider: 'sim',
            upstream_model: 'echo',
            standing: 'healthy',
            latency_ms: 4,
            prompt: '0.0000005',
            completion: '0.000001',
          },
        ],
        passed_over: [{ model: 'sim/fast', reason: 'model_not_allowed' }],
      }),
    },
  },
  errors: [
    ...ofAnyRequest,
    ...ofCaller,
    'invalid_model_id',
    'model_not_found',
    'model_retired',
    'wrong_endpoint',
    'no_provider_available',
    'rate_limit_exceeded',
    'overloaded',
  ],
  schemas: { RouteExplanation: explanationSchema },
}

// The documentation of the catalog.

export const models: Operation = {
  id: 'listModels',
  tag: 'Models',
  summary: 'List the models',
  description:
    'Every model that is sold here; with `available=true` those that can be called now. Beside its price each has who serves it, with the success and the latency of the last hour, at most half a minute old. Needs no key; one that is limited to models is shown these. The answer has an `ETag`, and is compressed for clients that take gzip. A request with an `anthropic-version` or an `x-api-key` header is answered in pages (`limit`, `after_id`, `before_id`) in the shape of Anthropic’s Models API.',
  security: 'none',
  parameters: [
    text('q', 'Only models whose id or name holds this.', 'echo'),
    text('provider', 'Only models of this provider.', 'sim'),
    {
      ...text(
        'available',
        'Only models that can be called now: of providers with a key, and of servers that run.',
      ),
      schema: { enum: ['true', 'false'] },
    },
    { ...text('access', 'Only open, or only premium models.'), schema: { enum: ['open', 'premium'] } },
    text('max_price', 'The most that a million tokens may cost, US dollars.', '2.50'),
    text('supported_parameters', 'Only models that honour all of these, with commas.', 'tools,seed'),
  ],
  answers: {
    200: { description: 'The models.', content: json('ModelList') },
    304: { description: 'The list is still the one that `If-None-Match` names.' },
  },
  errors: [...ofAnyRequest, 'rate_limit_exceeded'],
  schemas: { ModelList: modelListSchema },
}

export const model: Operation = {
  id: 'getModel',
  path: '/v1/models/{provider}/{name}',
  tag: 'Models',
  summary: 'Get one model',
  description: 'Needs no key. The name may itself hold slashes, which may be written as `%2F`.',
  security: 'none',
  parameters: [
    inPath('provider', 'What stands before the first slash of the id.', 'sim'),
    inPath('name', 'The rest of the id.', 'echo'),
  ],
  answers: {
    200: { description: 'The model.', content: json('Model') },
    304: { description: 'The model is still as `If-None-Match` knows it.' },
  },
  errors: [...ofAnyRequest, ...ofModel, 'rate_limit_exceeded'],
  schemas: { Model: listedModelSchema },
}
