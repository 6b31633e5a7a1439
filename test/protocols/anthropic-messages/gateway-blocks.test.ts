// Blocks of the gateway's own tools, in answers and in a client's history.

import { expect, test } from 'bun:test'
import type { AnswerContext } from '../../../src/protocols/protocol.ts'
import { EventEncoder } from '../../../src/protocols/anthropic-messages/inbound/inbound.ts'
import { readAssistant } from '../../../src/protocols/anthropic-messages/inbound/read.ts'
import type { BlockContent } from '../../../src/protocols/anthropic-messages/inbound/schema.ts'
import { processorMs } from '../../support/processor-time.ts'

const callOf = (id: string) => ({ type: 'mcp_tool_use', id, name: 'look', server_name: 'sky', input: {} })
const resultOf = (tool_use_id: string) => ({ type: 'mcp_tool_result', tool_use_id, content: 'rain' })

function read(blocks: readonly object[], runs: 'read' | 'left-out') {
  const content = blocks as unknown as BlockContent
  return readAssistant([{ content, param: 'messages.0.content' }], runs)
}

const [a, b, c] = ['srvtoolu_weir_a', 'srvtoolu_weir_b', 'srvtoolu_weir_c'] as const

test.each([
  ['{"query":"rivers"}', { query: 'rivers' }],
  ['{"query": rivers', { invalid_arguments: '{"query": rivers' }],
  ['[1]', { invalid_arguments: '[1]' }],
])('the input %s of a call is an object that clients can parse', (json, input) => {
  const context = {
    id: 'msg_1',
    model: 'm',
    created: 1,
    includeUsage: true,
    extra: {},
  } as unknown as AnswerContext
  const call = { id: '1', origin: { kind: 'web-search' }, name: 'web_search', arguments: json } as const
  const frames = new EventEncoder(context).event({ kind: 'gateway-call', choice: 0, call })
  const deltas = frames.flatMap((frame) => {
    const { delta } = JSON.parse('data' in frame ? frame.data : '') as { delta?: { partial_json: string } }
    return delta ? [delta.partial_json] : []
  })
  expect(JSON.parse(deltas.join(''))).toEqual(input)
})

test('a call is read with its result, and neither without the other', () => {
  const messages = read(
    [callOf(a), callOf(b), resultOf(a), resultOf(c), { type: 'text', text: 'Rain.' }],
    'read',
  )
  expect(messages).toMatchObject([
    { role: 'assistant', toolCalls: [{ id: a, origin: { kind: 'mcp', serverLabel: 'sky', tool: 'look' } }] },
    { role: 'tool', toolCallId: a, content: [{ text: 'rain' }] },
    { role: 'assistant', content: [{ text: 'Rain.' }] },
  ])
})

test('nothing is left of a message of nothing else where such tools are of no use: providers refuse an empty one', () => {
  expect(read([callOf(a), resultOf(a)], 'left-out')).toEqual([])
  expect(read([callOf(a)], 'read')).toEqual([])
})

test('very many calls are read in no time', () => {
  const ids = Array.from({ length: 20_000 }, (_, at) => `srvtoolu_weir_${at}`)
  const before = processorMs()
  expect(read([...ids.map(callOf), ...ids.map(resultOf)], 'read')).toHaveLength(20_001)
  expect(processorMs() - before).toBeLessThan(500)
})
