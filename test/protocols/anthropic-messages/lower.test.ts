// What the provider is sent: each rule of the Messages API, and each promise to the client about what is dropped.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type {
  ChatRequest,
  ContentPart,
  FunctionTool,
  JsonObject,
  Message,
  ReasoningDetail,
} from '../../../src/conversation/request.ts'
import { GatewayError } from '../../../src/errors/errors.ts'
import { outbound } from '../../../src/protocols/anthropic-messages/outbound/outbound.ts'
import { defaultQuirks } from '../../../src/protocols/anthropic-messages/outbound/quirks.ts'
import { providerById } from '../../../src/providers/registry.ts'
import { outbound as bedrock } from '../../../src/protocols/bedrock-converse/parse.ts'
import { assistant, call, chat, result, system, user } from '../../support/conversation.ts'
import { target as bedrockTarget } from '../bedrock-converse/support.ts'
import { target } from './support.ts'

const lower = (changes: Partial<ChatRequest>, at: Parameters<typeof target>[0] = {}) => {
  const { body, warnings, headers, path } = outbound.lower(chat(changes), target(at))
  return { body, headers, path, warned: warnings.map((warning) => warning.param) }
}
const turnsOf = (messages: readonly Message[]) =>
  lower({ messages }).body.messages as { role: string; content: JsonObject[] }[]
const refusalOf = (changes: Partial<ChatRequest>) => {
  try {
    lower(changes)
    return undefined
  } catch (error) {
    return error instanceof GatewayError ? [error.code, error.details.param] : error
  }
}
const tool = (name: string, changes: Partial<FunctionTool> = {}): FunctionTool => ({
  name,
  description: undefined,
  parameters: undefined,
  strict: undefined,
  cache: undefined,
  ...changes,
})
const text = (words: string, ttl?: '5m' | '1h'): ContentPart => ({
  kind: 'text',
  text: words,
  cache: ttl && { ttl },
})
const thought: ReasoningDetail = {
  type: 'reasoning.text',
  format: 'anthropic-claude-v1',
  index: 0,
  text: 'Hm.',
  signature: 'sig',
}

describe('the envelope', () => {
  test('is the path, the version and the model', () => {
    const { path, headers, body } = lower({})
    expect(path).toBe('/messages')
    expect(headers).toEqual({ 'anthropic-version': '2023-06-01' })
    expect(body).toEqual({
      model: 'claude-sonnet-4-5',
      max_tokens: 64_000,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }],
    })
  })

  test('of a cloud has the version in the body and the model in the path', () => {
    const quirks = {
      ...outbound.defaultQuirks,
      path: '/models/{model}:rawPredict',
      streamPath: '/models/{model}:streamRawPredict',
      version: 'vertex-2023-10-16',
      versionIn: 'body' as const,
    }
    const { path, headers, body } = lower({ stream: true }, { quirks })
    expect(path).toBe('/models/claude-sonnet-4-5:streamRawPredict')
    expect(headers).toEqual({})
    expect(body).toMatchObject({ anthropic_version: 'vertex-2023-10-16', stream: true })
    expect('model' in body).toBe(false)
  })

  test('of Claude at Bedrock streams from an address of its own', () => {
    const quirks = { ...outbound.defaultQuirks, ...providerById('bedrockclaude')!.quirks }
    expect(lower({ stream: true }, { quirks }).path).toBe(
      '/model/claude-sonnet-4-5/invoke-with-response-stream',
    )
  })

  test.each([
    // asked      model's most  sent    warned
    [100, 64_000, 100, []],
    [undefined, 64_000, 64_000, []],
    [undefined, undefined, 4096, ['max_tokens']],
    [100_000, 64_000, 64_000, ['max_tokens']],
  ] as const)('max_tokens %p on a model of %p is %p', (asked, most, sent, warned) => {
    const lowered = lower({ maxOutputTokens: asked }, { maxOutputTokens: most })
    expect(lowered.body.max_tokens).toBe(sent)
    expect(lowered.warned).toEqual([...warned])
  })
})

describe('parameters', () => {
  test.each([
    [{ n: 2 }, 'n'],
    [{ logprobs: true }, 'logprobs'],
    [{ topLogprobs: 3 }, 'top_logprobs'],
  ])('%p is refused by name', (sampling, param) => {
    expect(refusalOf({ sampling })).toEqual(['unsupported_parameter', param])
  })

  test.each([
    [{ n: 1, logprobs: false, topLogprobs: 0, frequencyPenalty: 0 }, {}, []],
    [{ temperature: 0.3 }, { temperature: 0.3 }, []],
    [{ temperature: 1.7 }, { temperature: 1 }, ['temperature']],
    [{ temperature: 0.3, topP: 0.9 }, { temperature: 0.3 }, ['top_p']],
    [{ topP: 0.9, topK: 5 }, { top_p: 0.9, top_k: 5 }, []],
    [
      { seed: 1, presencePenalty: 1, logitBias: { '5': 1 }, minP: 0.1 },
      {},
      ['seed', 'presence_penalty', 'logit_bias', 'min_p'],
    ],
    [{ stop: ['END', ' \n'] }, { stop_sequences: ['END'] }, ['stop']],
    [{ stop: [''] }, {}, ['stop']],
  ])('%p becomes %p', (sampling, sent, warned) => {
    const lowered = lower({ sampling })
    const { model: _, max_tokens: __, messages: ___, ...rest } = lowered.body
    expect(rest).toEqual(sent)
    expect(lowered.warned.toSorted()).toEqual(warned.toSorted())
  })

  test('of sampling are left out for models that refuse them', () => {
    const lowered = lower({ sampling: { temperature: 1, topP: 0.5, topK: 3 } }, { model: 'claude-opus-4-7' })
    expect(lowered.body).not.toContainAnyKeys(['temperature', 'top_p', 'top_k'])
    expect(lowered.warned).toEqual(['temperature', 'top_p', 'top_k'])
  })

  test('of Anthropic pass, others are named', () => {
    const lowered = lower({ rest: { context_management: { edits: [] }, betas: ['x-1', 'y-2'], best_of: 3 } })
    expect(lowered.body.context_management).toEqual({ edits: [] })
    expect(lowered.headers['anthropic-beta']).toBe('x-1,y-2')
    expect(lowered.body).not.toContainAnyKeys(['betas', 'best_of'])
    expect(lowered.warned).toEqual(['best_of'])
  })

  test('of Anthropic that a cloud may not know are not asked of it', () => {
    const quirks = { ...defaultQuirks, takesBetas: false }
    expect(lower({ rest: { betas: ['x-1'] } }, { quirks }).headers).toEqual({
      'anthropic-version': '2023-06-01',
    })
  })

  test.each<[JsonObject, string[]]>([
    [{ speed: 'fast' }, ['speed']],
    [{ speed: 'standard' }, []],
    [{ inference_geo: 'us' }, ['inference_geo']],
    [{ fallbacks: [{ model: 'another' }] }, ['fallbacks']],
    [{ mcp_servers: [{ type: 'url', url: 'https://example.com' }] }, ['mcp_servers']],
    [{ mcp_servers: [] }, []],
  ])('that would make the call dearer than its price do not pass: %j', (rest, warned) => {
    const lowered = lower({ rest })
    expect(lowered.body).not.toContainAnyKeys(Object.keys(rest))
    expect(lowered.warned).toEqual(warned)
  })

  test('name the end user', () => {
    expect(lower({ labels: { user: 'u1', serviceTier: 'default' } }).body).toMatchObject({
      metadata: { user_id: 'u1' },
      service_tier: 'standard_only',
    })
    expect(lower({ labels: { serviceTier: 'flex' } }).warned).toEqual(['service_tier'])
  })
})

describe('messages', () => {
  test('of system and developer are hoisted and joined', () => {
    const { body } = lower({
      messages: [system('A'), user('Hi'), { role: 'developer', content: [text('B')] }],
    })
    expect(body.system).toBe('A\nB')
    expect(body.messages).toHaveLength(1)
  })

  test('of one role in a row are one turn', () => {
    expect(turnsOf([user('a'), user('b'), assistant('c'), assistant('d'), user('e')])).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'c' },
          { type: 'text', text: 'd' },
        ],
      },
      { role: 'user', content: [{ type: 'text', text: 'e' }] },
    ])
  })

  test('never have blank text', () => {
    const messages = [user('a'), assistant('', { toolCalls: [call('c1')] }), result('c1', ''), user(' \n')]
    expect(turnsOf(messages)).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'a' }] },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'lookup', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1' }] },
    ])
  })

  test('without any content are refused', () => {
    expect(refusalOf({ messages: [user('')] })).toEqual(['invalid_request', 'messages'])
  })

  test('that are only system are sent as the user', () => {
    const lowered = lower({ messages: [system('Say hi')] })
    expect(lowered.body.messages).toEqual([{ role: 'user', content: [{ type: 'text', text: 'Say hi' }] }])
    expect(lowered.warned).toEqual(['messages'])
  })

  test('to be continued do not end in white space', () => {
    expect(turnsOf([user('a'), assistant('The answer is ')]).at(-1)!.content).toEqual([
      { type: 'text', text: 'The answer is' },
    ])
  })

  test.each([
    ['image/jpg', 'image/jpeg'],
    ['IMAGE/PNG; charset=binary', 'image/png'],
    ['image/svg+xml', undefined],
  ] as const)('carry an image of type %s as %p', (mediaType, sent) => {
    const source = { kind: 'base64', mediaType, data: 'aaaa' } as const
    const parts = [
      { kind: 'image', source, detail: undefined, cache: undefined },
      { kind: 'file', source, filename: 'a', cache: undefined },
    ] as const
    for (const part of parts) {
      const request = { messages: [{ role: 'user', content: [part] } as const] }
      if (sent === undefined) {
        expect(refusalOf(request)).toEqual(['unsupported_parameter', 'messages[0].content'])
      } else {
        const [{ content }] = lower(request).body.messages as [{ content: JsonObject[] }]
        expect(content).toEqual([
          { type: 'image', source: { type: 'base64', media_type: sent, data: 'aaaa' } },
        ])
      }
    }
  })

  test('carry images and files in all their forms', () => {
    const pdf = { kind: 'base64', mediaType: 'application/pdf', data: 'JVBE' } as const
    const parts: ContentPart[] = [
      {
        kind: 'image',
        source: { kind: 'url', url: 'https://x.test/a.png' },
        detail: 'low',
        cache: { ttl: '5m' },
      },
      {
        kind: 'image',
        source: { kind: 'base64', mediaType: 'image/png', data: 'aaaa' },
        detail: undefined,
        cache: undefined,
      },
      { kind: 'file', source: pdf, filename: 'a.pdf', cache: { ttl: '1h' } },
      {
        kind: 'file',
        source: { kind: 'url', url: 'https://x.test/b.pdf' },
        filename: undefined,
        cache: undefined,
      },
      {
        kind: 'file',
        source: { kind: 'provider-file', id: 'file_1' },
        filename: undefined,
        cache: undefined,
      },
      {
        kind: 'file',
        source: { kind: 'base64', mediaType: 'text/csv', data: btoa('a,b') },
        filename: undefined,
        cache: undefined,
      },
    ]
    const { body, headers } = lower({ messages: [{ role: 'user', content: parts }] })
    expect((body.messages as JsonObject[])[0]!.content).toEqual([
      {
        type: 'image',
        source: { type: 'url', url: 'https://x.test/a.png' },
        cache_control: { type: 'ephemeral' },
      },
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'aaaa' } },
      {
        type: 'document',
        source: { type: 'base64', media_type: 'application/pdf', data: 'JVBE' },
        title: 'a.pdf',
        cache_control: { type: 'ephemeral', ttl: '1h' },
      },
      { type: 'document', source: { type: 'url', url: 'https://x.test/b.pdf' } },
      { type: 'document', source: { type: 'file', file_id: 'file_1' } },
      { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'a,b' } },
    ])
    expect(headers['anthropic-beta']).toBe('files-api-2025-04-14')
  })

  test.each([
    [{ kind: 'audio', format: 'wav', data: 'x' }],
    [{ kind: 'video', source: { kind: 'url', url: 'https://x.test/v' } }],
    [
      {
        kind: 'file',
        source: { kind: 'base64', mediaType: 'application/zip', data: 'x' },
        filename: undefined,
        cache: undefined,
      },
    ],
  ] as [ContentPart][])('with %p are refused, naming the message', (part) => {
    expect(refusalOf({ messages: [{ role: 'user', content: [part] }] })).toEqual([
      'unsupported_parameter',
      'messages[0].content',
    ])
  })
})

describe('cache marks', () => {
  test('stay where the client put them: system, tools, messages, results', () => {
    const { body } = lower({
      tools: [tool('a'), tool('b', { cache: { ttl: '1h' } })],
      messages: [
        { role: 'system', content: [text('S1', '1h'), text('S2')] },
        { role: 'user', content: [text('u', '5m')] },
        assistant('', { content: [], toolCalls: [{ ...call('c1', 'a'), cache: { ttl: '5m' } }] }),
        { role: 'tool', toolCallId: 'c1', content: [text('r', '5m')], isError: false },
      ],
    })
    const mark = { type: 'ephemeral' }
    expect(body.system).toEqual([
      { type: 'text', text: 'S1', cache_control: { type: 'ephemeral', ttl: '1h' } },
      { type: 'text', text: 'S2' },
    ])
    expect((body.tools as JsonObject[]).map((one) => one.cache_control)).toEqual([
      undefined as never,
      { type: 'ephemeral', ttl: '1h' },
    ])
    const turns = body.messages as { content: JsonObject[] }[]
    expect(turns.map((turn) => turn.content[0]!.cache_control)).toEqual([mark, mark, mark])
    expect(turns[2]!.content[0]!.content).toEqual([{ type: 'text', text: 'r' }])
  })
})

describe('tool results', () => {
  test('of one turn are one message, results first, text after', () => {
    const messages = [
      user('q'),
      assistant('', { toolCalls: [call('c1'), call('c2')] }),
      result('c2', 'two'),
      user('and?'),
      result('c1', 'one'),
    ]
    const turns = turnsOf(messages)
    expect(turns).toHaveLength(3)
    expect(turns[2]!.content.map((block) => block.tool_use_id ?? block.text)).toEqual(['c2', 'c1', 'and?'])
  })

  test('that are missing are made up as errors, with a warning', () => {
    const { body, warned } = lower({
      messages: [
        user('q'),
        assistant('', { toolCalls: [call('c1'), call('c2')] }),
        result('c1', 'one'),
        user('next'),
      ],
    })
    const last = (body.messages as { content: JsonObject[] }[])[2]!.content
    expect(last[1]).toMatchObject({ type: 'tool_result', tool_use_id: 'c2', is_error: true })
    expect(last[2]).toEqual({ type: 'text', text: 'next' })
    expect(warned).toEqual(['messages'])
  })

  test('are made up between two assistant messages too', () => {
    const turns = turnsOf([
      user('q'),
      assistant('', { toolCalls: [call('c1')] }),
      assistant('Anyway.'),
      user('ok'),
    ])
    expect(turns.map((turn) => turn.role)).toEqual(['user', 'assistant', 'user', 'assistant', 'user'])
  })

  test('given twice for one call are joined', () => {
    const turns = turnsOf([
      user('q'),
      assistant('', { toolCalls: [call('c1')] }),
      result('c1', 'a'),
      result('c1', 'b'),
    ])
    expect(turns[2]!.content).toEqual([
      {
        type: 'tool_result',
        tool_use_id: 'c1',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
      },
    ])
  })

  test('without their call are refused by name', () => {
    expect(refusalOf({ messages: [user('q'), result('c9', 'x')] })).toEqual([
      'invalid_request',
      'messages[1].tool_call_id',
    ])
  })

  test('of two calls with one id are refused', () => {
    expect(
      refusalOf({ messages: [user('q'), assistant('', { toolCalls: [call('c'), call('c')] })] }),
    ).toEqual(['invalid_request', 'messages[1].tool_calls'])
  })

  test('whose call has broken arguments keep them visible to the model', () => {
    const { body, warned } = lower({
      messages: [user('q'), assistant('', { toolCalls: [call('c1', 'f', '{"a": ')] }), result('c1', 'x')],
    })
    expect((body.messages as { content: JsonObject[] }[])[1]!.content[0]!.input).toEqual({
      invalid_arguments: '{"a": ',
    })
    expect(warned).toEqual(['messages[1].tool_calls'])
  })
})

describe('tool ids', () => {
  const idsOf = (turnIds: readonly string[][]) => {
    const messages = turnIds.flatMap((ids): Message[] => [
      user('q'),
      assistant('', { toolCalls: ids.map((id) => call(id)) }),
      ...ids.map((id) => result(id, id)),
    ])
    const blocks = turnsOf(messages).flatMap((turn) => turn.content)
    return {
      calls: blocks.filter((block) => block.type === 'tool_use').map((block) => String(block.id)),
      results: blocks
        .filter((block) => block.type === 'tool_result')
        .map((block) => String(block.tool_use_id)),
    }
  }

  test('that the API takes are kept; others are rewritten on both ends, without collision', () => {
    const ids = idsOf([['functions.x:0', 'functions_x_0', 'toolu_1'], ['call_0'], ['call_0'], ['']])
    const made = (stem: string) => expect.stringMatching(new RegExp(`^${stem}_[0-9a-f]{8}$`)) as string
    expect(ids.calls).toEqual([
      made('functions_x_0'),
      'functions_x_0',
      'toolu_1',
      'call_0',
      'call_0_2',
      made('_'),
    ])
    expect(ids.results).toEqual(ids.calls)
  })

  test('are fit, unique, and the same on call and result, whatever the client sends', () => {
    const turn = fc.uniqueArray(
      fc.oneof(fc.string({ maxLength: 4 }), fc.constantFrom('a', 'a_2', 'a.2', 'a:2', '')),
      {
        maxLength: 4,
      },
    )
    fc.assert(
      fc.property(fc.array(turn, { minLength: 1, maxLength: 4 }), (turns) => {
        const ids = idsOf(turns)
        expect(ids.results).toEqual(ids.calls)
        expect(new Set(ids.calls).size).toBe(turns.flat().length)
        for (const id of ids.calls) expect(id).toMatch(/^[a-zA-Z0-9_-]+$/)
      }),
      { numRuns: 200 },
    )
  })
})

describe('tools', () => {
  const tools = [
    tool('a', { description: 'A', parameters: { type: 'object', properties: { x: { type: 'string' } } } }),
    tool('b'),
  ]
  const choiceOf = (changes: Partial<ChatRequest>) => lower({ tools, ...changes }).body.tool_choice

  test('always have an input schema', () => {
    expect(lower({ tools }).body.tools).toEqual([
      {
        name: 'a',
        description: 'A',
        input_schema: { type: 'object', properties: { x: { type: 'string' } } },
      },
      { name: 'b', input_schema: { type: 'object', properties: {} } },
    ])
  })

  const member = (name: string): JsonObject => ({
    type: 'object',
    properties: { kind: { const: name }, [name]: { type: 'string' } },
    required: ['kind', name],
  })
  test.each<readonly [string, JsonObject, string[]]>([
    ['any of', { anyOf: [member('a'), member('b')] }, ['kind']],
    ['one of', { oneOf: [member('a'), { $ref: '#/$defs/b' }], $defs: { b: member('b') } }, ['kind']],
    ['all of', { allOf: [member('a'), member('b')] }, ['kind', 'a', 'b']],
    ['some within another', { anyOf: [member('a'), { anyOf: [member('b')] }] }, ['kind']],
  ])('may have %s at the root, which the API would refuse', (_, parameters, required) => {
    const { body, warned } = lower({
      tools: [tool('f', { parameters: parameters })],
    })
    const [{ input_schema: schema }] = body.tools as [{ input_schema: JsonObject }]
    expect(schema).not.toContainAnyKeys(['anyOf', 'oneOf', 'allOf'])
    expect(schema).toMatchObject({
      type: 'object',
      properties: {
        kind: { anyOf: [{ const: 'a' }, { const: 'b' }] },
        a: { type: 'string' },
        b: { type: 'string' },
      },
      required,
    })
    expect(warned).toEqual(['tools'])
  })

  test.each([
    [undefined, undefined, undefined],
    [{ kind: 'auto' }, undefined, { type: 'auto' }],
    [{ kind: 'none' }, false, { type: 'none' }],
    [{ kind: 'required' }, undefined, { type: 'any' }],
    [{ kind: 'function', name: 'b' }, undefined, { type: 'tool', name: 'b' }],
    [undefined, false, { type: 'auto', disable_parallel_tool_use: true }],
    [{ kind: 'required' }, false, { type: 'any', disable_parallel_tool_use: true }],
    [{ kind: 'required' }, true, { type: 'any' }],
  ] as const)('choice %p with parallel calls %p is %p', (toolChoice, parallelToolCalls, sent) => {
    expect(choiceOf({ toolChoice, parallelToolCalls })).toEqual(sent as never)
  })

  test('that the choice does not allow are not offered', () => {
    const { body } = lower({ tools, toolChoice: { kind: 'allowed', mode: 'required', names: ['b'] } })
    expect((body.tools as JsonObject[]).map((one) => one.name)).toEqual(['b'])
    expect(body.tool_choice).toEqual({ type: 'any' })
  })

  test('that the choice names must be there', () => {
    expect(refusalOf({ tools, toolChoice: { kind: 'function', name: 'c' } })).toEqual([
      'invalid_request',
      'tool_choice',
    ])
    expect(refusalOf({ tools, toolChoice: { kind: 'allowed', mode: 'auto', names: ['c'] } })).toEqual([
      'invalid_request',
      'tool_choice',
    ])
  })

  test('of the history are declared when the request brings none', () => {
    const { body } = lower({
      messages: [user('q'), assistant('', { toolCalls: [call('c1', 'f')] }), result('c1', 'x')],
    })
    expect(body.tools).toEqual([{ name: 'f', input_schema: { type: 'object', properties: {} } }])
    expect(body.tool_choice).toEqual({ type: 'none' })
  })

  test('are strict where the model knows it', () => {
    const strict = [tool('a', { strict: true })]
    expect((lower({ tools: strict }).body.tools as JsonObject[])[0]!.strict).toBe(true)
    expect(lower({ tools: strict }, { model: 'claude-3-7-sonnet-20250219' }).warned).toEqual(['tools'])
  })
})

describe('thinking', () => {
  const thinkingOf = (reasoning: ChatRequest['reasoning'], model: string, maxOutputTokens = 16_000) => {
    const { body, warned } = lower({ reasoning, maxOutputTokens }, { model })
    return { thinking: body.thinking, effort: (body.output_config as JsonObject | undefined)?.effort, warned }
  }

  test.each([
    // asked                                model                        thinking sent                                   effort     warned
    [{ effort: 'low' }, 'claude-sonnet-4-5', { type: 'enabled', budget_tokens: 4096 }, undefined, []],
    [
      { effort: 'high' },
      'claude-3-7-sonnet-20250219',
      { type: 'enabled', budget_tokens: 12_800 },
      undefined,
      [],
    ],
    [{ enabled: true }, 'claude-opus-4-20250514', { type: 'enabled', budget_tokens: 8192 }, undefined, []],
    [{ maxTokens: 2000 }, 'claude-haiku-4-5', { type: 'enabled', budget_tokens: 2000 }, undefined, []],
    [
      { maxTokens: 20_000 },
      'claude-haiku-4-5',
      { type: 'enabled', budget_tokens: 15_999 },
      undefined,
      ['reasoning.max_tokens'],
    ],
    [
      { maxTokens: 10 },
      'claude-haiku-4-5',
      { type: 'enabled', budget_tokens: 1024 },
      undefined,
      ['reasoning.max_tokens'],
    ],
    [{ effort: 'high' }, 'claude-3-5-haiku-latest', undefined, undefined, ['reasoning']],
    [
      { effort: 'medium' },
      'us.anthropic.claude-opus-4-6-v1',
      { type: 'adaptive', display: 'summarized' },
      'medium',
      [],
    ],
    [
      { effort: 'xhigh' },
      'claude-sonnet-4.6',
      { type: 'adaptive', display: 'summarized' },
      'high',
      ['reasoning.effort'],
    ],
    [{ maxTokens: 3000 }, 'claude-opus-4-6', { type: 'enabled', budget_tokens: 3000 }, undefined, []],
    [{ effort: 'xhigh' }, 'claude-opus-4-7', { type: 'adaptive', display: 'summarized' }, 'xhigh', []],
    [
      { maxTokens: 3000 },
      'claude-sonnet-5',
      { type: 'adaptive', display: 'summarized' },
      undefined,
      ['reasoning.max_tokens'],
    ],
    [
      { effort: 'minimal' },
      'claude-opus-5',
      { type: 'adaptive', display: 'summarized' },
      'low',
      ['reasoning.effort'],
    ],
    [{ effort: 'max', exclude: true }, 'claude-fable-5', { type: 'adaptive', display: 'omitted' }, 'max', []],
    [{ effort: 'none' }, 'claude-sonnet-4-5', undefined, undefined, []],
    [{ effort: 'none' }, 'claude-opus-4-7', undefined, undefined, []],
    [{ enabled: false }, 'claude-sonnet-5', { type: 'disabled' }, undefined, []],
    [{ effort: 'none' }, 'claude-fable-5', undefined, undefined, ['reasoning']],
    [undefined, 'claude-sonnet-5', undefined, undefined, []],
    [{ effort: 'low' }, 'some-other-model', { type: 'enabled', budget_tokens: 4096 }, undefined, []],
  ] as const)('%p on %s sends %p and effort %p', (reasoning, model, thinking, effort, warned) => {
    expect(thinkingOf(reasoning, model)).toEqual({ thinking, effort, warned } as never)
  })

  test('needs more than its smallest budget', () => {
    expect(thinkingOf({ effort: 'low' }, 'claude-sonnet-4-5', 1024)).toEqual({
      thinking: undefined,
      effort: undefined,
      warned: ['reasoning'],
    })
  })

  test('always has a budget below max_tokens', () => {
    const asked = fc.record({
      maxTokens: fc.option(fc.integer({ min: 1, max: 200_000 }), { nil: undefined }),
    })
    fc.assert(
      fc.property(asked, fc.integer({ min: 1, max: 64_000 }), (reasoning, most) => {
        const { thinking } = thinkingOf({ enabled: true, ...reasoning }, 'claude-sonnet-4-5', most)
        if (thinking === undefined) expect(most).toBeLessThanOrEqual(1024)
        else expect((thinking as JsonObject).budget_tokens as number).toBeWithin(1024, most)
      }),
    )
  })

  test('drops the sampling it excludes', () => {
    const { body, warned } = lower({ reasoning: { effort: 'low' }, sampling: { temperature: 0.2, topK: 3 } })
    expect(body).not.toContainAnyKeys(['temperature', 'top_k'])
    expect(warned).toEqual(['temperature', 'top_k'])
    expect(lower({ reasoning: { effort: 'low' }, sampling: { temperature: 1 } }).body.temperature).toBe(1)
  })

  test('of a client that speaks to Anthropic passes as it is', () => {
    const native = { type: 'enabled', budget_tokens: 5000, display: 'summarized' }
    expect(lower({ rest: { thinking: native }, reasoning: { maxTokens: 5000 } }).body.thinking).toEqual(
      native,
    )
  })

  test.each([
    [16_000, { type: 'enabled', budget_tokens: 5000 }, []],
    [3000, { type: 'enabled', budget_tokens: 2999 }, ['thinking.budget_tokens']],
    [900, undefined, ['thinking']],
  ] as const)('of such a client still fits into max_tokens %d', (maxOutputTokens, sent, warned) => {
    const lowered = lower({ rest: { thinking: { type: 'enabled', budget_tokens: 5000 } }, maxOutputTokens })
    expect(lowered.body.thinking).toEqual(sent as never)
    expect(lowered.warned).toEqual([...warned])
  })

  test('gives way to a forced tool, with a warning', () => {
    const forced = {
      tools: [tool('a')],
      toolChoice: { kind: 'required' },
      reasoning: { effort: 'low' },
    } as const
    const { body, warned } = lower(forced)
    expect(body.thinking).toBeUndefined()
    expect(body.tool_choice).toEqual({ type: 'any' })
    expect(warned).toEqual(['reasoning'])
    expect(lower(forced, { model: 'claude-sonnet-5' }).body.thinking).toEqual({ type: 'disabled' })
  })

  test('stays where the model cannot stop it: then the tool is not forced', () => {
    const { body, warned } = lower(
      { tools: [tool('a')], toolChoice: { kind: 'required' } },
      { model: 'claude-fable-5' },
    )
    expect(body.tool_choice).toEqual({ type: 'auto' })
    expect(warned).toEqual(['tool_choice'])
  })

  describe('before tool results', () => {
    const history = (reasoning: readonly ReasoningDetail[]): Message[] => [
      user('q'),
      assistant('', { reasoning, toolCalls: [call('c1')] }),
      result('c1', 'x'),
    ]
    const ask = (messages: Message[], model = 'claude-sonnet-4-5') =>
      lower({ messages, tools: [tool('lookup')], reasoning: { effort: 'low' } }, { model })

    test('goes on when the client kept the blocks', () => {
      const { body, warned } = ask(history([thought]))
      expect(body.thinking).toEqual({ type: 'enabled', budget_tokens: 4096 })
      expect((body.messages as { content: JsonObject[] }[])[1]!.content[0]).toEqual({
        type: 'thinking',
        thinking: 'Hm.',
        signature: 'sig',
      })
      expect(warned).toEqual([])
    })

    test('is disabled for the request when the client lost them', () => {
      const { body, warned } = ask(history([]))
      expect(body.thinking).toBeUndefined()
      expect(warned).toEqual(['reasoning'])
    })

    test('goes on without them where the model decides by itself', () => {
      expect(ask(history([]), 'claude-opus-4-7').body.thinking).toMatchObject({ type: 'adaptive' })
    })

    test.each([
      [{ ...thought, format: 'openai-responses-v1' }],
      [{ ...thought, format: null }],
      [{ ...thought, signature: null }],
    ])('leaves out what this provider did not sign: %p', (detail) => {
      const { body, warned } = ask(history([detail]))
      expect(JSON.stringify(body)).not.toContain('Hm.')
      expect(warned).toEqual(['messages[1].reasoning_details', 'reasoning'])
    })
  })

  test('alone makes no message, because the API takes none that ends in it', () => {
    const { body, warned } = lower({
      messages: [user('a'), assistant('', { reasoning: [thought] }), user('b')],
    })
    expect(body.messages).toHaveLength(1)
    expect(warned).toEqual(['messages[1]'])
  })
})

describe('an assistant message that comes last', () => {
  const messages = [user('q'), assistant('The answer is ')]
  test.each([
    ['claude-sonnet-4-5', ['user', 'assistant'], []],
    ['claude-opus-4-6', ['user', 'assistant', 'user'], ['messages']],
    ['claude-sonnet-5', ['user', 'assistant', 'user'], ['messages']],
  ] as const)('is gone on with by %s as far as it can', (model, roles, params) => {
    const { body, warned } = lower({ messages }, { model })
    expect((body.messages as JsonObject[]).map(({ role }) => role as string)).toEqual([...roles])
    expect(warned).toEqual([...params])
    const hosted = bedrock.lower(chat({ messages }), bedrockTarget({ model: `us.anthropic.${model}-v1:0` }))
    expect((hosted.body.messages as JsonObject[]).map(({ role }) => role as string)).toEqual([...roles])
  })
})

describe('a structured answer', () => {
  const schema = {
    type: 'object',
    properties: { a: { type: 'string' } },
    required: ['a'],
    additionalProperties: false,
  }
  const responseFormat = {
    kind: 'json-schema',
    name: 'x',
    description: undefined,
    schema,
    strict: true,
  } as const

  test('is native where the model knows it', () => {
    const { body } = lower({ responseFormat })
    expect(body.output_config).toEqual({ format: { type: 'json_schema', schema } })
    expect('tools' in body).toBe(false)
  })

  test('is a forced tool on older models, whose call comes back as text', () => {
    const at = { model: 'claude-3-5-haiku-latest' }
    const { body } = lower({ responseFormat }, at)
    const [made] = body.tools as JsonObject[]
    expect(made!.input_schema).toEqual(schema)
    const once = { disable_parallel_tool_use: true }
    expect(body.tool_choice).toEqual({ type: 'tool', name: made!.name!, ...once })
    const events = outbound.whole(
      {
        content: [{ type: 'tool_use', id: 't1', name: made!.name, input: { a: 'b' } }],
        stop_reason: 'tool_use',
        usage: { input_tokens: 1, output_tokens: 1 },
      },
      target(at),
    )
    expect(events.filter((event) => event.kind !== 'usage')).toEqual([
      { kind: 'message-start', id: undefined, model: undefined },
      { kind: 'text-delta', choice: 0, text: '{"a":"b"}' },
      { kind: 'choice-finish', choice: 0, reason: 'stop', native: 'tool_use' },
      { kind: 'finish' },
    ])
  })

  test('leaves the client its tools', () => {
    const { body } = lower({ responseFormat, tools: [tool('a')] }, { model: 'claude-3-5-haiku-latest' })
    expect(body.tools).toHaveLength(2)
    expect(body.tool_choice).toEqual({ type: 'any' })
  })

  test('of any shape is a tool everywhere: the API has no JSON mode', () => {
    const { body } = lower({ responseFormat: { kind: 'json-object' } })
    expect((body.tools as JsonObject[])[0]!.input_schema).toEqual({
      type: 'object',
      additionalProperties: true,
    })
  })

  test('of plain text asks for nothing', () => {
    expect(lower({ responseFormat: { kind: 'text' } }).body).not.toContainAnyKeys(['output_config', 'tools'])
  })
})
