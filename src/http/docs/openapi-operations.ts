// What the API documentation says of each route. A route added to routes.ts is added here; a test compares the two.

import type { ErrorCode } from '../../errors.ts'
import { geminiOperations } from './openapi-gemini.ts'
import {
  ofAnyRequest,
  ofBody,
  ofCall,
  ofCaller,
  ofChatBody,
  ofKeyedCall,
  ofModel,
  ofRepeat,
} from './openapi-errors.ts'
import * as examples from './openapi-examples.ts'
import {
  type Content,
  idempotencyKey,
  json,
  type Operation,
  type Parameter,
  schemaOf,
  text,
} from './openapi-operation.ts'
import { requestOperations } from './openapi-requests.ts'
import { responseOperations, responseRequests } from './openapi-responses.ts'

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

const chat: Operation = {
  id: 'createChatCompletion',
  method: 'post',
  route: '/v1/chat/completions',
  tag: 'Chat',
  summary: 'Create a chat completion',
  description: `Sends a conversation to a model and gives its answer, whole or streamed.

With \`stream: true\` the answer is a stream of server-sent events: \`data:\` lines, each a chunk with a \`delta\`, then \`data: [DONE]\`. After 15 seconds of silence a comment line keeps the connection open. An error after the first byte is a chunk with the finish reason \`error\`, then an event that holds nothing but \`error\`, then \`[DONE]\`: a stream that breaks off never ends with an invented \`stop\`. Errors before the first byte are real HTTP statuses.

The most the call can cost is held before it is sent, its actual cost is charged when it ends, and the rest of the hold returns. \`usage.cost\` is what was charged.

Unknown fields are tolerated: those that are known to change neither the price nor the length of an answer go on to the provider. Any other field, and a sampling parameter that the route cannot honour, is dropped and named in \`warnings\` (in the header \`x-weir-warnings\` of a stream), or refused where \`strict\` is set.`,
  security: 'key',
  parameters: idempotencyKey,
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
  errors: [...ofAnyRequest, ...ofCaller, ...ofBody, ...ofChatBody, ...ofKeyedCall, ...ofCall, ...ofRepeat],
}

const completion: Operation = {
  id: 'createCompletion',
  method: 'post',
  route: '/v1/completions',
  tag: 'Chat',
  summary: 'Create a legacy text completion',
  description: `The older form of a chat, for programs that send a \`prompt\`: it becomes the one message of a chat with the model, and the answer's text comes back in \`choices[].text\`. All other fields, holds, charges, receipts, limits and idempotency are those of POST /v1/chat/completions. Without \`max_tokens\` the model ends by itself. What a model thinks before it answers is not returned here.`,
  security: 'key',
  parameters: idempotencyKey,
  body: {
    'application/json': { ...schemaOf('TextCompletionRequest'), examples: examples.completionRequests },
  },
  answers: {
    200: {
      description: 'The answer; a stream of chunks of the same shape where the request asks for one.',
      content: json('TextCompletion', examples.textCompletion),
    },
  },
  errors: [...ofAnyRequest, ...ofCaller, ...ofBody, ...ofChatBody, ...ofKeyedCall, ...ofCall, ...ofRepeat],
}

const anthropicHeaders: readonly Parameter[] = [
  {
    name: 'anthropic-version',
    in: 'header',
    description: 'Any version is taken, and none.',
    schema: { type: 'string' },
    example: '2023-06-01',
  },
  {
    name: 'anthropic-beta',
    in: 'header',
    description: 'Features to ask Anthropic for, with commas between them. Other providers are not told.',
    schema: { type: 'string' },
  },
]

const messages: Operation = {
  id: 'createMessage',
  method: 'post',
  route: '/v1/messages',
  tag: 'Chat',
  summary: 'Create a message, in Anthropic’s protocol',
  description: `What POST /v1/chat/completions does, for clients of Anthropic’s Messages protocol, and for every model of the catalog, whatever protocol its provider speaks. Holds, charges, receipts, limits and idempotency are the same.

With \`stream: true\` the answer is a stream of named events: \`message_start\`, then each block of content with its start, deltas and stop, one at a time, then \`message_delta\` with the usage, and \`message_stop\`. After 15 seconds of silence a \`ping\` keeps the connection open. An error after the first byte is an event \`error\`, and nothing follows it.

\`usage\` counts as Anthropic does, cached tokens beside the input; \`usage.cost\` is what was charged, in a stream on its \`message_delta\`. Thinking that another provider’s model did comes in \`thinking\` blocks as well; send their signatures back unchanged.

What the model’s provider has no word for is dropped and named in \`warnings\` (in the header \`x-weir-warnings\` of a stream), or refused where \`strict\` is set. Message threads are refused.`,
  security: 'either',
  parameters: [...anthropicHeaders, ...idempotencyKey],
  body: { 'application/json': { ...schemaOf('MessagesRequest'), examples: examples.messageRequests } },
  answers: {
    200: {
      description: 'The message; a stream of events where the request asks for one.',
      content: {
        ...json('Message', examples.message),
        'text/event-stream': { ...schemaOf('MessageEvent'), example: examples.messageStream },
      },
    },
  },
  errors: [...ofAnyRequest, ...ofCaller, ...ofBody, ...ofChatBody, ...ofKeyedCall, ...ofCall, ...ofRepeat],
  errorShape: 'messages',
}

const countTokens: Operation = {
  id: 'countMessageTokens',
  method: 'post',
  route: '/v1/messages/count_tokens',
  tag: 'Chat',
  summary: 'Count the tokens of a message request',
  description:
    'Takes the body of a message request and tells about how many tokens its prompt has. It is an estimate: the gateway counts with one tokenizer (o200k_base) for all models, asks no provider, and Claude’s own count may differ by a fifth. Nothing is charged; it counts as one request where the key or the account has a limit of requests.',
  security: 'either',
  parameters: anthropicHeaders,
  body: { 'application/json': { ...schemaOf('CountTokensRequest'), examples: examples.countRequests } },
  answers: { 200: { description: 'The count.', content: json('TokenCount', { input_tokens: 8 }) } },
  errors: [
    ...ofAnyRequest,
    ...ofCaller,
    ...ofBody,
    ...ofModel,
    'wrong_endpoint',
    'account_suspended',
    'model_not_allowed',
    'rate_limit_exceeded',
    'overloaded',
  ],
  errorShape: 'messages',
}

const estimate: Operation = {
  id: 'estimateCall',
  method: 'post',
  route: '/v1/estimate',
  tag: 'Chat',
  summary: 'Estimate what a call would cost',
  description:
    'Takes the body of a chat completion or of a response. Nothing is called and nothing is charged. A refusal for want of credit is part of the answer.',
  security: 'key',
  body: estimatedBody,
  answers: { 200: { description: 'The estimate.', content: json('Estimate', examples.estimated) } },
  errors: [...ofAnyRequest, ...ofCaller, ...ofBody, ...ofChatBody, 'previous_response_not_found'],
}

const embeddings: Operation = {
  id: 'createEmbeddings',
  method: 'post',
  route: '/v1/embeddings',
  tag: 'Chat',
  summary: 'Create embeddings',
  description: `Turns texts into vectors, with the models whose \`output_modalities\` are \`embeddings\`.

An array of numbers is one input, the tokens of a text; providers that read texts only refuse it. With \`encoding_format: "base64"\` a vector is the base64 of its little-endian 32-bit floats. Fields that only some providers know, such as \`input_type\` or \`task_type\`, go on to them.`,
  security: 'key',
  parameters: idempotencyKey,
  body: { 'application/json': { ...schemaOf('EmbeddingRequest'), examples: examples.embeddingRequests } },
  answers: { 200: { description: 'The vectors.', content: json('EmbeddingList', examples.embeddingList) } },
  errors: [...ofAnyRequest, ...ofCaller, ...ofBody, ...ofChatBody, ...ofKeyedCall, ...ofCall, ...ofRepeat],
}

const generation: Operation = {
  id: 'getGeneration',
  method: 'get',
  route: '/v1/generation',
  tag: 'Chat',
  summary: 'Get the receipt of a call',
  description:
    'Every line is quantity × rate = amount, the lines add up to the total, and what the lots paid adds up to what was charged. Complete in the same second as the answer.',
  security: 'key',
  parameters: [
    {
      ...text(
        'id',
        'The `x-request-id` of the call, the id of its response, or the id that its provider gave it.',
      ),
      required: true,
    },
  ],
  answers: { 200: { description: 'The receipt.', content: json('Receipt', examples.receipt) } },
  errors: [...ofAnyRequest, ...ofCaller, 'not_found'],
}

const models: Operation = {
  id: 'listModels',
  method: 'get',
  route: '/v1/models',
  tag: 'Models',
  summary: 'List the models',
  description:
    'Every model that is sold here; with `available=true` those that can be called now. Needs no key. The answer has an `ETag`, and is compressed for clients that take gzip. A request with an `anthropic-version` or an `x-api-key` header is answered in pages (`limit`, `after_id`, `before_id`) in the shape of Anthropic’s Models API.',
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
  errors: ofAnyRequest,
}

const model: Operation = {
  id: 'getModel',
  method: 'get',
  route: '/v1/models/*',
  path: '/v1/models/{provider}/{name}',
  tag: 'Models',
  summary: 'Get one model',
  description: 'Needs no key. The name may itself hold slashes, which may be written as `%2F`.',
  security: 'none',
  parameters: [
    {
      name: 'provider',
      in: 'path',
      required: true,
      description: 'What stands before the first slash of the id.',
      schema: { type: 'string' },
      example: 'sim',
    },
    {
      name: 'name',
      in: 'path',
      required: true,
      description: 'The rest of the id.',
      schema: { type: 'string' },
      example: 'echo',
    },
  ],
  answers: {
    200: { description: 'The model.', content: json('Model') },
    304: { description: 'The model is still as `If-None-Match` knows it.' },
  },
  errors: [...ofAnyRequest, ...ofModel],
}

const credits: Operation = {
  id: 'getCredits',
  method: 'get',
  route: '/v1/credits',
  tag: 'Account',
  summary: 'Get the credit of the account',
  description: 'By pool and by lot. One credit is one US dollar of model usage.',
  security: 'key',
  answers: { 200: { description: 'The credit.', content: json('Credits', examples.credits) } },
  errors: [...ofAnyRequest, ...ofCaller],
}

/** The same operation for a signed-in account. */
function inApp(operation: Operation): Operation {
  const ofKeys: ReadonlySet<ErrorCode> = new Set(ofKeyedCall)
  return {
    ...operation,
    id: `${operation.id}InApp`,
    route: `/app${operation.route}`,
    ...(operation.path === undefined ? {} : { path: `/app${operation.path}` }),
    tag: 'App',
    summary: `${operation.summary}, from the app`,
    description: `As \`${operation.path ?? operation.route}\`, for the account of the session.`,
    security: 'session',
    errors: [...operation.errors.filter((code) => !ofKeys.has(code)), ...ofCaller],
  }
}

const { create, retrieve, remove, inputItems } = responseOperations
const createResponse: Operation = { ...create, parameters: idempotencyKey }

export const operations: readonly Operation[] = [
  chat,
  completion,
  messages,
  countTokens,
  ...geminiOperations,
  createResponse,
  retrieve,
  remove,
  inputItems,
  embeddings,
  estimate,
  generation,
  models,
  model,
  {
    id: 'getKey',
    method: 'get',
    route: '/v1/key',
    tag: 'Account',
    summary: 'Get the calling key',
    description: 'Its label, its limits, and what it has spent.',
    security: 'key',
    answers: { 200: { description: 'The key.', content: json('Key', examples.key) } },
    errors: [...ofAnyRequest, ...ofCaller],
  },
  credits,
  ...requestOperations,
  inApp(chat),
  inApp(createResponse),
  inApp(retrieve),
  inApp(remove),
  inApp(inputItems),
  inApp(estimate),
  inApp(models),
  inApp(model),
  inApp(credits),
  inApp(generation),
  {
    id: 'listProviders',
    method: 'get',
    route: '/v1/providers',
    tag: 'Service',
    summary: 'List the providers',
    description: 'The providers that can be called, and how each has been doing as this process has seen it.',
    security: 'key',
    answers: { 200: { description: 'The providers.', content: json('ProviderList', examples.providers) } },
    errors: [...ofAnyRequest, ...ofCaller],
  },
  {
    id: 'listErrors',
    method: 'get',
    route: '/v1/errors',
    tag: 'Service',
    summary: 'List the errors',
    description:
      'Every error code, what it means and what to do. For people: [the error reference](/docs/errors).',
    security: 'none',
    answers: { 200: { description: 'The errors.', content: json('ErrorList') } },
    errors: ofAnyRequest,
  },
  {
    id: 'getHealth',
    method: 'get',
    route: '/healthz',
    tag: 'Service',
    summary: 'Ask whether the process is alive',
    description: 'For liveness probes: restart the process when this fails.',
    security: 'none',
    answers: { 200: { description: 'It is.', content: json('Alive', { status: 'ok' }) } },
    errors: [],
  },
  {
    id: 'getReadiness',
    method: 'get',
    route: '/readyz',
    tag: 'Service',
    summary: 'Ask whether calls can be served',
    description: 'For readiness probes: send no calls while this fails.',
    security: 'none',
    answers: {
      200: {
        description: 'They can.',
        content: json('Readiness', { status: 'ready', store: 'writable', draining: false }),
      },
      503: {
        description: 'The database cannot be written, or the gateway is stopping.',
        content: json('Readiness', { status: 'not ready', store: 'unavailable', draining: false }),
      },
    },
    errors: [],
  },
]
