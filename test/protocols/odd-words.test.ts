// Words of a provider or a client that every JavaScript object has a member for (`constructor`), and answers that end
// badly: each is one answer with one end all the same.

import { describe, expect, test } from 'bun:test'
import { collect } from '../../src/conversation/event.ts'
import type { Json, JsonObject } from '../../src/conversation/request.ts'
import { listedItems } from '../../src/protocols/openai-responses/inbound/inbound.ts'
import type { ProtocolId, Target } from '../../src/protocols/protocol.ts'
import { outbounds } from '../../src/protocols/registry.ts'
import { assertWellFormed } from '../support/recordings.ts'

const words = ['constructor', 'toString', '__proto__'] as const

function targetOf(protocol: ProtocolId): Target {
  return {
    model: 'some-model',
    provider: 'some-provider',
    quirks: outbounds[protocol].defaultQuirks,
    maxOutputTokens: undefined,
    reasoning: false,
    rememberedSignature: () => undefined,
    toolNames: {},
  }
}

function read(protocol: ProtocolId, answer: Json) {
  const events = outbounds[protocol].whole(answer, targetOf(protocol))
  assertWellFormed(events)
  return collect(events)
}

const say = { type: 'text', text: 'Hi' }
const answers: readonly (readonly [ProtocolId, (reason: string) => JsonObject])[] = [
  ['openai-chat', (reason) => ({ choices: [{ message: { content: 'Hi' }, finish_reason: reason }] })],
  ['anthropic-messages', (reason) => ({ type: 'message', content: [say], stop_reason: reason })],
  [
    'bedrock-converse',
    (reason) => ({ output: { message: { content: [{ text: 'Hi' }] } }, stopReason: reason, usage: {} }),
  ],
  ['cohere', (reason) => ({ message: { content: [say] }, finish_reason: reason })],
  ['ollama', (reason) => ({ message: { content: 'Hi' }, done: true, done_reason: reason })],
  ['gemini', (reason) => ({ candidates: [{ content: { parts: [{ text: 'Hi' }] }, finishReason: reason }] })],
]

describe.each(answers)('%s', (protocol, answer) => {
  test.each(words)('an answer that ends for the reason %p has stopped', (word) => {
    const [choice] = read(protocol, answer(word)).choices
    expect(choice).toMatchObject({ text: 'Hi', finish: 'stop', nativeFinish: word })
  })
})

test.each(words)('a function that the client calls %p is called by that name', (word) => {
  const toolUse = { toolUseId: 't1', name: word, input: {} }
  const answer = { output: { message: { content: [{ toolUse }] } }, stopReason: 'tool_use', usage: {} }
  expect(read('bedrock-converse', answer).choices[0]?.toolCalls).toMatchObject([{ id: 't1', name: word }])
})

test.each(words)('an event of the type %p is ignored as any new one', (word) => {
  const parser = outbounds['openai-responses'].parser(targetOf('openai-responses'))
  expect(parser.push({ event: undefined, data: JSON.stringify({ type: word }) })).toEqual([])
})

test.each(words)('an error of the type %p is one of its status', (word) => {
  const body = JSON.stringify({ type: 'error', error: { type: word, message: 'no' } })
  const target = targetOf('anthropic-messages')
  const { kind } = outbounds['anthropic-messages'].fault(400, new Headers(), body, target)
  expect(kind).toBe('invalid-request')
  const headers = new Headers({ 'x-amzn-errortype': word })
  const answered = outbounds['bedrock-converse'].fault(400, headers, '{"message":"no"}', target)
  expect(answered.kind).toBe('invalid-request')
})

test.each(words)('an input item of the type %p is listed under an id like the others', (word) => {
  const [item] = listedItems([{ type: word }], 'req_0')
  expect(item).toMatchObject({ type: word, id: 'item_0_in0' })
})

// It would be charged, and then not be given to the client.
test('a text completion without a stop reason has failed', () => {
  expect(read('anthropic-messages', { completion: 'Hi' }).fault?.kind).toBe('broken')
})

test('a whole answer with a call that cannot be read ends once', () => {
  const message = { tool_calls: [{ id: '', function: { name: 'f', arguments: '{}' } }] }
  expect(read('cohere', { message, finish_reason: 'TOOL_CALL' }).fault?.kind).toBe('broken')
})
