// Answers and errors that no recording has: written from the protocol's public description, not recorded.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { collect } from '../../../src/conversation/event.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { outbound } from '../../../src/protocols/openai-responses/outbound/outbound.ts'
import type { Frame } from '../../../src/protocols/framing/sse.ts'
import { assertWellFormed, parseFrames } from '../../support/recordings.ts'
import { hostsOf, recordedAnswers } from '../recorded-hosts.ts'
import { choiceOf, streamOf, target } from './support.ts'

const created: JsonObject = {
  type: 'response.created',
  response: { id: 'resp_1', model: 'gpt-5', status: 'in_progress' },
}
const usage = { input_tokens: 10, output_tokens: 4, total_tokens: 14 }

function ended(status: string, more: JsonObject = {}): JsonObject {
  return { type: `response.${status}`, response: { id: 'resp_1', status, usage, ...more } }
}

function textOf(...texts: readonly string[]): JsonObject[] {
  return texts.map((delta) => ({
    type: 'response.output_text.delta',
    item_id: 'msg_1',
    output_index: 0,
    content_index: 0,
    delta,
  }))
}

function added(output_index: number, item: JsonObject): JsonObject {
  return { type: 'response.output_item.added', output_index, item }
}

function done(output_index: number, item: JsonObject): JsonObject {
  return { type: 'response.output_item.done', output_index, item }
}

function functionCall(id: string, call_id: string, json: string): JsonObject {
  return { type: 'function_call', id, call_id, name: 'find', arguments: json, status: 'completed' }
}

function frames(...events: readonly JsonObject[]): Frame[] {
  return events.map((event) => ({ event: undefined, data: JSON.stringify(event) }))
}

describe('the end of a stream', () => {
  test.each<readonly [JsonObject, string, string]>([
    [ended('completed'), 'stop', 'completed'],
    [
      ended('incomplete', { incomplete_details: { reason: 'max_output_tokens' } }),
      'length',
      'max_output_tokens',
    ],
    [
      ended('incomplete', { incomplete_details: { reason: 'content_filter' } }),
      'content_filter',
      'content_filter',
    ],
    // A reason that is new to us: what is not whole must not look finished.
    [ended('incomplete', { incomplete_details: { reason: 'sunspots' } }), 'other', 'sunspots'],
    [ended('incomplete'), 'other', 'incomplete'],
  ])('%j', (end, reason, native) => {
    const events = streamOf(created, ...textOf('Hi'), end)
    assertWellFormed(events)
    expect(choiceOf(events)).toMatchObject({ text: 'Hi', finish: reason, nativeFinish: native })
    expect(events.at(-1)).toEqual({ kind: 'finish' })
  })

  test.each<readonly [string, readonly Frame[]]>([
    ['nothing at all', []],
    ['no more than a beginning', frames(created)],
    ['text and no end', frames(created, ...textOf('Hi'))],
    [
      '[DONE] in place of an end',
      [...frames(created, ...textOf('Hi')), { event: undefined, data: '[DONE]' }],
    ],
  ])('%s is an error', (_, given) => {
    const events = parseFrames(outbound.parser(target()), given)
    expect(events.filter(({ kind }) => kind === 'finish')).toEqual([])
    expect(events.at(-1)).toMatchObject({ kind: 'error', fault: { kind: 'cut' } })
  })

  test('nothing is read after it', () => {
    const events = streamOf(created, ...textOf('Hi'), ended('completed'), ...textOf('more'), ended('failed'))
    expect(choiceOf(events).text).toBe('Hi')
    expect(events.filter(({ kind }) => kind === 'finish' || kind === 'error')).toHaveLength(1)
  })

  test('a call that the token limit cut off keeps the reason, so that nobody executes it', () => {
    const item = functionCall('fc_1', 'call_a', '{"q": "hal')
    const end = ended('incomplete', { incomplete_details: { reason: 'max_output_tokens' } })
    const events = streamOf(created, added(0, { ...item, arguments: '' }), done(0, item), end)
    assertWellFormed(events)
    expect(choiceOf(events).finish).toBe('length')
  })
})

describe('errors in a stream', () => {
  test.each<readonly [JsonObject, string]>([
    // Both shapes of the event, and the failed response.
    [{ type: 'error', code: 'rate_limit_exceeded', message: 'Slow down.', param: null }, 'rate-limited'],
    [
      { type: 'error', error: { type: 'server_error', code: 'server_error', message: 'Oh.', param: null } },
      'broken',
    ],
    [{ type: 'error', error: { code: 'context_length_exceeded', message: 'Too long.' } }, 'context-length'],
    [ended('failed', { error: { code: 'server_error', message: 'Oh.' } }), 'broken'],
    [ended('failed', { error: { code: 'rate_limit_exceeded', message: 'Wait.' } }), 'rate-limited'],
    [ended('failed', { error: { code: 'server_is_overloaded', message: 'Busy.' } }), 'overloaded'],
    [ended('failed', { error: { code: 'invalid_image_format', message: 'No image.' } }), 'invalid-request'],
    [ended('failed', { error: { code: 'invalid_prompt', message: 'No.' } }), 'invalid-request'],
    [
      ended('failed', {
        error: { code: 'invalid_prompt', message: 'Your prompt was flagged under our usage policy.' },
      }),
      'content-filter',
    ],
    [
      ended('failed', { error: { code: 'image_content_policy_violation', message: 'No.' } }),
      'content-filter',
    ],
    [ended('failed', { error: { code: 'vector_store_timeout', message: 'Late.' } }), 'timeout'],
    [ended('failed', { error: null }), 'broken'],
    [ended('cancelled'), 'broken'],
  ])('%j is %p', (event, kind) => {
    const events = streamOf(created, ...textOf('Hi'), event)
    assertWellFormed(events)
    expect(events.at(-1)).toMatchObject({ kind: 'error', fault: { kind } })
  })

  test('an error without a type beside it, as OpenRouter sends them, is one too', () => {
    const given = frames(created, { error: { code: 502, message: 'Upstream.' } })
    expect(parseFrames(outbound.parser(target()), given).at(-1)).toMatchObject({ kind: 'error' })
  })

  test('what was counted before a failure is kept', () => {
    expect(
      collect(streamOf(created, ended('failed', { error: { code: 'server_error', message: 'x' } }))).usage,
    ).toMatchObject({
      input: 10,
      output: 4,
    })
  })

  test('an event that is not JSON breaks the stream', () => {
    const given = [...frames(created), { event: undefined, data: '<html>' }]
    expect(parseFrames(outbound.parser(target()), given).at(-1)).toMatchObject({ fault: { kind: 'broken' } })
  })
})

describe('error statuses', () => {
  const headers = (more: Record<string, string> = {}) =>
    new Headers({ 'content-type': 'application/json', ...more })
  const body = (error: JsonObject) => JSON.stringify({ error: { param: null, ...error } })

  test.each([
    [
      429,
      body({ code: 'rate_limit_exceeded', type: 'requests', message: 'Rate limit reached' }),
      'rate-limited',
    ],
    [
      400,
      body({ code: 'context_length_exceeded', type: 'invalid_request_error', message: 'Too long' }),
      'context-length',
    ],
    [
      400,
      body({ code: 'invalid_encrypted_content', type: 'invalid_request_error', message: 'Not ours' }),
      'invalid-request',
    ],
    [
      400,
      body({ code: 'invalid_prompt', type: 'invalid_request_error', message: 'was flagged' }),
      'content-filter',
    ],
    [
      404,
      body({ code: null, type: 'invalid_request_error', message: "Item with id 'rs_1' not found." }),
      'not-found',
    ],
    [500, body({ code: 'server_error', type: 'server_error', message: 'Oh' }), 'broken'],
    [
      503,
      body({ code: 'server_is_overloaded', type: 'service_unavailable_error', message: 'Busy' }),
      'overloaded',
    ],
    [502, '<html>Bad gateway</html>', 'broken'],
    [503, '', 'overloaded'],
  ])('%p %p is %p', (status, text, kind) => {
    expect(outbound.fault(status, headers(), text, target())).toMatchObject({ status, kind })
  })

  test('the wait that the provider asks for is kept', () => {
    const fault = outbound.fault(429, headers({ 'retry-after': '7' }), body({ message: 'Wait' }), target())
    expect(fault.retryAfterMs).toBe(7000)
  })
})

describe('a body that is not an answer', () => {
  test.each([
    [null, 'broken'],
    ['text', 'broken'],
    [{}, 'broken'],
    [{ choices: [] }, 'broken'],
    [{ error: { code: 'server_error', message: 'Oh' } }, 'broken'],
    [
      {
        object: 'response',
        status: 'failed',
        output: [],
        error: { code: 'rate_limit_exceeded', message: 'x' },
      },
      'rate-limited',
    ],
    [{ object: 'response', status: 'in_progress', output: [] }, 'broken'],
    [{ object: 'response', status: 'queued', output: [] }, 'broken'],
  ])('%j is %p', (given, kind) => {
    const events = outbound.whole(given, target())
    assertWellFormed(events)
    expect(events.at(-1)).toMatchObject({ kind: 'error', fault: { kind } })
  })
})

describe('words that no delta brought', () => {
  const at = { item_id: 'x_1', output_index: 0, content_index: 0, summary_index: 0 }
  const part = (type: string, text: string) => ({ type, text })
  const deltas: Readonly<Record<string, string>> = {
    text: 'response.output_text.delta',
    refusal: 'response.refusal.delta',
    summary: 'response.reasoning_summary_text.delta',
    reasoning: 'response.reasoning_text.delta',
  }
  test.each<readonly [kind: string, end: JsonObject]>([
    ['text', { type: 'response.output_text.done', ...at, text: 'All of it' }],
    ['text', { type: 'response.content_part.done', ...at, part: part('output_text', 'All of it') }],
    ['refusal', { type: 'response.refusal.done', ...at, refusal: 'All of it' }],
    [
      'refusal',
      { type: 'response.content_part.done', ...at, part: { type: 'refusal', refusal: 'All of it' } },
    ],
    ['summary', { type: 'response.reasoning_summary_text.done', ...at, text: 'All of it' }],
    [
      'summary',
      { type: 'response.reasoning_summary_part.done', ...at, part: part('summary_text', 'All of it') },
    ],
    ['reasoning', { type: 'response.reasoning_text.done', ...at, text: 'All of it' }],
    ['reasoning', { type: 'response.content_part.done', ...at, part: part('reasoning_text', 'All of it') }],
  ])('%s is told when it ends: %j', (kind, end) => {
    const said = (...before: readonly JsonObject[]) => {
      const events = streamOf(created, ...before, end, end, ended('completed'))
      assertWellFormed(events)
      const { text, refusal, reasoning } = choiceOf(events)
      const [thought] = reasoning
      return { text, refusal, summary: thought?.summary, reasoning: thought?.text }[kind]
    }
    expect(said()).toBe('All of it')
    expect(said({ type: deltas[kind]!, ...at, delta: 'All ' })).toBe('All of it')
  })
})

test('an event that ends a response counts, though the response beside it is said to go on', () => {
  const end = { type: 'response.completed', response: { status: 'in_progress', output: [], usage } }
  expect(streamOf(created, ...textOf('Hi'), end).at(-1)).toEqual({ kind: 'finish' })
})

describe('calls', () => {
  test('are numbered from 0 by their place, whatever stands between them and whatever their ids are', () => {
    const events = streamOf(
      created,
      added(0, { type: 'reasoning', id: 'rs_1', summary: [] }),
      added(1, { type: 'function_call', id: 'fc_1', call_id: 'call_0', name: 'find', arguments: '' }),
      added(3, { type: 'function_call', id: 'fc_2', call_id: 'call_0', name: 'find', arguments: '' }),
      // The deltas of both calls mixed, one of them named by its item alone.
      { type: 'response.function_call_arguments.delta', output_index: 3, item_id: 'fc_2', delta: '{"q":' },
      { type: 'response.function_call_arguments.delta', item_id: 'fc_1', delta: '{"q":1}' },
      { type: 'response.function_call_arguments.delta', output_index: 3, item_id: 'fc_2', delta: '2}' },
      done(1, functionCall('fc_1', 'call_0', '{"q":1}')),
      done(3, functionCall('fc_2', 'call_0', '{"q":2}')),
      ended('completed'),
    )
    assertWellFormed(events)
    const { toolCalls, finish } = choiceOf(events)
    expect(toolCalls.map((made) => made.arguments)).toEqual(['{"q":1}', '{"q":2}'])
    expect(toolCalls[0]!.id).toBe('call_0')
    expect(toolCalls[1]!.id).not.toBe('call_0')
    expect(finish).toBe('tool_calls')
  })

  test.each<readonly [string, readonly JsonObject[]]>([
    ['at its end only', [done(0, functionCall('fc_1', 'call_a', '{"q":1}'))]],
    [
      'by its deltas before it is known',
      [
        {
          type: 'response.function_call_arguments.delta',
          output_index: 0,
          item_id: 'fc_1',
          delta: '{"q":1}',
        },
        {
          type: 'response.function_call_arguments.done',
          output_index: 0,
          item_id: 'fc_1',
          arguments: '{"q":1}',
        },
        done(0, functionCall('fc_1', 'call_a', '{"q":1}')),
      ],
    ],
    [
      'half by deltas, whole at its end',
      [
        added(0, functionCall('fc_1', 'call_a', '')),
        { type: 'response.function_call_arguments.delta', output_index: 0, item_id: 'fc_1', delta: '{"q"' },
        done(0, functionCall('fc_1', 'call_a', '{"q":1}')),
      ],
    ],
  ])('a call told %s is told once', (_, told) => {
    const events = streamOf(created, ...told, ended('completed'))
    assertWellFormed(events)
    expect(choiceOf(events).toolCalls).toMatchObject([{ id: 'call_a', name: 'find', arguments: '{"q":1}' }])
  })

  test('a call without arguments has an empty object', () => {
    const events = streamOf(created, done(0, functionCall('fc_1', 'call_a', '')), ended('completed'))
    expect(choiceOf(events).toolCalls[0]!.arguments).toBe('{}')
    expect(events.filter(({ kind }) => kind === 'tool-call-delta')).toHaveLength(1)
  })

  test('a call that never gets a name is an error', () => {
    const delta = {
      type: 'response.function_call_arguments.delta',
      output_index: 0,
      item_id: 'fc_1',
      delta: '{}',
    }
    expect(streamOf(created, delta, ended('completed')).at(-1)).toMatchObject({ fault: { kind: 'broken' } })
  })

  test('tools that the provider ran are no calls of the client', () => {
    const output = [
      'web_search_call',
      'file_search_call',
      'code_interpreter_call',
      'mcp_call',
      'x_search_call',
    ]
    const body = {
      id: 'resp_1',
      status: 'completed',
      output: output.map((type, n) => ({ type, id: `i_${n}` })),
      usage,
    }
    const events = outbound.whole(body, target())
    expect(choiceOf(events)).toMatchObject({ toolCalls: [], finish: 'stop' })
    expect(collect(events).usage!.toolCalls).toEqual({ web_search: 1 })
  })
})

describe('text', () => {
  const part = (text: string, annotations: JsonObject[] = []): JsonObject => ({
    type: 'output_text',
    text,
    annotations,
  })
  const source = (start_index: number, end_index: number): JsonObject => ({
    type: 'url_citation',
    url: 'https://a.test/',
    title: 'A',
    start_index,
    end_index,
  })

  test('the places of sources are those of the joined text, over several parts and messages', () => {
    const output: JsonObject[] = [
      { type: 'message', id: 'msg_1', content: [part('One [a]. '), part('Two [a].', [source(4, 7)])] },
      {
        type: 'message',
        id: 'msg_2',
        content: [part(' Three [a]', [source(7, 10), { type: 'file_citation', file_id: 'f' }])],
      },
    ]
    const choice = choiceOf(outbound.whole({ status: 'completed', output }, target()))
    expect(choice.annotations.map(({ start, end }) => choice.text!.slice(start, end))).toEqual(['[a]', '[a]'])
    expect(choice.annotations.map(({ start }) => start)).toEqual([13, 24])
  })

  test('a source that comes as an event of its own is told once, although the end repeats it', () => {
    const item = { type: 'message', id: 'msg_1', content: [part('See [a].', [source(4, 7)])] }
    const added = {
      type: 'response.output_text.annotation.added',
      item_id: 'msg_1',
      output_index: 0,
      content_index: 0,
      annotation: source(4, 7),
    }
    const events = streamOf(
      created,
      ...textOf('See ', '[a].'),
      added,
      done(0, item),
      ended('completed', { output: [item] }),
    )
    expect(choiceOf(events)).toMatchObject({ text: 'See [a].', annotations: [{ start: 4, end: 7 }] })
  })

  test('a refusal is one, streamed or whole', () => {
    const item = { type: 'message', id: 'msg_1', content: [{ type: 'refusal', refusal: 'I cannot.' }] }
    const delta = (text: string) => ({
      type: 'response.refusal.delta',
      item_id: 'msg_1',
      output_index: 0,
      content_index: 0,
      delta: text,
    })
    const streamed = streamOf(
      created,
      delta('I '),
      delta('cannot.'),
      done(0, item),
      ended('completed', { output: [item] }),
    )
    for (const events of [streamed, outbound.whole({ status: 'completed', output: [item] }, target())]) {
      expect(choiceOf(events)).toMatchObject({ text: null, refusal: 'I cannot.', finish: 'stop' })
    }
  })

  test('an empty text is an answer, not the lack of one', () => {
    const output = [{ type: 'message', id: 'msg_1', content: [part('')] }]
    expect(choiceOf(outbound.whole({ status: 'completed', output }, target())).text).toBe('')
  })

  test('an answer whose items come with its end only is read from there', () => {
    const output: JsonObject[] = [
      { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'secret' },
      { type: 'message', id: 'msg_1', content: [part('Hi')] },
      functionCall('fc_1', 'call_a', '{}'),
    ]
    const events = streamOf(created, ended('completed', { output }))
    assertWellFormed(events)
    expect(choiceOf(events)).toMatchObject({
      text: 'Hi',
      reasoning: [{ data: 'secret' }],
      toolCalls: [{ id: 'call_a' }],
    })
  })

  test('items with other ids at the end are not told twice', () => {
    const output = [{ type: 'message', id: 'msg_other', content: [part('Hi')] }]
    expect(choiceOf(streamOf(created, ...textOf('Hi'), ended('completed', { output }))).text).toBe('Hi')
  })

  // As Bedrock's Mantle numbers them: the reasoning of gpt-oss has no part of its own, but its number.
  test.each([
    ['the end of the item', (item: JsonObject) => [done(0, item), ended('completed')]],
    ['the end of the response', (item: JsonObject) => [ended('completed', { output: [item] })]],
  ])('a text whose deltas were numbered otherwise is told once at %s', (_, end) => {
    const numbered = textOf('Hel', 'lo').map((delta) => ({ ...delta, content_index: 1 }))
    const item = { type: 'message', id: 'msg_1', content: [part('Hello')] }
    const events = streamOf(created, ...numbered, ...end(item))
    assertWellFormed(events)
    expect(choiceOf(events).text).toBe('Hello')
  })

  test('a part that was not streamed is told beside one that was, whichever comes first', () => {
    const item = { type: 'message', id: 'msg_1', content: [part('One. '), part('Two.')] }
    for (const [index, delta, whole] of [
      [0, 'One. ', 'One. Two.'],
      [1, 'Two.', 'Two.One. '],
    ] as const) {
      const streamed = textOf(delta).map((event) => ({ ...event, content_index: index }))
      expect(choiceOf(streamOf(created, ...streamed, done(0, item), ended('completed'))).text).toBe(whole)
    }
  })

  test('log probabilities that come at the end of the text only are told', () => {
    const entry = { token: 'Hi', logprob: -0.1 }
    const end = {
      type: 'response.output_text.done',
      item_id: 'msg_1',
      output_index: 0,
      content_index: 0,
      text: 'Hi',
      logprobs: [entry],
    }
    const events = streamOf(created, ...textOf('Hi'), end, ended('completed'))
    expect(choiceOf(events).logprobs).toEqual({
      content: [{ ...entry, bytes: null, top_logprobs: [] }],
      refusal: [],
    })
  })

  test('an image that the model made is an image', () => {
    const output = [
      {
        type: 'image_generation_call',
        id: 'ig_1',
        status: 'completed',
        result: 'AA==',
        output_format: 'webp',
      },
    ]
    expect(choiceOf(outbound.whole({ status: 'completed', output }, target())).images).toEqual([
      { mediaType: 'image/webp', data: 'AA==' },
    ])
  })
})

describe('reasoning', () => {
  test('what is encrypted when an item opens is not what is kept', () => {
    const item = (data: string): JsonObject => ({
      type: 'reasoning',
      id: 'rs_1',
      summary: [],
      encrypted_content: data,
    })
    const events = streamOf(
      created,
      added(0, item('early')),
      done(0, item('final')),
      ended('completed', { output: [item('last')] }),
    )
    expect(choiceOf(events).reasoning).toEqual([
      { type: 'reasoning.encrypted', format: 'openai-responses-v1', index: 0, id: 'rs_1', data: 'final' },
    ])
  })

  test('each part of a summary is a detail of its own', () => {
    const delta = (summary_index: number, text: string): JsonObject => ({
      type: 'response.reasoning_summary_text.delta',
      item_id: 'rs_1',
      output_index: 0,
      summary_index,
      delta: text,
    })
    const events = streamOf(created, delta(0, 'One '), delta(0, 'more'), delta(1, 'Two'), ended('completed'))
    expect(choiceOf(events).reasoning.map(({ index, summary }) => [index, summary])).toEqual([
      [0, 'One more'],
      [1, 'Two'],
    ])
  })
})

describe('usage', () => {
  test.each<readonly [JsonObject, object]>([
    [
      { input_tokens: 5, output_tokens: 9, output_tokens_details: { reasoning_tokens: 4 } },
      { input: 5, output: 5, reasoning: 4 },
    ],
    // Grok on Azure Foundry counts more cached tokens than there are.
    [
      { input_tokens: 10, output_tokens: 1, input_tokens_details: { cached_tokens: 161 } },
      { input: 0, cacheRead: 10 },
    ],
    [
      { input_tokens: 10, output_tokens: 1, output_tokens_details: { reasoning_tokens: 9 } },
      { output: 0, reasoning: 1 },
    ],
    // One counter and the total give the other.
    [
      { input_tokens: 10, total_tokens: 14 },
      { input: 10, output: 4 },
    ],
    [
      { input_tokens: -3, output_tokens: 2.9 },
      { input: 0, output: 2 },
    ],
  ])('%j', (raw, expected) => {
    const events = outbound.whole({ status: 'completed', output: [], usage: raw }, target())
    assertWellFormed(events)
    expect(collect(events).usage).toMatchObject(expected)
  })

  test.each([null, {}, 'many'])('%p counts nothing', (raw) => {
    expect(
      collect(outbound.whole({ status: 'completed', output: [], usage: raw }, target())).usage,
    ).toBeUndefined()
  })
})

describe('whatever a server sends', () => {
  const all = recordedAnswers(hostsOf('openai-responses')).flatMap(({ frames }) => (frames ? [frames] : []))

  test('a stream with events lost, doubled or mixed up is read to one end, without an exception', () => {
    const picks = fc.array(fc.tuple(fc.nat(), fc.nat(), fc.nat(40)), { maxLength: 12 })
    fc.assert(
      fc.property(picks, (slices) => {
        const mixed = slices.flatMap(([file, start, length]) => {
          const from = all[file % all.length]!
          return from.slice(start % from.length, (start % from.length) + length)
        })
        const events = parseFrames(outbound.parser(target()), mixed)
        const terminals = events.filter(({ kind }) => kind === 'finish' || kind === 'error')
        expect(terminals).toHaveLength(1)
        expect(events.at(-1)).toBe(terminals[0]!)
      }),
      { numRuns: 150 },
    )
  })

  test('any JSON is an answer or an error', () => {
    const key = fc.constantFrom(
      'type',
      'id',
      'output',
      'content',
      'text',
      'status',
      'usage',
      'error',
      'call_id',
      'name',
      'x',
    )
    const value = fc.letrec((tie) => ({
      value: fc.oneof(
        { depthSize: 'small' },
        fc.constantFrom<unknown>(
          null,
          0,
          -1,
          '',
          'message',
          'reasoning',
          'function_call',
          'output_text',
          true,
        ),
        fc.array(tie('value'), { maxLength: 4 }),
        fc.dictionary(key, tie('value'), { maxKeys: 6 }),
      ),
    })).value
    fc.assert(
      fc.property(value, value, (output, rest) => {
        assertWellFormed(outbound.whole({ id: 'r', status: 'completed', output, usage: rest }, target()))
        assertWellFormed(outbound.whole(rest, target()))
      }),
      { numRuns: 300 },
    )
  })
})
