// Messages of the history that hold calls of the gateway's tools, taken apart into the rounds they were made in.

import { expect, test } from 'bun:test'
import type { AssistantMessage, JsonObject } from '../../../src/conversation/request.ts'
import { roundsOf } from '../../../src/protocols/openai/messages.ts'
import { processorMs } from '../../support/processor-time.ts'

function callAt(round: number, content: number, reasoning: number): JsonObject {
  const at = { round, content, reasoning }
  return { id: `c${round}`, type: 'mcp_call', server_label: 's', name: 't', output: 'found', at }
}

function turnOf(text: string, thoughts: number): AssistantMessage {
  const reasoning = Array.from({ length: thoughts }, (_, index) => ({
    type: 'reasoning.text',
    format: null,
    index,
    text: String(index),
  }))
  return {
    role: 'assistant',
    content: [{ kind: 'text', text, cache: undefined }],
    reasoning,
    toolCalls: [],
  }
}

test('each round has its own words and thoughts, and the last has the rest', () => {
  const rounds = roundsOf(turnOf('abcdef', 5), [callAt(2, 4, 3), callAt(1, 1, 1)])
  const said = rounds.flatMap((message) =>
    message.role === 'assistant'
      ? [
          [
            message.content.map((part) => (part.kind === 'text' ? part.text : '')).join(''),
            message.reasoning.map(({ index }) => index),
          ],
        ]
      : [],
  )
  expect(said).toEqual([
    ['a', [0]],
    ['bcd', [1, 2]],
    ['ef', [3, 4]],
  ])
})

test('a message of very many rounds is read in no time', () => {
  const many = 20_000
  const entries = Array.from({ length: many }, (_, at) => callAt(at, 0, at))
  const before = processorMs()
  expect(roundsOf(turnOf('', many), entries)).toHaveLength(2 * many + 1)
  expect(processorMs() - before).toBeLessThan(500)
})
