import { describe, expect, test } from 'bun:test'
import type { ChatCompletionCreateParams } from 'openai/resources/chat/completions'
import { z } from 'zod'
import type { JsonObject, Message } from '../../../src/conversation/request.ts'
import { GatewayError } from '../../../src/errors/errors.ts'
import { inbound } from '../../../src/protocols/openai-chat/inbound/inbound.ts'
import {
  chatCompletion,
  chatCompletionChunk,
  chatCompletionRequest,
} from '../../../src/protocols/openai-chat/inbound/schema.ts'
import { cases } from '../../support/recordings.ts'

const hello = [{ role: 'user', content: 'Hello' }]
const body = (fields: object = {}): unknown =>
  JSON.parse(JSON.stringify({ model: 'lab/m', messages: hello, ...fields }))
const parse = (fields: object = {}) => inbound.parse(body(fields))
const request = (fields: object = {}) => parse(fields).toChatRequest()
const messages = (...list: object[]) => request({ messages: list }).messages
const userParts = (...content: object[]) => messages({ role: 'user', content })[0]!.content

function refusal(value: unknown): [string, string | undefined] {
  try {
    inbound.parse(value).toChatRequest()
  } catch (error) {
    if (error instanceof GatewayError) return [error.code, error.details.param]
    throw error
  }
  return ['accepted', undefined]
}

const call = (id: string) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } })
const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object' } } }

describe('a request is refused, and the field named', () => {
  test.each([
    [{ messages: undefined }, 'messages'],
    [{ messages: [] }, 'messages'],
    [{ messages: 'hi' }, 'messages'],
    [{ model: undefined }, 'model'],
    [{ model: '' }, 'model'],
    [{ model: 5 }, 'model'],
    [{ messages: [{ role: 'robot', content: 'x' }] }, 'messages[0].role'],
    [{ messages: [{ role: 'user' }] }, 'messages[0].content'],
    [{ messages: [{ role: 'user', content: 5 }] }, 'messages[0].content'],
    [{ messages: [null] }, 'messages[0]'],
    [
      { messages: [{ role: 'user', content: [{ type: 'text', text: 'a' }, { type: 'hologram' }] }] },
      'messages[0].content[1].type',
    ],
    [{ messages: [{ role: 'user', content: [{ type: 'text' }] }] }, 'messages[0].content[0].text'],
    [
      { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: 'https://x' }] }] },
      'messages[0].content[0].image_url',
    ],
    [
      {
        messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png' } }] }],
      },
      'messages[0].content[0].image_url.url',
    ],
    [
      { messages: [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AA' } }] }] },
      'messages[0].content[0].input_audio.format',
    ],
    [{ messages: [{ role: 'user', content: [{ type: 'file', file: {} }] }] }, 'messages[0].content[0].file'],
    [{ messages: [{ role: 'tool', content: 'x' }] }, 'messages[0].tool_call_id'],
    [{ messages: [{ role: 'tool', content: 'x', tool_call_id: 'a' }] }, 'messages[0].tool_call_id'],
    [
      {
        messages: [
          { role: 'assistant', tool_calls: [{ id: 'a', type: 'function', function: { name: 'f' } }] },
        ],
      },
      'messages[0].tool_calls[0].function.arguments',
    ],
    [
      { messages: [{ role: 'assistant', tool_calls: [{ ...call('a'), id: '' }] }] },
      'messages[0].tool_calls[0].id',
    ],
    [
      { messages: [{ role: 'assistant', reasoning_details: [{ type: '' }] }] },
      'messages[0].reasoning_details[0].type',
    ],
    [{ temperature: -0.1 }, 'temperature'],
    [{ temperature: 2.1 }, 'temperature'],
    [{ temperature: 'hot' }, 'temperature'],
    [{ top_p: -1 }, 'top_p'],
    [{ top_p: 1.5 }, 'top_p'],
    [{ top_k: -1 }, 'top_k'],
    [{ min_p: -1 }, 'min_p'],
    [{ frequency_penalty: 3 }, 'frequency_penalty'],
    [{ presence_penalty: -3 }, 'presence_penalty'],
    [{ repetition_penalty: -1 }, 'repetition_penalty'],
    [{ max_tokens: 0 }, 'max_tokens'],
    [{ max_tokens: -5 }, 'max_tokens'],
    [{ max_tokens: 1.5 }, 'max_tokens'],
    [{ max_completion_tokens: -1 }, 'max_completion_tokens'],
    [{ n: 0 }, 'n'],
    [{ n: -1 }, 'n'],
    [{ n: 129 }, 'n'],
    [{ seed: 1.5 }, 'seed'],
    [{ stop: [1] }, 'stop[0]'],
    [{ stop: 5 }, 'stop'],
    [{ stream: 'yes' }, 'stream'],
    [{ stream_options: { include_usage: 1 } }, 'stream_options.include_usage'],
    [{ logit_bias: { 5: 101 } }, 'logit_bias.5'],
    [{ top_logprobs: 21 }, 'top_logprobs'],
    [{ top_logprobs: -1 }, 'top_logprobs'],
    [{ logprobs: 3 }, 'logprobs'],
    [{ tools: [{ type: 'function', function: {} }] }, 'tools[0].function.name'],
    [{ tools: 'all' }, 'tools'],
    [{ tool_choice: 'maybe', tools: [tool] }, 'tool_choice'],
    [{ tool_choice: { type: 'function' }, tools: [tool] }, 'tool_choice.function'],
    [
      { tool_choice: { type: 'function', function: { name: 'g' } }, tools: [tool] },
      'tool_choice.function.name',
    ],
    [{ tool_choice: 'required' }, 'tool_choice'],
    [{ response_format: { type: 'yaml' } }, 'response_format.type'],
    [{ response_format: { type: 'json_schema' } }, 'response_format.json_schema'],
    [{ reasoning_effort: 'extreme' }, 'reasoning_effort'],
    [{ reasoning: { effort: 'extreme' } }, 'reasoning.effort'],
    [{ reasoning: { max_tokens: -1 } }, 'reasoning.max_tokens'],
    [{ metadata: { a: 1 } }, 'metadata.a'],
    [{ models: 'a/b' }, 'models'],
    [{ provider: { order: 'openai' } }, 'provider.order'],
    [{ provider: { max_price: { input: -1 } } }, 'provider.max_price.input'],
    [{ provider: { max_price: { output: 1e-9 } } }, 'provider.max_price.output'],
    [{ max_cost: -1 }, 'max_cost'],
    [{ max_cost: '-1' }, 'max_cost'],
    [{ max_cost: '1e3' }, 'max_cost'],
    [{ max_cost: 'NaN' }, 'max_cost'],
    [{ max_tool_calls: -1 }, 'max_tool_calls'],
    [{ session_id: 7 }, 'session_id'],
    [{ strict: 'yes' }, 'strict'],
    [{ on_disconnect: 'explode' }, 'on_disconnect'],
  ])('%j names %s', (fields, param) => {
    expect(refusal(body(fields))).toEqual(['invalid_request', param])
  })

  test('numbers that JSON spells but no double holds are not finite', () => {
    expect(
      refusal(JSON.parse('{"model":"a/b","messages":[{"role":"user","content":"x"}],"temperature":1e999}')),
    ).toEqual(['invalid_request', 'temperature'])
  })

  test.each([[null], ['text'], [[]], [5], [undefined]])('%j is no body', (value) => {
    expect(refusal(value)).toEqual(['invalid_request', undefined])
  })

  test('never repeats a value of the body', () => {
    const secret = 'sk-secret-value'
    for (const fields of [{ temperature: secret }, { messages: [{ role: secret }] }, { max_cost: secret }]) {
      expect(() => parse(fields)).not.toThrow(secret)
      expect(() => parse(fields)).toThrow(GatewayError)
    }
  })
})

describe('what is not served is named as such', () => {
  test.each([
    [{ tools: [tool, { type: 'file_search' }] }, 'tools[1].type'],
    [{ tools: [{ type: 'code_interpreter' }] }, 'tools[0].type'],
    [{ tools: [{ type: 'custom_grammar', name: 'x' }] }, 'tools[0].type'],
    [{ tools: [tool], tool_choice: { type: 'web_search' } }, 'tool_choice.type'],
    [{ messages: [{ role: 'assistant', audio: { id: 'a' } }] }, 'messages[0].audio'],
  ])('%j', (fields, param) => {
    expect(refusal(body(fields))).toEqual(['unsupported_parameter', param])
  })

  test.each([
    [{ model: 'a/b', input: 'hi' }, 'input', '/v1/responses'],
    [{ model: 'a/b', prompt: 'hi' }, 'prompt', '/v1/completions'],
    [{ contents: [] }, 'contents', 'messages'],
  ])('%j belongs to another endpoint', (value, param, told) => {
    expect(refusal(value)).toEqual(['wrong_endpoint', param])
    expect(() => inbound.parse(value)).toThrow(told)
  })
})

describe('the envelope', () => {
  test('of a plain request has the defaults', () => {
    expect(parse().envelope).toEqual({
      model: 'lab/m',
      fallbacks: [],
      stream: false,
      includeUsage: false,
      maxOutputTokens: undefined,
      n: 1,
      routing: {
        order: [],
        only: [],
        ignore: [],
        allowFallbacks: true,
        maxPrice: { input: undefined, output: undefined, request: undefined },
        dataPolicy: undefined,
        sort: undefined,
        afterFilter: 'end',
        continues: false,
      },
      maxCost: undefined,
      sessionId: undefined,
      strict: false,
      onDisconnect: undefined,
    })
  })

  test('holds what only the gateway reads', () => {
    const { envelope } = parse({
      models: ['a/b', 'c/d/e'],
      stream: true,
      stream_options: { include_usage: true },
      max_tokens: 10,
      max_completion_tokens: 20,
      n: 2,
      provider: {
        order: ['openai'],
        only: ['openai', 'azure'],
        ignore: ['groq'],
        allow_fallbacks: false,
        require_parameters: true,
        max_price: { input: '0.5', output: 2 },
      },
      max_cost: '0.05',
      session_id: 's',
      on_disconnect: 'finish',
    })
    expect(envelope).toEqual({
      model: 'lab/m',
      fallbacks: ['a/b', 'c/d/e'],
      stream: true,
      includeUsage: true,
      maxOutputTokens: 20,
      n: 2,
      routing: {
        order: ['openai'],
        only: ['openai', 'azure'],
        ignore: ['groq'],
        allowFallbacks: false,
        maxPrice: { input: '0.5', output: '2', request: undefined },
        dataPolicy: undefined,
        sort: undefined,
        afterFilter: 'end',
        continues: false,
      },
      maxCost: '0.05',
      sessionId: 's',
      strict: true,
      onDisconnect: 'finish',
    })
  })

  test('takes null for "not set" in every optional field', () => {
    const optional = Object.keys(chatCompletionRequest.shape).filter(
      (field) => field !== 'model' && field !== 'messages',
    )
    const nulls = Object.fromEntries(optional.map((field) => [field, null]))
    expect(parse(nulls).envelope).toEqual(parse().envelope)
    expect(request(nulls)).toEqual(request())
  })
})

describe('models without a model', () => {
  const named = (fields: object) => inbound.parse(JSON.parse(JSON.stringify({ messages: hello, ...fields })))

  test.each([[{ models: ['a/b', 'c/d', 'e/f'] }], [{ model: null, models: ['a/b', 'c/d', 'e/f'] }]])(
    '%j: the first is the model, the rest are its fallbacks',
    (fields) => {
      const { envelope, body: kept } = named(fields)
      expect([envelope.model, envelope.fallbacks]).toEqual(['a/b', ['c/d', 'e/f']])
      expect(kept).toMatchObject({ model: 'a/b' })
    },
  )

  test.each([[{}], [{ models: [] }], [{ models: null }], [{ models: [7] }], [{ models: 'a/b' }]])(
    '%j names none',
    (fields) => expect(() => named(fields)).toThrow(/model/),
  )
})

describe('the translation', () => {
  test('reads every kind of message', () => {
    const list = [
      { role: 'system', content: 'Be brief.', cache_control: { type: 'ephemeral', ttl: '1h' } },
      { role: 'developer', content: [{ type: 'text', text: 'x', cache_control: { type: 'ephemeral' } }] },
      { role: 'user', content: 'Hi', name: 'ann' },
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          {
            id: 'a',
            type: 'function',
            function: { name: 'f', arguments: '' },
            extra_content: { google: { thought_signature: 'sig' } },
          },
        ],
      },
      { role: 'tool', tool_call_id: 'a', content: [{ type: 'text', text: '3' }] },
      { role: 'assistant', content: 'Three.', refusal: 'No more.' },
    ]
    expect(messages(...list)).toEqual([
      { role: 'system', content: [{ kind: 'text', text: 'Be brief.', cache: { ttl: '1h' } }] },
      { role: 'developer', content: [{ kind: 'text', text: 'x', cache: { ttl: '5m' } }] },
      { role: 'user', content: [{ kind: 'text', text: 'Hi', cache: undefined }], name: 'ann' },
      {
        role: 'assistant',
        content: [],
        reasoning: [],
        toolCalls: [{ id: 'a', name: 'f', arguments: '{}', thoughtSignature: 'sig' }],
      },
      {
        role: 'tool',
        toolCallId: 'a',
        content: [{ kind: 'text', text: '3', cache: undefined }],
        isError: false,
      },
      {
        role: 'assistant',
        content: [
          { kind: 'text', text: 'Three.', cache: undefined },
          { kind: 'refusal', text: 'No more.' },
        ],
        reasoning: [],
        toolCalls: [],
      },
    ] satisfies Message[])
  })

  test('reads every kind of part', () => {
    const file = (fields: object) => ({ type: 'file', file: fields })
    expect(
      userParts(
        { type: 'image_url', image_url: { url: 'https://x.test/a.png', detail: 'low' } },
        { type: 'image_url', image_url: { url: 'data:image/PNG;base64,AAAA' } },
        { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
        file({ file_data: 'data:application/pdf;base64,BBBB', filename: 'a.pdf' }),
        file({ file_data: 'CCCC', filename: 'a.txt' }),
        file({ file_id: 'file-1' }),
        file({ file_url: 'https://x.test/a.pdf' }),
        file({ file_data: 'data:text/plain,a%20b' }),
        { type: 'video_url', video_url: { url: 'https://x.test/a.mp4' } },
      ).map((part) => ('source' in part ? [part.kind, part.source] : part)),
    ).toEqual([
      ['image', { kind: 'url', url: 'https://x.test/a.png' }],
      ['image', { kind: 'base64', mediaType: 'image/png', data: 'AAAA' }],
      { kind: 'audio', format: 'wav', data: 'AAAA' },
      ['file', { kind: 'base64', mediaType: 'application/pdf', data: 'BBBB' }],
      ['file', { kind: 'base64', mediaType: 'text/plain', data: 'CCCC' }],
      ['file', { kind: 'provider-file', id: 'file-1' }],
      ['file', { kind: 'url', url: 'https://x.test/a.pdf' }],
      ['file', { kind: 'base64', mediaType: 'text/plain', data: 'YSBi' }],
      ['video', { kind: 'url', url: 'https://x.test/a.mp4' }],
    ])
  })

  test('takes reasoning back unchanged, and plain reasoning text where the details are lost', () => {
    const details = [
      {
        type: 'reasoning.text',
        format: 'anthropic-claude-v1',
        index: 0,
        text: 'hm',
        signature: 's',
        id: null,
      },
      { type: 'reasoning.encrypted', format: 'google-gemini-v1', index: 1, data: 'AA', new_field: 1 },
      { type: 'reasoning.new', format: 'new-v1', index: 2, parts: [1] },
    ]
    const [full, plain] = messages(
      { role: 'assistant', content: 'a', reasoning_content: 'hm', reasoning_details: details },
      { role: 'assistant', content: 'a', reasoning_content: 'hm' },
    )
    expect(full).toMatchObject({ reasoning: details as never })
    expect(plain).toMatchObject({
      reasoning: [{ type: 'reasoning.text', format: null, index: 0, text: 'hm' }],
    })
  })

  test('takes an answer back whose reasoning is of a kind of its own', () => {
    const answer = { role: 'assistant', content: 'a', reasoning: { tokens: [1] } }
    expect(messages(answer)).toMatchObject([{ role: 'assistant', reasoning: [] }])
  })

  test('reads the legacy function fields as tools, calls and results', () => {
    const read = request({
      functions: [{ name: 'f', parameters: { type: 'object' } }],
      function_call: { name: 'f' },
      messages: [
        { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{"a":1}' } },
        { role: 'function', name: 'f', content: '2' },
      ],
    })
    expect(read.tools).toMatchObject([{ name: 'f', parameters: { type: 'object' } }])
    expect(read.toolChoice).toEqual({ kind: 'function', name: 'f' })
    const [asked, answered] = read.messages
    expect(asked).toMatchObject({ toolCalls: [{ id: 'call_legacy_0', name: 'f', arguments: '{"a":1}' }] })
    expect(answered).toMatchObject({ role: 'tool', toolCallId: 'call_legacy_0' })
  })

  test.each([
    ['auto', { kind: 'auto' }],
    ['none', { kind: 'none' }],
    ['required', { kind: 'required' }],
    [
      { type: 'function', function: { name: 'f' } },
      { kind: 'function', name: 'f' },
    ],
    [
      {
        type: 'allowed_tools',
        allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'f' } }] },
      },
      { kind: 'allowed', mode: 'auto', names: ['f'] },
    ],
  ])('reads the tool choice %j', (tool_choice, expected) => {
    expect(request({ tools: [tool], tool_choice }).toolChoice).toEqual(expected as never)
  })

  test.each([
    [{ type: 'text' }, { kind: 'text' }],
    [{ type: 'json_object' }, { kind: 'json-object' }],
    [
      { type: 'json_schema', json_schema: { name: 'n', schema: { type: 'object' }, strict: true } },
      { kind: 'json-schema', name: 'n', description: undefined, schema: { type: 'object' }, strict: true },
    ],
  ])('reads the response format %j', (response_format, expected) => {
    expect(request({ response_format }).responseFormat).toEqual(expected as never)
  })

  test('reads sampling, labels and reasoning; leaves the unknown in rest and the gateway’s own fields out', () => {
    const read = request({
      temperature: 0,
      stop: 'END',
      seed: 7,
      logprobs: true,
      top_logprobs: 2,
      user: 'u',
      metadata: { a: 'b' },
      reasoning_effort: 'low',
      reasoning: { max_tokens: 100 },
      max_cost: '1',
      models: ['a/b'],
      provider: {},
      session_id: 's',
      stream_options: { include_usage: true },
      modalities: ['text'],
      prediction: { type: 'content', content: 'x' },
      chat_template_kwargs: { x: 1 },
    })
    expect(read.sampling).toEqual({ temperature: 0, stop: ['END'], seed: 7, logprobs: true, topLogprobs: 2 })
    expect(read.labels).toEqual({ user: 'u', metadata: { a: 'b' } })
    expect(read.reasoning).toEqual({ effort: 'low', maxTokens: 100 })
    expect(read.rest).toEqual({
      modalities: ['text'],
      prediction: { type: 'content', content: 'x' },
      chat_template_kwargs: { x: 1 },
    })
  })

  test('keeps the body with every field the client sent', () => {
    const sent = body({ brand_new: { deep: [1] }, messages: [{ role: 'user', content: 'x', weight: 2 }] })
    expect(inbound.parse(sent).body).toEqual(sent as JsonObject)
  })

  test('no key of the body changes a prototype', () => {
    const hostile = JSON.parse(
      '{"model":"a/b","__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"prototype":{"polluted":1},' +
        '"messages":[{"role":"user","content":"x","__proto__":{"polluted":1}}],"metadata":{"__proto__":"x"},' +
        '"tools":[{"type":"function","function":{"name":"f","parameters":{"__proto__":{"polluted":1}}}}]}',
    )
    const parsed = inbound.parse(hostile)
    const assigned: JsonObject = Object.assign({}, parsed.body, parsed.toChatRequest().rest)
    expect('polluted' in assigned).toBe(false)
    expect('polluted' in {}).toBe(false)
    expect('polluted' in parsed.toChatRequest().rest).toBe(false)
  })
})

describe('requests of real clients', () => {
  const providers = ['openai-chat', 'groq', 'xai-chat', 'deepseek', 'openrouter', 'azure-chat', 'together']
  const recorded = providers
    .flatMap((provider) => cases(provider))
    .filter((one) => one.status === 200 && Array.isArray(one.request?.['messages']))

  test('there are recordings', () => {
    expect(recorded.length).toBeGreaterThan(40)
  })

  test.each(recorded.map((one) => [`${one.provider}/${one.id}`, one.request] as const))(
    '%s is read',
    (_, sent) => {
      const [code, param] = refusal({ ...sent, model: 'lab/m' })
      // Tools that run at the provider are not served here, and are told by name.
      if (code === 'unsupported_parameter')
        expect(param).toMatch(/^tools\[\d+\]\.type$|^web_search_options$|\.audio$/)
      else expect([code, param]).toEqual(['accepted', undefined])
    },
  )

  test('whatever the official library types is accepted', () => {
    const typed: ChatCompletionCreateParams = {
      model: 'openai/gpt-5',
      messages: [
        { role: 'developer', content: 'x' },
        { role: 'user', content: [{ type: 'text', text: 'x' }] },
      ],
      audio: { format: 'mp3', voice: 'alloy' },
      modalities: ['text', 'audio'],
      prediction: { type: 'content', content: 'x' },
      prompt_cache_key: 'k',
      prompt_cache_retention: '24h',
      reasoning_effort: 'none',
      response_format: { type: 'json_schema', json_schema: { name: 'n', schema: {} } },
      safety_identifier: 's',
      service_tier: 'auto',
      stop: ['a', 'b'],
      store: false,
      stream: true,
      stream_options: { include_usage: true, include_obfuscation: false },
      tools: [{ type: 'function', function: { name: 'f', strict: true, parameters: {} } }],
      parallel_tool_calls: false,
      verbosity: 'low',
    }
    expect(refusal(typed)).toEqual(['accepted', undefined])
  })
})

describe('the wire schemas', () => {
  test.each([
    ['request', chatCompletionRequest],
    ['answer', chatCompletion],
    ['chunk', chatCompletionChunk],
  ])('of the %s can be documented as JSON Schema', (_, schema) => {
    const documented = z.toJSONSchema(schema)
    expect(documented.properties).toHaveProperty('model')
  })
})
