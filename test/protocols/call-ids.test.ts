// Tool calls without an id, or with that of another call, get ids of ours: results are matched by them. Not recordings.

import { describe, expect, test } from 'bun:test'
import { type ChatEvent, collect } from '../../src/conversation/event.ts'
import { outbound as bedrock } from '../../src/protocols/bedrock-converse/parse.ts'
import { outbound as cohere } from '../../src/protocols/cohere/cohere.ts'
import { mintedId } from '../../src/protocols/names.ts'
import { parseFrames } from '../support/recordings.ts'
import { target as bedrockTarget } from './bedrock-converse/support.ts'
import { target as cohereTarget } from './cohere/support.ts'

interface Call {
  readonly id: unknown
  readonly name?: string
  readonly n: number
}

const frames = (events: readonly (readonly [string, object])[]) =>
  events.map(([event, data]) => ({ event, data: JSON.stringify(data) }))

const readers: Record<string, (calls: readonly Call[]) => readonly ChatEvent[]> = {
  'a whole answer of Bedrock': (calls) =>
    bedrock.whole(
      {
        output: {
          message: {
            content: calls.map(({ id, name, n }) => ({ toolUse: { toolUseId: id, name, input: { n } } })),
          },
        },
        stopReason: 'tool_use',
        usage: {},
      },
      bedrockTarget(),
    ),
  'a stream of Bedrock': (calls) =>
    parseFrames(
      bedrock.parser(bedrockTarget()),
      frames([
        ...calls.flatMap(({ id, name, n }, contentBlockIndex) => [
          ['contentBlockStart', { contentBlockIndex, start: { toolUse: { toolUseId: id, name } } }] as const,
          ['contentBlockDelta', { contentBlockIndex, delta: { toolUse: { input: `{"n":${n}}` } } }] as const,
          ['contentBlockStop', { contentBlockIndex }] as const,
        ]),
        ['messageStop', { stopReason: 'tool_use' }],
        ['metadata', { usage: {} }],
      ]),
    ),
  'a whole answer of Cohere': (calls) =>
    cohere.whole(
      {
        id: 'm',
        message: {
          tool_calls: calls.map(({ id, name, n }) => ({ id, function: { name, arguments: `{"n":${n}}` } })),
        },
        finish_reason: 'TOOL_CALL',
      },
      cohereTarget(),
    ),
  'a stream of Cohere': (calls) =>
    parseFrames(
      cohere.parser(cohereTarget()),
      [
        { type: 'message-start', id: 'm' },
        ...calls.flatMap(({ id, name, n }, index) => [
          {
            type: 'tool-call-start',
            index,
            delta: { message: { tool_calls: { id, function: { name, arguments: '' } } } },
          },
          {
            type: 'tool-call-delta',
            index,
            delta: { message: { tool_calls: { function: { arguments: `{"n":${n}}` } } } },
          },
        ]),
        { type: 'message-end', delta: { finish_reason: 'TOOL_CALL' } },
      ].map((event) => ({ event: event.type, data: JSON.stringify(event) })),
    ),
}

describe.each(Object.entries(readers))('in %s', (where, read) => {
  const callsOf = (...ids: unknown[]) => {
    const { choices, fault } = collect(read(ids.map((id, n) => ({ id, name: 'f', n }))))
    expect(fault).toBeUndefined()
    expect(choices[0]!.finish).toBe('tool_calls')
    return choices[0]!.toolCalls
  }

  test('a repeated id stays with the first call', () => {
    const calls = callsOf('a', 'b', 'a', 'a')
    expect(calls.map((call) => call.arguments)).toEqual([0, 1, 2, 3].map((n) => `{"n":${n}}`))
    const ids = calls.map((call) => call.id)
    expect(ids.slice(0, 2)).toEqual(['a', 'b'])
    expect(new Set(ids).size).toBe(4)
    expect(ids[2]).toMatch(/^call_[0-9a-f]{24}$/)
    // Bedrock gives an answer no id that the same one could be known by.
    if (where.includes('Cohere')) expect(ids.slice(2)).toEqual([mintedId('m', 2), mintedId('m', 3)])
    else expect(callsOf('a', 'a')[1]!.id).not.toBe(callsOf('a', 'a')[1]!.id)
  })

  test.each([[''], [null], [7], [undefined]])('calls with the id %p get one each', (id) => {
    const ids = callsOf(id, id).map((call) => call.id)
    expect(new Set(ids).size).toBe(2)
    for (const each of ids) expect(each).toMatch(/^call_[0-9a-f]{24}$/)
  })

  test('a call without a name is a broken answer', () => {
    expect(collect(read([{ id: 'a', n: 1 }])).fault).toMatchObject({ kind: 'broken' })
  })
})

test('a whole answer of Bedrock is read with members that are null, and calls without arguments are {}', () => {
  const content = [
    { text: 'Hi', toolUse: null, image: null, reasoningContent: null, citationsContent: null },
    { toolUse: { toolUseId: 'a', name: 'f', input: null } },
    { toolUse: { toolUseId: 'b', name: 'f', input: {} } },
  ]
  const answer = { output: { message: { content } }, stopReason: 'tool_use', usage: {} }
  const { choices, fault } = collect(bedrock.whole(answer, bedrockTarget()))
  expect(fault).toBeUndefined()
  expect(choices[0]).toMatchObject({ text: 'Hi', toolCalls: [{ arguments: '{}' }, { arguments: '{}' }] })
})
