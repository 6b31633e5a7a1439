// Words of a provider or a client that every JavaScript object has a member for (`constructor`), and answers that end
// badly: each is one answer with one end all the same.

import { describe, expect, test } from 'bun:test'
import { collect } from '../../src/conversation/event.ts'
import type { Json, JsonObject } from '../../src/conversation/request.ts'
import { inbound as messages } from '../../src/protocols/anthropic-messages/inbound/inbound.ts'
import { inbound as chat } from '../../src/protocols/openai-chat/inbound/inbound.ts'
import { listedItems } from '../../src/protocols/openai-responses/inbound/inbound.ts'
import type { ProtocolId, Target } from '../../src/protocols/protocol.ts'
import { outbounds } from '../../src/protocols/registry.ts'
import { assertWellFormed } from '../support/recordings.ts'

const words = ['constructor', 'toString', '__proto__', 'something_new'] as const

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
  test.each(words)('an answer that ends for the unknown reason %p has not finished well', (word) => {
    const [choice] = read(protocol, answer(word)).choices
    expect(choice).toMatchObject({ text: 'Hi', finish: 'other', nativeFinish: word })
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

// JSON may name `toString` what is no function: such an object has no text, and asking for one throws.
const textless: JsonObject = { toString: null }

test('an object without a text is no text of an error', () => {
  const { fault } = outbounds['openai-chat']
  const target = targetOf('openai-chat')
  const read = (detail: Json) => fault(422, new Headers(), JSON.stringify({ detail }), target)
  const listed = read([{ loc: ['body', 'n', textless, 0], msg: textless }, { msg: 'too many' }])
  expect(listed).toMatchObject({ kind: 'invalid-request', message: 'too many', param: 'n.0' })
  expect(read(['too many', textless])).toMatchObject({ message: 'too many' })
})

test('an object without a text in the history of a client is no failure of the gateway', () => {
  const user = { role: 'user', content: 'Go on.' }
  const mcp_calls = [{ type: textless }]
  const asked = { model: 'a/b', messages: [{ role: 'assistant', content: 'Hi', mcp_calls }, user] }
  expect(chat.parse(asked).toChatRequest().messages).toHaveLength(2)
  const use = { type: 'server_tool_use', id: 'srvtoolu_weir_1', name: textless, input: {} }
  const page = { title: textless, url: textless, encrypted_content: null }
  const results = [
    { type: 'mcp_tool_use', id: 'srvtoolu_weir_2', name: 'find', server_name: textless, input: {} },
    { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_weir_2', content: [page] },
  ]
  const content = [{ type: 'text', text: 'Hi' }, use, ...results]
  const body = {
    model: 'a/b',
    max_tokens: 9,
    messages: [{ role: 'assistant', content }, user],
    tools: [{ type: 'web_search_20250305', name: 'web_search' }],
  }
  const said = messages.parse(body).toChatRequest().messages
  expect(said.map(({ role }) => role)).toEqual(['assistant', 'tool', 'user'])
})

// It would be charged, and then not be given to the client.
test('a text completion without a stop reason has failed', () => {
  expect(read('anthropic-messages', { completion: 'Hi' }).fault?.kind).toBe('broken')
})

test('a whole answer with a call that cannot be read ends once', () => {
  const message = { tool_calls: [{ id: 'c', function: { name: '', arguments: '{}' } }] }
  expect(read('cohere', { message, finish_reason: 'TOOL_CALL' }).fault?.kind).toBe('broken')
})
