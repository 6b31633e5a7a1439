// The history of Gemini's clients as a conversation, and the shape of what they keep of a stream.

import { describe, expect, test } from 'bun:test'
import { collect } from '../../../src/conversation/event.ts'
import type { AssistantMessage, JsonObject, ToolMessage } from '../../../src/conversation/request.ts'
import { noUsage } from '../../../src/conversation/usage.ts'
import type { GatewayError } from '../../../src/errors/errors.ts'
import { inbound, withModel } from '../../../src/protocols/gemini/inbound/inbound.ts'
import { fieldOf } from '../../../src/protocols/request/fields.ts'

const user = (...parts: JsonObject[]) => ({ role: 'user', parts })
const model = (...parts: JsonObject[]) => ({ role: 'model', parts })
const call = (name: string, id?: string) => ({
  functionCall: { name, args: {}, ...(id && { id }) },
})
const result = (name: string, output: string, id?: string) => ({
  functionResponse: { name, response: { output }, ...(id && { id }) },
})

const parsed = (contents: JsonObject[], more: JsonObject = {}) =>
  inbound.parse(withModel({ contents, ...more }, 'lab/m', false))
const messagesOf = (...contents: JsonObject[]) => parsed(contents).toChatRequest().messages

describe('a turn that was streamed', () => {
  test('comes back as one content for each chunk, and is one message', () => {
    const messages = messagesOf(
      user({ text: 'How deep, and how wide?' }),
      model({ text: 'Let me ', thought: true }),
      model({ text: 'see.' }),
      model(call('depth', '1')),
      model(call('width', '2')),
      model({ text: '' }),
      user(result('width', '9 m', '2'), result('depth', '3 m', '1')),
    )
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'tool'])
    const said = messages[1] as AssistantMessage
    expect(said.content).toMatchObject([{ kind: 'text', text: 'see.' }])
    expect(said.reasoning).toMatchObject([{ text: 'Let me ' }])
    expect(said.toolCalls.map(({ id, name }) => [id, name])).toEqual([
      ['1', 'depth'],
      ['2', 'width'],
    ])
  })

  test('a signature covers the text of its own chunk', () => {
    const signature = Buffer.from('sealed').toString('base64')
    const [, said] = messagesOf(
      user({ text: 'Go.' }),
      model({ text: 'One, ' }),
      model({ text: 'two.', thoughtSignature: signature }),
    )
    expect((said as AssistantMessage).reasoning).toMatchObject([{ id: 'gemini:text:5:9:0', data: signature }])
  })

  // Google's client forgets a turn, and the question before it, if one of its chunks has no part.
  test('every chunk has a part, the last and the keep-alive too', () => {
    const context = {
      id: 'r',
      model: 'lab/m',
      created: 1,
      includeUsage: true,
      warnings: [],
      extra: {},
    }
    const encoder = inbound.encoder(context)
    encoder.event({ kind: 'text-delta', choice: 0, text: 'Deep.' })
    encoder.event({ kind: 'choice-finish', choice: 0, reason: 'stop', native: 'stop' })
    const none = {
      input: '0',
      cache_read: '0',
      cache_write: '0',
      output: '0',
      reasoning: '0',
      tools: '0',
    }
    const [last] = encoder.finish(noUsage, { cost: '0', lines: none })
    expect(JSON.parse(last!.data)).toMatchObject({
      candidates: [{ content: { parts: [{ text: '' }] } }],
    })
    const kept = new TextDecoder().decode(inbound.keepalive)
    expect(kept).toMatch(/^data: .*\n\n$/)
    expect(JSON.parse(kept.slice('data: '.length))).toEqual({
      candidates: [{ index: 0, content: { role: 'model', parts: [{ text: '' }] } }],
    })
  })
})

test('pieces that come together go on in one chunk', () => {
  const context = { id: 'r', model: 'm', created: 1, includeUsage: true, warnings: [], extra: {} }
  const encoder = inbound.encoder(context)
  const sent = encoder.texts!({ choice: 0, texts: ['a ', 'b'], content: 'a b', end: 0 })!
  expect(sent).toMatch(/^data: .*\n\n$/)
  expect(JSON.parse(sent.slice('data: '.length))).toMatchObject({
    candidates: [{ content: { parts: [{ text: 'a b' }] } }],
  })
})

describe('an answer that a filter has stopped', () => {
  const context = { id: 'r', model: 'lab/m', created: 1, includeUsage: true, warnings: [], extra: {} }
  const none = { input: '0', cache_read: '0', cache_write: '0', output: '0', reasoning: '0', tools: '0' }
  const bill = { cost: '0', lines: none }

  test.each([
    ['RECITATION', 'RECITATION'],
    ['PROHIBITED_CONTENT', 'PROHIBITED_CONTENT'],
    ['content_filter', 'SAFETY'],
  ])('keeps the reason of Google’s own: %s is %s', (native, finishReason) => {
    const events = [
      { kind: 'text-delta', choice: 0, text: 'I' },
      { kind: 'choice-finish', choice: 0, reason: 'content_filter', native },
    ] as const
    const encoder = inbound.encoder(context)
    for (const event of events) encoder.event(event)
    const [last] = encoder.finish(noUsage, bill)
    // Without a part Google's client drops the turn from its chat.
    expect(JSON.parse(last!.data)).toMatchObject({ candidates: [{ content: { parts: [] }, finishReason }] })
    const whole = inbound.whole(collect(events), noUsage, bill, context)
    expect(whole).toMatchObject({ candidates: [{ finishReason }] })
  })
})

test('a thought that is not shown is in the signature of the call that it led to', () => {
  const context = { id: 'r', model: 'm', created: 1, includeUsage: true, warnings: [], extra: {} }
  const sealing = { ...context, sealsThoughts: true } as const
  const none = { input: '0', cache_read: '0', cache_write: '0', output: '0', reasoning: '0', tools: '0' }
  const detail = { type: 'reasoning.text', format: null, index: 0, text: 'Hm.' } as const
  const started = {
    kind: 'tool-call-start',
    choice: 0,
    call: 0,
    id: '1',
    name: 'f',
    thoughtSignature: undefined,
  } as const
  const events = [
    { kind: 'reasoning-delta', choice: 0, detail },
    started,
    { kind: 'choice-finish', choice: 0, reason: 'tool_calls', native: 'tool_calls' },
  ] as const
  const encoder = inbound.encoder(sealing)
  for (const event of events) encoder.event(event)
  const [last] = encoder.finish(noUsage, { cost: '0', lines: none })
  const whole = inbound.whole(collect(events), noUsage, { cost: '0', lines: none }, sealing)
  for (const answer of [JSON.parse(last!.data), whole]) {
    const { parts } = answer.candidates[0].content
    expect(parts).toEqual([
      { functionCall: { id: '1', name: 'f', args: {} }, thoughtSignature: expect.any(String) },
    ])
    const [, said] = messagesOf(user({ text: 'Go.' }), model(...parts))
    expect(said).toMatchObject({ reasoning: [detail], toolCalls: [{ id: '1', thoughtSignature: undefined }] })
  }
})

test("Google's own signature of a call stays on it, beside whatever else was thought", () => {
  const signature = Buffer.from('of Google').toString('base64')
  const signed = { ...call('depth', '1'), thoughtSignature: signature }
  const [, said] = messagesOf(user({ text: 'Go.' }), model({ text: 'Hm.', thought: true }, signed))
  expect(said).toMatchObject({ reasoning: [{ text: 'Hm.' }], toolCalls: [{ thoughtSignature: signature }] })
})

describe('the result of a function', () => {
  test('finds a call that came without an id by its name', () => {
    const messages = messagesOf(user({ text: '?' }), model(call('depth')), user(result('depth', '3 m', 'x')))
    expect((messages[2] as ToolMessage).toolCallId).toBe((messages[1] as AssistantMessage).toolCalls[0]!.id)
  })

  test('answers no call with another id', () => {
    const sent = [user({ text: '?' }), model(call('depth', '1')), user(result('depth', '3 m', '2'))]
    expect(() => parsed(sent)).toThrow('no function call before it')
  })

  test('may hold a file by its address', () => {
    const parts = [{ file_data: { mime_type: 'image/png', file_uri: 'https://example.com/river.png' } }]
    const messages = messagesOf(
      user({ text: '?' }),
      model(call('look')),
      user({ functionResponse: { name: 'look', response: { output: 'Here.' }, parts } }),
    )
    expect((messages[2] as ToolMessage).content).toMatchObject([
      { kind: 'text', text: 'Here.' },
      { kind: 'image', source: { kind: 'url', url: 'https://example.com/river.png' } },
    ])
  })
})

test('functions that alone are allowed, called or not, are those', () => {
  const { toolChoice } = parsed([user({ text: '?' })], {
    tools: [{ functionDeclarations: [{ name: 'a' }, { name: 'b' }] }],
    toolConfig: { functionCallingConfig: { mode: 'VALIDATED', allowedFunctionNames: ['b'] } },
  }).toChatRequest()
  expect(toolChoice).toEqual({ kind: 'allowed', mode: 'auto', names: ['b'] })
})

test('types inside a schema of free keys are JSON Schema’s', () => {
  const parameters = {
    type: 'OBJECT',
    additionalProperties: { type: 'ARRAY', items: { type: 'STRING' } },
  }
  const { tools } = parsed([user({ text: '?' })], {
    tools: [{ functionDeclarations: [{ name: 'f', parameters }] }],
  }).toChatRequest()
  expect(tools[0]!.parameters).toEqual({
    type: 'object',
    additionalProperties: { type: 'array', items: { type: 'string' } },
  })
})

describe('errors', () => {
  const { fields } = parsed(
    [user({ text: 'a' }), model({ text: 'b' }), model({ text: 'c' }), user({ text: 'd' })],
    {
      systemInstruction: { parts: [{ text: 'Be brief.' }] },
    },
  )
  test.each([
    ['messages[0]', 'systemInstruction'],
    ['messages[2].content[0]', 'contents[1]'],
    ['messages[3].content[1].image_url.url', 'contents[3]'],
    ['max_completion_tokens', 'generationConfig.maxOutputTokens'],
    ['reasoning.max_tokens', 'generationConfig.thinkingConfig.max_tokens'],
    ['models', 'models'],
  ])('of later steps call %s by the client’s name %s', (param, own) => {
    expect(fieldOf(param, fields)).toBe(own)
  })

  test('of reading do so too', () => {
    const logprobs = parsed.bind(null, [user({ text: 'a' })], {
      generationConfig: { responseLogprobs: true, logprobs: 99 },
    })
    let thrown: unknown
    try {
      logprobs().toChatRequest()
    } catch (error) {
      thrown = error
    }
    expect((thrown as GatewayError).details.param).toBe('generationConfig.logprobs')
  })
})
