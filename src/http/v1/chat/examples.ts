// Requests and answers to show: every request works as it stands with the simulator, on a gateway without any key.

export const river = [{ role: 'user', content: 'Hello, river.' }] as const

export const answered = {
  id: 'req_01a1fcaa216272aa8d5548c4e8af6c09',
  created: 1795240370,
  model: 'sim/echo',
}

export const usage = {
  prompt_tokens: 7,
  completion_tokens: 2,
  total_tokens: 9,
  prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 0, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0 },
  cost: 0.0000075,
  cost_details: {
    input: '0.0000035',
    cache_read: '0',
    cache_write: '0',
    output: '0.000004',
    reasoning: '0',
    tools: '0',
    total: '0.0000075',
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
export const chunks = [
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
      input: '0.00000008',
      cache_read: '0',
      cache_write: '0',
      output: '0',
      reasoning: '0',
      tools: '0',
      total: '0.00000008',
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
