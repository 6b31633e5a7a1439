// A structured answer that a tool carries, for Claude's models without a parameter for it. Not recordings.

import { describe, expect, test } from 'bun:test'
import { type ChatEvent, collect } from '../../src/conversation/event.ts'
import { outbound as anthropic } from '../../src/protocols/anthropic-messages/outbound/outbound.ts'
import { outbound as bedrock } from '../../src/protocols/bedrock-converse/parse.ts'
import { answerTool } from '../../src/protocols/claude/models.ts'
import { target as anthropicTarget } from './anthropic-messages/support.ts'
import { target as bedrockTarget } from './bedrock-converse/support.ts'

type Call = readonly [id: string, name: string, input: object]

const readers: Record<string, (calls: readonly Call[]) => readonly ChatEvent[]> = {
  Anthropic: (calls) =>
    anthropic.whole(
      {
        id: 'm',
        content: calls.map(([id, name, input]) => ({ type: 'tool_use', id, name, input })),
        stop_reason: 'tool_use',
      },
      anthropicTarget(),
    ),
  Bedrock: (calls) =>
    bedrock.whole(
      {
        output: {
          message: {
            content: calls.map(([toolUseId, name, input]) => ({ toolUse: { toolUseId, name, input } })),
          },
        },
        stopReason: 'tool_use',
        usage: {},
      },
      bedrockTarget(),
    ),
}

describe.each(Object.entries(readers))('of %s', (_, read) => {
  const answerOf = (...calls: Call[]) => collect(read(calls)).choices[0]!

  test('is the text, and finishes as one', () => {
    const choice = answerOf(['a', answerTool, { n: 1 }])
    expect(choice).toMatchObject({ text: '{"n":1}', toolCalls: [], finish: 'stop' })
  })

  test('is the first where the model gives several: both together would be no JSON', () => {
    const choice = answerOf(['a', answerTool, { n: 1 }], ['b', answerTool, { n: 2 }])
    expect(choice).toMatchObject({ text: '{"n":1}', toolCalls: [], finish: 'stop' })
  })

  test('may have calls of other tools beside it', () => {
    const choice = answerOf(['a', answerTool, { n: 1 }], ['b', 'f', {}])
    expect(choice).toMatchObject({ text: '{"n":1}', toolCalls: [{ id: 'b' }], finish: 'tool_calls' })
  })
})
