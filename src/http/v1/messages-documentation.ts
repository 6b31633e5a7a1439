// The documentation of Anthropic's protocol: its operations, fields and examples.

import { documentedTools } from '../../protocols/request/gateway-tools.ts'
import {
  countTokensRequest,
  message,
  messageEvent,
  messagesRequest,
  tokenCount,
} from '../../protocols/anthropic-messages/inbound/schema.ts'
import {
  callHeaders,
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
import { answered, exactDetails, type Examples, requestFields, river, usage } from './chat-examples.ts'

/** What each field of a request of Anthropic's protocol, and for one whose tokens are counted. */
export const messageFields: Readonly<Record<string, string>> = {
  model:
    'The id of the model: `provider/model_name`, as GET /v1/models lists it. A name without a provider is Anthropic’s: `claude-sonnet-4-5` is `anthropic/claude-sonnet-4-5`.',
  max_tokens: 'The most tokens of output, thinking included. What a call may cost at most follows from it.',
  messages:
    'The conversation so far, oldest first: texts, or blocks of text, images, documents, calls and results.',
  system: 'What the model is told before the conversation.',
  tools:
    'Tools that the model may ask the client to call. Tools that Anthropic defines and the client runs (`bash_…`, `text_editor_…`) are for its own models; for others they are dropped with a warning. Tools that a provider runs are refused, but for those that the gateway runs: ' +
    `${documentedTools('messages')}.`,
  tool_choice: 'Whether and which tools the model must call.',
  thinking: 'Whether the model thinks before it answers, and for how many tokens.',
  output_config: 'How hard to try (`effort`), and the JSON schema that the answer must fit (`format`).',
  output_format: 'The beta name of `output_config.format`.',
  stop_sequences: 'Texts at which the answer ends.',
  stream: requestFields['stream']!,
  temperature: requestFields['temperature']!,
  top_p: requestFields['top_p']!,
  top_k: requestFields['top_k']!,
  metadata: '`user_id` names who the request is made for.',
  service_tier: requestFields['service_tier']!,
  models: 'Further models to try, in this order, when the first cannot answer.',
  provider: requestFields['provider']!,
  max_cost: requestFields['max_cost']!,
  cache: requestFields['cache']!,
  max_tool_calls: requestFields['max_tool_calls']!,
  session_id: requestFields['session_id']!,
  strict: requestFields['strict']!,
  on_disconnect: requestFields['on_disconnect']!,
}

// ---- examples ---------------------------------------------------------------------------------------------

/** Bodies of Anthropic's protocol, each with what it shows. */
export const messageRequests: Examples = {
  whole: { summary: 'A whole answer', value: { model: 'sim/echo', max_tokens: 1024, messages: river } },
  stream: {
    summary: 'A stream, with thinking',
    value: {
      model: 'sim/reason',
      max_tokens: 4096,
      thinking: { type: 'enabled', budget_tokens: 2048 },
      messages: river,
      stream: true,
    },
  },
  tools: {
    summary: 'A tool',
    value: {
      model: 'sim/tools',
      max_tokens: 1024,
      system: [{ type: 'text', text: 'Answer in metres.', cache_control: { type: 'ephemeral' } }],
      messages: [{ role: 'user', content: 'How high is the river at Basel?' }],
      tools: [
        {
          name: 'water_level',
          description: 'The level of a river at a town, in metres.',
          input_schema: {
            type: 'object',
            properties: { town: { type: 'string' } },
            required: ['town'],
          },
        },
      ],
    },
  },
}

const countRequests: Examples = {
  count: { summary: 'A question', value: { model: 'sim/echo', messages: river } },
}

const messageCounters = (input: number, output: number) => ({
  input_tokens: input,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
  cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
  output_tokens: output,
  output_tokens_details: { thinking_tokens: 0 },
  server_tool_use: { web_fetch_requests: 0, web_search_requests: 0 },
  service_tier: 'standard',
  inference_geo: null,
  speed: null,
})

const counted = { ...messageCounters(7, 2), cost: usage.cost, cost_details: exactDetails }

const shownMessage = {
  id: answered.id,
  type: 'message',
  role: 'assistant',
  model: answered.model,
  content: [{ type: 'text', text: 'Hello, river.' }],
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: counted,
}

const messageEvents = [
  {
    type: 'message_start',
    message: { ...shownMessage, content: [], stop_reason: null, usage: messageCounters(0, 0) },
  },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hello, ' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'river.' } },
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: counted },
  { type: 'message_stop' },
]

/** The events as they travel. */
const messageStream = messageEvents
  .map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
  .join('')

// ---- operations -------------------------------------------------------------------------------------------

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

export const messages: Operation = {
  id: 'createMessage',
  tag: 'Chat',
  summary: 'Create a message, in Anthropic’s protocol',
  description: `What POST /v1/chat/completions does, for clients of Anthropic’s Messages protocol, and for every model of the catalog, whatever protocol its provider speaks. Holds, charges, receipts, limits and idempotency are the same.

With \`stream: true\` the answer is a stream of named events: \`message_start\`, then each block of content with its start, deltas and stop, one at a time, then \`message_delta\` with the usage, and \`message_stop\`. After 15 seconds of silence a \`ping\` keeps the connection open. An error after the first byte is an event \`error\`, and nothing follows it.

\`usage\` counts as Anthropic does, cached tokens beside the input; \`usage.cost\` is what was charged, in a stream on its \`message_delta\`. Thinking that another provider’s model did comes in \`thinking\` blocks as well; send their signatures back unchanged.

What the model’s provider has no word for is dropped and named in \`warnings\` (in the header \`x-weir-warnings\` of a stream), or refused where \`strict\` is set. Message threads are refused.`,
  security: 'either',
  parameters: [...anthropicHeaders, ...callHeaders],
  body: { 'application/json': { ...schemaOf('MessagesRequest'), examples: messageRequests } },
  answers: {
    200: {
      description: 'The message; a stream of events where the request asks for one.',
      content: {
        ...json('Message', shownMessage),
        'text/event-stream': { ...schemaOf('MessageEvent'), example: messageStream },
      },
    },
  },
  errors: ofPaidChat,
  errorShape: 'messages',
  schemas: {
    MessagesRequest: { schema: messagesRequest, fields: messageFields },
    Message: message,
    MessageEvent: messageEvent,
  },
}

export const countTokens: Operation = {
  id: 'countMessageTokens',
  tag: 'Chat',
  summary: 'Count the tokens of a message request',
  description:
    'Takes the body of a message request and tells about how many tokens its prompt has. It is an estimate: the gateway counts with one tokenizer (o200k_base) for all models, asks no provider, and Claude’s own count may differ by a fifth. Nothing is charged; it counts as one request where the key or the account has a limit of requests.',
  security: 'either',
  parameters: anthropicHeaders,
  body: { 'application/json': { ...schemaOf('CountTokensRequest'), examples: countRequests } },
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
  schemas: {
    CountTokensRequest: { schema: countTokensRequest, fields: messageFields },
    TokenCount: tokenCount,
  },
}
