// Requests and answers to show: every request works as it stands with the simulator, on a gateway without any key.

import { documentedTools } from '../../protocols/request/gateway-tools.ts'
import { chatOnly } from '../../protocols/openai-completions/inbound.ts'

export const river = [{ role: 'user', content: 'Hello, river.' }] as const

export const answered = {
  id: 'req_01a1fcaa216272aa8d5548c4e8af6c09',
  created: 1795240370,
  model: 'sim/echo',
}

/** What every protocol says of the cost; chats and responses say more. */
export const exactDetails = {
  input: '0.0000035',
  cache_read: '0',
  cache_write: '0',
  output: '0.000004',
  reasoning: '0',
  tools: '0',
  total: '0.0000075',
}

export const usage = {
  prompt_tokens: 7,
  completion_tokens: 2,
  total_tokens: 9,
  prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 0, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0 },
  cost: 0.0000075,
  cost_details: {
    ...exactDetails,
    upstream_inference_cost: null,
    upstream_inference_prompt_cost: 0.0000035,
    upstream_inference_completions_cost: 0.000004,
    server_tool_cost: 0,
  },
  server_tool_use: { web_search_requests: 0 },
}

export type Examples = Readonly<Record<string, { readonly summary: string; readonly value: object }>>

/** Bodies of legacy text completions. */
export const completionRequests: Examples = {
  whole: { summary: 'A whole answer', value: { model: 'sim/echo', prompt: 'Hello, river.' } },
  stream: {
    summary: 'A stream, with its usage',
    value: {
      model: 'sim/echo',
      prompt: 'Hello, river.',
      stream: true,
      stream_options: { include_usage: true },
    },
  },
}

export const textCompletion = {
  ...answered,
  object: 'text_completion',
  choices: [{ index: 0, text: 'Hello, river.', logprobs: null, finish_reason: 'stop' }],
  usage,
}

/** Bodies of chat completions and of estimates, each with what it shows. */
export const chatRequests: Examples = {
  whole: { summary: 'A whole answer', value: { model: 'sim/echo', messages: river } },
  stream: {
    summary: 'A stream, with its usage',
    value: { model: 'sim/echo', messages: river, stream: true, stream_options: { include_usage: true } },
  },
  tools: {
    summary: 'A tool',
    value: {
      model: 'sim/tools',
      messages: [{ role: 'user', content: 'How high is the river at Basel?' }],
      tools: [
        {
          type: 'function',
          function: {
            name: 'water_level',
            description: 'The level of a river at a town, in metres.',
            parameters: {
              type: 'object',
              properties: { town: { type: 'string' } },
              required: ['town'],
            },
          },
        },
      ],
    },
  },
  schema: {
    summary: 'JSON that fits a schema',
    value: {
      model: 'sim/json',
      messages: [{ role: 'user', content: 'Describe a river.' }],
      response_format: {
        type: 'json_schema',
        json_schema: {
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
  capped: {
    summary: 'A cap on the cost, and a model to fall back to',
    value: {
      model: 'sim/error-500',
      models: ['sim/echo'],
      messages: river,
      max_cost: '0.01',
    },
  },
}

export const completion = {
  ...answered,
  object: 'chat.completion',
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: 'Hello, river.', refusal: null, annotations: [] },
      logprobs: null,
      finish_reason: 'stop',
    },
  ],
  usage,
}

/** The chunks of a stream with usage, as objects. */
const chunks = [
  choice({ role: 'assistant', content: '' }, null),
  choice({ content: 'Hello, ' }, null),
  choice({ content: 'river.' }, null),
  choice({}, 'stop'),
  { ...answered, object: 'chat.completion.chunk', choices: [], usage },
]

function choice(delta: object, finish: string | null) {
  return {
    ...answered,
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta, finish_reason: finish }],
    usage: null,
  }
}

/** The same as it travels. */
export const stream = [...chunks.map((chunk) => JSON.stringify(chunk)), '[DONE]']
  .map((data) => `data: ${data}\n\n`)
  .join('')

export const embeddingRequests = {
  text: { summary: 'One text', value: { model: 'sim/embed', input: 'The river runs.', dimensions: 3 } },
  texts: {
    summary: 'Several texts, in base64',
    value: { model: 'sim/embed', input: ['The river', 'The sea'], dimensions: 3, encoding_format: 'base64' },
  },
}

export const embeddingList = {
  object: 'list',
  data: [{ object: 'embedding', index: 0, embedding: [0.2672612, 0.5345225, 0.8017837] }],
  model: 'sim/embed',
  usage: {
    prompt_tokens: 4,
    total_tokens: 4,
    cost: 8e-8,
    cost_details: {
      ...usage.cost_details,
      input: '0.00000008',
      output: '0',
      total: '0.00000008',
      upstream_inference_prompt_cost: 8e-8,
      upstream_inference_completions_cost: 0,
    },
  },
}

export const estimated = {
  model: 'sim/echo',
  prompt_tokens: { expected: 9, maximum: 26 },
  low: '0.0000065',
  expected: '0.0010045',
  maximum: '0.131085',
  affordable_output_tokens: 49_999_994,
  pool: 'purchased',
}

// What each field of a chat request does, for the API documentation. A test keeps the list complete.

/** By field name. OpenAI's own fields are described briefly, the gateway's in full. */
export const requestFields: Readonly<Record<string, string>> = {
  model:
    'The id of the model: `provider/model_name`, as GET /v1/models lists it. Where it is missing, `models` names it.',
  messages: 'The conversation so far, oldest first.',
  stream: 'Whether the answer comes as server-sent events while it is being written.',
  stream_options:
    'With `include_usage: true` a stream ends with one chunk that holds `usage` and no choices.',
  max_tokens: 'The most tokens of output. What a call may cost at most follows from it.',
  max_completion_tokens: 'The same, under its newer name.',
  temperature: 'How freely the model chooses; 0 is the least.',
  top_p: 'Chooses among the likeliest tokens that together have this probability.',
  top_k: 'Chooses among this many of the likeliest tokens.',
  min_p: 'Leaves out tokens below this share of the likeliest one.',
  frequency_penalty: 'Makes tokens rarer the more often they have been used.',
  presence_penalty: 'Makes tokens rarer once they have been used.',
  repetition_penalty: 'Makes repetition rarer, as open models understand it; 1 changes nothing.',
  seed: 'Asks for the same answer to the same request, where the provider can do that.',
  stop: 'Texts at which the answer ends.',
  logit_bias: 'Makes tokens, by their numbers, likelier or rarer.',
  logprobs: 'Asks for the probabilities of the tokens of the answer.',
  top_logprobs: 'How many alternatives to tell of for each token.',
  n: 'How many answers to write. Each one is paid for.',
  tools:
    'Functions that the model may ask the client to call, and tools that the gateway runs itself: ' +
    `${documentedTools('openai')}. Lists, calls and requests for approval of servers come back in \`mcp_calls\` of the message.`,
  tool_choice: 'Whether and which tools the model must call.',
  parallel_tool_calls: 'Whether it may call several tools at once.',
  web_search_options:
    'Asks for a web search, as `tools: [{"type": "web_search"}]` does; so does `:online` behind the name of a model.',
  functions: 'The older form of `tools`.',
  function_call: 'The older form of `tool_choice`.',
  response_format: 'Asks for JSON, or for JSON that fits a schema.',
  reasoning_effort: 'How long the model thinks before it answers.',
  reasoning: 'The same in more detail: an effort, or a number of tokens.',
  modalities: 'The kinds of output that are wanted.',
  audio: 'The voice and format of spoken output.',
  prediction: 'Text that the answer will largely repeat.',
  user: 'Who the request is made for, as the client names them.',
  safety_identifier: 'A stable, anonymous name of the user, for the abuse checks of providers.',
  prompt_cache_key: 'Requests with the same key find each other’s cached prompts more often.',
  prompt_cache_retention: 'How long the provider keeps the cached prompt.',
  prompt_cache_options: 'How the provider is to cache the prompt, in OpenAI’s words.',
  service_tier: 'The speed class at the provider.',
  metadata: 'Facts of the client about the request.',
  store: 'Whether the provider may keep the answer.',
  verbosity: 'How long the answer should be.',
  models:
    'Further models to try, in this order, when the first cannot answer. Without `model` the first of them is the model.',
  provider: 'Which providers may serve the call, in which order, and at what price at most.',
  max_cost:
    'The most this call may cost, US dollars as a decimal string. The answer is cut rather than dearer.',
  cache:
    '`{"ttl": 3600}`: an answer to the same request of this account that is no older, in seconds, is given again, for nothing. A whole answer is kept in memory for such requests; 0 asks anew. Answers that the gateway’s own tools took part in are not kept.',
  max_tool_calls:
    'The most calls of tools that the gateway itself runs: 10 by default, 30 at most. Beyond it the model is told to answer with what it has. Calls of functions are the client’s and are not counted.',
  session_id: 'Calls of one session go to the same provider key, so that cached prompts are found again.',
  strict:
    'Asks only providers that honour every parameter, and refuses the call with 400 when there is none, instead of dropping one with a warning. `provider.require_parameters` means the same.',
  on_disconnect:
    'When the client disconnects: `cancel` stops the call where that stops the provider, `finish` lets it come to its end. A provider that bills on after a disconnect is read to its end either way, and charged exactly. Tools that the gateway runs stop with the client, and no further round begins.',
  usage: '`{"include": true}` asks for the usage of a stream, as clients of OpenRouter do.',
}

/** The same for a legacy text completion, which shares most fields with a chat. */
export const completionFields: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    Object.entries(requestFields).filter(([field]) => !chatOnly.some((other) => other === field)),
  ),
  prompt: 'The text to answer: it becomes the one message of a chat. A list may hold one text.',
  suffix: 'Refused unless empty: chat models do not fill in the middle of a text.',
  echo: 'Refused when true: the prompt is not repeated in the answer.',
  best_of: 'Refused unless it equals `n`.',
  logprobs: 'Refused: POST /v1/chat/completions has it.',
}
