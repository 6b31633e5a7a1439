import { describe, expect, test } from 'bun:test'
import { collect } from '../../../src/conversation/event.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { GatewayError, renderError } from '../../../src/errors/errors.ts'
import { outbound } from '../../../src/protocols/openai-chat/outbound/lower.ts'
import { FrameRepair, repairWhole } from '../../../src/protocols/openai-chat/passthrough/repair.ts'
import { chatCompletion } from '../../../src/protocols/openai-chat/inbound/schema.ts'
import type { Frame } from '../../../src/protocols/framing/sse.ts'
import { cases, framesOf, parseFrames } from '../../support/recordings.ts'
import { targetOf } from './dialects.ts'
import { bill, context, expectContract, readByOpenAI, usage } from './wire-contract.ts'

const providers = [
  'alibaba',
  'azure-chat',
  'cerebras',
  'deepseek',
  'fireworks',
  'gemini-openai-compat',
  'gpustack',
  'groq',
  'huggingface-router',
  'llamacpp',
  'mistral',
  'ollama-openai',
  'openai-chat',
  'openrouter',
  'perplexity',
  'together',
  'vercel-gateway',
  'vllm',
  'xai-chat',
  'zai',
]

const recorded = providers.flatMap((provider) => cases(provider)).filter((one) => one.status === 200)
const streams = recorded.filter((one) => one.streamed)
const wholes = recorded.filter((one) => !one.streamed)

const target = targetOf(outbound.defaultQuirks)

const frame = (chunk: JsonObject): Frame => ({ event: undefined, data: JSON.stringify(chunk) })
const done: Frame = { event: undefined, data: '[DONE]' }
const delta = (fields: JsonObject, choice: JsonObject = {}): Frame =>
  frame({ id: 'x', choices: [{ index: 0, delta: fields, ...choice }] })

/** Everything a stream becomes, its end included. */
function repaired(frames: readonly Frame[], over = context): { frames: Frame[]; repair: FrameRepair } {
  const repair = new FrameRepair(over)
  const out = frames.flatMap((one) => repair.push(one))
  return { frames: [...out, ...repair.finish(usage, bill)], repair }
}

const deltasOf = (frames: readonly Frame[]): JsonObject[] =>
  frames
    .filter((one) => one.data !== '[DONE]')
    .flatMap((one) => JSON.parse(one.data).choices.map((choice: { delta: JsonObject }) => choice.delta))

const said = (frames: readonly Frame[]) =>
  collect(parseFrames(outbound.parser(target), frames)).choices.map((choice) => ({
    text: choice.text ?? '',
    refusal: choice.refusal,
    reasoning: choice.reasoning.map((detail) => detail.text ?? detail.summary ?? '').join(''),
    calls: choice.toolCalls.map(({ name, arguments: args }) => ({ name, arguments: args })),
  }))

describe('every recorded stream, mended', () => {
  test('there are recordings', () => {
    expect(streams.length).toBeGreaterThan(50)
    expect(wholes.length).toBeGreaterThan(20)
  })

  const upstreams = streams.map((one) => [`${one.provider}/${one.id}`, framesOf([one.stream()])] as const)
  const isWhole = (upstream: readonly Frame[]) => {
    const { repair } = repaired(upstream)
    return repair.error === undefined && repair.finished
  }

  test.each(upstreams.filter(([, upstream]) => !isWhole(upstream)))(
    '%s is broken for the parser that translates, too',
    (_, upstream) => {
      expect(collect(parseFrames(outbound.parser(target), upstream)).fault).toBeDefined()
    },
  )

  test.each(upstreams.filter(([, upstream]) => isWhole(upstream)))(
    '%s meets the wire contract, reads in the official client, and says what it said',
    async (_, upstream) => {
      const { frames, repair } = repaired(upstream)
      expectContract(frames, context)
      expect(said(frames)).toEqual(said(upstream))
      const answer = await readByOpenAI(frames)
      expect(answer.usage?.total_tokens).toBe(207)
      expect(repair.usage === undefined).toBe(
        collect(parseFrames(outbound.parser(target), upstream)).usage === undefined,
      )
    },
  )
})

describe('every recorded whole answer, mended', () => {
  const answers = wholes
    .map((one) => [`${one.provider}/${one.id}`, one.response() as JsonObject] as const)
    .filter(([, body]) => Array.isArray(body['choices']))

  test.each(answers)('%s has every required key and our usage', (_, body) => {
    const mended = repairWhole(body, usage, bill, context)
    expect(chatCompletion.safeParse(mended).error).toBeUndefined()
    expect(mended).toMatchObject({ id: 'gen-1', model: 'lab/test-model', usage: { cost: 0.0031 } })
  })
})

describe('a mended stream', () => {
  test('keeps fields that nobody here has heard of', () => {
    const { frames } = repaired([
      frame({ choices: [], prompt_filter_results: [1] }),
      frame({
        system_fingerprint: 'fp',
        choices: [{ index: 0, seed: 3, delta: { content: 'a', token_id: 7 } }],
      }),
      frame({
        timings: { n: 1 },
        choices: [{ index: 0, delta: {}, finish_reason: 'stop', stop_reason: 128 }],
      }),
      done,
    ])
    const chunks = frames.slice(0, -1).map((one) => JSON.parse(one.data))
    expect(chunks[0]).toMatchObject({ prompt_filter_results: [1] })
    expect(chunks[1]).toMatchObject({ choices: [{ seed: 3, delta: { content: 'a', token_id: 7 } }] })
    expect(chunks[2]).toMatchObject({
      timings: { n: 1 },
      choices: [{ stop_reason: 128, finish_reason: 'stop' }],
    })
  })

  test.each([
    [
      'a call repeated whole',
      [
        { index: 0, id: 'a', function: { name: 'f', arguments: '{"x":1}' } },
        { index: 0, id: 'a', function: { name: 'f', arguments: '{"x":1}' } },
      ],
      [['f', '{"x":1}']],
    ],
    [
      'arguments repeated from their beginning',
      [
        { index: 0, id: 'a', function: { name: 'f', arguments: '{"x":' } },
        { index: 0, id: 'a', function: { name: 'f', arguments: '{"x":1}' } },
      ],
      [['f', '{"x":1}']],
    ],
    [
      'id and name repeated with each piece',
      [
        { index: 0, id: 'a', function: { name: 'f', arguments: '{"x":' } },
        { index: 0, id: 'a', function: { name: 'f', arguments: '1}' } },
      ],
      [['f', '{"x":1}']],
    ],
    [
      'calls without index',
      [
        { id: 'a', function: { name: 'f', arguments: '{}' } },
        { id: 'b', function: { name: 'g', arguments: '{"y":2}' } },
      ],
      [
        ['f', '{}'],
        ['g', '{"y":2}'],
      ],
    ],
    [
      'parallel calls all numbered 0',
      [
        { index: 0, id: 'a', function: { name: 'f', arguments: '{"x":1}' } },
        { index: 0, id: 'b', function: { name: 'f', arguments: '{"x":2}' } },
      ],
      [
        ['f', '{"x":1}'],
        ['f', '{"x":2}'],
      ],
    ],
    [
      'parallel calls of one function, all numbered 0 and without ids',
      [
        { index: 0, id: '', function: { name: 'f', arguments: '{"x":1}' } },
        { index: 0, id: '', function: { name: 'f', arguments: '{"x":2}' } },
        { index: 0, id: '', function: { name: 'f', arguments: '{"x":2}' } },
      ],
      [
        ['f', '{"x":1}'],
        ['f', '{"x":2}'],
      ],
    ],
    [
      'a name repeated with each piece, without an id',
      [
        { index: 0, function: { name: 'f', arguments: '{"x"' } },
        { index: 0, function: { name: 'f', arguments: ':{}' } },
        { index: 0, function: { name: 'f', arguments: '}' } },
        { index: 0, function: { name: 'f', arguments: '' } },
      ],
      [['f', '{"x":{}}']],
    ],
    [
      'calls numbered with a gap',
      [
        { index: 1, id: 'a', function: { name: 'f', arguments: '{"x":1}' } },
        { index: 3, id: 'b', function: { name: 'g', arguments: '' } },
        { index: 3, function: { arguments: '{"y"' } },
        { index: 3, function: { arguments: ':2}' } },
      ],
      [
        ['f', '{"x":1}'],
        ['g', '{"y":2}'],
      ],
    ],
    [
      'a call without arguments',
      [{ index: 0, id: 'a', function: { name: 'f', arguments: '' } }],
      [['f', '{}']],
    ],
    ['a call without id', [{ index: 0, function: { name: 'f', arguments: '{}' } }], [['f', '{}']]],
    [
      'null for no arguments',
      [{ index: 0, id: 'a', function: { name: 'f', arguments: 'null' } }],
      [['f', '{}']],
    ],
    [
      'a call whose name comes after its id',
      [
        { index: 0, id: 'a', function: { arguments: '' } },
        { index: 0, function: { arguments: '{"x"' } },
        { index: 0, function: { name: 'f', arguments: ':1}' } },
      ],
      [['f', '{"x":1}']],
    ],
    [
      'a place kept for a call that never comes',
      [
        { index: 0, id: '', function: { name: '', arguments: '' } },
        { index: 1, id: 'a', function: { name: 'f', arguments: '{}' } },
      ],
      [['f', '{}']],
    ],
    [
      'arguments as an object',
      [{ index: 0, id: 'a', function: { name: 'f', arguments: { x: 1 } } }],
      [['f', '{"x":1}']],
    ],
  ] as [string, JsonObject[], [string, string][]][])('numbers and joins %s', (_, deltas, expected) => {
    const { frames } = repaired([
      ...deltas.map((one) => delta({ tool_calls: [one] })),
      delta({}, { finish_reason: 'stop' }),
      done,
    ])
    expectContract(frames, context)
    const [choice] = said(frames)
    expect(choice?.calls.map((call) => [call.name, call.arguments])).toEqual(expected)
    expect(frames.at(-3)?.data).toContain('"finish_reason":"tool_calls"')
  })

  test('gives no two calls the same id, and keeps the id that came before a name', () => {
    const calls: JsonObject[] = [
      { index: 0, id: 'call_0', function: { name: 'f', arguments: '{}' } },
      { index: 1, id: 'call_0', function: { name: 'g', arguments: '{"y"' } },
      { index: 1, id: 'call_0', function: { arguments: ':1}' } },
      { index: 2, id: 'late', function: { arguments: '' } },
      { index: 2, function: { name: 'h', arguments: '{}' } },
    ]
    const { frames } = repaired([
      ...calls.map((one) => delta({ tool_calls: [one] })),
      delta({}, { finish_reason: 'tool_calls' }),
    ])
    expectContract(frames, context)
    const [choice] = collect(parseFrames(outbound.parser(target), frames)).choices
    expect(choice?.toolCalls.map((call) => [call.id, call.name, call.arguments])).toEqual([
      ['call_0', 'f', '{}'],
      ['call_gen1_0_1', 'g', '{"y":1}'],
      ['late', 'h', '{}'],
    ])
  })

  test('with a call that is never named is not finished: nobody could run it', () => {
    const repair = new FrameRepair(context)
    repair.push(delta({ tool_calls: [{ index: 0, id: 'a', function: { arguments: '{}' } }] }))
    repair.push(delta({}, { finish_reason: 'tool_calls' }))
    expect(repair.finished).toBe(false)
    expect(repair.error).toBeDefined()
  })

  test('takes a message that comes in place of the first delta, and none beside one', () => {
    const message = { role: 'assistant', content: 'All of it.' }
    const instead = repaired([frame({ choices: [{ index: 0, message, finish_reason: 'stop' }] })])
    expect(said(instead.frames)[0]?.text).toBe('All of it.')
    const beside = repaired([
      delta({ content: 'All ' }, { message: { content: 'All ' } }),
      delta({ content: 'of it.' }, { message }),
      frame({ choices: [{ index: 0, message, finish_reason: 'stop' }] }),
    ])
    expect(said(beside.frames)[0]?.text).toBe('All of it.')
  })

  test('reads text and reasoning out of a list of parts, whatever their kind is called', () => {
    const { frames } = repaired([
      delta({ content: [{ type: 'reasoning', summary: [{ type: 'summary_text', text: 'hm' }] }] }),
      delta({ content: [{ type: 'thinking', thinking: ['so', { type: 'text', text: '!' }] }] }),
      delta({
        content: [{ type: 'output_text', text: 'a' }, 'b', { type: 'reference', reference_ids: [1] }],
      }),
      delta({}, { finish_reason: 'stop' }),
    ])
    expect(said(frames)[0]).toMatchObject({ text: 'ab', reasoning: 'hmso!' })
    expect(frames.some((one) => one.data.includes('"content_parts":[{"type":"reference"'))).toBe(true)
  })

  test('shows an image among the parts of a text where clients look for images', () => {
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AA' } }
    const { frames } = repaired([
      delta({ content: [{ type: 'text', text: 'a' }, image] }),
      delta({}, { finish_reason: 'stop' }),
    ])
    expectContract(frames, context)
    expect(deltasOf(frames)[1]).toEqual({ content: 'a', images: [image] })
  })

  test('keeps the thought signature of a call', () => {
    const extra_content = { google: { thought_signature: 'sig' } }
    const { frames } = repaired([
      delta({ tool_calls: [{ index: 0, id: 'a', function: { name: 'f', arguments: '{}' }, extra_content }] }),
      delta({}, { finish_reason: 'stop' }),
    ])
    expect(deltasOf(frames)[1]).toMatchObject({ tool_calls: [{ extra_content }] })
  })

  test.each([
    ['eos', 'stop'],
    ['function_call', 'stop'],
    ['max_tokens', 'length'],
    ['content_filter', 'content_filter'],
    ['content_filter: RECITATION', 'content_filter'],
    ['model_context_window_exceeded', 'length'],
    ['something new', 'other'],
  ])('finish reason %s is told as %s', (native, told) => {
    const { frames } = repaired([delta({ content: 'a' }), delta({}, { finish_reason: native })])
    expect(frames.at(-3)?.data).toContain(`"finish_reason":"${told}"`)
  })

  test('tells a legacy function call as a tool call', () => {
    const { frames } = repaired([
      delta({ function_call: { name: 'f', arguments: '{"x"' } }),
      delta({ function_call: { arguments: ':1}' } }),
      delta({}, { finish_reason: 'function_call' }),
    ])
    expectContract(frames, context)
    expect(said(frames)[0]?.calls).toEqual([{ name: 'f', arguments: '{"x":1}' }])
  })

  test('that ran out of tokens in the middle of a call says so', () => {
    const { frames } = repaired([
      delta({ tool_calls: [{ index: 0, id: 'a', function: { name: 'f', arguments: '{"x' } }] }),
      delta({}, { finish_reason: 'length' }),
    ])
    expect(frames.at(-3)?.data).toContain('"finish_reason":"length"')
  })

  test.each(['error', 'insufficient_system_resource', 'function_call_filter: MALFORMED_FUNCTION_CALL'])(
    'finish reason %s is a failure',
    (native) => {
      const repair = new FrameRepair(context)
      for (const one of [delta({ content: 'a' }), delta({}, { finish_reason: native }), done])
        repair.push(one)
      expect(repair.finished).toBe(false)
      expect(repair.error).toBeDefined()
    },
  )

  test('tells reasoning under one name, with details, and leaves <think> in the text alone', () => {
    const { frames } = repaired([
      delta({ role: 'assistant', content: '', reasoning: 'hm' }),
      delta({ role: 'assistant', content: '<think>a</think>b' }),
      delta({}, { finish_reason: 'stop' }),
    ])
    expect(deltasOf(frames)).toEqual([
      { role: 'assistant', content: '' },
      {
        reasoning_content: 'hm',
        reasoning_details: [{ type: 'reasoning.text', format: null, index: 0, text: 'hm' }],
      },
      { content: '<think>a</think>b' },
      {},
    ])
  })

  test('holds the last of cumulative counts, and shows the client none of them', () => {
    const counted = (n: number) =>
      frame({ usage: { prompt_tokens: n }, choices: [{ index: 0, delta: { content: 'a' } }] })
    const { frames, repair } = repaired([counted(1), counted(2), delta({}, { finish_reason: 'stop' })], {
      ...context,
      includeUsage: false,
    })
    expect(repair.usage).toMatchObject({ input: 2, output: 0 })
    expect(frames.some((one) => one.data.includes('usage'))).toBe(false)
    expectContract(frames, { ...context, includeUsage: false })
  })

  test.each([null, '', 'null'])('is not finished by the reason %j', (reason) => {
    const repair = new FrameRepair(context)
    repair.push(delta({ content: 'a' }, { finish_reason: reason }))
    expect(repair.finished).toBe(false)
    repair.push(delta({ content: 'b' }, { finish_reason: 'length' }))
    expect(repair).toMatchObject({ finished: true, finishReason: 'length' })
  })

  test('that stops without a finish reason is not finished, whatever came before', () => {
    const repair = new FrameRepair(context)
    repair.push(delta({ content: 'a' }))
    expect(repair).toMatchObject({ started: true, finished: false })
    expect(repair.delivered.tokens).toBe(1)
    const failed = repair.fail(renderError(new GatewayError('upstream_error'), 'r'))
    expect(failed[0]?.data).toContain('"finish_reason":"error"')
  })

  test.each([
    ['an error', undefined, '{"error":{"message":"boom"}}', { message: 'boom' }],
    ['a named error', 'error', '{"error":{"message":"boom"}}', { message: 'boom' }],
    ['a named error without envelope', 'error', '{"message":"boom"}', { message: 'boom' }],
    ['a named error in plain words', 'error', 'boom', 'boom'],
    [
      'an error object',
      undefined,
      '{"object":"error","message":"boom"}',
      { object: 'error', message: 'boom' },
    ],
    ['what is wrong with a request', undefined, '{"detail":"boom"}', { detail: 'boom' }],
    [
      'what is not JSON',
      undefined,
      '<html>',
      { message: 'The provider sent a frame that is not a JSON object.' },
    ],
  ])('takes nothing more after %s', (_, event, data, error) => {
    const repair = new FrameRepair(context)
    repair.push(delta({ content: 'a' }))
    expect(repair.push({ event, data })).toEqual([])
    expect(repair.error).toEqual(error)
    expect(repair.push(delta({}, { finish_reason: 'stop' }))).toEqual([])
    expect(repair.finished).toBe(false)
  })
})

describe('an event that is a broken object', () => {
  const broken: Frame = { event: undefined, data: '{"id":"x","choices":[{"index":0,"delta":{"content":"lo' }
  const end = delta({}, { finish_reason: 'stop' })

  test('is left out of a mended stream', () => {
    const { frames, repair } = repaired([delta({ content: 'a' }), broken, delta({ content: 'b' }), end])
    expect(repair).toMatchObject({ finished: true, error: undefined })
    expect(said(frames)[0]).toMatchObject({ text: 'ab' })
  })

  test.each<[string, FrameRepair, readonly Frame[]]>([
    ['an answer that has not begun', new FrameRepair(context), [broken]],
    ['a document', new FrameRepair(context, undefined, 'document'), [delta({ content: '{' }), broken]],
    [
      'an answer that calls a tool',
      new FrameRepair(context),
      [delta({ tool_calls: [{ index: 0, id: 'c', function: { name: 'f', arguments: '{' } }] }), broken],
    ],
    [
      'a stream with many',
      new FrameRepair(context),
      [delta({ content: 'a' }), broken, broken, broken, broken],
    ],
  ])('ends %s', (_, repair, frames) => {
    for (const each of frames) repair.push(each)
    expect(repair.error).toBeDefined()
  })
})

describe('sources that the text cites by number', () => {
  const cites = { ...outbound.defaultQuirks, numberedCitations: true }
  const sources: JsonObject = {
    citations: ['https://a.example', 'https://b.example'],
    search_results: [{ url: 'https://b.example', title: 'B' }],
  }
  const at = (url: string, title: string, start_index: number, end_index: number) => ({
    type: 'url_citation',
    url_citation: { url, title, start_index, end_index },
  })
  const annotations = [at('https://a.example', '', 0, 0), at('https://b.example', 'B', 4, 7)]

  test('are annotations of a stream, told before its end, and stay where they are', () => {
    const repair = new FrameRepair(context, cites)
    const stream = [
      frame({ ...sources, choices: [{ index: 0, delta: { content: 'Yes ' } }] }),
      frame({ ...sources, choices: [{ index: 0, delta: { content: '[2' } }] }),
      frame({ ...sources, choices: [{ index: 0, delta: { content: '].' }, finish_reason: 'stop' }] }),
    ]
    const frames = [...stream.flatMap((one) => repair.push(one)), ...repair.finish(usage, bill)]
    expectContract(frames, context)
    expect(deltasOf(frames).filter((one) => 'annotations' in one)).toEqual([{ annotations }])
    expect(frames[0]?.data).toContain('"citations":["https://a.example"')
  })

  test('are annotations of a whole answer, and stay where they are', () => {
    const message = { role: 'assistant', content: 'Yes [2].' }
    const body = { ...sources, choices: [{ index: 0, message, finish_reason: 'stop' }] }
    expect(repairWhole(body, usage, bill, context, cites)).toMatchObject({
      ...sources,
      choices: [{ message: { content: 'Yes [2].', annotations } }],
    })
    expect(repairWhole(body, usage, bill, context)).toMatchObject({
      choices: [{ message: { annotations: [] } }],
    })
  })
})

test('what was counted up to an error is counted', () => {
  const repair = new FrameRepair(context)
  repair.push(delta({ content: 'a' }))
  repair.push(frame({ error: { message: 'boom' }, choices: [], usage: { prompt_tokens: 3 } }))
  expect(repair).toMatchObject({ error: { message: 'boom' }, usage: { input: 3, output: 0 } })
})

describe('a mended whole answer', () => {
  test('has the choices that are any: what was read of it is charged', () => {
    const choice = { index: 0, message: { role: 'assistant', content: 'a' }, finish_reason: 'stop' }
    const body = { choices: [null, choice] }
    expect(collect(outbound.whole(body, target)).choices).toHaveLength(1)
    expect(repairWhole(body, usage, bill, context)).toMatchObject({
      choices: [{ index: 0, message: { content: 'a' } }],
    })
  })

  test('gives no two calls the same id', () => {
    const call = { id: 'a', type: 'function', function: { name: 'f', arguments: 'null' } }
    const body = { choices: [{ index: 0, message: { content: null, tool_calls: [call, call] } }] }
    expect(repairWhole(body, usage, bill, context)).toMatchObject({
      choices: [
        {
          message: {
            tool_calls: [
              { id: 'a', function: { arguments: '{}' } },
              { id: 'call_gen1_0_1', function: { arguments: '{}' } },
            ],
          },
        },
      ],
    })
  })

  test('fills what is missing and keeps what is unknown', () => {
    const body: JsonObject = {
      id: 'theirs',
      citations: ['u'],
      choices: [
        {
          stop_reason: 7,
          message: {
            role: 'assistant',
            content: '',
            reasoning: 'hm',
            weight: 1,
            tool_calls: [{ index: 0, id: '', function: { name: 'f', arguments: '' } }],
          },
          finish_reason: 'stop',
        },
      ],
      usage: { prompt_tokens: 1 },
    }
    expect(repairWhole(body, usage, bill, context)).toMatchObject({
      id: 'gen-1',
      object: 'chat.completion',
      created: context.created,
      citations: ['u'],
      choices: [
        {
          index: 0,
          stop_reason: 7,
          logprobs: null,
          finish_reason: 'tool_calls',
          message: {
            role: 'assistant',
            content: null,
            refusal: null,
            annotations: [],
            weight: 1,
            reasoning_content: 'hm',
            tool_calls: [{ id: 'call_gen1_0_0', type: 'function', function: { name: 'f', arguments: '{}' } }],
          },
        },
      ],
      usage: { prompt_tokens: 127 },
    })
  })

  test('without choices is an error', () => {
    expect(() => repairWhole({ choices: [] }, usage, bill, context)).toThrow(GatewayError)
  })
})
