// Tool calls as servers stream them beside the specification: what a client gets must not depend on whether its answer
// is translated or passed through.

import { describe, expect, test } from 'bun:test'
import { type ChatEvent, collect } from '../../../src/conversation/event.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { defaultQuirks } from '../../../src/protocols/openai-chat/outbound/quirks.ts'
import { outbound } from '../../../src/protocols/openai-chat/outbound/lower.ts'
import { FrameRepair, repairWhole } from '../../../src/protocols/openai-chat/passthrough/repair.ts'
import type { Frame } from '../../../src/protocols/framing/sse.ts'
import { targetOf } from './dialects.ts'
import { bill, context, usage } from './wire-contract.ts'

const target = targetOf(defaultQuirks)

function chunk(delta: JsonObject, finish: string | null = null): Frame {
  const data = JSON.stringify({ id: 'c1', model: 'm', choices: [{ index: 0, delta, finish_reason: finish }] })
  return { event: undefined, data }
}

const called = (name: string, args: string) => ({ name, arguments: args })

const streams: [string, JsonObject[], string[][]][] = [
  [
    'two functions without ids, both numbered 0',
    [
      { index: 0, function: called('add', '{"x":1}') },
      { index: 0, function: called('mul', '{"y":2}') },
    ],
    [
      ['add', '{"x":1}'],
      ['mul', '{"y":2}'],
    ],
  ],
  [
    'one function twice with empty ids, both numbered 0',
    [
      { index: 0, id: '', type: 'function', function: called('add', '{"x":1}') },
      { index: 0, id: '', type: 'function', function: called('add', '{"x":2}') },
    ],
    [
      ['add', '{"x":1}'],
      ['add', '{"x":2}'],
    ],
  ],
  [
    'an index that begins with the second delta',
    [
      { id: 'a', function: called('add', '') },
      { index: 0, id: 'a', function: { arguments: '{"x":1}' } },
    ],
    [['add', '{"x":1}']],
  ],
  [
    'all arguments so far on every delta',
    [
      { index: 0, id: 'a', function: called('add', '{"x":') },
      { index: 0, id: 'a', function: called('add', '{"x":1}') },
      { index: 0, id: 'a', function: called('add', '{"x":1}') },
    ],
    [['add', '{"x":1}']],
  ],
  [
    'arguments before the name',
    [
      { index: 0, id: 'a', function: { arguments: '{"x":1}' } },
      { index: 0, function: called('add', '') },
    ],
    [['add', '{"x":1}']],
  ],
]

describe.each(streams)('%s', (_, deltas, expected) => {
  const frames = [
    ...deltas.map((delta) => chunk({ tool_calls: [delta] })),
    chunk({}, 'tool_calls'),
    { event: undefined, data: '[DONE]' },
  ]

  test('translated', () => {
    expect(callsIn(frames)).toEqual(expected)
  })

  test('passed through', () => {
    const repair = new FrameRepair(context)
    const passed = [...frames.flatMap((frame) => repair.push(frame)), ...repair.finish(usage, bill)]
    expect(callsIn(passed)).toEqual(expected)
  })
})

test('entries of a whole message are calls of their own, whatever their ids and indexes', () => {
  const tool_calls = [
    { index: 0, id: 'a', function: called('add', '{"x":1}') },
    { index: 0, id: 'a', function: called('add', '{"x":1}') },
    { index: 0, id: '', function: called('mul', '{"y":2}') },
  ]
  const message = { role: 'assistant', content: null, tool_calls }
  const body = { id: 'c1', choices: [{ index: 0, message, finish_reason: 'tool_calls' }] }
  const expected = [
    ['add', '{"x":1}'],
    ['add', '{"x":1}'],
    ['mul', '{"y":2}'],
  ]
  const ofPassed = outbound.whole(repairWhole(body, usage, bill, context), target)
  for (const events of [outbound.whole(body, target), ofPassed]) {
    expect(calls(events)).toEqual(expected)
    expect(new Set(collect(events).choices[0]!.toolCalls.map(({ id }) => id)).size).toBe(3)
  }
})

function callsIn(frames: readonly Frame[]): string[][] {
  const parser = outbound.parser(target)
  return calls([...frames.flatMap((frame) => [...parser.push(frame)]), ...parser.end()])
}

function calls(events: readonly ChatEvent[]): string[][] {
  const { choices } = collect(events)
  expect(choices[0]?.finish).toBe('tool_calls')
  return choices[0]!.toolCalls.map((call) => [call.name, call.arguments])
}
