// Requests as a Responses provider gets them: every part, every parameter, and what is named when it is left out.

import { describe, expect, test } from 'bun:test'
import type {
  ChatRequest,
  ContentPart,
  FunctionTool,
  JsonObject,
  Message,
} from '../../../src/conversation/request.ts'
import { GatewayError } from '../../../src/errors/errors.ts'
import { outbound } from '../../../src/protocols/openai-responses/outbound/outbound.ts'
import type { ResponsesQuirks } from '../../../src/protocols/openai-responses/outbound/quirks.ts'
import type { Target } from '../../../src/protocols/protocol.ts'
import { call, chat, result, textPart, user } from '../../support/conversation.ts'
import { hostsOf } from '../recorded-hosts.ts'
import { assistant, target } from './support.ts'

const xai = hostsOf('openai-responses').find(({ folder }) => folder === 'xai-responses')!.quirks
const plain = target({}, { model: 'gpt-4o', reasoning: false })

function lower(changes: Partial<ChatRequest>, to: Target<ResponsesQuirks> = target()) {
  return outbound.lower(chat(changes), to)
}

function inputOf(messages: readonly Message[], to?: Target<ResponsesQuirks>): JsonObject[] {
  return lower({ messages }, to).body.input as JsonObject[]
}

function params(changes: Partial<ChatRequest>, to?: Target<ResponsesQuirks>): string[] {
  return lower(changes, to).warnings.map(({ param }) => param)
}

function refusal(run: () => unknown): [string, string | undefined] {
  try {
    run()
  } catch (error) {
    if (error instanceof GatewayError) return [error.code, error.details.param]
    throw error
  }
  throw new Error('nothing was refused')
}

test('the names of speakers have no place here and are named', () => {
  const messages: Message[] = [
    { role: 'system', content: [textPart('Be kind.')], name: 'boss' },
    { role: 'user', content: [textPart('Hello')], name: 'bob' },
    { ...assistant({ content: [textPart('Hi')] }), name: 'ann' },
    { role: 'user', content: [textPart('Bye')] },
  ]
  expect(params({ messages })).toEqual(['messages[0].name', 'messages[1].name', 'messages[2].name'])
  expect(inputOf(messages).filter((item) => 'name' in item)).toEqual([])
})

test('a plain request is stateless and goes to /responses', () => {
  const { path, headers, body, warnings } = lower({}, plain)
  expect({ path, headers, body, warnings }).toEqual({
    path: '/responses',
    headers: {},
    body: { model: 'gpt-4o', input: [{ role: 'user', content: 'Hello' }], store: false, stream: false },
    warnings: [],
  })
})

describe('messages', () => {
  test.each([
    ['developer', {}, 'developer'],
    ['developer', xai, 'system'],
    ['system', {}, 'system'],
  ] as const)('%s instructions stay in their place', (role, quirks, sent) => {
    const messages: Message[] = [{ role, content: [textPart('Be brief.')] }, user('Hi')]
    expect(inputOf(messages, target(quirks))).toEqual([
      { role: sent, content: 'Be brief.' },
      { role: 'user', content: 'Hi' },
    ])
  })

  test.each<readonly [string, ContentPart, JsonObject]>([
    [
      'an image by address',
      {
        kind: 'image',
        source: { kind: 'url', url: 'https://a.test/i.png' },
        detail: 'low',
        cache: undefined,
      },
      { type: 'input_image', image_url: 'https://a.test/i.png', detail: 'low' },
    ],
    [
      'an image inline',
      {
        kind: 'image',
        source: { kind: 'base64', mediaType: 'image/png', data: 'AA==' },
        detail: undefined,
        cache: undefined,
      },
      { type: 'input_image', image_url: 'data:image/png;base64,AA==' },
    ],
    [
      'an image that lies at the provider',
      { kind: 'image', source: { kind: 'provider-file', id: 'file-1' }, detail: undefined, cache: undefined },
      { type: 'input_image', file_id: 'file-1' },
    ],
    [
      'a file by id',
      {
        kind: 'file',
        source: { kind: 'provider-file', id: 'file-1' },
        filename: undefined,
        cache: undefined,
      },
      { type: 'input_file', file_id: 'file-1' },
    ],
    [
      'a file by address',
      {
        kind: 'file',
        source: { kind: 'url', url: 'https://a.test/a.pdf' },
        filename: 'a.pdf',
        cache: undefined,
      },
      { type: 'input_file', file_url: 'https://a.test/a.pdf' },
    ],
    [
      'a file inline, which needs a name',
      {
        kind: 'file',
        source: { kind: 'base64', mediaType: 'application/pdf', data: 'AA==' },
        filename: undefined,
        cache: undefined,
      },
      { type: 'input_file', filename: 'file', file_data: 'data:application/pdf;base64,AA==' },
    ],
    [
      'audio',
      { kind: 'audio', format: 'wav', data: 'AA==' },
      { type: 'input_audio', input_audio: { data: 'AA==', format: 'wav' } },
    ],
  ])('%s', (_, part, sent) => {
    const [message] = inputOf([{ role: 'user', content: [textPart('See'), part] }])
    expect(message).toEqual({ role: 'user', content: [{ type: 'input_text', text: 'See' }, sent] })
  })

  test('a video is refused, naming its message', () => {
    const video: ContentPart = { kind: 'video', source: { kind: 'url', url: 'https://a.test/v.mp4' } }
    const run = () => inputOf([user('Hi'), { role: 'user', content: [video] }])
    expect(refusal(run)).toEqual(['unsupported_parameter', 'messages[1].content'])
  })

  test('the assistant: text, refusal, then its calls', () => {
    const turn = assistant({
      content: [textPart('Looking.'), textPart(''), { kind: 'refusal', text: 'No.' }],
      toolCalls: [call('call_a', 'find', '{"q":1}')],
    })
    expect(inputOf([user('Hi'), turn, result('call_a', 'found')]).slice(1)).toEqual([
      {
        role: 'assistant',
        content: [
          { type: 'output_text', text: 'Looking.' },
          { type: 'refusal', refusal: 'No.' },
        ],
      },
      { type: 'function_call', call_id: 'call_a', name: 'find', arguments: '{"q":1}' },
      { type: 'function_call_output', call_id: 'call_a', output: 'found' },
    ])
  })

  test('an empty turn of the assistant says nothing, and what it showed is left out with a warning', () => {
    expect(inputOf([user('Hi'), assistant(), user('So?')])).toHaveLength(2)
    const image: ContentPart = {
      kind: 'image',
      source: { kind: 'base64', mediaType: 'image/png', data: 'AA==' },
      detail: undefined,
      cache: undefined,
    }
    expect(params({ messages: [user('Draw'), assistant({ content: [image] })] })).toEqual([
      'messages[1].content',
    ])
  })

  test('ids that a provider counts anew in each answer are told apart, each result with its call', () => {
    const turns = [0, 1, 2].flatMap((n) => [
      assistant({ toolCalls: [call('call_0')] }),
      result('call_0', `answer ${n}`),
    ])
    const items = inputOf([user('Hi'), ...turns]).slice(1)
    expect(items.map((item) => [item.call_id, item.output ?? 'call'])).toEqual([
      ['call_0', 'call'],
      ['call_0', 'answer 0'],
      ['call_0_2', 'call'],
      ['call_0_2', 'answer 1'],
      ['call_0_3', 'call'],
      ['call_0_3', 'answer 2'],
    ])
  })

  const image: ContentPart = {
    kind: 'image',
    source: { kind: 'url', url: 'https://a.test/i.png' },
    detail: undefined,
    cache: undefined,
  }
  const shown: Message = {
    role: 'tool',
    toolCallId: 'call_a',
    content: [textPart('Here'), image],
    isError: false,
  }
  const asked = assistant({ toolCalls: [call('call_a'), call('call_b')] })
  const sentImage = { type: 'input_image', image_url: 'https://a.test/i.png' }

  test('an image in a tool result is part of the output', () => {
    expect(inputOf([user('Hi'), asked, shown]).at(-1)).toEqual({
      type: 'function_call_output',
      call_id: 'call_a',
      output: [{ type: 'input_text', text: 'Here' }, sentImage],
    })
  })

  test("where results are text alone, it follows their run as the user's", () => {
    expect(
      inputOf([user('Hi'), asked, shown, result('call_b', 'ok'), user('So?')], target(xai)).slice(3),
    ).toEqual([
      { type: 'function_call_output', call_id: 'call_a', output: 'Here' },
      { type: 'function_call_output', call_id: 'call_b', output: 'ok' },
      { role: 'user', content: [sentImage] },
      { role: 'user', content: 'So?' },
    ])
  })

  test('audio in a tool result is refused', () => {
    const content: ContentPart[] = [{ kind: 'audio', format: 'wav', data: 'AA==' }]
    const run = () =>
      inputOf([user('Hi'), asked, { role: 'tool', toolCallId: 'call_a', content, isError: false }])
    expect(refusal(run)).toEqual(['unsupported_parameter', 'messages[2].content'])
  })
})

describe('tools', () => {
  const tool: FunctionTool = {
    name: 'find',
    description: 'Finds.',
    parameters: { type: 'object', properties: { q: { type: 'string' } } },
    strict: undefined,
    cache: undefined,
  }
  const bare: FunctionTool = {
    name: 'ping',
    description: undefined,
    parameters: undefined,
    strict: true,
    cache: undefined,
  }

  test('are flat, and strict only when the client says so: the protocol takes silence for strict', () => {
    expect(lower({ tools: [tool, bare] }).body.tools).toEqual([
      { type: 'function', name: 'find', description: 'Finds.', parameters: tool.parameters!, strict: false },
      {
        type: 'function',
        name: 'ping',
        parameters: { type: 'object', properties: {}, additionalProperties: false },
        strict: true,
      },
    ])
  })

  test.each([
    [undefined, undefined],
    [{ kind: 'auto' }, 'auto'],
    [{ kind: 'none' }, 'none'],
    [{ kind: 'required' }, 'required'],
    [
      { kind: 'function', name: 'find' },
      { type: 'function', name: 'find' },
    ],
    [
      { kind: 'allowed', mode: 'required', names: ['find'] },
      { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'find' }] },
    ],
  ] as const)('choice %p is sent as %p', (toolChoice, sent) => {
    expect(lower({ tools: [tool, bare], toolChoice }).body.tool_choice as unknown).toEqual(sent)
  })

  test('where allowed tools cannot be named, only they are declared', () => {
    const toolChoice = { kind: 'allowed', mode: 'required', names: ['find'] } as const
    const { body } = lower({ tools: [tool, bare], toolChoice }, target(xai))
    expect((body.tools as JsonObject[]).map(({ name }) => name)).toEqual(['find'])
    expect(body.tool_choice).toBe('required')
  })

  test('parallel calls are only spoken of where there are tools', () => {
    expect(lower({ tools: [tool], parallelToolCalls: false }).body.parallel_tool_calls).toBe(false)
    expect(lower({ parallelToolCalls: false }).body).not.toHaveProperty('parallel_tool_calls')
  })
})

describe('reasoning', () => {
  test.each<readonly [ChatRequest['reasoning'], Partial<ResponsesQuirks>, JsonObject | undefined]>([
    [undefined, {}, undefined],
    [{ effort: 'high' }, {}, { effort: 'high' }],
    [{ effort: 'none' }, {}, { effort: 'none' }],
    [{ enabled: false }, {}, { effort: 'none' }],
    [{ enabled: true }, {}, { summary: 'auto' }],
    [{ effort: 'low', exclude: false }, {}, { effort: 'low', summary: 'auto' }],
    [{ exclude: false, summary: 'detailed' }, {}, { summary: 'detailed' }],
    [{ enabled: true, exclude: true }, {}, undefined],
    [{ exclude: false, summary: 'concise' }, xai, undefined],
    [{ enabled: true, effort: 'low' }, xai, { effort: 'low' }],
  ])('%p', (reasoning, quirks, sent) => {
    const { body, warnings } = lower({ reasoning }, target(quirks))
    expect(body.reasoning).toEqual(sent as JsonObject)
    expect(warnings).toEqual([])
  })

  test('an effort or a budget that the provider has no word for is replaced and named', () => {
    const most = lower({ reasoning: { effort: 'max' } })
    expect(most.body.reasoning).toEqual({ effort: 'xhigh' })
    const budget = lower({ reasoning: { maxTokens: 1000 } })
    expect(budget.body.reasoning).toEqual({ effort: 'low' })
    expect([...most.warnings, ...budget.warnings].map(({ param }) => param)).toEqual([
      'reasoning',
      'reasoning',
    ])
  })

  test('is asked back encrypted of models that reason, and of no others', () => {
    const include = ['reasoning.encrypted_content']
    expect(lower({}).body.include).toEqual(include)
    expect(lower({}, plain).body).not.toHaveProperty('include')
    expect(lower({}, target({ encryptedReasoning: false })).body).not.toHaveProperty('include')
    // The catalog may not know a model of the operator's own; the client does.
    expect(lower({ reasoning: { effort: 'low' } }, plain).body.include).toEqual(include)
    expect(lower({}, target({ alwaysReasons: true }, { reasoning: false })).body.include).toEqual(include)
    expect(lower({ reasoning: { effort: 'none' } }, plain).body).not.toHaveProperty('include')
  })
})

describe('parameters', () => {
  test('sampling and labels keep their names', () => {
    const { body, warnings } = lower(
      {
        maxOutputTokens: 500,
        sampling: { temperature: 0.2, topP: 0.9, n: 1 },
        labels: {
          user: 'u',
          safetyIdentifier: 's',
          promptCacheKey: 'k',
          serviceTier: 'flex',
          metadata: { a: 'b' },
          store: false,
          verbosity: 'low',
        },
      },
      plain,
    )
    const { input: _, model: _model, ...rest } = body
    expect(rest).toEqual({
      max_output_tokens: 500,
      temperature: 0.2,
      top_p: 0.9,
      user: 'u',
      safety_identifier: 's',
      prompt_cache_key: 'k',
      metadata: { a: 'b' },
      text: { verbosity: 'low' },
      store: false,
      stream: false,
    })
    // Of another tier the price is not known.
    expect(warnings.map(({ param }) => param)).toEqual(['service_tier'])
  })

  test('what the protocol has no field for is left out and named', () => {
    const sampling = {
      topK: 1,
      minP: 0.1,
      frequencyPenalty: 0.5,
      presencePenalty: 0.5,
      repetitionPenalty: 1.1,
      seed: 7,
      stop: ['x'],
      logitBias: { '1': 2 },
    }
    const { body, warnings } = lower({ sampling, labels: { store: true } }, plain)
    expect(warnings.map(({ param }) => param).toSorted()).toEqual([
      'frequency_penalty',
      'logit_bias',
      'min_p',
      'presence_penalty',
      'repetition_penalty',
      'seed',
      'stop',
      'store',
      'top_k',
    ])
    expect(Object.keys(body).toSorted()).toEqual(['input', 'model', 'store', 'stream'])
    expect(body.store).toBe(false)
  })

  test('models that reason lose their temperature with a warning, unless they do not reason now', () => {
    const sampling = { temperature: 0.2, topP: 0.5 }
    expect(params({ sampling })).toEqual(['temperature', 'top_p'])
    expect(params({ sampling, reasoning: { effort: 'none' } })).toEqual([])
    expect(params({ sampling: { temperature: 1 } })).toEqual([])
    expect(lower({ sampling }, target(xai)).body.temperature).toBe(0.2)
  })

  test('xAI is not sent what it refuses', () => {
    const labels = { user: 'u', serviceTier: 'flex', metadata: { a: 'b' }, verbosity: 'low' }
    const { body, warnings } = lower({ labels }, target(xai))
    expect(body).not.toHaveProperty('text')
    expect(body.user).toBe('u')
    expect(warnings.map(({ param }) => param).toSorted()).toEqual(['metadata', 'service_tier', 'verbosity'])
  })

  test('a bound below what the provider accepts is raised and named', () => {
    const { body, warnings } = lower({ maxOutputTokens: 5 })
    expect(body.max_output_tokens).toBe(16)
    expect(warnings.map(({ param }) => param)).toEqual(['max_tokens'])
    expect(lower({ maxOutputTokens: 5 }, target(xai)).body.max_output_tokens).toBe(5)
  })

  test('log probabilities are asked for by name', () => {
    const { body } = lower({ sampling: { logprobs: true, topLogprobs: 3 } }, plain)
    expect(body.include).toEqual(['message.output_text.logprobs'])
    expect(body.top_logprobs).toBe(3)
  })

  test.each<readonly [string, Partial<ChatRequest>, Target<ResponsesQuirks>, string]>([
    ['more than one answer', { sampling: { n: 2 } }, target(), 'n'],
    ['log probabilities of a model that reasons', { sampling: { logprobs: true } }, target(), 'logprobs'],
    [
      'log probabilities of xAI',
      { sampling: { logprobs: true } },
      target(xai, { reasoning: false }),
      'logprobs',
    ],
    ['an answer in sound', { rest: { modalities: ['text', 'audio'] } }, target(), 'modalities'],
  ])('%s is refused', (_, changes, to, param) => {
    expect(refusal(() => lower(changes, to))).toEqual(['unsupported_parameter', param])
  })

  test.each<readonly [ChatRequest['responseFormat'], JsonObject | undefined]>([
    [{ kind: 'text' }, undefined],
    [{ kind: 'json-object' }, { format: { type: 'json_object' } }],
    [
      { kind: 'json-schema', name: 'city', description: 'A city.', schema: { type: 'object' }, strict: true },
      {
        format: {
          type: 'json_schema',
          name: 'city',
          description: 'A city.',
          schema: { type: 'object' },
          strict: true,
        },
      },
    ],
    [
      { kind: 'json-schema', name: 'city', description: undefined, schema: {}, strict: undefined },
      { format: { type: 'json_schema', name: 'city', schema: {} } },
    ],
  ])('the format %p', (responseFormat, text) => {
    expect(lower({ responseFormat }).body.text).toEqual(text as JsonObject)
  })

  test('unknown fields are left out and named, as are those of chat completions alone', () => {
    const rest = {
      background: true,
      prompt_cache_retention: '24h',
      model: 'other',
      store: true,
      prediction: { type: 'content' },
      modalities: ['text'],
    }
    const { body, warnings } = lower({ rest }, plain)
    expect(body).toMatchObject({ prompt_cache_retention: '24h', model: 'gpt-4o', store: false })
    expect(body).not.toHaveProperty('background')
    expect(body).not.toHaveProperty('prediction')
    expect(body).not.toHaveProperty('modalities')
    expect(warnings.map(({ param }) => param)).toEqual(['background', 'model', 'store', 'prediction'])
  })
})
