// Functions in namespaces, as Codex declares the tools of its MCP servers: models are offered plain functions, and the
// client reads of calls as it declared them.

import { expect, test } from 'bun:test'
import type { ChatEvent } from '../../../src/conversation/event.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { assertStream, callOf, eventsIn, framesFor, wholeFor } from './inbound-support.ts'

const fn = (name: string, description: string | null = null) => ({ type: 'function', name, description })
const namespace = (name: string, ...tools: object[]) => ({ type: 'namespace', name, tools })

const offered = (tools: object[], more: object = {}) => {
  const { request } = callOf({ input: 'x', tools, ...more })
  return { names: request.toChatRequest().tools.map(({ name }) => name), warnings: request.warnings }
}

test('the functions of a namespace are offered with its name before theirs, behind the others', () => {
  const tools = [
    namespace('mcp__files', fn('read'), fn('write')),
    fn('shell'),
    namespace('mcp__web__', fn('get')),
  ]
  expect(offered(tools)).toEqual({
    names: ['shell', 'mcp__files__read', 'mcp__files__write', 'mcp__web__get'],
    warnings: [],
  })
})

test('twenty thousand functions of one name are named without trying all names for each', () => {
  const functions = Array.from({ length: 1_000 }, () => fn('f'))
  const { names } = offered(Array.from({ length: 20 }, () => namespace('n', ...functions)))
  expect(new Set(names).size).toBe(20_000)
})

test('no two functions have one name, and none has one that providers refuse', () => {
  const long = 'a'.repeat(64)
  const { names } = offered([
    fn('ns__read'),
    namespace('ns', fn('read')),
    namespace(long, fn('read'), fn('write')),
    namespace('ns__', fn('read')),
  ])
  expect(names.slice(0, 2)).toEqual(['ns__read', 'ns__read_2'])
  expect(new Set(names).size).toBe(5)
  expect(names.filter((name) => name.length > 64)).toEqual([])
})

test('what a namespace holds is functions and custom tools; anything else is refused, by name', () => {
  const tools = [namespace('ns', fn('read'), { type: 'custom', name: 'patch' })]
  expect(offered(tools)).toMatchObject({ names: ['ns__read', 'ns__patch'], warnings: [] })
  expect(() => offered([namespace('ns', fn('read'), { type: 'mcp', name: 'x' })])).toThrow(
    expect.objectContaining({
      code: 'unsupported_parameter',
      details: expect.objectContaining({ param: 'tools[0].tools[1].type' }),
    }),
  )
})

test.each<[object, string]>([
  [{ tools: [namespace('ns', { type: 'function', name: '' })] }, 'tools[0].tools[0].name'],
  [{ tools: [{ type: 'namespace', name: 'ns', tools: {} }] }, 'tools[0].tools'],
  [{ tools: [{ type: 'namespace', tools: [fn('read')] }] }, 'tools[0].name'],
  [
    { tools: [namespace('ns', fn('read'))], tool_choice: { type: 'function', name: 'read' } },
    'tool_choice.name',
  ],
])('bad input is refused by its field: %j', (body, param) => {
  expect(() => callOf({ input: 'x', ...body })).toThrow(
    expect.objectContaining({ code: 'invalid_request', details: expect.objectContaining({ param }) }),
  )
})

test('a choice finds its function', () => {
  const chosen = (tool_choice: object) =>
    callOf({
      input: 'x',
      tools: [fn('read'), namespace('ns', fn('read'))],
      tool_choice,
    }).request.toChatRequest().toolChoice
  const one = { type: 'function', name: 'read', namespace: 'ns' }
  expect(chosen(one)).toEqual({ kind: 'function', name: 'ns__read' })
  expect(chosen({ type: 'allowed_tools', mode: 'auto', tools: [one] })).toEqual({
    kind: 'allowed',
    mode: 'auto',
    names: ['ns__read'],
  })
})

const events: ChatEvent[] = [
  { kind: 'message-start' } as ChatEvent,
  { kind: 'tool-call-start', choice: 0, call: 0, id: 'c1', name: 'ns__read', thoughtSignature: undefined },
  { kind: 'tool-call-delta', choice: 0, call: 0, arguments: '{"at":1}' },
  { kind: 'choice-finish', choice: 0, reason: 'tool_calls', native: 'tool_calls' },
]
const call = () => callOf({ input: 'x', tools: [fn('shell'), namespace('ns', fn('read'))] })

test('a call names the function and its namespace, streamed and whole', () => {
  const frames = framesFor(events, call())
  assertStream(frames)
  const told = { type: 'function_call', name: 'read', namespace: 'ns', call_id: 'c1', arguments: '{"at":1}' }
  const streamed = eventsIn(frames)
  expect(streamed.find(({ type }) => type === 'response.output_item.added')?.['item']).toMatchObject({
    name: 'read',
    namespace: 'ns',
  })
  expect(streamed.at(-1)!['response']).toMatchObject({ output: [told] })
  expect(wholeFor(events, call())).toMatchObject({ output: [told] })
})

test('what was called before reaches the model under the name that it is offered', () => {
  const input: JsonObject[] = [
    { type: 'function_call', call_id: 'c1', name: 'read', namespace: 'ns', arguments: '{}' },
    { type: 'function_call_output', call_id: 'c1', output: 'text' },
  ]
  const { messages } = callOf({ input, tools: [namespace('ns', fn('read'))] }).request.toChatRequest()
  expect(messages[0]).toMatchObject({ role: 'assistant', toolCalls: [{ name: 'ns__read' }] })
})
