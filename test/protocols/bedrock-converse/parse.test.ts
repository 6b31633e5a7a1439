// Answers of Bedrock's Converse API of shapes that no recording has.

import { describe, expect, test } from 'bun:test'
import { collect } from '../../../src/conversation/event.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { outbound } from '../../../src/protocols/bedrock-converse/parse.ts'
import { parseFrames } from '../../support/recordings.ts'
import { target } from './support.ts'

// Nova's web grounding puts its sources behind the text they are for, in blocks without text.
describe('sources in a block of their own', () => {
  const web = (url: string) => ({
    citationsContent: { citations: [{ location: { web: { url, domain: 'x' } } }] },
  })
  const answer = (content: JsonObject[]): JsonObject => ({
    output: { message: { role: 'assistant', content } },
    stopReason: 'end_turn',
    usage: { inputTokens: 1, outputTokens: 2 },
  })
  const found = (content: JsonObject[]) => {
    const { text, annotations } = collect(outbound.whole(answer(content), target())).choices[0]!
    return annotations.map(({ url, start, end }) => [url, (text ?? '').slice(start, end)])
  }

  test('are annotations of the text before them', () => {
    expect(
      found([
        { text: 'One. ' },
        web('https://a.example/1'),
        web('https://b.example/'),
        { text: 'Two.' },
        web('https://c.example/'),
      ]),
    ).toEqual([
      ['https://a.example/1', 'One. '],
      ['https://b.example/', 'One. '],
      ['https://c.example/', 'Two.'],
    ])
  })

  test('are kept where there is no text at all', () => {
    expect(found([web('https://a.example/')])).toEqual([['https://a.example/', '']])
  })

  test('are found in a stream', () => {
    const frame = (event: string, data: JsonObject) => ({ event, data: JSON.stringify(data) })
    const events = parseFrames(outbound.parser(target()), [
      frame('messageStart', { role: 'assistant' }),
      frame('contentBlockDelta', { contentBlockIndex: 0, delta: { text: 'One.' } }),
      frame('contentBlockStop', { contentBlockIndex: 0 }),
      frame('contentBlockDelta', {
        contentBlockIndex: 1,
        delta: { citation: { location: { web: { url: 'https://a.example/' } } } },
      }),
      frame('contentBlockStop', { contentBlockIndex: 1 }),
      frame('messageStop', { stopReason: 'end_turn' }),
      frame('metadata', { usage: { inputTokens: 1, outputTokens: 2 } }),
    ])
    expect(collect(events).choices[0]!.annotations).toMatchObject([
      { url: 'https://a.example/', start: 0, end: 4 },
    ])
  })
})
