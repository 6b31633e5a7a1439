// The recordings of Claude and Gemini at Amazon and Google, through the rows of these clouds.

import { describe, expect, test } from 'bun:test'
import { collect } from '../../src/conversation/event.ts'
import { outbound as anthropic } from '../../src/protocols/anthropic-messages/outbound/outbound.ts'
import { inbound } from '../../src/protocols/anthropic-messages/inbound/inbound.ts'
import type { AnthropicQuirks } from '../../src/protocols/anthropic-messages/outbound/quirks.ts'
import { outbound as gemini } from '../../src/protocols/gemini/outbound/outbound.ts'
import { exceptionPrefix } from '../../src/protocols/framing/decoder.ts'
import type { Target } from '../../src/protocols/protocol.ts'
import { providerById } from '../../src/providers/registry.ts'
import { chat, targetsLike } from '../support/conversation.ts'
import { assertWellFormed, cases, parseFrames } from '../support/recordings.ts'
import { framesOf } from './bedrock-converse/support.ts'

function targetOf<Quirks>(row: string, defaults: Quirks, model: string): Target<Quirks> {
  const quirks = { ...defaults, ...providerById(row)!.quirks } as Quirks
  return targetsLike({ model, provider: row, quirks })()
}
const claude = (row: string, model: string) => targetOf<AnthropicQuirks>(row, anthropic.defaultQuirks, model)
const invoked = cases('bedrock-invoke-anthropic')
// Claude 2 answered text completions, which are another protocol.
const messages = invoked.filter((one) => one.status === 200 && !/claude-(v2|instant)/.test(one.meta.model!))
const streams = messages.filter((one) => one.streamed)
const vertex = cases('vertex-anthropic')

describe('Claude invoked at Bedrock', () => {
  test("frames its streams in Amazon's way", () => {
    expect(anthropic.framingFor!(claude('bedrockclaude', 'a'))).toBe('aws-event-stream')
    expect(anthropic.framingFor!(claude('vertexclaude', 'a'))).toBe('sse')
    expect([messages.length, streams.length]).toEqual([6, 2])
  })

  test('ends with the exception that Amazon sends in place of an event', () => {
    const frames = [
      ...framesOf([streams[0]!.stream()]).slice(0, 3),
      { event: `${exceptionPrefix}throttlingException`, data: '{"message":"Too many tokens"}' },
    ]
    const events = parseFrames(anthropic.parser(claude('bedrockclaude', 'a')), frames)
    assertWellFormed(events)
    expect(collect(events).fault).toMatchObject({ kind: 'rate-limited', message: 'Too many tokens' })
  })
})

describe('requests to Claude', () => {
  const asked = [...messages, ...vertex].filter((one) => one.request)

  test.each(asked.map((one) => [`${one.provider}/${one.id}`, one] as const))(
    '%s go where they went',
    (_, one) => {
      const row = one.provider === 'vertex-anthropic' ? 'vertexclaude' : 'bedrockclaude'
      const streamed = one.streamed
      const { body, path, headers } = anthropic.lower(
        inbound.parse({ ...one.request, model: 'x/y', stream: streamed }).toChatRequest(),
        claude(row, one.meta.model!),
      )
      expect(headers['anthropic-version']).toBeUndefined()
      expect(body.anthropic_version).toBe(one.request!.anthropic_version!)
      expect('model' in body).toBe(false)
      expect(body.stream).toBe((row === 'vertexclaude' && streamed ? true : undefined) as never)
      expect(decodeURIComponent(one.meta.url)).toEndWith(decodeURIComponent(path))
      if (row === 'bedrockclaude') expect(one.meta.url).toEndWith(path)
      expect(Array.isArray(body.messages)).toBe(true)
    },
  )
})

describe('an image by its address', () => {
  test.each([
    ['anthropic', 'https://example.com/a.png', true],
    ['anthropic', 'http://example.com/a.png', false],
    ['bedrockclaude', 'https://example.com/a.png', false],
    ['vertexclaude', 'https://example.com/a.png', false],
  ] as const)('%s fetches %s itself: %p', (row, url, itself) => {
    expect(anthropic.inlinesUrls).toBe(true)
    expect(anthropic.readsUrl!(url, claude(row, 'claude-sonnet-4-5'))).toBe(itself)
  })
})

describe('Gemini on Vertex', () => {
  const all = cases('vertex-gemini')

  test.each(all.map((one) => [one.id, one] as const))('%s is found where it was', (_, one) => {
    const { path } = gemini.lower(
      chat({ stream: one.meta.url.includes(':stream') }),
      targetOf('vertex', gemini.defaultQuirks, one.meta.model!),
    )
    expect(one.meta.url).toEndWith(path)
  })
})
