// A request in a provider's dialect: what is sent, what is left out with a warning, what is refused.

import { describe, expect, test } from 'bun:test'
import type { ChatRequest, ContentPart, FunctionTool, Message } from '../../../src/conversation/request.ts'
import { GatewayError } from '../../../src/errors/errors.ts'
import { outbound } from '../../../src/protocols/openai-chat/outbound/lower.ts'
import type { Target } from '../../../src/protocols/protocol.ts'
import type { OpenAIChatQuirks } from '../../../src/protocols/openai-chat/outbound/quirks.ts'
import { chat } from '../../support/conversation.ts'
import { quirksOf, targetOf } from './dialects.ts'

const text = (words: string): ContentPart => ({ kind: 'text', text: words, cache: undefined })
const user = (...content: ContentPart[]): Message => ({ role: 'user', content })
const assistant = (fields: Partial<Extract<Message, { role: 'assistant' }>>): Message => ({
  role: 'assistant',
  content: [],
  reasoning: [],
  toolCalls: [],
  ...fields,
})
const toolCall = (id: string) => ({ id, name: 'add', arguments: '{}', thoughtSignature: undefined })
const result = (toolCallId: string, ...content: ContentPart[]): Message => ({
  role: 'tool',
  toolCallId,
  content,
  isError: false,
})
const tool: FunctionTool = {
  name: 'add',
  description: undefined,
  parameters: undefined,
  strict: undefined,
  cache: undefined,
}

function requestOf(fields: Partial<ChatRequest> = {}): ChatRequest {
  return chat({ messages: [user(text('hi'))], ...fields })
}

function lower(row: string, fields: Partial<ChatRequest>, target: Partial<Target<OpenAIChatQuirks>> = {}) {
  return outbound.lower(requestOf(fields), targetOf(quirksOf(row), { model: 'm', provider: row, ...target }))
}

function refusalOf(
  row: string,
  fields: Partial<ChatRequest>,
  target: Partial<Target<OpenAIChatQuirks>> = {},
) {
  try {
    lower(row, fields, target)
  } catch (error) {
    if (error instanceof GatewayError) return { code: error.code, param: error.details.param }
    throw error
  }
  return undefined
}

describe('a request', () => {
  test('goes to the path that every such provider has, under the name the provider knows', () => {
    expect(lower('openai', {})).toEqual({
      path: '/chat/completions',
      headers: {},
      body: { model: 'm', messages: [{ role: 'user', content: 'hi' }], stream: false },
      warnings: [],
    })
  })

  test.each(['openai', 'deepseek', 'openrouter', 'vllm'])('asks %s for usage whenever it streams', (row) => {
    expect(lower(row, { stream: true }).body).toMatchObject({
      stream: true,
      stream_options: { include_usage: true },
    })
  })

  test('does not ask Mistral, which refuses the question and tells anyway', () => {
    expect(lower('mistral', { stream: true }).body).not.toHaveProperty('stream_options')
  })

  test('carries the fields that its row lists, never over our own, and names every other one', () => {
    const rest = { safe_prompt: true, brand_new: { a: 1 }, model: 'stolen', stream: true }
    const { body, warnings } = lower('mistral', { rest })
    expect(body).toMatchObject({ safe_prompt: true, model: 'm', stream: false })
    expect(body).not.toHaveProperty('brand_new')
    expect(warnings.map(({ param }) => param)).toEqual(['brand_new', 'model', 'stream'])
  })

  test.each([
    ['openai', 'max_completion_tokens'],
    ['groq', 'max_completion_tokens'],
    ['deepseek', 'max_tokens'],
    ['mistral', 'max_tokens'],
  ])('bounds the output of %s by %s', (row, field) => {
    expect(lower(row, { maxOutputTokens: 7 }).body).toHaveProperty(field, 7)
  })
})

describe('parameters that cannot be honoured', () => {
  test.each([
    ['groq', { n: 2 }, 'n'],
    ['groq', { logprobs: true }, 'logprobs'],
    ['mistral', { topLogprobs: 3 }, 'logprobs'],
    ['perplexity', { n: 3 }, 'n'],
  ] as const)('%s refuses %p by name', (row, sampling, param) => {
    expect(refusalOf(row, { sampling })).toEqual({ code: 'unsupported_parameter', param })
  })

  test('one answer, asked for in so many words, is refused by nobody', () => {
    expect(refusalOf('groq', { sampling: { n: 1, logprobs: false } })).toBeUndefined()
  })

  test('sampling that a provider lacks is left out and named', () => {
    const { body, warnings } = lower('deepseek', { sampling: { temperature: 0.5, seed: 1, topK: 5 } })
    expect(body).toMatchObject({ temperature: 0.5 })
    expect(body).not.toHaveProperty('seed')
    expect(warnings.map((warning) => warning.param).toSorted()).toEqual(['seed', 'top_k'])
  })

  test('an OpenAI model that reasons gets no sampling, and says so', () => {
    const fields = { sampling: { temperature: 0.5, topP: 1, stop: ['x'] } }
    const { body, warnings } = lower('openai', fields, { reasoning: true })
    expect(body).toMatchObject({ top_p: 1 })
    expect(body).not.toHaveProperty('temperature')
    expect(warnings.map((warning) => warning.param)).toEqual(['temperature', 'stop'])
    expect(refusalOf('openai', { sampling: { logprobs: true } }, { reasoning: true })?.param).toBe('logprobs')
  })

  test('with reasoning switched off it samples like any other', () => {
    const fields = { sampling: { temperature: 0.5 }, reasoning: { effort: 'none' } } as const
    expect(lower('openai', fields, { reasoning: true })).toMatchObject({
      body: { temperature: 0.5, reasoning_effort: 'none' },
      warnings: [],
    })
  })

  test('what a thinking DeepSeek ignores without a word is left out and named', () => {
    const fields = { sampling: { temperature: 0.5, frequencyPenalty: 0.5 } }
    const named = (more: Partial<ChatRequest>) =>
      lower('deepseek', { ...fields, ...more }, { reasoning: true }).warnings.map(({ param }) => param)
    expect(named({})).toEqual(['temperature', 'frequency_penalty'])
    expect(named({ reasoning: { enabled: false } })).toEqual([])
  })

  test.each([
    ['groq', { name: 'Ann' }, ['messages[0].name']],
    ['mistral', { name: 'Ann' }, ['messages[0].name']],
    ['openai', { name: 'Ann' }, []],
  ])('%s loses no speaker in silence: %p, %p', (row, named, params) => {
    const messages = [{ ...user(text('hi')), ...named }] as Message[]
    expect(lower(row, { messages }).warnings.map(({ param }) => param)).toEqual(params)
  })

  test('Mistral knows the seed as random_seed', () => {
    expect(lower('mistral', { sampling: { seed: 42 } }).body).toMatchObject({ random_seed: 42 })
  })
})

describe('how hard to think', () => {
  test.each([
    ['openai', { effort: 'low' }, { reasoning_effort: 'low' }],
    ['openai', { maxTokens: 4000 }, { reasoning_effort: 'medium' }],
    ['openai', { enabled: false }, { reasoning_effort: 'none' }],
    ['xai', { effort: 'medium' }, { reasoning_effort: 'low' }],
    ['mistral', { effort: 'low' }, { reasoning_effort: 'high' }],
    ['mistral', { effort: 'none' }, { reasoning_effort: 'none' }],
    ['openrouter', { maxTokens: 2000, exclude: true }, { reasoning: { max_tokens: 2000, exclude: true } }],
    ['openrouter', { effort: 'max' }, { reasoning: { effort: 'xhigh' } }],
    ['deepseek', { effort: 'high' }, { thinking: { type: 'enabled' }, reasoning_effort: 'high' }],
    ['deepseek', { effort: 'none' }, { thinking: { type: 'disabled' } }],
    ['moonshot', { enabled: true }, { thinking: { type: 'enabled' } }],
    ['alibaba', { maxTokens: 500 }, { enable_thinking: true, thinking_budget: 500 }],
    ['vllm', { enabled: false }, { chat_template_kwargs: { enable_thinking: false } }],
  ] as const)('%s is told %p as %p', (row, reasoning, expected) => {
    expect(lower(row, { reasoning }).body).toMatchObject(expected)
  })

  test.each([
    ['moonshot', { effort: 'low' }, ['reasoning']],
    ['moonshot', { maxTokens: 500 }, ['reasoning']],
    ['moonshot', { effort: 'none' }, []],
    ['alibaba', { effort: 'low' }, ['reasoning']],
    ['alibaba', { maxTokens: 500 }, []],
    ['openai', { effort: 'low', exclude: true }, ['reasoning.exclude']],
    ['openai', { effort: 'none', exclude: true }, []],
    ['openrouter', { effort: 'low', exclude: true }, []],
    ['cloudflare', { effort: 'low', exclude: true }, ['reasoning.exclude']],
  ] as const)('%s cannot be told all of %p: %p is named', (row, reasoning, named) => {
    expect(lower(row, { reasoning }).warnings.map(({ param }) => param)).toEqual([...named])
  })

  test('an effort that is replaced is named', () => {
    expect(
      lower('xai', { reasoning: { effort: 'medium' } }).warnings.map((warning) => warning.param),
    ).toEqual(['reasoning'])
    expect(lower('xai', { reasoning: { effort: 'high' } }).warnings).toEqual([])
  })
})

describe('messages', () => {
  test.each([
    ['openai', 'developer'],
    ['deepseek', 'system'],
  ])('%s reads a developer as %s', (row, role) => {
    const messages: Message[] = [{ role: 'developer', content: [text('be kind')] }, user(text('hi'))]
    expect(lower(row, { messages }).body.messages).toMatchObject([
      { role, content: 'be kind' },
      { role: 'user' },
    ])
  })

  const image: ContentPart = {
    kind: 'image',
    source: { kind: 'url', url: 'https://x/a.png' },
    detail: undefined,
    cache: undefined,
  }
  const parts = (...texts: string[]) => texts.map((words) => ({ type: 'text', text: words }))
  test.each([
    // row         content                                               is sent as
    ['openai', [text('a'), text('b')], parts('a', 'b')],
    ['deepseek', [text('a'), text('b')], 'a\nb'],
    ['cloudflare', [text('a'), text('b')], 'a\nb'],
    [
      'deepseek',
      [text('a'), image],
      [...parts('a'), { type: 'image_url', image_url: { url: 'https://x/a.png' } }],
    ],
    ['openai', [{ kind: 'refusal', text: 'no' }], [{ type: 'refusal', refusal: 'no' }]],
    ['groq', [{ kind: 'refusal', text: 'no' }], 'no'],
  ] as [string, ContentPart[], unknown][])('%s: text in parts %#', (row, content, expected) => {
    const { body } = lower(row, { messages: [user(text('q')), assistant({ content })] })
    expect<unknown>(body.messages).toEqual([
      { role: 'user', content: 'q' },
      { role: 'assistant', content: expected },
    ])
  })

  test('media travel in the parts of the protocol', () => {
    const messages = [
      user(
        text('look'),
        { kind: 'image', source: { kind: 'url', url: 'https://x/y.png' }, detail: 'low', cache: undefined },
        {
          kind: 'image',
          source: { kind: 'base64', mediaType: 'image/png', data: 'AA' },
          detail: undefined,
          cache: undefined,
        },
        { kind: 'audio', format: 'wav', data: 'BB' },
        {
          kind: 'file',
          source: { kind: 'base64', mediaType: 'application/pdf', data: 'CC' },
          filename: 'a.pdf',
          cache: undefined,
        },
      ),
    ]
    expect(lower('openai', { messages }).body.messages).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'look' },
          { type: 'image_url', image_url: { url: 'https://x/y.png', detail: 'low' } },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,AA' } },
          { type: 'input_audio', input_audio: { data: 'BB', format: 'wav' } },
          { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,CC' } },
        ],
      },
    ])
  })

  const fileBy = (source: Extract<ContentPart, { kind: 'file' }>['source']): Message[] => [
    user({ kind: 'file', source, filename: undefined, cache: undefined }),
  ]
  test.each([
    ['openai', { kind: 'provider-file', id: 'f1' }, { type: 'file', file: { file_id: 'f1' } }],
    [
      'openrouter',
      { kind: 'url', url: 'https://x/a.pdf' },
      { type: 'file', file: { filename: 'file', file_data: 'https://x/a.pdf' } },
    ],
    [
      'mistral',
      { kind: 'url', url: 'https://x/a.pdf' },
      { type: 'document_url', document_url: 'https://x/a.pdf' },
    ],
    [
      'perplexity',
      { kind: 'base64', mediaType: 'application/pdf', data: 'CC' },
      { type: 'file_url', file_url: { url: 'CC' } },
    ],
  ] as const)('%s is given a file %p in its way', (row, source, part) => {
    expect(lower(row, { messages: fileBy(source) }).body.messages).toMatchObject([{ content: [part] }])
  })

  test.each(['openai', 'deepseek'])('%s is not given a file by URL it cannot fetch', (row) => {
    const messages = fileBy({ kind: 'url', url: 'https://x/a.pdf' })
    expect(refusalOf(row, { messages })).toEqual({ code: 'unsupported_parameter', param: 'messages' })
  })

  test('a tool result is text; the image it came with follows as the user’s, after the whole run of results', () => {
    const image: ContentPart = {
      kind: 'image',
      source: { kind: 'url', url: 'https://x' },
      detail: undefined,
      cache: undefined,
    }
    const messages = [
      assistant({ toolCalls: [toolCall('a'), toolCall('b')] }),
      result('a', text('seen'), image),
      result('b', text('done')),
      user(text('well?')),
    ]
    expect(lower('openai', { messages }).body.messages).toEqual([
      expect.objectContaining({ role: 'assistant', content: null }),
      { role: 'tool', tool_call_id: 'a', content: 'seen' },
      { role: 'tool', tool_call_id: 'b', content: 'done' },
      { role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://x' } }] },
      { role: 'user', content: 'well?' },
    ])
  })

  test('reasoning goes back under the name the provider reads, or not at all', () => {
    const reasoning = [{ type: 'reasoning.text', format: null, index: 0, text: 'hm' }] as const
    const messages = [assistant({ reasoning, content: [text('yes')] })]
    const echoed = (row: string) => (lower(row, { messages }).body.messages as object[])[0]
    expect(echoed('deepseek')).toMatchObject({ reasoning_content: 'hm', content: 'yes' })
    expect(echoed('cerebras')).toMatchObject({ reasoning: 'hm' })
    expect(echoed('openrouter')).toMatchObject({ reasoning_details: [...reasoning] })
    expect(echoed('mistral')).toMatchObject({
      content: [
        { type: 'thinking', thinking: [{ type: 'text', text: 'hm' }] },
        { type: 'text', text: 'yes' },
      ],
    })
    expect(echoed('openai')).toEqual({ role: 'assistant', content: 'yes' })
  })

  test('DeepSeek gets an empty reasoning for a call whose client dropped it, for without one it answers 400', () => {
    const messages = [assistant({ toolCalls: [toolCall('a')] }), result('a', text('1'))]
    expect(lower('deepseek', { messages }, { reasoning: true }).body.messages).toMatchObject([
      { reasoning_content: '' },
      {},
    ])
  })

  test('Mistral’s tool ids have nine letters, the same for a call and its result, different for each call', () => {
    const ids = ['call_abcdefghijklmnop1', 'call_abcdefghijklmnop2', 'Abc123xyz']
    const messages = [assistant({ toolCalls: ids.map(toolCall) }), ...ids.map((id) => result(id, text('1')))]
    const [calls, ...results] = lower('mistral', { messages }).body.messages as {
      tool_calls: { id: string }[]
      tool_call_id: string
    }[]
    const written = calls!.tool_calls.map((one) => one.id)
    for (const id of written) expect(id).toMatch(/^[a-zA-Z0-9]{9}$/)
    expect(new Set(written).size).toBe(3)
    expect(written[2]).toBe('Abc123xyz')
    expect(results.map((one) => one.tool_call_id)).toEqual(written)
  })

  test('Perplexity’s turns alternate: those in a row are one', () => {
    const messages: Message[] = [
      { role: 'system', content: [text('a')] },
      { role: 'system', content: [text('b')] },
      user(text('c')),
      user(text('d'), {
        kind: 'image',
        source: { kind: 'url', url: 'u' },
        detail: undefined,
        cache: undefined,
      }),
      assistant({ content: [text('e')] }),
      { role: 'system', content: [text('f')] },
    ]
    expect(lower('perplexity', { messages }).body.messages).toEqual([
      { role: 'system', content: 'a\n\nb' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'c' },
          { type: 'text', text: 'd' },
          { type: 'image_url', image_url: { url: 'u' } },
        ],
      },
      { role: 'assistant', content: 'e' },
      { role: 'user', content: 'f' },
    ])
  })

  test('cache marks go only where they are understood', () => {
    const messages = [user({ kind: 'text', text: 'long', cache: { ttl: '1h' } })]
    expect(lower('openrouter', { messages }).body.messages).toEqual([
      {
        role: 'user',
        content: [{ type: 'text', text: 'long', cache_control: { type: 'ephemeral', ttl: '1h' } }],
      },
    ])
    expect(lower('openai', { messages }).body.messages).toEqual([{ role: 'user', content: 'long' }])
  })
})

describe('tools and formats', () => {
  test.each([
    ['openai', { kind: 'required' }, 'required'],
    ['mistral', { kind: 'required' }, 'any'],
    ['openai', { kind: 'function', name: 'add' }, { type: 'function', function: { name: 'add' } }],
    ['groq', { kind: 'allowed', mode: 'required', names: ['add'] }, 'required'],
  ] as const)('%s is told %p as %p', (row, toolChoice, expected) => {
    expect(lower(row, { tools: [tool], toolChoice }).body.tool_choice).toEqual(expected)
  })

  test('where tools cannot be allowed by name, only those are shown', () => {
    const toolChoice = { kind: 'allowed', mode: 'auto', names: ['mul'] } as const
    const { body } = lower('groq', { tools: [tool, { ...tool, name: 'mul' }], toolChoice })
    expect(body.tools).toMatchObject([{ function: { name: 'mul', parameters: { type: 'object' } } }])
    expect(
      lower('openai', { tools: [tool], toolChoice: { ...toolChoice, names: ['add'] } }).body.tool_choice,
    ).toEqual({
      type: 'allowed_tools',
      allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'add' } }] },
    })
  })

  test('without tools there is no choice among them', () => {
    const { body } = lower('openai', { toolChoice: { kind: 'auto' }, parallelToolCalls: false })
    expect(body).not.toHaveProperty('tool_choice')
    expect(body).not.toHaveProperty('parallel_tool_calls')
  })

  const responseFormat = {
    kind: 'json-schema',
    name: 'answer',
    description: undefined,
    schema: { type: 'object' },
    strict: true,
  } as const
  test('a schema is passed on', () => {
    expect(lower('openai', { responseFormat }).body.response_format).toEqual({
      type: 'json_schema',
      json_schema: { name: 'answer', schema: { type: 'object' }, strict: true },
    })
  })

  test('where a provider takes none, the prompt says it, and a warning says so', () => {
    const { body, warnings } = lower('deepseek', { responseFormat })
    expect(body.response_format).toEqual({ type: 'json_object' })
    expect(body.messages).toMatchObject([
      { role: 'system', content: expect.stringContaining('{"type":"object"}') },
      {},
    ])
    expect(warnings.map((warning) => warning.param)).toEqual(['response_format'])
  })
})

describe('an answer that is begun for the model', () => {
  const messages = [user(text('hi')), assistant({ content: [text('It ')], prefill: true })]
  test.each([
    ['mistral', { prefix: true }, {}, 'repeated'],
    ['moonshot', { partial: true }, {}, 'rest'],
    ['alibaba', { partial: true }, {}, 'rest'],
    ['groq', {}, {}, 'rest'],
    ['vllm', {}, { continue_final_message: true, add_generation_prompt: false }, 'rest'],
    ['openai', {}, {}, undefined],
    ['deepseek', {}, {}, undefined],
  ] as const)('is sent to %s with %j and %j, and is answered by its %p', (row, ofMessage, ofBody, answer) => {
    const { body, warnings } = lower(row, { messages })
    const [, last] = body.messages as object[]
    expect(last).toMatchObject({ role: 'assistant', content: 'It ', ...ofMessage })
    expect(Object.keys(last!).toSorted()).toEqual(['content', 'role', ...Object.keys(ofMessage)].toSorted())
    expect(body).toMatchObject(ofBody)
    expect('continue_final_message' in body).toBe('continue_final_message' in ofBody)
    expect(warnings).toEqual([])
    const quirks = targetOf(quirksOf(row), {}).quirks
    expect(outbound.prefill?.({ model: 'm', quirks, reasoning: false })).toBe(answer)
    expect(outbound.prefill?.({ model: 'm', quirks, reasoning: true })).toBeUndefined()
  })
})
