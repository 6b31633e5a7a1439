// Shapes that no recording has: 429, 529, errors inside a stream, refusals, limits. They are written after
// Anthropic's documentation and the reports of its users, not recorded.

import { describe, expect, test } from 'bun:test'
import { type ChatEvent, collect } from '../../../src/conversation/event.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { noUsage } from '../../../src/conversation/usage.ts'
import { inbound } from '../../../src/protocols/anthropic-messages/inbound/inbound.ts'
import { outbound } from '../../../src/protocols/anthropic-messages/outbound/outbound.ts'
import { mintedId } from '../../../src/protocols/names.ts'
import type { Frame } from '../../../src/protocols/framing/sse.ts'
import { assistant, chat, result, user } from '../../support/conversation.ts'
import { assertWellFormed, parseFrames } from '../../support/recordings.ts'
import { target } from './support.ts'

const parser = () => outbound.parser(target())
const frame = (event: object): Frame => ({ event: undefined, data: JSON.stringify(event) })
const start = {
  type: 'message_start',
  message: { id: 'm', model: 'c', usage: { input_tokens: 5, output_tokens: 1 } },
}
const open = (index: number, content_block: object) => ({ type: 'content_block_start', index, content_block })
const delta = (index: number, inner: object) => ({ type: 'content_block_delta', index, delta: inner })
const close = (index: number) => ({ type: 'content_block_stop', index })
const stopped = (stop_reason: string, usage: object = { output_tokens: 7 }) => ({
  type: 'message_delta',
  delta: { stop_reason },
  usage,
})
const stop = { type: 'message_stop' }

function parse(...events: object[]): ChatEvent[] {
  const parsed = parseFrames(parser(), events.map(frame))
  assertWellFormed(parsed)
  return parsed
}

const envelope = (type: string, message: string) =>
  JSON.stringify({ type: 'error', error: { type, message }, request_id: 'req_1' })

describe('an error status', () => {
  test.each([
    // status  type                      message                                      kind
    [400, 'invalid_request_error', 'max_tokens: Field required', 'invalid-request'],
    [400, 'invalid_request_error', 'prompt is too long: 210000 tokens > 200000 maximum', 'context-length'],
    [
      400,
      'invalid_request_error',
      'input length and `max_tokens` exceed context limit: 1 + 2 > 2',
      'context-length',
    ],
    [400, 'invalid_request_error', 'Your credit balance is too low to access the Anthropic API.', 'quota'],
    [400, 'invalid_request_error', 'You have reached your specified API usage limits.', 'quota'],
    [400, 'invalid_request_error', 'Output blocked by content filtering policy', 'content-filter'],
    [401, 'authentication_error', 'invalid x-api-key', 'credentials'],
    [402, 'billing_error', 'Payment required', 'quota'],
    [403, 'permission_error', 'Your API key does not have permission.', 'credentials'],
    [404, 'not_found_error', 'model: claude-x', 'not-found'],
    [408, 'timeout_error', 'Too slow', 'timeout'],
    [413, 'request_too_large', 'Request exceeds the maximum size', 'invalid-request'],
    [429, 'rate_limit_error', 'This request would exceed your rate limit', 'rate-limited'],
    [500, 'api_error', 'Internal server error', 'broken'],
    [502, 'api_error', 'Bad gateway', 'broken'],
    [503, 'overloaded_error', 'Overloaded', 'overloaded'],
    [504, 'timeout_error', 'Gateway timeout', 'timeout'],
    [529, 'overloaded_error', 'Overloaded', 'overloaded'],
  ])('%d %s "%s" is %s', (status, type, message, kind) => {
    const fault = outbound.fault(status, new Headers(), envelope(type, message), target())
    expect({ ...fault, kind: fault.kind as string }).toMatchObject({
      kind,
      message,
      status,
      providerCode: type,
    })
  })

  test.each([
    [{ 'retry-after': '12' }, 12_000],
    [{ 'retry-after-ms': '250', 'retry-after': '1' }, 250],
    [{ 'retry-after': 'Sat, 01 Aug 2026 10:00:30 GMT', date: 'Sat, 01 Aug 2026 10:00:00 GMT' }, 30_000],
    [{ 'retry-after': 'soon' }, undefined],
    [{}, undefined],
  ])('with %p asks to wait %p ms', (headers, wait) => {
    const fault = outbound.fault(
      429,
      new Headers(headers as Record<string, string>),
      envelope('rate_limit_error', 'x'),
      target(),
    )
    expect(fault.retryAfterMs).toBe(wait)
  })

  test.each([
    [502, '<html><body>Bad gateway</body></html>', 'broken'],
    [529, '', 'overloaded'],
    [503, '', 'overloaded'],
    [429, '<html>', 'rate-limited'],
    // A page from something in front of the provider is no word of the provider's on our key.
    [403, '<!DOCTYPE html><title>Attention required</title>', 'broken'],
    [404, 'not here', 'broken'],
    [500, '[]', 'broken'],
  ])('%d with the body %p is %s, and the body is not repeated', (status, body, kind) => {
    const fault = outbound.fault(status, new Headers(), body, target())
    expect(fault.kind as string).toBe(kind)
    expect(fault.message).not.toContain('<')
  })

  test("in Google's envelope is understood, for Claude on Vertex", () => {
    const body = JSON.stringify([
      { error: { code: 429, message: 'Quota exceeded', status: 'RESOURCE_EXHAUSTED' } },
    ])
    expect(outbound.fault(429, new Headers(), body, target())).toMatchObject({
      kind: 'rate-limited',
      message: 'Quota exceeded',
      providerCode: 'RESOURCE_EXHAUSTED',
    })
  })

  test('keeps no more of the words than every protocol does', () => {
    const body = envelope('invalid_request_error', 'a'.repeat(5000))
    expect(outbound.fault(400, new Headers(), body, target()).message).toHaveLength(2000)
  })
})

describe('an error inside a stream', () => {
  const overloaded = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }

  test('ends it, first or midway, and nothing follows', () => {
    for (const before of [
      [],
      [start],
      [start, open(0, { type: 'text', text: '' }), delta(0, { type: 'text_delta', text: 'a' })],
    ]) {
      const events = parse(...before, overloaded, stopped('end_turn'), stop)
      expect(events.at(-1)).toMatchObject({
        kind: 'error',
        fault: { kind: 'overloaded', providerCode: 'overloaded_error' },
      })
    }
  })

  test.each([
    ['{"type": "content_block_delta", "index": 0', 'not JSON'],
    ['"text"', 'no type'],
    ['null', 'no type'],
    ['{"type":"content_block_delta"}', 'no delta'],
  ])('is a broken answer when the frame is %s', (data, words) => {
    const events = parseFrames(parser(), [frame(start), { event: undefined, data }])
    const last = events.at(-1)
    expect(last?.kind === 'error' && [last.fault.kind, last.fault.message]).toEqual([
      'broken',
      expect.stringContaining(words),
    ])
  })

  test('in a whole answer is the same error', () => {
    expect(outbound.whole(overloaded, target())).toMatchObject([
      { kind: 'error', fault: { kind: 'overloaded' } },
    ])
  })

  test.each([[null], ['x'], [[]], [{}], [{ content: 'x' }]])('is what a whole answer of %p is', (body) => {
    expect(outbound.whole(body, target())).toMatchObject([{ kind: 'error', fault: { kind: 'broken' } }])
  })
})

describe('a stop reason', () => {
  test.each([
    ['end_turn', 'stop'],
    ['stop_sequence', 'stop'],
    ['pause_turn', 'other'],
    ['max_tokens', 'length'],
    ['model_context_window_exceeded', 'length'],
    ['refusal', 'content_filter'],
    ['something_new', 'other'],
  ])('%s is %s, and told as it was', (native, reason) => {
    expect(collect(parse(start, stopped(native), stop)).choices[0]).toMatchObject({
      finish: reason,
      nativeFinish: native,
    })
  })

  test('that is a stop sequence names it to the client, streamed and whole', () => {
    const text = [open(0, { type: 'text', text: 'A' }), close(0)]
    const ended = { type: 'message_delta', delta: { stop_reason: 'stop_sequence', stop_sequence: 'END' } }
    const answer = { content: [{ type: 'text', text: 'A' }], ...ended.delta, usage: { output_tokens: 1 } }
    const context = { id: 'm', model: 'c', created: 1, includeUsage: true, warnings: [], extra: {} }
    const none = { input: '0', cache_read: '0', cache_write: '0', output: '0', reasoning: '0', tools: '0' }
    for (const events of [parse(start, ...text, ended, stop), outbound.whole(answer, target())]) {
      const encoder = inbound.encoder(context)
      for (const event of events) if ('choice' in event) encoder.event(event)
      const end = encoder
        .finish(noUsage, { cost: '0', lines: none })
        .find(({ event }) => event === 'message_delta')
      expect(JSON.parse(end!.data)).toMatchObject({ delta: ended.delta })
      const whole = inbound.whole(collect(events), noUsage, { cost: '0', lines: none }, context)
      expect(whole).toMatchObject(ended.delta)
    }
  })

  test('without message_stop is not an end', () => {
    expect(parse(start, stopped('end_turn')).at(-1)).toMatchObject({ kind: 'error', fault: { kind: 'cut' } })
  })

  test('must be there', () => {
    expect(parse(start, stop).at(-1)).toMatchObject({ kind: 'error', fault: { kind: 'broken' } })
  })

  const called = (json: string) => [
    start,
    open(0, { type: 'tool_use', id: 't', name: 'f', input: {} }),
    delta(0, { type: 'input_json_delta', partial_json: json }),
  ]
  test.each([
    ['end_turn', '{"a":1}', 'tool_calls'],
    ['max_tokens', '{"a":1}', 'tool_calls'],
    ['max_tokens', '{"a":', 'length'],
    ['refusal', '{"a":1}', 'content_filter'],
  ])('%s after a call with %s is %s', (native, json, reason) => {
    expect(
      collect(parse(...called(json), close(0), stopped(native), stop)).choices[0]!.finish as string,
    ).toBe(reason)
  })
})

describe('a tool call', () => {
  const of = (...events: object[]) =>
    collect(parse(start, ...events, stopped('tool_use'), stop)).choices[0]!.toolCalls

  test('is numbered from 0 whatever blocks come before it', () => {
    const calls = of(
      open(0, { type: 'text', text: 'x' }),
      close(0),
      open(1, { type: 'server_tool_use', id: 's', name: 'web_search', input: {} }),
      delta(1, { type: 'input_json_delta', partial_json: '{"query":"x"}' }),
      close(1),
      open(2, { type: 'mcp_tool_result', tool_use_id: 's', content: [] }),
      close(2),
      open(5, { type: 'tool_use', id: 'a', name: 'f', input: {} }),
      close(5),
      open(7, { type: 'tool_use', id: 'b', name: 'g', input: {} }),
      close(7),
    )
    expect(calls.map(({ id, arguments: json }) => [id, json])).toEqual([
      ['a', '{}'],
      ['b', '{}'],
    ])
  })

  test('without arguments sends an empty object, not nothing', () => {
    const events = parse(
      start,
      open(0, { type: 'tool_use', id: 'a', name: 'f', input: {} }),
      close(0),
      stopped('tool_use'),
      stop,
    )
    expect(
      events.filter((event) => event.kind === 'tool-call-delta').map((event) => event.arguments),
    ).toEqual(['{}'])
  })

  describe.each<[string, (...blocks: object[]) => ChatEvent[]]>([
    [
      'streamed',
      (...blocks) =>
        parse(
          start,
          ...blocks.flatMap((block, at) => [open(at, block), close(at)]),
          stopped('tool_use'),
          stop,
        ),
    ],
    ['whole', (...content) => [...outbound.whole({ id: 'm', content, stop_reason: 'tool_use' }, target())]],
  ])('in a %s answer', (_, read) => {
    const use = (id: unknown, n: number) => ({ type: 'tool_use', id, name: 'f', input: { n } })
    const callsOf = (...blocks: object[]) => collect(read(...blocks)).choices[0]!.toolCalls

    test('with the id of another gets one of its own, the same whenever the answer is read', () => {
      const calls = callsOf(use('a', 1), use('b', 2), use('a', 3), use('a', 4))
      expect(calls.map(({ id, arguments: json }) => [id, json])).toEqual([
        ['a', '{"n":1}'],
        ['b', '{"n":2}'],
        [mintedId('m', 2), '{"n":3}'],
        [mintedId('m', 3), '{"n":4}'],
      ])
    })

    test.each(['', null, 7, undefined])('with the id %p gets one', (id) => {
      expect(callsOf(use(id, 1), use(id, 2)).map((call) => call.id)).toEqual([
        mintedId('m', 0),
        mintedId('m', 1),
      ])
    })

    test('gets an id that Claude takes back, with its result', () => {
      const { toolCalls } = collect(read(use('a', 1), use('a', 2))).choices[0]!
      const results = toolCalls.map(({ id }) => result(id, `of ${id}`))
      const messages = [user('Look.'), assistant('', { content: [], toolCalls }), ...results]
      const { body } = outbound.lower(chat({ messages }), target())
      const [, said, given] = body['messages'] as { content: JsonObject[] }[]
      const ids = ['a', mintedId('m', 1)]
      expect(said!.content.map(({ id }) => id as string)).toEqual(ids)
      expect(given!.content.map((block) => block['tool_use_id'] as string)).toEqual(ids)
    })

    test('without a name is a broken answer', () => {
      expect(read({ type: 'tool_use', id: 'a', input: {} }).at(-1)).toMatchObject({
        kind: 'error',
        fault: { kind: 'broken' },
      })
    })

    test("has an id apart from those of the provider's own tools, which stay as they are", () => {
      const events = read(
        { type: 'server_tool_use', id: 's', name: 'web_search', input: { query: 'rivers' } },
        { type: 'web_search_tool_result', tool_use_id: 's', content: [] },
        use('a', 1),
        use('a', 2),
        { type: 'server_tool_use', id: 't', name: 'web_search', input: { query: 'seas' } },
        { type: 'web_search_tool_result', tool_use_id: 't', content: [] },
      )
      const { toolCalls, reasoning } = collect(events).choices[0]!
      expect(toolCalls.map(({ id }) => id)).toEqual(['a', mintedId('m', 1)])
      const work = reasoning.map(({ data }) => JSON.parse(data!) as JsonObject)
      expect(work.map(({ id, tool_use_id }) => id ?? tool_use_id)).toEqual(['s', 's', 't', 't'])
    })
  })

  test('has an id of its own answer, where neither has one', () => {
    const read = () =>
      outbound.whole(
        { content: [{ type: 'tool_use', name: 'f', input: {} }], stop_reason: 'tool_use' },
        target(),
      )
    const [one, other] = [read(), read()].map((events) => collect(events).choices[0]!.toolCalls[0]!.id)
    expect(one).toStartWith('call_')
    expect(one).not.toBe(other)
  })

  test('whose arguments come whole with its start has them', () => {
    const [made] = of(open(0, { type: 'tool_use', id: 'a', name: 'f', input: { x: 1 } }), close(0))
    expect(made!.arguments).toBe('{"x":1}')
  })
})

describe('usage', () => {
  test('is told at the start, so that a cut stream can be charged', () => {
    expect(parse(start).find((event) => event.kind === 'usage')).toMatchObject({
      usage: { input: 5, output: 1 },
    })
  })

  const cached = {
    input_tokens: 9,
    cache_read_input_tokens: 4,
    cache_creation_input_tokens: 2,
    output_tokens: 1,
  }
  const searched = (web_search_requests: number) => ({ server_tool_use: { web_search_requests } })
  const thought = (thinking_tokens: number) => ({ output_tokens_details: { thinking_tokens } })

  test.each<[string, object[], object]>([
    [
      'takes back nothing of the output',
      [{ output_tokens: 10 }, { output_tokens: 0 }],
      { input: 9, output: 10 },
    ],
    ['grows', [{ output_tokens: 10 }, { output_tokens: 12 }, { output_tokens: 11 }], { output: 12 }],
    ['takes back nothing of the prompt', [{ input_tokens: 0, output_tokens: 3 }], { input: 9, output: 3 }],
    [
      'with zeros alone takes back nothing',
      [{ ...cached, input_tokens: 0, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 }],
      { input: 9, cacheRead: 4, cacheWrite5m: 2 },
    ],
    ['keeps what it leaves out', [{ output_tokens: 3 }], { input: 9, cacheRead: 4, cacheWrite5m: 2 }],
    [
      'may move input to the cache, which is not counted twice',
      [{ input_tokens: 1, cache_read_input_tokens: 12, output_tokens: 3 }],
      { input: 1, cacheRead: 12, cacheWrite5m: 2, output: 3 },
    ],
    [
      'with a smaller prompt moves nothing to the cache',
      [
        { input_tokens: 20, output_tokens: 3 },
        { input_tokens: 5, cache_read_input_tokens: 6 },
      ],
      { input: 20, cacheRead: 4, cacheWrite5m: 2, output: 3 },
    ],
    [
      'takes back no thinking',
      [
        { output_tokens: 10, ...thought(6) },
        { output_tokens: 11, ...thought(0) },
      ],
      { output: 5, reasoning: 6 },
    ],
    ['takes back no search', [searched(2), searched(0)], { toolCalls: { web_search: 2 } }],
    ['includes the searches before it', [searched(1), searched(2)], { toolCalls: { web_search: 2 } }],
    [
      'that is no count takes back nothing',
      [{ output_tokens: 10 }, { input_tokens: -1, output_tokens: 'many' }],
      { input: 9, output: 10 },
    ],
    [
      'may count the last round alone at the top level',
      [{ input_tokens: 2, output_tokens: 5, iterations: [{ ...cached, input_tokens: 20 }, cached] }],
      { input: 29, cacheRead: 8, cacheWrite5m: 4, output: 2 },
    ],
    [
      'takes back no round',
      [{ iterations: [cached, cached] }, { iterations: [cached] }],
      { input: 18, cacheRead: 8, cacheWrite5m: 4, output: 2 },
    ],
  ])('is cumulative: a later count %s', (_, deltas, expected) => {
    const first = { ...start, message: { ...start.message, usage: cached } }
    const counted = collect(parse(first, ...deltas.map((usage) => stopped('end_turn', usage)), stop)).usage
    expect(counted).toMatchObject(expected)
    expect(counted).not.toHaveProperty('uncounted')
  })

  test.each([
    [{ cache_creation_input_tokens: 0, cache_read_input_tokens: 10 }, { cacheRead: 10 }],
    [
      { cache_creation_input_tokens: 6, cache_read_input_tokens: 4 },
      { cacheRead: 4, cacheWrite1h: 6 },
    ],
    [{ cache_creation_input_tokens: 0 }, { cacheWrite5m: 2, cacheWrite1h: 8 }],
    [{ cache_creation_input_tokens: 10 }, { cacheWrite5m: 2, cacheWrite1h: 8 }],
    [{ cache_creation_input_tokens: 12 }, { cacheWrite5m: 4, cacheWrite1h: 8 }],
  ])('counts no cache write twice that was split before %p', (later, expected) => {
    const split = { ephemeral_5m_input_tokens: 2, ephemeral_1h_input_tokens: 8 }
    const first = { ...start, message: { usage: { cache_creation_input_tokens: 10, cache_creation: split } } }
    const counted = collect(parse(first, stopped('end_turn', later), stop)).usage
    const none = { cacheRead: 0, cacheWrite5m: 0, cacheWrite1h: 0 }
    expect(counted).toMatchObject({ ...none, ...expected })
  })

  test('counts a search that has found something, although a later count does not name it', () => {
    const found = {
      type: 'web_search_tool_result',
      tool_use_id: 's',
      content: [{ type: 'web_search_result', url: 'https://example.com', title: 'Rivers' }],
    }
    const events = parse(
      start,
      open(0, { type: 'server_tool_use', id: 's', name: 'web_search', input: { query: 'rivers' } }),
      close(0),
      open(1, found),
      close(1),
      stopped('end_turn'),
      stop,
    )
    expect(collect(events).usage).toMatchObject({ output: 7, toolCalls: { web_search: 1 } })
  })

  test('keeps the split of a one-hour cache when the total grows after it', () => {
    const split = { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 10 }
    const first = { ...start, message: { usage: { cache_creation_input_tokens: 10, cache_creation: split } } }
    const counted = collect(
      parse(first, stopped('end_turn', { cache_creation_input_tokens: 15 }), stop),
    ).usage
    expect(counted).toMatchObject({ cacheWrite5m: 0, cacheWrite1h: 15 })
  })

  test('that is missing is not zero', () => {
    const bare = { type: 'message_start', message: { id: 'm' } }
    expect(
      collect(parse(bare, { type: 'message_delta', delta: { stop_reason: 'end_turn' } }, stop)).usage,
    ).toBeUndefined()
  })

  test('never charges less than the top level says', () => {
    const usage = { input_tokens: 50, output_tokens: 5, iterations: [{ input_tokens: 10, output_tokens: 5 }] }
    expect(collect(parse(start, stopped('end_turn', usage), stop)).usage).toMatchObject({
      input: 50,
      output: 5,
    })
  })
})

describe('events of tomorrow', () => {
  test('are ignored, with their blocks and deltas', () => {
    const events = parse(
      start,
      { type: 'ping' },
      { type: 'brand_new_event', what: 1 },
      open(0, { type: 'brand_new_block' }),
      delta(0, { type: 'brand_new_delta' }),
      close(0),
      open(1, { type: 'text', text: '' }),
      delta(1, { type: 'text_delta', text: 'hi' }),
      close(1),
      stopped('end_turn'),
      stop,
    )
    expect(collect(events).choices[0]!.text).toBe('hi')
  })
})

describe('a refusal that says why', () => {
  const stop_details = { type: 'refusal', category: 'cyber', explanation: 'This could harm others.' }
  const reading = (details: unknown) => [
    collect(
      parse(start, { ...stopped('refusal'), delta: { stop_reason: 'refusal', stop_details: details } }, stop),
    ),
    collect(outbound.whole({ content: [], stop_reason: 'refusal', stop_details: details }, target())),
  ]

  test('is told as one, streamed or whole', () => {
    for (const { choices } of reading(stop_details)) {
      expect(choices).toMatchObject([
        { text: null, refusal: 'This could harm others.', finish: 'content_filter' },
      ])
    }
  })

  test.each([null, 'odd', { type: 'refusal', category: null, explanation: null }])(
    'and has no words of its own for %j',
    (details) => {
      for (const { choices } of reading(details)) {
        expect(choices).toMatchObject([{ refusal: null, finish: 'content_filter' }])
      }
    },
  )
})

test('a text completion of Claude 2 is counted where its stream ends with its metrics', () => {
  const { choices, usage } = collect(
    parse(
      { completion: ' Hello', stop_reason: null, stop: null },
      {
        completion: ' you',
        stop_reason: 'max_tokens',
        'amazon-bedrock-invocationMetrics': { inputTokenCount: 9, outputTokenCount: 2 },
      },
    ),
  )
  expect(choices).toMatchObject([{ text: ' Hello you', finish: 'length' }])
  expect(usage).toMatchObject({ input: 9, output: 2 })
})
