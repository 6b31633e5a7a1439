// Frames of Anthropic's on their way to a client of its protocol: when the answer has begun, and what waits for its charge.

import { describe, expect, test } from 'bun:test'
import { atOnce } from '../../../src/json/json.ts'
import { MessagesStream } from '../../../src/protocols/anthropic-messages/outbound/outbound.ts'
import type { AnswerContext } from '../../../src/protocols/protocol.ts'

const bill = {
  cost: '0.001',
  lines: { input: '0.001', cache_read: '0', cache_write: '0', output: '0', reasoning: '0', tools: '0' },
}
const context: AnswerContext = {
  id: 'req_1',
  model: 'anthropic/claude',
  created: 0,
  includeUsage: true,
  warnings: [],
  extra: {},
}
const frame = (event: { type: string; [field: string]: unknown }) =>
  `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
const start = frame({
  type: 'message_start',
  message: { id: 'msg_1', model: 'claude', usage: { input_tokens: 3 } },
})
const block = (type: string) =>
  frame({ type: 'content_block_start', index: 0, content_block: { type, text: '' } })

function channelAfter(text: string) {
  const channel = new MessagesStream(context, 1_000_000)
  const out = Buffer.concat([...atOnce(channel.push(Buffer.from(text)))]).toString()
  return { channel, out }
}

describe('an answer has begun', () => {
  test.each([
    ['not with its message', start, false],
    ['not with an empty block', start + block('text'), false],
    ["with a tool of the provider's own", start + block('server_tool_use'), true],
    [
      'with its first word',
      start +
        block('text') +
        frame({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'x' } }),
      true,
    ],
  ])('%s', (_, text, begun) => {
    expect(channelAfter(text).channel.progress.started).toBe(begun)
  })
})

test('its end waits for the charge and tells it', () => {
  const delta = { type: 'message_delta', delta: { stop_reason: 'stop_sequence', stop_sequence: 'END' } }
  const { channel, out } = channelAfter(
    start + frame({ ...delta, usage: { output_tokens: 2 } }) + frame({ type: 'message_stop' }),
  )
  expect(out).not.toContain('message_delta')
  expect(out).not.toContain('message_stop')
  expect(channel.progress).toMatchObject({ finished: true, upstreamId: 'msg_1' })
  expect(channel.progress.usage).toMatchObject({ input: 3, output: 2 })
  const last = Buffer.concat([...channel.finish(channel.progress.usage!, bill, undefined)]).toString()
  expect(last).toBe(
    frame({
      ...delta,
      usage: { output_tokens: 2, cost: 0.001, cost_details: { ...bill.lines, total: '0.001' } },
    }) + frame({ type: 'message_stop' }),
  )
})

test('an event that nobody here knows goes on as it is, an error does not', () => {
  const strange = frame({ type: 'tomorrow', of: ['x'] })
  expect(channelAfter(strange).out).toBe(strange)
  const { channel, out } = channelAfter(
    frame({ type: 'error', error: { type: 'api_error', message: 'secret' } }),
  )
  expect(out).toBe('')
  expect(channel.progress.fault?.kind).toBe('broken')
})

test('an event that comes in several lines goes on in one', () => {
  const lines = '{"type":"content_block_stop",\n"index":0}'
  const sent = `event: content_block_stop\ndata: ${lines.replace('\n', '\ndata: ')}\n\n`
  expect(channelAfter(sent).out).toBe(
    'event: content_block_stop\ndata: {"type":"content_block_stop", "index":0}\n\n',
  )
})

describe('an event that is a broken object', () => {
  const piece = (delta: object) => frame({ type: 'content_block_delta', index: 0, delta })
  const broken = 'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"te\n\n'
  const said = piece({ type: 'text_delta', text: 'said' })
  const thought = piece({ type: 'thinking_delta', thinking: 'hm' })
  const end =
    frame({ type: 'message_delta', delta: { stop_reason: 'end_turn' } }) + frame({ type: 'message_stop' })

  test('is left out where the rest is sound', () => {
    const { channel, out } = channelAfter(start + block('text') + said + broken + said + end)
    expect(channel.progress).toMatchObject({ finished: true, fault: undefined })
    expect(out.match(/said/g)).toHaveLength(2)
  })

  test.each([
    ['before the answer', start + block('text') + broken],
    ['within a thought', start + block('thinking') + thought + broken],
    ['often', start + block('text') + said + broken.repeat(4)],
  ])('breaks it off %s', (_, text) => {
    expect(channelAfter(text).channel.progress.fault?.kind).toBe('broken')
  })
})

test.each([
  ['its end', frame({ type: 'message_stop' })],
  ['its error', frame({ type: 'error', error: { type: 'api_error', message: 'secret' } })],
])('what comes behind %s goes to nobody, as nobody counts it', (_, end) => {
  const delta = { type: 'text_delta', text: 'for nothing' }
  const { out } = channelAfter(start + end + frame({ type: 'content_block_delta', index: 0, delta }))
  expect(out).not.toContain('for nothing')
})

test('of several events that tell its end, a later one adds to what was told before', () => {
  const { channel } = channelAfter(
    start +
      frame({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } }) +
      frame({
        type: 'message_delta',
        delta: null,
        usage: { output_tokens_details: { thinking_tokens: 1 } },
      }) +
      frame({ type: 'message_stop' }),
  )
  const last = Buffer.concat([...channel.finish(channel.progress.usage!, bill, undefined)]).toString()
  expect(last).toContain('"delta":{"stop_reason":"end_turn"}')
  expect(last).toContain('"usage":{"output_tokens":2,"output_tokens_details":{"thinking_tokens":1},')
})

test('the client is told what is charged: a later count takes back nothing, and an earlier one goes on as it is', () => {
  const counting = (usage: object) =>
    frame({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage })
  const { channel } = channelAfter(
    start +
      counting({ input_tokens: 3, output_tokens: 10, more: null }) +
      counting({ input_tokens: 0, output_tokens: 0 }) +
      frame({ type: 'message_stop' }),
  )
  expect(channel.progress.usage).toMatchObject({ input: 3, output: 10 })
  const last = Buffer.concat([...channel.finish(channel.progress.usage!, bill, undefined)]).toString()
  expect(last).toContain('"usage":{"input_tokens":3,"output_tokens":10,"more":null,"cost"')
})

test.each([
  ["a tool of the provider's own", block('server_tool_use')],
  [
    'sealed thoughts',
    frame({
      type: 'content_block_start',
      index: 0,
      content_block: { type: 'redacted_thinking', data: 'c2VhbGVk' },
    }),
  ],
  [
    'thoughts that only their signature tells of',
    block('thinking') +
      frame({
        type: 'content_block_delta',
        index: 0,
        delta: { type: 'signature_delta', signature: 'c2lnbmVk' },
      }),
  ],
])('%s has been delivered: whoever leaves then owes the prompt', (_, text) => {
  expect(channelAfter(start).channel.progress.delivered.any).toBe(false)
  const { progress } = channelAfter(start + text).channel
  expect(progress.usage).toMatchObject({ input: 3 })
  expect(progress.delivered.any).toBe(true)
})
