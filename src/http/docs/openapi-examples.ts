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

type Examples = Readonly<Record<string, { readonly summary: string; readonly value: object }>>

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

export const countRequests: Examples = {
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

const counted = { ...messageCounters(7, 2), cost: usage.cost, cost_details: usage.cost_details }

export const message = {
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
    message: { ...message, content: [], stop_reason: null, usage: messageCounters(0, 0) },
  },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hello, ' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'river.' } },
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: counted },
  { type: 'message_stop' },
]

/** The events as they travel. */
export const messageStream = messageEvents
  .map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
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

export const receipt = {
  data: {
    id: answered.id,
    object: 'generation',
    model: 'sim/echo',
    mode: 'live',
    state: 'settled',
    ending: 'finished',
    error: null,
    created_at: '2026-11-21T05:52:50.543Z',
    ended_at: '2026-11-21T05:52:50.554Z',
    usage: {
      prompt_tokens: 7,
      completion_tokens: 2,
      estimated: false,
      tokens: {
        input: 7,
        cache_read: 0,
        cache_write_5m: 0,
        cache_write_1h: 0,
        output: 2,
        reasoning: 0,
        input_audio: 0,
        output_audio: 0,
        input_image: 0,
        output_image: 0,
      },
    },
    lines: [
      { item: 'input', quantity: 7, rate: '0.0000005', amount: '0.0000035' },
      { item: 'output', quantity: 2, rate: '0.000002', amount: '0.000004' },
    ],
    total: '0.0000075',
    charged: '0.0000075',
    absorbed: '0',
    over_limit: false,
    held: '0',
    price_version: 'pv_b1d179a0d262',
    service_tier: null,
    unpriced: [],
    drawn: [{ pool: 'purchased', lot: 'lot_a14fd2a28fa3232fd409b849', amount: '0.0000075' }],
    provider: 'sim',
    upstream_model: 'echo',
    upstream_id: 'chatcmpl-2ozby0q3rh935',
    finish_reason: 'stop',
    stream: false,
    attempts: [
      {
        provider: 'sim',
        outcome: 'served',
        code: null,
        upstream_id: null,
        ms: 8,
        status: null,
        reason: null,
      },
    ],
    first_byte_ms: 22,
    total_ms: 23,
  },
}

const sinceFirstRun = '2026-11-21T05:52:49.015Z'

export const credits = {
  data: {
    currency: 'USD',
    available: '99.9999925',
    held: '0',
    debt: '0',
    pools: [
      {
        type: 'purchased',
        remaining: '99.9999925',
        api_spendable: true,
        lots: [
          {
            remaining: '99.9999925',
            held: '0',
            granted_at: sinceFirstRun,
            expires_at: '2027-11-21T05:52:49.015Z',
          },
        ],
      },
      {
        type: 'welcome',
        remaining: '0.5',
        api_spendable: false,
        lots: [{ remaining: '0.5', held: '0', granted_at: sinceFirstRun, expires_at: null }],
      },
      { type: 'daily', remaining: '0', api_spendable: false, lots: [] },
      { type: 'subscription', remaining: '0', api_spendable: false, lots: [] },
    ],
    total_purchased: '100',
    total_used: '0.0000075',
  },
}

export const key = {
  data: {
    id: 'aaKwVUYeZ8Ia',
    label: 'owner',
    mode: 'live',
    account: 'acct_b7bf761a336552e575',
    created_at: sinceFirstRun,
    expires_at: null,
    limit: '25',
    limit_window: 'month',
    limit_remaining: '24.9999925',
    limit_resets_at: '2026-12-01T00:00:00.000Z',
    allowed_models: ['sim/*'],
    usage: '0.0000075',
    usage_daily: '0.0000075',
    usage_weekly: '0.0000075',
    usage_monthly: '0.0000075',
  },
}

export const providers = {
  object: 'list',
  data: [
    {
      id: 'sim',
      object: 'provider',
      name: 'Simulator',
      protocol: 'openai-chat',
      state: 'healthy',
      success_rate: 1,
      p50_latency_ms: 8,
      answers: 1,
      cool_down_until: null,
      last_error: null,
      troubles: [],
    },
  ],
}
