// Calls that another provider streams side by side, for clients of the Messages API: one block after the other.

import { expect, test } from 'bun:test'
import type { ChatEvent } from '../../../src/conversation/event.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { noUsage } from '../../../src/conversation/usage.ts'
import { ArgumentsEnd, EventEncoder } from '../../../src/protocols/anthropic-messages/inbound/inbound.ts'

const context = { id: 'r', model: 'm', created: 1, includeUsage: true, warnings: [], extra: {} }
const none = { input: '0', cache_read: '0', cache_write: '0', output: '0', reasoning: '0', tools: '0' }

const started = (call: number): ChatEvent => ({
  kind: 'tool-call-start',
  choice: 0,
  call,
  id: `c${call}`,
  name: 'f',
  thoughtSignature: undefined,
})
const piece = (call: number, json: string): ChatEvent => ({
  kind: 'tool-call-delta',
  choice: 0,
  call,
  arguments: json,
})

/** The arguments of each block, in their order; a block of another index than the one that is open fails. */
function argumentsOf(events: readonly ChatEvent[]): string[] {
  const encoder = new EventEncoder(context)
  const frames = [
    ...encoder.start(),
    ...events.flatMap((event) => encoder.event(event)),
    ...encoder.finish(noUsage, { cost: '0', lines: none }),
  ]
  const blocks: string[] = []
  let open: unknown
  for (const { data } of frames) {
    const { type, index, delta } = JSON.parse(data) as JsonObject
    if (type === 'content_block_start') {
      expect(open).toBeUndefined()
      open = index
      blocks.push('')
    } else if (type === 'content_block_delta') {
      expect(index).toBe(open as number)
      blocks[blocks.length - 1] += String((delta as JsonObject)['partial_json'])
    } else if (type === 'content_block_stop') open = undefined
  }
  return blocks
}

// Parsed anew with every piece, these took twenty seconds in which the gateway served nobody.
test('a long call that others wait for is read once', () => {
  const items = Array.from({ length: 20_000 }, () => piece(0, '{"x":1},'))
  const [first, second] = argumentsOf([
    started(0),
    started(1),
    piece(0, '{"a":['),
    ...items,
    piece(1, '{"b"'),
    piece(0, '0]}'),
    piece(1, ':2}'),
  ])
  expect((JSON.parse(first!) as { a: unknown[] }).a).toHaveLength(20_001)
  expect(second).toBe('{"b":2}')
})

test('white space behind the arguments of a call goes to no other call', () => {
  const pieces = [started(0), piece(0, '{}'), started(1), piece(1, '{"b"'), piece(0, '\n'), piece(1, ':2}')]
  expect(argumentsOf(pieces)).toEqual(['{}', '{"b":2}'])
})

test.each([
  [['{', '}'], true],
  [['{"a":[1,{"b":2}]}'], true],
  [['{"a":[1,{"b":2}'], false],
  [['{"a":"}'], false],
  [['{"a":"\\', '"}'], false],
  [['{"a":"\\', '\\"}'], true],
  [['[', ']', '{'], true],
  [[''], false],
  [['null'], false],
] as const)('the arguments %j have come to their end: %p', (pieces, isReached) => {
  const end = new ArgumentsEnd()
  for (const each of pieces) {
    end.add(each)
    void end.isReached
  }
  expect(end.isReached).toBe(isReached)
})

test('the first event has no zeros for what was written to a cache: clients would keep them', () => {
  const [start] = new EventEncoder(context).start()
  expect(JSON.parse(start!.data)).toMatchObject({ message: { usage: { cache_creation: null } } })
})
