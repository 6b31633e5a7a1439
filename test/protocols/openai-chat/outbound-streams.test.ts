// What providers do to a stream, one oddity at a time, and what it is read as.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type ChatEvent, collect } from '../../../src/conversation/event.ts'
import { outbound } from '../../../src/protocols/openai-chat/outbound/lower.ts'
import { defaultQuirks, type OpenAIChatQuirks } from '../../../src/protocols/openai-chat/outbound/quirks.ts'
import { usageOf } from '../../../src/protocols/openai/usage.ts'
import type { Frame } from '../../../src/protocols/framing/sse.ts'
import { assertWellFormed, parseFrames } from '../../support/recordings.ts'
import { targetOf } from './dialects.ts'

function read(frames: readonly Frame[], quirks: Partial<OpenAIChatQuirks> = {}): ChatEvent[] {
  const events = parseFrames(outbound.parser(targetOf({ ...defaultQuirks, ...quirks })), frames)
  assertWellFormed(events)
  return events
}

const data = (body: unknown): Frame => ({
  event: undefined,
  data: typeof body === 'string' ? body : JSON.stringify(body),
})
const chunk = (choices: unknown[], more: object = {}): Frame =>
  data({ id: 'c1', model: 'm', choices, ...more })
const delta = (fields: object, finish: string | null = null, index = 0): Frame =>
  chunk([{ index, delta: fields, finish_reason: finish }])
const done = data('[DONE]')
const call = (fields: object) => delta({ tool_calls: [fields] })

describe('the end of a stream', () => {
  test('a finish reason without [DONE] is an end', () => {
    expect(read([delta({ content: 'hi' }), delta({}, 'stop')]).at(-1)).toEqual({ kind: 'finish' })
  })

  test.each([
    ['nothing', []],
    ['text only', [delta({ content: 'hi' })]],
    ['[DONE] without a finish reason', [delta({ content: 'hi' }), done]],
    ['one of two choices', [delta({ content: 'a' }, 'stop', 0), delta({ content: 'b' }, null, 1), done]],
  ] as const)('%s is a cut, never a clean finish', (_, frames) => {
    expect(read(frames).at(-1)).toMatchObject({ kind: 'error', fault: { kind: 'cut' } })
  })

  test('what comes after the end is not heard', () => {
    const events = read([delta({ content: 'hi' }, 'stop'), done, delta({ content: 'more' }), done])
    expect(collect(events).choices[0]?.text).toBe('hi')
  })

  const broken = data('{"id":"c1","choices":[{"index":0,"delta":{"content":"lost')
  const sound = [delta({ content: 'b' }), delta({}, 'stop'), done]

  test('a chunk that is not JSON is left out where the rest is sound', () => {
    const events = read([delta({ content: 'a' }), broken, ...sound])
    expect(events.at(-1)).toEqual({ kind: 'finish' })
    expect(collect(events).choices[0]?.text).toBe('ab')
  })

  test.each<[string, readonly Frame[]]>([
    ['before the answer', [broken, ...sound]],
    ['more often than a few times', [delta({ content: 'a' }), broken, broken, broken, broken, ...sound]],
    [
      'within a call',
      [call({ index: 0, id: 'x', function: { name: 'f', arguments: '{"a":' } }), broken, done],
    ],
    [
      'that may be of a call',
      [delta({ content: 'a' }), data('{"choices":[{"delta":{"tool_calls":[{'), ...sound],
    ],
    ['that is a page', [delta({ content: 'a' }), data('<html>'), ...sound]],
  ])('a chunk that is not JSON %s breaks the stream', (_, frames) => {
    expect(read(frames).at(-1)).toMatchObject({ fault: { kind: 'broken' } })
  })

  test('a chunk that is not JSON breaks an answer that is to be a document', () => {
    const parser = outbound.parser({ ...targetOf(defaultQuirks), document: true })
    const events = parseFrames(parser, [delta({ content: '{' }), broken, ...sound])
    expect(events.at(-1)).toMatchObject({ fault: { kind: 'broken' } })
  })

  test.each([
    ['an error chunk', data({ error: { message: 'no', code: 429 } }), 'rate-limited'],
    [
      'an error beside choices',
      chunk([{ index: 0, delta: {} }], { error: { code: 502, message: 'no' } }),
      'broken',
    ],
    ['an error as a string', data({ error: 'gpu on fire' }), 'broken'],
    [
      'an event named error',
      { event: 'error', data: '{"message":"Overloaded","type":"overloaded_error"}' },
      'overloaded',
    ],
    ['an event named error, in prose', { event: 'error', data: 'gone' }, 'broken'],
    ['vLLM’s error object', data({ object: 'error', message: 'bad', code: 400 }), 'invalid-request'],
  ] as const)('%s ends the stream with a fault', (_, frame, kind) => {
    expect(read([delta({ content: 'hi' }), frame, done]).at(-1)).toMatchObject({
      kind: 'error',
      fault: { kind },
    })
  })

  test('usage on the chunk of an error is kept: it is owed', () => {
    const events = read([
      delta({ content: 'hi' }),
      data({ error: { message: 'no' }, usage: { prompt_tokens: 5, completion_tokens: 1 } }),
    ])
    expect(collect(events).usage).toMatchObject({ input: 5, output: 1 })
  })

  test.each([
    ['eos', 'stop'],
    ['model_length', 'length'],
    ['sensitive', 'content_filter'],
    ['something_new', 'other'],
    ['tool_calls', 'stop'],
  ])('the reason %s without calls is told as %s', (native, reason) => {
    const [choice] = collect(read([delta({ content: 'x' }, native), done])).choices
    expect(choice).toMatchObject({ finish: reason, nativeFinish: native })
  })

  test('a reason that is a failure is an error', () => {
    const events = read([delta({ content: 'x' }, 'insufficient_system_resource'), done])
    expect(events.at(-1)).toMatchObject({ kind: 'error', fault: { kind: 'overloaded' } })
  })

  test('chunks without choices, or without a list of them, are no answer and no fault', () => {
    const azure = data({ id: '', model: '', choices: [], prompt_filter_results: [] })
    const filter = chunk([{ index: 0, content_filter_results: {}, finish_reason: null }])
    const events = read([azure, data({ id: '' }), delta({ content: 'hi' }), filter, delta({}, 'stop'), done])
    expect(events[0]).toEqual({ kind: 'message-start', id: 'c1', model: 'm' })
    expect(collect(events).choices).toHaveLength(1)
  })
})

describe('tool calls', () => {
  const fn = (name: string, args: string) => ({ function: { name, arguments: args } })
  const callsOf = (frames: Frame[]) =>
    collect(read([...frames, delta({}, 'tool_calls'), done])).choices[0]!.toolCalls.map((made) => [
      made.name,
      made.arguments,
    ])

  test('pieces are joined by index', () => {
    const frames = [
      call({ index: 0, id: 'a', ...fn('add', '') }),
      call({ index: 1, id: 'b', ...fn('mul', '{"x"') }),
      call({ index: 0, function: { arguments: '{"y":1}' } }),
      call({ index: 1, function: { arguments: ':2}' } }),
    ]
    expect(callsOf(frames)).toEqual([
      ['add', '{"y":1}'],
      ['mul', '{"x":2}'],
    ])
  })

  test.each([
    [
      'without an index',
      [
        { id: 'a', ...fn('add', '{"x":1}') },
        { id: 'b', ...fn('add', '{"x":1}') },
      ],
    ],
    [
      'all under index 0',
      [
        { index: 0, id: 'a', ...fn('add', '{"x":1}') },
        { index: 0, id: 'b', ...fn('add', '{"x":1}') },
      ],
    ],
    ['without ids', [{ ...fn('add', '{"x":1}') }, { ...fn('add', '{"x":1}') }]],
    [
      'under one id',
      [
        { index: 0, id: 'a', ...fn('add', '{"x":1}') },
        { index: 1, id: 'a', ...fn('add', '{"x":1}') },
      ],
    ],
    [
      'starting at index 3',
      [
        { index: 3, id: 'a', ...fn('add', '{"x":1}') },
        { index: 7, id: 'b', ...fn('add', '{"x":1}') },
      ],
    ],
  ] as const)('two whole calls %s are two calls with ids of their own', (_, calls) => {
    const [choice] = collect(read([...calls.map(call), delta({}, 'stop'), done])).choices
    expect(choice!.toolCalls.map((made) => made.arguments)).toEqual(['{"x":1}', '{"x":1}'])
    expect(new Set(choice!.toolCalls.map((made) => made.id)).size).toBe(2)
    expect(choice!.finish).toBe('tool_calls')
  })

  test('a call that is repeated whole is one call', () => {
    const whole = { index: 0, id: 'a', ...fn('add', '{"x":1}') }
    expect(callsOf([call(whole), call(whole)])).toEqual([['add', '{"x":1}']])
  })

  test('an id and a name on every delta are one call', () => {
    const pieces = ['{"x"', ':1}'].map((piece) => call({ index: 0, id: 'a', ...fn('add', piece) }))
    expect(callsOf(pieces)).toEqual([['add', '{"x":1}']])
  })

  test.each(['', 'null'])('arguments %p mean none: {}', (args) => {
    expect(callsOf([call({ index: 0, id: 'a', ...fn('now', args) })])).toEqual([['now', '{}']])
  })

  test('a legacy function call is a tool call', () => {
    const frames = [
      delta({ function_call: { name: 'f', arguments: '{' } }),
      delta({ function_call: { arguments: '}' } }),
    ]
    expect(collect(read([...frames, delta({}, 'function_call'), done])).choices[0]).toMatchObject({
      finish: 'tool_calls',
      toolCalls: [{ name: 'f', arguments: '{}' }],
    })
  })

  test('a call cut off by the token limit keeps the reason length', () => {
    const frames = [call({ index: 0, id: 'a', ...fn('f', '{"x":') }), delta({}, 'length'), done]
    expect(collect(read(frames)).choices[0]?.finish).toBe('length')
  })

  test('a call without a name is a fault, not a call', () => {
    const frames = [call({ index: 0, id: 'a', function: { arguments: '{}' } }), delta({}, 'tool_calls'), done]
    expect(read(frames).at(-1)).toMatchObject({ kind: 'error', fault: { kind: 'broken' } })
  })
})

describe('reasoning', () => {
  const reasoningOf = (frames: Frame[], quirks: Partial<OpenAIChatQuirks> = {}) => {
    const [choice] = collect(read([...frames, delta({}, 'stop'), done], quirks)).choices
    return {
      reasoning: choice!.reasoning.map((detail) => detail.text ?? detail.data ?? detail.summary),
      text: choice!.text,
    }
  }

  test.each([
    ['reasoning_content', { reasoning_content: 'hm' }],
    ['reasoning', { reasoning: 'hm' }],
    ['both names', { reasoning: 'hm', reasoning_content: 'hm' }],
    [
      'details and text',
      { reasoning: 'hm', reasoning_details: [{ type: 'reasoning.text', text: 'hm', index: 0 }] },
    ],
    ['parts of the content', { content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'hm' }] }] }],
  ])('is read once from %s', (_, fields) => {
    expect(reasoningOf([delta(fields), delta({ content: 'yes' })])).toEqual({
      reasoning: ['hm'],
      text: 'yes',
    })
  })

  test('an encrypted piece stays apart from the summary that shares its index', () => {
    const details = [
      { type: 'reasoning.summary', summary: 'a', index: 0 },
      { type: 'reasoning.encrypted', data: 'X', index: 0 },
      { type: 'reasoning.encrypted', data: 'Y', index: 0 },
    ]
    expect(reasoningOf(details.map((detail) => delta({ reasoning_details: [detail] }))).reasoning).toEqual([
      'a',
      'X',
      'Y',
    ])
  })

  test('think tags are taken apart wherever they are cut, and only at the start', () => {
    const whole = '\n<think>\nIs 1 < 2? </thin no\n</think>\n\nYes, <think> is a tag.'
    fc.assert(
      fc.property(fc.array(fc.nat(whole.length), { maxLength: 12 }), (cuts) => {
        const edges = [0, ...cuts.toSorted((a, b) => a - b), whole.length]
        const pieces = edges.slice(1).map((end, i) => delta({ content: whole.slice(edges[i], end) }))
        expect(reasoningOf(pieces, { thinkTags: true })).toEqual({
          reasoning: ['Is 1 < 2? </thin no\n'],
          text: 'Yes, <think> is a tag.',
        })
      }),
      { numRuns: 200 },
    )
  })

  test('without the quirk a think tag is text; with it an unfinished tag is', () => {
    expect(reasoningOf([delta({ content: '<think>a</think>' })]).text).toBe('<think>a</think>')
    expect(reasoningOf([delta({ content: '<thi' })], { thinkTags: true }).text).toBe('<thi')
  })
})

describe('other content', () => {
  test('refusals, audio, images, annotations and log probabilities arrive', () => {
    const citation = {
      type: 'url_citation',
      url_citation: { url: 'u', title: 't', start_index: 1, end_index: 2 },
    }
    const [choice] = collect(
      read([
        delta({ refusal: 'No' }),
        delta({ audio: { id: 'a', data: 'QQ==' } }),
        delta({ audio: { transcript: 'hi', expires_at: 5 } }),
        delta({ images: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] }),
        delta({ annotations: [citation, { type: 'file' }] }),
        chunk([
          { index: 0, delta: { content: 'x' }, logprobs: { content: [{ token: 'x' }], refusal: null } },
        ]),
        delta({}, 'stop'),
        done,
      ]),
    ).choices
    expect(choice).toMatchObject({
      refusal: 'No',
      audio: { id: 'a', data: 'QQ==', transcript: 'hi', expiresAt: 5 },
      images: [{ mediaType: 'image/png', data: 'AAAA' }],
      annotations: [{ kind: 'url-citation', url: 'u', title: 't', start: 1, end: 2 }],
      logprobs: { content: [{ token: 'x' }], refusal: [] },
    })
  })

  test('anything a server may send leaves exactly one terminal event', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.json(), fc.string(), fc.constant('[DONE]')), { maxLength: 8 }),
        (texts) => {
          const parser = outbound.parser(targetOf(defaultQuirks))
          const events = parseFrames(parser, texts.map(data))
          expect(events.filter((event) => event.kind === 'finish' || event.kind === 'error')).toHaveLength(1)
          for (const text of texts) {
            const whole = outbound.whole(text, targetOf(defaultQuirks))
            expect(whole.at(-1)?.kind).toBe('error')
          }
        },
      ),
    )
  })
})

describe('usage', () => {
  const plain = { reasoningTokens: 'inside', totalCorrects: 'completion', reportedCost: 'none' } as const

  test.each([[null], [undefined], ['12'], [{}], [{ total_time: 3 }], [[]]])('%p counts nothing', (raw) => {
    expect(usageOf(raw, plain)).toBeUndefined()
  })

  test('an explicit zero is zero', () => {
    expect(usageOf({ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }, plain)).toMatchObject({
      input: 0,
      output: 0,
    })
  })

  test('a missing side follows from the total', () => {
    expect(usageOf({ prompt_tokens: 3, total_tokens: 10 }, plain)).toMatchObject({ input: 3, output: 7 })
    expect(usageOf({ completion_tokens: 4, total_tokens: 10 }, plain)).toMatchObject({ input: 6, output: 4 })
  })

  test('reasoning beside the completion is added, unless the total says that it was inside', () => {
    const beside = { ...plain, reasoningTokens: 'beside' } as const
    const counted = (total: number) => ({
      prompt_tokens: 10,
      completion_tokens: 8,
      total_tokens: total,
      completion_tokens_details: { reasoning_tokens: 5 },
    })
    expect(usageOf(counted(23), beside)).toMatchObject({ output: 8, reasoning: 5 })
    expect(usageOf(counted(18), beside)).toMatchObject({ output: 3, reasoning: 5 })
  })

  test.each([
    [{ cost: 0.0076509169000000005 }, 'usage.cost', '0.0076509169'],
    [{ cost: 2e-7 }, 'usage.cost', '0.0000002'],
    [{ cost: 0 }, 'usage.cost', '0'],
    [{ cost: 10 }, 'usage.cost', '10'],
    [{ cost: { total_cost: 0.00503 } }, 'usage.cost', '0.00503'],
    [{ cost: 0.001, is_byok: true, cost_details: { upstream_inference_cost: 0.02 } }, 'usage.cost', '0.021'],
    [{ cost: 0, is_byok: true, cost_details: { upstream_inference_cost: null } }, 'usage.cost', undefined],
    [{ cost: 0.001, is_byok: true }, 'usage.cost', undefined],
    [{ cost_in_usd_ticks: 4_389_400 }, 'usage.cost_in_usd_ticks', '0.00043894'],
    [{ cost: -1 }, 'usage.cost', undefined],
    [{ cost: 'free' }, 'usage.cost', undefined],
    [{ cost: 1 }, 'none', undefined],
  ] as const)('%p under %s costs %s', (fields, reportedCost, expected) => {
    const usage = usageOf({ prompt_tokens: 1, completion_tokens: 1, ...fields }, { ...plain, reportedCost })
    expect(usage?.reportedCost).toBe(expected)
  })
})
