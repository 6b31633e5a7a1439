// What the API documentation says of responses: their routes, their fields, and requests that work as they stand.

import type { z } from 'zod'
import { compactionObject } from '../../protocols/openai-responses/inbound/items.ts'
import { documentedTools } from '../../protocols/request/gateway-tools.ts'
import {
  deletedResponse,
  inputTokenCount,
  responseEvent,
  responseItemList,
  responseObject,
  responsesRequest,
} from '../../protocols/openai-responses/inbound/schema.ts'
import {
  conversationChanges,
  conversationItem,
  conversationObject,
  deletedConversation,
  newConversation,
  newItems,
} from './conversations.ts'
import {
  callHeaders,
  type Content,
  inPath,
  json,
  ofAnyRequest,
  ofBody,
  ofCaller,
  ofModel,
  ofPaidChat,
  type Operation,
  type Parameter,
  schemaOf,
} from '../docs/operation.ts'
import { answered, requestFields, river, usage as chatUsage } from './chat-examples.ts'

/** Fields that mean the same as in chat completions. */
const shared = [
  'model',
  'stream',
  'temperature',
  'top_p',
  'top_k',
  'presence_penalty',
  'frequency_penalty',
  'parallel_tool_calls',
  'prompt_cache_retention',
  'prompt_cache_options',
  'service_tier',
  'safety_identifier',
  'prompt_cache_key',
  'user',
  'models',
  'provider',
  'max_cost',
  'cache',
  'max_tool_calls',
  'session_id',
  'strict',
  'on_disconnect',
] as const

/** What each field of the request does. A test keeps the list complete. */
export const responseFields: Readonly<Record<string, string>> = {
  ...Object.fromEntries(shared.map((field) => [field, requestFields[field]!])),
  input: 'What the model is asked: a text, or items (messages, calls and their results, reasoning).',
  instructions: 'What the model is told before all input. A later response does not inherit it.',
  conversation:
    'The conversation (`/v1/conversations`) that the response belongs to, an id or `{id}`: its items come first, and input and output are added to it when the response is complete.',
  previous_response_id:
    'Continues the conversation that ends with this stored response: its input and output come first.',
  store: 'Whether the response is kept, to be asked for and continued; true unless it says otherwise.',
  include:
    '`reasoning.encrypted_content` gives the reasoning in a form to be sent back, for clients that keep everything themselves; `message.output_text.logprobs` gives the probabilities of tokens.',
  max_output_tokens:
    'The most tokens of output, reasoning included. What a call may cost at most follows from it.',
  top_logprobs: 'How many alternatives to tell of for each token, where `include` asks for probabilities.',
  tools:
    'Functions that the model may ask the client to call, and tools that the gateway runs itself: ' +
    `${documentedTools('openai')}.`,
  tool_choice: 'Whether and which tools the model must call.',
  reasoning: 'How long the model thinks, and whether a summary of it is wanted.',
  text: 'The format of the answer, text or JSON that fits a schema, and how long it should be.',
  truncation: '`auto` is not honoured: input that is too long for the model is refused.',
  background:
    '`true` answers at once with a response that is `queued` and makes it behind the client’s back: GET asks how it stands, `/cancel` ends it. It needs `store`.',
  metadata: 'Facts of the client about the response, which it tells back.',
  usage: 'Not needed: every response ends with its usage.',
}

// ---- examples ---------------------------------------------------------------------------------------------

const [{ content: words }] = river

/** Bodies, each with what it shows. */
export const responseRequests: Readonly<
  Record<string, { readonly summary: string; readonly value: object }>
> = {
  whole: { summary: 'A whole answer', value: { model: 'sim/echo', input: words } },
  stream: { summary: 'A stream', value: { model: 'sim/echo', input: words, stream: true } },
  tools: {
    summary: 'A function',
    value: {
      model: 'sim/tools',
      input: 'How high is the river at Basel?',
      tools: [
        {
          type: 'function',
          name: 'water_level',
          description: 'The level of a river at a town, in metres.',
          parameters: { type: 'object', properties: { town: { type: 'string' } }, required: ['town'] },
        },
      ],
    },
  },
  schema: {
    summary: 'JSON that fits a schema',
    value: {
      model: 'sim/json',
      input: 'Describe a river.',
      text: {
        format: {
          type: 'json_schema',
          name: 'river',
          schema: {
            type: 'object',
            properties: { name: { type: 'string' }, kilometres: { type: 'integer' } },
            required: ['name', 'kilometres'],
          },
        },
      },
    },
  },
  stateless: {
    summary: 'Reasoning that the client keeps, and nobody else',
    value: {
      model: 'sim/reason',
      input: 'Why is the sky blue?',
      store: false,
      include: ['reasoning.encrypted_content'],
    },
  },
}

const id = answered.id.replace('req_', 'resp_')
const message = {
  id: `msg_${id.slice('resp_'.length)}_0`,
  type: 'message',
  status: 'completed',
  role: 'assistant',
  content: [{ type: 'output_text', text: words, annotations: [], logprobs: [] }],
}

const { cost, server_tool_use } = chatUsage
const {
  upstream_inference_prompt_cost: upstream_inference_input_cost,
  upstream_inference_completions_cost: upstream_inference_output_cost,
  ...sharedDetails
} = chatUsage.cost_details
const cost_details = { ...sharedDetails, upstream_inference_input_cost, upstream_inference_output_cost }

const response = {
  id,
  object: 'response',
  created_at: answered.created,
  completed_at: answered.created,
  status: 'completed',
  error: null,
  incomplete_details: null,
  instructions: null,
  model: answered.model,
  tools: [],
  tool_choice: 'auto',
  parallel_tool_calls: true,
  output: [message],
  usage: {
    input_tokens: chatUsage.prompt_tokens,
    input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
    output_tokens: chatUsage.completion_tokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: chatUsage.total_tokens,
    cost,
    cost_details,
    server_tool_use,
  },
  metadata: null,
  temperature: null,
  top_p: null,
  presence_penalty: null,
  frequency_penalty: null,
  top_logprobs: null,
  reasoning: { effort: null, summary: null },
  text: { format: { type: 'text' } },
  truncation: 'disabled',
  max_output_tokens: null,
  max_tool_calls: null,
  previous_response_id: null,
  store: true,
  background: false,
  service_tier: null,
  safety_identifier: null,
  prompt_cache_key: null,
}

const compacted = {
  id,
  object: 'response.compaction',
  created_at: answered.created,
  model: answered.model,
  status: 'completed',
  incomplete_details: null,
  output: [
    { type: 'message', role: 'user', content: river },
    {
      type: 'compaction',
      id: id.replace('resp_', 'cmp_'),
      encrypted_content: 'weir.eyJzdW1tYXJ5Ijoi4oCmIn0',
    },
  ],
  usage: response.usage,
}

/** What begins and ends a stream, and what is most of it, as they travel. */
const stream = [
  {
    type: 'response.created',
    sequence_number: 0,
    response: { ...response, status: 'in_progress', completed_at: null, output: [], usage: null },
  },
  {
    type: 'response.output_text.delta',
    sequence_number: 4,
    item_id: message.id,
    output_index: 0,
    content_index: 0,
    delta: 'Hello, ',
    logprobs: [],
  },
  { type: 'response.completed', sequence_number: 9, response },
]
  .map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
  .join('')

const question = {
  id: `msg_${id.slice('resp_'.length)}_in0`,
  type: 'message',
  status: 'completed',
  role: 'user',
  content: [{ type: 'input_text', text: words }],
}

// ---- operations -------------------------------------------------------------------------------------------

const responseBody: Content = {
  'application/json': { ...schemaOf('ResponseRequest'), examples: responseRequests },
}

export const createResponse: Operation = {
  id: 'createResponse',
  tag: 'Responses',
  summary: 'Create a response',
  description: `As chat completions, in the Responses protocol, for every model whatever its provider speaks.

With \`stream: true\` the answer is a stream of server-sent events, named as their \`type\` and numbered from 0: items begin, grow and end, and exactly one of \`response.completed\`, \`response.incomplete\` and \`response.failed\` ends it. There is no \`[DONE]\`. An error after the first byte is an \`error\` event, then \`response.failed\`.

A client that asks this address for a WebSocket (GET, with the same \`Authorization\`) sends \`{"type": "response.create", …}\` with the same fields and gets the events as frames, one response after another; \`stream_id\` names up to eight lanes with a response each. A refusal is a frame \`{"type": "error", "status", "error"}\`, and the socket stays open. What is not stored can be continued by its id on the same socket. \`generate: false\` checks and remembers a request without asking a model, free of charge.

A response is stored unless \`store\` is false, with its input: \`previous_response_id\` continues it, GET gives it again, DELETE forgets it. It can be asked for as soon as it is complete. One that is too large to be stored says \`store: false\`. Without storing, \`include: ["reasoning.encrypted_content"]\` gives the reasoning in a form that is sent back with the output.

Tools that the client runs may be functions, custom tools (a text, with a grammar or without), \`local_shell\`, \`shell\` where the client is, \`apply_patch\`, \`tool_search\`, and namespaces of functions and custom tools; items of type \`additional_tools\` declare more, and what a search has found is offered from then on. Providers that know them are sent them as they are. To others each is a function, a custom tool one whose only argument is the text \`input\` and whose grammar is in its description; calls come back as they were declared. Tools and items of other types are refused by name. A \`compaction_trigger\` at the end of the input has the conversation compacted: by the provider where it can, else by the model, whose summary is in the \`compaction\` item.`,
  security: 'key',
  parameters: callHeaders,
  body: responseBody,
  answers: {
    200: {
      description: 'The response; a stream of events where the request asks for one.',
      content: {
        ...json('Response', response),
        'text/event-stream': { ...schemaOf('ResponseEvent'), example: stream },
      },
    },
  },
  errors: [...ofPaidChat, 'previous_response_not_found'],
  schemas: {
    ResponseRequest: { schema: responsesRequest, fields: responseFields },
    Response: responseObject,
    ResponseEvent: responseEvent,
  },
}

export const compactConversation: Operation = {
  id: 'compactConversation',
  path: '/v1/responses/compact',
  tag: 'Responses',
  summary: 'Compact a conversation',
  description:
    'Takes the body of a request for a response, with the conversation as `input` or by `previous_response_id`, and has its model summarise it. `output` is sent as the input of the next request, in place of all before it: what the user and the developer said, word by word, and an item `compaction` with the summary, which every model of this gateway can go on with. It is charged as a response of that model, and stores nothing. Tools of the request are not used. Where no whole summary came (`status: "incomplete"`), `output` is the conversation as it was.',
  security: 'key',
  parameters: callHeaders,
  body: responseBody,
  answers: { 200: { description: 'The compacted conversation.', content: json('Compaction', compacted) } },
  errors: [...ofPaidChat, 'previous_response_not_found'],
  schemas: {
    ResponseRequest: { schema: responsesRequest, fields: responseFields },
    Compaction: compactionObject,
  },
}

export const countInputTokens: Operation = {
  id: 'countInputTokens',
  path: '/v1/responses/input_tokens',
  tag: 'Responses',
  summary: 'Count the tokens of a response’s input',
  description:
    'Takes the body of a request for a response and tells about how many tokens its prompt has, with the conversation that it continues. It is an estimate: the gateway counts with one tokenizer (o200k_base) for all models and asks no provider. Nothing is charged and nothing is stored; it counts as one request where the key or the account has a limit of requests.',
  security: 'key',
  body: responseBody,
  answers: {
    200: {
      description: 'The count.',
      content: json('InputTokenCount', { object: 'response.input_tokens', input_tokens: 8 }),
    },
  },
  errors: [
    ...ofAnyRequest,
    ...ofCaller,
    ...ofBody,
    ...ofModel,
    'unsupported_parameter',
    'previous_response_not_found',
    'wrong_endpoint',
    'account_suspended',
    'model_not_allowed',
    'rate_limit_exceeded',
    'overloaded',
  ],
  schemas: {
    ResponseRequest: { schema: responsesRequest, fields: responseFields },
    InputTokenCount: inputTokenCount,
  },
}

const ofStored = [...ofAnyRequest, ...ofCaller, 'not_found'] as const

const idInPath: Parameter = inPath('id', 'The id of the response.')

const include: Parameter = {
  name: 'include',
  in: 'query',
  description: '`reasoning.encrypted_content` gives the reasoning in a form to be sent back.',
  schema: { type: 'array', items: { type: 'string' } },
}

const ofPage: readonly Parameter[] = [
  {
    name: 'limit',
    in: 'query',
    description: 'How many items at once.',
    schema: { type: 'integer', minimum: 1, maximum: 100, default: 20 },
  },
  {
    name: 'order',
    in: 'query',
    description: 'Latest first, or oldest first.',
    schema: { enum: ['desc', 'asc'], default: 'desc' },
  },
  {
    name: 'after',
    in: 'query',
    description: 'The id of the last item of the page before.',
    schema: { type: 'string' },
  },
]

const stored = {
  path: '/v1/responses/{id}',
  tag: 'Responses',
  security: 'key',
} as const

export const getResponse: Operation = {
  ...stored,
  id: 'getResponse',
  summary: 'Get a stored response',
  description:
    'As it was answered. A key gets, continues and deletes those of its own line (itself, the keys it replaces, those that replace it), and those of the whole account if it was made with `sees: all`. They expire after 30 days. One in the background is given as it stands; with `stream=true` its events are given from the beginning, or behind the one with the number `starting_after`, to the last, also of one that was interrupted by a restart of the gateway, which ends it as `failed`.',
  parameters: [idInPath, include],
  answers: { 200: { description: 'The response.', content: json('Response', response) } },
  errors: [...ofStored, 'unsupported_parameter'],
  schemas: { Response: responseObject },
}

export const openResponseSocket: Operation = {
  id: 'openResponseSocket',
  tag: 'Responses',
  summary: 'Create responses over a WebSocket',
  description:
    'Asked for a WebSocket, with the headers of a handshake and the key as for POST: see there for its frames. Any other GET is refused with 405.',
  security: 'key',
  answers: { 101: { description: 'The socket is open.' } },
  errors: [
    ...ofAnyRequest,
    ...ofCaller,
    'account_suspended',
    'rate_limit_exceeded',
    'overloaded',
    'websocket_disabled',
  ],
}

export const cancelResponse: Operation = {
  ...stored,
  id: 'cancelResponse',
  path: '/v1/responses/{id}/cancel',
  summary: 'Cancel a response in the background',
  description:
    'Ends the work of its provider. It is charged for what it came to; one that has ended before stays as it is.',
  parameters: [idInPath],
  answers: {
    200: {
      description: 'The response as it stands.',
      content: json('Response', { ...response, background: true }),
    },
  },
  errors: ofStored,
  schemas: { Response: responseObject },
}

export const deleteResponse: Operation = {
  ...stored,
  id: 'deleteResponse',
  summary: 'Delete a stored response',
  description: 'Forgets it and its input. What continues it can no longer be continued; the receipt stays.',
  parameters: [idInPath],
  answers: {
    200: {
      description: 'It is gone.',
      content: json('DeletedResponse', { id, object: 'response', deleted: true }),
    },
  },
  errors: ofStored,
  schemas: { DeletedResponse: deletedResponse },
}

export const listInputItems: Operation = {
  ...stored,
  id: 'listInputItems',
  path: '/v1/responses/{id}/input_items',
  summary: 'List the input of a stored response',
  description: 'All items that it was made from, those of the conversation it continues included.',
  parameters: [idInPath, ...ofPage, include],
  answers: {
    200: {
      description: 'The items.',
      content: json('ResponseItemList', {
        object: 'list',
        data: [question],
        first_id: question.id,
        last_id: question.id,
        has_more: false,
      }),
    },
  },
  errors: ofStored,
  schemas: { ResponseItemList: responseItemList },
}

// Conversations.

const itemInPath: Parameter = inPath('item', 'The id of the item.')

const conversation = {
  id: 'conv_01998a6e5b0a7f53a1d9c4a2f1e0b3c4',
  object: 'conversation',
  created_at: 1786000000,
  metadata: {},
}
const said = { type: 'message', role: 'user', content: 'Hello, river.' }
const keptItem = {
  ...said,
  id: 'msg_01998a6e5b0a7f53a1d9c4a2f1e0b3c4_0',
  status: 'completed',
  content: [{ type: 'input_text', text: said.content }],
}
const keptItems = {
  object: 'list',
  data: [keptItem],
  first_id: keptItem.id,
  last_id: keptItem.id,
  has_more: false,
}

const ofConversation = (
  id: string,
  path: string,
  summary: string,
  description: string,
  answer: { readonly schema: string; readonly example: object; readonly of: z.ZodType },
  body?: { readonly schema: string; readonly example: object; readonly of: z.ZodType },
): Operation => ({
  id,
  path: `/v1/conversations${path}`,
  tag: 'Responses',
  summary,
  description,
  security: 'key',
  parameters: [
    ...(path.includes('{id}') ? [{ ...idInPath, description: 'The id of the conversation.' }] : []),
    ...(path.includes('{item}') ? [itemInPath] : []),
    ...(id === 'listConversationItems' ? [...ofPage, include] : []),
  ],
  ...(body && { body: json(body.schema, body.example) }),
  answers: { 200: { description: summary, content: json(answer.schema, answer.example) } },
  errors: body === undefined ? ofStored : [...ofStored, ...ofBody, 'unsupported_parameter'],
  schemas: { [answer.schema]: answer.of, ...(body && { [body.schema]: body.of }) },
})

const one = { schema: 'Conversation', example: conversation, of: conversationObject }
const many = { schema: 'ResponseItemList', example: keptItems, of: responseItemList }

/** By the names of their handlers. */
export const conversations = {
  createConversation: ofConversation(
    'createConversation',
    '',
    'Create a conversation',
    'With up to 20 items to begin with. It is forgotten when no response has been added to it for 30 days.',
    one,
    {
      schema: 'NewConversation',
      example: { items: [said], metadata: { topic: 'rivers' } },
      of: newConversation,
    },
  ),
  showConversation: ofConversation(
    'getConversation',
    '/{id}',
    'Get a conversation',
    'Without its items.',
    one,
  ),
  changeConversation: ofConversation(
    'updateConversation',
    '/{id}',
    'Change the metadata of a conversation',
    'They replace those it has.',
    one,
    { schema: 'ConversationChanges', example: { metadata: { topic: 'lakes' } }, of: conversationChanges },
  ),
  deleteConversation: ofConversation(
    'deleteConversation',
    '/{id}',
    'Delete a conversation',
    'With its items. The responses that were made in it stay.',
    {
      schema: 'DeletedConversation',
      example: { id: conversation.id, object: 'conversation.deleted', deleted: true },
      of: deletedConversation,
    },
  ),
  listItems: ofConversation(
    'listConversationItems',
    '/{id}/items',
    'List the items of a conversation',
    'The last first, unless `order` says otherwise.',
    many,
  ),
  addItems: ofConversation(
    'addConversationItems',
    '/{id}/items',
    'Add items to a conversation',
    'Up to 20 at once, behind those that it has.',
    many,
    { schema: 'NewConversationItems', example: { items: [said] }, of: newItems },
  ),
  showItem: ofConversation(
    'getConversationItem',
    '/{id}/items/{item}',
    'Get an item of a conversation',
    'As it is kept.',
    { schema: 'ConversationItem', example: keptItem, of: conversationItem },
  ),
  deleteItem: ofConversation(
    'deleteConversationItem',
    '/{id}/items/{item}',
    'Delete an item of a conversation',
    'Later responses do not see it.',
    one,
  ),
}
