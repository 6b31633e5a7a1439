// What a client gets of a mended stream does not depend on where the network cuts it, nor on how it was mended.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { atOnce } from '../../../src/json/json.ts'
import { passthrough } from '../../../src/protocols/openai-chat/passthrough/passthrough.ts'
import { FrameRepair } from '../../../src/protocols/openai-chat/passthrough/repair.ts'
import type { OpenAIChatQuirks } from '../../../src/protocols/openai-chat/outbound/quirks.ts'
import { noUsage } from '../../../src/conversation/usage.ts'
import { encodeFrame } from '../../../src/protocols/framing/sse.ts'
import { chatHosts, quirksOf, targetOf } from './dialects.ts'
import { cases, cutAt, framesOf, randomCuts } from '../../support/recordings.ts'

const contextOf = () => ({
  id: 'req_1',
  model: 'p/m',
  created: 1,
  includeUsage: true,
  warnings: [],
  extra: {},
})
const utf8 = new TextEncoder()

/** The text that a channel makes of the pieces, and what it says of them afterwards. */
function relayed(pieces: readonly Uint8Array[], quirks: OpenAIChatQuirks) {
  const channel = passthrough.stream(contextOf(), { choices: 1, maxEventBytes: 1_000_000 }, targetOf(quirks))
  const bytes = [...pieces.flatMap((piece) => [...atOnce(channel.push(piece))]), ...channel.end()]
  const { started, finished, fault, usage, delivered, finishReason, upstreamId } = channel.progress
  const progress = { started, finished, fault, usage, delivered, finishReason, upstreamId }
  return { text: Buffer.concat(bytes).toString('utf8'), progress }
}

/** The same, each event by itself and through the parser. */
function mendedOneByOne(stream: Uint8Array): string {
  const repair = new FrameRepair(contextOf())
  const frames = framesOf([stream]).flatMap((frame) => {
    // A space behind the brace, which JSON allows, makes no frame like the one before.
    const unlike = { ...frame, data: frame.data.replace('{', `{${' '.repeat(++spaces)}`) }
    return repair.push(unlike)
  })
  return frames.map(encodeFrame).join('')
}
let spaces = 0

/** What the events say: a provider may have escaped characters that a parser would not, and keeps them so. */
function events(stream: string): unknown[] {
  return framesOf([utf8.encode(stream)]).map(({ data }) => JSON.parse(data) as unknown)
}

describe('recorded streams', () => {
  for (const { folder, quirks } of chatHosts) {
    const streams = cases(folder).filter(({ streamed }) => streamed)
    if (streams.length === 0) continue
    test(`of ${folder}`, () => {
      for (const recorded of streams) {
        const bytes = recorded.stream()
        spaces = 0
        const whole = relayed([bytes], quirks)
        expect(events(whole.text)).toEqual(events(mendedOneByOne(bytes)))
        for (const seed of [1, 2, 3]) expect(relayed(randomCuts(bytes, seed), quirks)).toEqual(whole)
        const each = Array.from({ length: bytes.length }, (_, at) => at)
        if (bytes.length < 5_000) expect(relayed(cutAt(bytes, each), quirks)).toEqual(whole)
      }
    })
  }
})

const chunk = (content: string, finish: string | null = null) =>
  JSON.stringify({ id: 'u1', model: 'm', choices: [{ index: 0, delta: { content }, finish_reason: finish }] })
const texts = (stream: string) =>
  stream
    .split('\n\n')
    .filter((event) => event.startsWith('data: {'))
    .map((event) => {
      const { choices } = JSON.parse(event.slice(6)) as { choices: { delta: { content?: string } }[] }
      return choices[0]?.delta.content ?? ''
    })
    .join('')

test('a stream that the gateway stops leaves choices that have ended as they ended', () => {
  const channel = passthrough.stream(
    contextOf(),
    { choices: 2, maxEventBytes: 1_000_000 },
    targetOf(quirksOf('openai')),
  )
  const event = (index: number, content: string, finish_reason: string | null) =>
    `data: ${JSON.stringify({ id: 'u1', model: 'm', choices: [{ index, delta: { content }, finish_reason }] })}\n\n`
  atOnce(channel.push(utf8.encode(event(0, 'a', null) + event(1, 'b', null) + event(0, 'c', 'stop'))))
  const bill = {
    cost: '0',
    lines: { input: '0', cache_read: '0', cache_write: '0', output: '0', reasoning: '0', tools: '0' },
  }
  const last = atOnce(channel.finish(noUsage, bill, { metadata: { stopped_by: 'credits' } }))
  const finishes = framesOf(last).flatMap(({ data }) => {
    if (!data.startsWith('{')) return []
    const { choices } = JSON.parse(data) as { choices: { index: number; finish_reason: string }[] }
    return choices.map(({ index, finish_reason }) => [index, finish_reason])
  })
  expect(finishes).toEqual([
    [0, 'stop'],
    [1, 'length'],
  ])
})

describe('any stream', () => {
  const content = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom('data: ', '\n\n', '"}}]}\n\n', '\r\n\r\n', '\u2028', '\\', '"'),
    fc.constantFrom('word ', 'a \\', '\t'),
  )
  const between = fc.constantFrom('\n\n', '\n\n', '\n\n', '\r\n\r\n', '\n\n: a comment\n\n', '\n\n\n')

  test('carries every text, and each once, whatever stands between the events and wherever it is cut', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(content, between), { maxLength: 20 }),
        fc.array(fc.nat({ max: 3_000 }), { maxLength: 12 }),
        (events, cuts) => {
          const stream = events.map(([text, end]) => `data: ${chunk(text)}${end}`).join('')
          const bytes = utf8.encode(stream)
          const offsets = cuts.filter((at) => at < bytes.length).toSorted((a, b) => a - b)
          const { text, progress } = relayed(cutAt(bytes, offsets), quirksOf('openai'))
          // A text that is half a character is written as JSON writes it, by the provider as by us.
          const sent = events.map(([piece]) => JSON.parse(JSON.stringify(piece)) as string).join('')
          expect(texts(text)).toBe(sent)
          expect(progress.started).toBe(sent !== '')
          expect(progress.finished).toBeFalse()
        },
      ),
    )
  })

  test('an error or an end among like events stops it there', () => {
    const like = ['a', 'b', 'c'].map((text) => `data: ${chunk(text)}\n\n`).join('')
    const { text, progress } = relayed(
      [utf8.encode(`${like}data: {"error":{"message":"down"}}\n\n${like}`)],
      quirksOf('openai'),
    )
    expect(texts(text)).toBe('abc')
    expect(progress.fault?.kind).toBeDefined()
    const bare = relayed(
      [utf8.encode(`${like}data: ${chunk('x').replace('x', '\t')}\n\n`)],
      quirksOf('openai'),
    )
    expect(texts(bare.text)).toBe('abc')
    expect(bare.progress.fault).toBeDefined()
    const ended = relayed(
      [utf8.encode(`${like}data: ${chunk('', 'stop')}\n\ndata: [DONE]\n\n${like}`)],
      quirksOf('openai'),
    )
    expect(texts(ended.text)).toBe('abc')
    expect(ended.progress).toMatchObject({ finished: true, finishReason: 'stop' })
    expect(ended.progress.delivered.samples('start').map((sample) => sample.text)).toEqual(['abc'])
  })
})
