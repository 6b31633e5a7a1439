// Blocks of the gateway's own tools in a client's history.

import { expect, test } from 'bun:test'
import { readAssistant } from '../../../src/protocols/anthropic-messages/inbound/read-blocks.ts'
import type { ClientContent } from '../../../src/protocols/anthropic-messages/inbound/schema.ts'

const callOf = (id: string) => ({ type: 'mcp_tool_use', id, name: 'look', server_name: 'sky', input: {} })
const resultOf = (tool_use_id: string) => ({ type: 'mcp_tool_result', tool_use_id, content: 'rain' })

function read(blocks: readonly object[], runs: 'read' | 'left-out') {
  return readAssistant(blocks as unknown as ClientContent, 'messages.0.content', runs)
}

const [a, b, c] = ['srvtoolu_weir_a', 'srvtoolu_weir_b', 'srvtoolu_weir_c'] as const

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
  const began = performance.now()
  expect(read([...ids.map(callOf), ...ids.map(resultOf)], 'read')).toHaveLength(20_001)
  expect(performance.now() - began).toBeLessThan(500)
})
