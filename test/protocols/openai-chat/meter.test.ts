import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { closingFrames } from '../../../src/protocols/openai-chat/encode.ts'
import { VerbatimFilter } from '../../../src/protocols/openai-chat/meter.ts'
import { maxFrameCharacters } from '../../../src/protocols/sse.ts'
import { cases, framesOf, randomCuts } from '../../support/recordings.ts'
import { bill, context, readByOpenAI, usage } from './wire-contract.ts'

const encoder = new TextEncoder()

const chunk = (delta: JsonObject, finish: string | null = null, over: JsonObject = {}): string =>
  JSON.stringify({
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 7,
    model: 'gpt-x',
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
    usage: null,
    ...over,
  })
const event = (data: string, newline = '\n'): string => `data: ${data}${newline}${newline}`
const usageChunk = chunk({}, null, {
  choices: [],
  usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
})

const stream = [
  chunk({ role: 'assistant', content: '' }),
  chunk({ content: 'Grüße, 世界 🎉' }),
  chunk({ content: 'say "model":"gpt-x" and [DONE]\n\n' }),
  chunk({ content: 'a quote \\" and a slash \\' }),
  chunk({ tool_calls: [{ index: 0, function: { arguments: '{"a":1}' } }] }),
  chunk({}, 'stop'),
  usageChunk,
  '[DONE]',
]

function pass(pieces: Iterable<Uint8Array>, model: string | undefined, choices = 1) {
  const filter = new VerbatimFilter({ model, choices })
  const out: Uint8Array[] = []
  for (const piece of pieces) out.push(filter.push(piece))
  out.push(filter.end())
  return { filter, text: Buffer.concat(out).toString('utf8') }
}

const bytesOf = (datas: readonly string[], newline = '\n') =>
  encoder.encode(datas.map((data) => event(data, newline)).join(''))

const forwarded = (model: string) =>
  stream
    .slice(0, 6)
    .map((data) => event(data.replace('"model":"gpt-x"', () => `"model":${JSON.stringify(model)}`)))
    .join('')

describe('a verbatim stream', () => {
  test.each(['lab/mödel $& "x"', 'gpt-x'])('cut anywhere, is what it was under the name %s', (model) => {
    fc.assert(
      fc.property(fc.integer(), fc.constantFrom('\n', '\r\n'), (seed, newline) => {
        const { filter, text } = pass(randomCuts(bytesOf(stream, newline), seed), model)
        expect(text).toBe(forwarded(model))
        expect(filter.usage).toEqual({ prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 })
        expect(filter.finishReasons).toEqual(new Map([[0, 'stop']]))
        expect(filter).toMatchObject({
          started: true,
          finished: true,
          done: true,
          error: undefined,
          id: 'chatcmpl-1',
          created: 7,
        })
      }),
      { numRuns: 200 },
    )
  })

  test('is forwarded without a copy when nothing in it needs care', () => {
    const filter = new VerbatimFilter({ model: undefined, choices: 1 })
    filter.push(bytesOf(stream.slice(0, 2)))
    const bytes = bytesOf(stream.slice(2, 5))
    expect(filter.push(bytes)).toBe(bytes)
  })

  test('counts its deltas with content and about their characters, however it is cut', () => {
    const whole = pass([bytesOf(stream)], 'm').filter
    const cut = pass(
      stream.map((data) => bytesOf([data])),
      'm',
    ).filter
    expect([whole.deltas, cut.deltas]).toEqual([4, 4])
    expect(Math.abs(whole.characters - cut.characters)).toBeLessThan(100)
  })

  test.each([
    ['tight', (data: string) => data],
    ['spaced', (data: string) => data.replaceAll('":', '": ')],
  ])('is metered in %s JSON', (_, spaced) => {
    const datas = [
      chunk({ content: 'a' }),
      chunk({ content: 'b' }),
      chunk({}, 'length', { usage: { total_tokens: 9 } }),
    ]
    const { filter, text } = pass(
      datas.map((data) => bytesOf([spaced(data)])),
      'lab/m',
    )
    expect(filter).toMatchObject({ finished: true, done: false, usage: { total_tokens: 9 }, deltas: 2 })
    expect(framesOf([encoder.encode(text)]).map((frame) => JSON.parse(frame.data).model)).toEqual([
      'lab/m',
      'lab/m',
      'lab/m',
    ])
  })

  test('keeps one name even when the provider changes its own', () => {
    const datas = [
      chunk({ content: 'a' }),
      chunk({ content: 'b' }, null, { model: 'gpt-y' }),
      chunk({ content: 'c' }),
    ]
    const { text } = pass([bytesOf([datas[0]!]), bytesOf([datas[1]!, datas[2]!])], 'lab/m')
    expect(text.match(/"model":"lab\/m"/g)).toHaveLength(3)
  })

  test('drops comments and event names', () => {
    const { text } = pass(
      [encoder.encode(`: hello\n\nevent: message\n${event(chunk({ content: 'a' }))}`)],
      undefined,
    )
    expect(text).toBe(event(chunk({ content: 'a' })))
  })

  test.each([
    ['an error', '{"error":{"message":"boom","code":"x"}}', { message: 'boom', code: 'x' }],
    [
      'no JSON',
      'upstream connect error',
      { message: 'The provider sent a frame that is not a JSON object.' },
    ],
  ])('ends at %s, which is reported and not forwarded', (_, data, error) => {
    const { filter, text } = pass(
      [bytesOf([chunk({ content: 'a' })]), bytesOf([data, chunk({}, 'stop')])],
      undefined,
    )
    expect(text).toBe(event(chunk({ content: 'a' })))
    expect(filter).toMatchObject({ finished: false, error })
  })

  test('reports an error in the middle of plain text', () => {
    const { filter } = pass(
      [...stream.slice(0, 3), '{"error":{"message":"boom"}}'].map((data) => bytesOf([data])),
      'm',
    )
    expect(filter.error).toEqual({ message: 'boom' })
  })

  test('that breaks off is not finished, and its fragment is not forwarded', () => {
    const bytes = bytesOf([chunk({ content: 'a' }), chunk({}, 'stop')])
    const { filter, text } = pass([bytes.subarray(0, bytes.length - 20)], undefined)
    expect(filter.finished).toBe(false)
    expect(text).toBe(event(chunk({ content: 'a' })))
  })

  test('whose last frame lacks only its blank line is finished', () => {
    const { filter, text } = pass([encoder.encode(event(chunk({}, 'stop')).trimEnd())], undefined)
    expect(filter.finished).toBe(true)
    expect(text).toBe(event(chunk({}, 'stop')))
  })

  test('of several answers is finished when all of them are', () => {
    const finish = (index: number) =>
      chunk({}, null, { choices: [{ index, delta: {}, finish_reason: 'stop' }] })
    expect(pass([bytesOf([finish(0)])], undefined, 2).filter.finished).toBe(false)
    expect(pass([bytesOf([finish(0), finish(1)])], undefined, 2).filter.finished).toBe(true)
  })

  test('without any end of frame fills no memory: it is an error', () => {
    const filter = new VerbatimFilter({ model: undefined, choices: 1 })
    const piece = new Uint8Array(1024 * 1024).fill(120)
    for (let sent = 0; sent <= maxFrameCharacters; sent += piece.length) filter.push(piece)
    expect(filter.error).toEqual({ message: 'The provider sent a frame without end.' })
  })
})

describe('recorded streams of OpenAI', () => {
  const streams = cases('openai-chat').filter((one) => one.streamed && one.status === 200)

  test('there are some', () => {
    expect(streams.length).toBeGreaterThan(5)
  })

  test.each(streams.map((one) => [one.id, one] as const))(
    '%s reads in the official client, closed by our own frames',
    async (_, one) => {
      const { filter, text } = pass(randomCuts(one.stream(), 7), 'openai/x')
      expect(filter).toMatchObject({ finished: true, done: true, error: undefined, started: true })
      const over = { ...context, id: filter.id!, created: filter.created!, model: 'openai/x' }
      const frames = [...framesOf([encoder.encode(text)]), ...closingFrames(over, usage, bill)]
      const answer = await readByOpenAI(frames)
      expect(answer).toMatchObject({
        id: filter.id!,
        model: 'openai/x',
        usage: { total_tokens: 207, cost: 0.0031 },
      })
      expect(framesOf([encoder.encode(text)]).some((frame) => frame.data.includes('"usage":{'))).toBe(false)
    },
  )
})
