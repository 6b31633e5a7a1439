// What agents of today send beside functions reaches every provider: as it is where it is known, as a function where it
// is not, or it is refused. Nothing of it is left out of a request that is answered.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type ChatEvent, collect } from '../../src/conversation/event.ts'
import type { JsonObject } from '../../src/conversation/request.ts'
import { GatewayError } from '../../src/errors/errors.ts'
import { callItem, InputStream } from '../../src/protocols/openai/client-tools.ts'
import { outbounds } from '../../src/protocols/registry.ts'
import { asks, customRoutes, lowered, routeTo } from '../chat/routes.ts'
import { targetsLike } from '../support/conversation.ts'
import { parseFrames } from '../support/recordings.ts'
import {
  assertStream,
  bill,
  callOf,
  context,
  eventsIn,
  framesFor,
  usage,
  wholeFor,
} from './openai-responses/inbound-support.ts'

const wait = { type: 'function', name: 'wait', parameters: { type: 'object', properties: {} } }
const grammar = { type: 'grammar', syntax: 'lark', definition: 'start: "GRAMMAR-MARK"' }
const patch = { type: 'custom', name: 'patch', description: 'Patches', format: grammar }
const note = { type: 'custom', name: 'note' }
const search = {
  type: 'tool_search',
  execution: 'client',
  description: 'Searches',
  parameters: { type: 'object', properties: { query: { type: 'string' } } },
}
const namespace = { type: 'namespace', name: 'crm', description: 'CRM', tools: [wait, patch] }
const go = { type: 'message', role: 'user', content: 'go' }

/** Every kind of tool: its declaration, a call, what answers it, and words of each that must arrive. */
const kinds: Readonly<
  Record<string, { tool: JsonObject; call: JsonObject; result: JsonObject; name: string; said: string[] }>
> = {
  'a custom tool': {
    tool: note,
    name: 'note',
    call: { type: 'custom_tool_call', call_id: 'c1', name: 'note', input: 'INPUT-MARK "quoted"' },
    result: { type: 'custom_tool_call_output', call_id: 'c1', output: 'RESULT-MARK' },
    said: ['INPUT-MARK', 'RESULT-MARK'],
  },
  'a custom tool with a grammar': {
    tool: patch,
    name: 'patch',
    call: { type: 'custom_tool_call', call_id: 'c1', name: 'patch', input: 'INPUT-MARK' },
    result: {
      type: 'custom_tool_call_output',
      call_id: 'c1',
      output: 'RESULT-MARK',
    },
    said: ['GRAMMAR-MARK', 'INPUT-MARK', 'RESULT-MARK'],
  },
  'a local shell': {
    tool: { type: 'local_shell' },
    name: 'local_shell',
    call: {
      type: 'local_shell_call',
      id: 'lsh_1',
      call_id: 'c1',
      status: 'completed',
      action: { type: 'exec', command: ['ls', 'INPUT-MARK'], env: {} },
    },
    result: { type: 'local_shell_call_output', call_id: 'c1', output: 'RESULT-MARK' },
    said: ['INPUT-MARK', 'RESULT-MARK'],
  },
  'a shell': {
    tool: { type: 'shell', environment: { type: 'local' } },
    name: 'shell',
    call: {
      type: 'shell_call',
      call_id: 'c1',
      action: { commands: ['INPUT-MARK'], timeout_ms: 5, max_output_length: null },
    },
    result: {
      type: 'shell_call_output',
      call_id: 'c1',
      output: [{ stdout: 'RESULT-MARK', stderr: '', outcome: { type: 'exit', exit_code: 0 } }],
    },
    said: ['INPUT-MARK', 'RESULT-MARK'],
  },
  'a patch tool': {
    tool: { type: 'apply_patch' },
    name: 'apply_patch',
    call: {
      type: 'apply_patch_call',
      call_id: 'c1',
      operation: { type: 'create_file', path: 'INPUT-MARK', diff: '+a' },
    },
    result: { type: 'apply_patch_call_output', call_id: 'c1', status: 'failed', output: 'RESULT-MARK' },
    said: ['INPUT-MARK', 'RESULT-MARK'],
  },
  'a search among tools': {
    tool: search,
    name: 'tool_search',
    call: {
      type: 'tool_search_call',
      call_id: 'c1',
      execution: 'client',
      arguments: { query: 'INPUT-MARK' },
    },
    result: {
      type: 'tool_search_output',
      call_id: 'c1',
      execution: 'client',
      tools: [
        { type: 'namespace', name: 'found', tools: [{ ...wait, name: 'result_mark', defer_loading: true }] },
      ],
    },
    said: ['INPUT-MARK', 'result_mark'],
  },
  'a function in a namespace': {
    tool: namespace,
    name: 'crm__wait',
    call: {
      type: 'function_call',
      call_id: 'c1',
      name: 'wait',
      namespace: 'crm',
      arguments: '{"a":"INPUT-MARK"}',
    },
    result: { type: 'function_call_output', call_id: 'c1', output: 'RESULT-MARK' },
    said: ['GRAMMAR-MARK', 'INPUT-MARK', 'RESULT-MARK'],
  },
}

const responses = routeTo('lab', 'm', true, {
  protocol: 'openai-responses',
  base_url: 'http://127.0.0.1:1/v1',
})
const knowsFunctions = routeTo('lab', 'm', true, {
  protocol: 'openai-responses',
  base_url: 'http://127.0.0.1:1/v1',
  quirks: { clientTools: 'functions' },
})
const elsewhere = [
  ...customRoutes.filter(({ provider }) => provider.protocol !== 'openai-responses'),
  knowsFunctions,
]
const nameOf = ({ provider }: (typeof customRoutes)[number]) => provider.protocol

describe.each(Object.entries(kinds))('%s', (_, { tool, call, result, name, said }) => {
  const plain = (item: JsonObject) => {
    const { id: _id, ...fields } = item
    return fields
  }

  test('goes to a provider of the protocol as it is, with its history and the choice of it', async () => {
    const { body } = await lowered(asks('responses', { input: [go, call, result], tools: [tool] }), responses)
    expect(body['tools']).toMatchObject([plain(tool)])
    const [, called, answered] = body['input'] as JsonObject[]
    expect(called).toMatchObject(plain(call))
    expect(answered).toMatchObject(plain(result))
  })

  test.each(elsewhere.map((route) => [nameOf(route), route] as const))(
    'is a function for %s, and its history calls and results',
    async (protocol, route) => {
      const asked = asks('responses', { input: [go, call, result], tools: [tool] })
      const { body, warnings } = await lowered(asked, route)
      expect(warnings.map(({ param }) => param).filter((param) => /tools|input/.test(param))).toEqual([])
      const text = JSON.stringify(body)
      for (const word of [name, ...said]) expect(text).toContain(word)
      if (protocol !== 'openai-responses')
        expect(text).not.toContain(String(call['type']).replace('function_call', '?'))
    },
  )

  test('is chosen by name everywhere, or its provider cannot be told to', async () => {
    const choice: JsonObject =
      tool['type'] === 'namespace'
        ? { type: 'function', name: 'wait', namespace: 'crm' }
        : { type: tool['type']!, ...(typeof tool['name'] === 'string' ? { name: tool['name'] } : {}) }
    const asked = () => asks('responses', { tools: [wait, tool], tool_choice: choice })
    expect((await lowered(asked(), responses)).body['tool_choice']).toEqual(choice)
    const { body } = await lowered(asked(), knowsFunctions)
    expect(body['tool_choice']).toEqual({ type: 'function', name })
    expect(asked().request.toChatRequest().toolChoice).toEqual({ kind: 'function', name })
  })

  test('is called as the client declared it, streamed and whole, whoever the provider is', () => {
    const asked = callOf({ input: 'x', tools: [tool] }).request.toChatRequest()
    const form = asked.tools.find((each) => each.name === name)!.form!
    const read = callOf({ input: [go, call, result], tools: [tool] }).request.toChatRequest().messages[1]!
    if (read.role !== 'assistant') throw new Error('no call was read')
    const [{ arguments: json }] = read.toolCalls as [(typeof read.toolCalls)[number]]
    const pieces = json.match(/[^]{1,3}/g)!
    const events: ChatEvent[] = [
      { kind: 'tool-call-start', choice: 0, call: 0, id: 'c1', name, thoughtSignature: undefined },
      ...pieces.map((each): ChatEvent => ({ kind: 'tool-call-delta', choice: 0, call: 0, arguments: each })),
      { kind: 'choice-finish', choice: 0, reason: 'tool_calls', native: 'tool_calls' },
    ]
    const { status: _status, id: _id, ...told } = call
    const frames = framesFor(events, callOf({ input: 'x', tools: [tool] }))
    if (form.kind === 'function') assertStream(frames)
    const streamed = eventsIn(frames)
    expect(streamed.at(-1)!['response']).toMatchObject({ output: [{ ...told, status: 'completed' }] })
    expect(wholeFor(events, callOf({ input: 'x', tools: [tool] }))).toMatchObject({ output: [told] })
    if (form.kind !== 'custom') return
    const deltas = streamed.filter(({ type }) => type === 'response.custom_tool_call_input.delta')
    expect(deltas.length).toBeGreaterThan(2)
    expect(deltas.map(({ delta }) => String(delta)).join('')).toBe(String(call['input']))
    expect(streamed.find(({ type }) => type === 'response.custom_tool_call_input.done')).toMatchObject({
      input: call['input'],
    })
  })
})

describe('tools that an item of the conversation declares', () => {
  const item = { type: 'additional_tools', role: 'developer', tools: [{ ...namespace, tools: [wait] }, note] }

  test('stay in it for a provider of the protocol', async () => {
    const { body } = await lowered(asks('responses', { input: [item, go] }), responses)
    expect(body['input']).toMatchObject([item, { role: 'user', content: 'go' }])
    expect(body).not.toHaveProperty('tools')
  })

  test.each(elsewhere.map((route) => [nameOf(route), route] as const))(
    'are offered by %s',
    async (_, route) => {
      const { body } = await lowered(asks('responses', { input: [item, go] }), route)
      const offered = JSON.stringify([body['tools'], body['toolConfig']])
      expect(offered).toContain('crm__wait')
      expect(offered).toContain('"note"')
    },
  )

  test('may be the gateway’s own: no provider runs what they declare', async () => {
    const web = { type: 'web_search' }
    const asked = asks('responses', { input: [{ ...item, tools: [web, note] }, go] })
    expect(asked.request.gatewayTools?.declarations).toMatchObject([{ param: 'input[0].tools[0]' }])
    const { body } = await lowered(asked, responses)
    expect(body['input']).toMatchObject([{ type: 'additional_tools', tools: [note] }, {}])
  })

  test('are counted as they are shown to the model', () => {
    const { texts } = asks('responses', { input: [item, go] }).request.promptParts.reading()
    for (const word of ['properties', 'crm', 'note']) expect(texts.join('')).toContain(word)
  })

  test('are refused like all others', () => {
    const more = { input: [{ ...item, tools: [{ type: 'code_interpreter' }] }, go] }
    expect(() => asks('responses', more)).toThrow(
      expect.objectContaining({ details: expect.objectContaining({ param: 'input[0].tools[0].type' }) }),
    )
  })
})

test('what a search has found is offered from then on', async () => {
  const { call, result } = kinds['a search among tools']!
  for (const route of elsewhere) {
    const { body } = await lowered(asks('responses', { input: [go, call, result], tools: [search] }), route)
    expect(JSON.stringify([body['tools'], body['toolConfig']])).toContain('found__result_mark')
  }
  const { body } = await lowered(asks('responses', { input: [go, call, result], tools: [search] }), responses)
  expect(body['tools']).toEqual([search])
})

test('a search that the provider runs goes to providers of the protocol; elsewhere all tools are shown', async () => {
  const deferred = { ...wait, defer_loading: true }
  const asked = () => asks('responses', { tools: [{ type: 'tool_search' }, deferred] })
  const { body } = await lowered(asked(), responses)
  expect(body['tools']).toMatchObject([{ name: 'wait', defer_loading: true }, { type: 'tool_search' }])
  for (const route of elsewhere)
    expect(JSON.stringify((await lowered(asked(), route)).body)).toContain('wait')
})

describe('items that only a provider of the protocol can honour', () => {
  test.each<[JsonObject, RegExp]>([
    [{ type: 'compaction', encrypted_content: 'x' }, /compacted/],
    [
      {
        type: 'agent_message',
        author: '/a',
        recipient: '/b',
        content: [{ type: 'encrypted_content', encrypted_content: 'x' }],
      },
      /encrypted/,
    ],
  ])('%j', async (item, why) => {
    const asked = () => asks('responses', { input: [go, item] })
    expect((await lowered(asked(), responses)).body['input']).toMatchObject([{}, item])
    for (const route of elsewhere) {
      const error = await lowered(asked(), route).then(
        () => undefined,
        (reason: unknown) => reason,
      )
      expect(error).toBeInstanceOf(GatewayError)
      expect(error).toMatchObject({ code: 'unsupported_parameter', details: { param: 'input[1]' } })
      expect((error as Error).message).toMatch(why)
    }
  })

  test('a message between agents is the user’s elsewhere, and says whose it is', async () => {
    const content = [{ type: 'input_text', text: 'Done.' }]
    const item = { type: 'agent_message', author: '/root', recipient: '/root/a', content }
    const asked = () => asks('responses', { input: [item] })
    expect((await lowered(asked(), responses)).body['input']).toEqual([item])
    for (const route of elsewhere)
      expect(JSON.stringify((await lowered(asked(), route)).body)).toContain(
        'Message from /root to /root/a:\\nDone.',
      )
  })
})

test.each<[JsonObject, string]>([
  [{ input: [go, { type: 'file_search_call', id: 'fs_1', queries: [] }] }, 'input[1].type'],
  [{ input: [go, { type: 'computer_call_output', call_id: 'c', output: {} }] }, 'input[1].type'],
  [{ tools: [{ type: 'shell', environment: { type: 'container_auto' } }] }, 'tools[0].environment'],
  [{ input: [go, { type: 'custom_tool_call_output', call_id: 'c9', output: 'x' }] }, 'input[1].call_id'],
  [
    { tools: [{ type: 'custom', name: 'a', format: { type: 'grammar', syntax: 'x', definition: '' } }] },
    'tools[0].format.syntax',
  ],
  [{ tools: [note], tool_choice: { type: 'custom', name: 'other' } }, 'tool_choice.name'],
])('what cannot be honoured is refused, never left out: %j', (more, param) => {
  expect(() => asks('responses', more)).toThrow(
    expect.objectContaining({ details: expect.objectContaining({ param }) }),
  )
})

describe('custom tools of chat completions', () => {
  const format = { type: 'grammar', grammar: { syntax: 'regex', definition: 'GRAMMAR-MARK' } }
  const custom = { type: 'custom', custom: { name: 'note', description: 'Notes', format } }
  const call = { id: 'c1', type: 'custom', custom: { name: 'note', input: 'INPUT-MARK "x"' } }
  const messages: JsonObject[] = [
    { role: 'user', content: 'go' },
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', tool_call_id: 'c1', content: 'RESULT-MARK' },
  ]
  const chosen = { type: 'custom', custom: { name: 'note' } }
  const asked = () => asks('chat', { messages, tools: [custom], tool_choice: chosen })
  const openai = routeTo('openai', 'gpt-4o', false)

  test('go to a provider that knows them as they are', async () => {
    const { body } = await lowered(asked(), openai)
    expect(body).toMatchObject({ tools: [custom], tool_choice: chosen })
    expect(body['messages']).toMatchObject(messages)
  })

  test('are custom tools of the Responses protocol, too', async () => {
    const { body } = await lowered(asked(), responses)
    expect(body['tools']).toEqual([
      {
        type: 'custom',
        name: 'note',
        description: 'Notes',
        format: { type: 'grammar', syntax: 'regex', definition: 'GRAMMAR-MARK' },
      },
    ])
    expect(body['input']).toMatchObject([
      {},
      { type: 'custom_tool_call', call_id: 'c1', name: 'note', input: 'INPUT-MARK "x"' },
      { type: 'custom_tool_call_output', call_id: 'c1', output: 'RESULT-MARK' },
    ])
  })

  test.each(elsewhere.map((route) => [nameOf(route), route] as const))(
    'are functions for %s',
    async (_, route) => {
      const text = JSON.stringify((await lowered(asked(), route)).body)
      for (const word of ['note', 'GRAMMAR-MARK', 'INPUT-MARK', 'RESULT-MARK']) expect(text).toContain(word)
      expect(text).not.toContain('"custom"')
    },
  )

  test('are called as custom tools, streamed and whole, though the provider calls functions', () => {
    const { inbound, request } = asked()
    const answering = { ...context, customTools: request.envelope.customTools! }
    const json = JSON.stringify({ input: 'INPUT-MARK "x"' })
    const events: ChatEvent[] = [
      { kind: 'tool-call-start', choice: 0, call: 0, id: 'c1', name: 'note', thoughtSignature: undefined },
      ...json
        .match(/[^]{1,4}/g)!
        .map((each): ChatEvent => ({ kind: 'tool-call-delta', choice: 0, call: 0, arguments: each })),
      { kind: 'choice-finish', choice: 0, reason: 'tool_calls', native: 'tool_calls' },
    ]
    const whole = inbound.whole(collect([...events, { kind: 'finish' }]), usage, bill, answering)
    expect(whole).toMatchObject({
      choices: [{ message: { tool_calls: [call] }, finish_reason: 'tool_calls' }],
    })
    const encoder = inbound.encoder(answering)
    const frames = [
      ...encoder.start(),
      ...events.flatMap((event) => encoder.event(event)),
      ...encoder.finish(usage, bill),
    ]
    const deltas = frames
      .filter(({ data }) => data !== '[DONE]')
      .flatMap(
        ({ data }) =>
          (JSON.parse(data) as { choices: { delta: { tool_calls?: (typeof call)[] } }[] }).choices,
      )
      .flatMap(({ delta }) => delta.tool_calls ?? [])
    expect(deltas[0]).toEqual({ index: 0, ...call, custom: { name: 'note', input: '' } } as never)
    expect(deltas.map((each) => each.custom.input).join('')).toBe('INPUT-MARK "x"')
    expect(frames.filter(({ data }) => data.includes('"finish_reason":"tool_calls"'))).toHaveLength(1)
  })

  test('calls that a provider makes are read, whole and streamed', () => {
    const target = targetsLike({
      model: 'm',
      provider: 'p',
      quirks: outbounds['openai-chat'].defaultQuirks,
    })()
    const wholeAnswer = {
      id: 'x',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: null, tool_calls: [call] },
          finish_reason: 'tool_calls',
        },
      ],
    }
    const chunk = (delta: object, finish_reason: string | null = null) => ({
      event: undefined,
      data: JSON.stringify({ id: 'x', choices: [{ index: 0, delta, finish_reason }] }),
    })
    const streamed = [
      chunk({ tool_calls: [{ index: 0, id: 'c1', type: 'custom', custom: { name: 'note', input: '' } }] }),
      chunk({ tool_calls: [{ index: 0, custom: { input: 'INPUT-MARK ' } }] }),
      chunk({ tool_calls: [{ index: 0, custom: { input: '"x"' } }] }),
      chunk({}, 'tool_calls'),
      { event: undefined, data: '[DONE]' },
    ]
    const { parser, whole } = outbounds['openai-chat']
    for (const events of [whole(wholeAnswer, target), parseFrames(parser(target), streamed)]) {
      const [choice] = collect(events).choices
      expect(choice!.finish).toBe('tool_calls')
      expect(choice!.toolCalls).toMatchObject([
        { id: 'c1', name: 'note', arguments: JSON.stringify({ input: 'INPUT-MARK "x"' }) },
      ])
    }
  })

  test.each<[JsonObject, string]>([
    [
      { tools: [custom], tool_choice: { type: 'custom', custom: { name: 'other' } } },
      'tool_choice.custom.name',
    ],
    [{ tools: [{ type: 'custom', custom: {} }] }, 'tools[0].custom.name'],
  ])('what is wrong with them is named: %j', (more, param) => {
    expect(() => asks('chat', more)).toThrow(
      expect.objectContaining({ details: expect.objectContaining({ param }) }),
    )
  })
})

test('an input streams as it is written, wherever the arguments are cut', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary', maxLength: 40 }),
      fc.array(fc.nat({ max: 6 }), { maxLength: 30 }),
      (input, cuts) => {
        for (const json of [
          JSON.stringify({ input }),
          JSON.stringify({ input }, null, 2),
          asciiOf({ input }),
        ]) {
          const stream = new InputStream()
          let told = ''
          let at = 0
          for (const length of [...cuts, json.length]) {
            told += stream.take(json.slice(at, at + length))
            at += length
          }
          told += stream.end()
          expect(told).toBe(input)
          expect(stream.text).toBe(input)
        }
      },
    ),
  )
})

test.each([
  ['{"patch":"x"}', 'x'],
  ['"x"', 'x'],
  ['x y', 'x y'],
  ['{}', ''],
  ['', ''],
  ['{"input":["a"]}', '{"input":["a"]}'],
])('a model that writes %j means %j', (json, input) => {
  const stream = new InputStream()
  expect(stream.take(json) + stream.end()).toBe(input)
  expect(callItem({ kind: 'custom', name: 'n' }, json)).toMatchObject({ input })
})

function asciiOf(value: object): string {
  return JSON.stringify(value).replace(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
