// Every recorded exchange of Gemini and Vertex, read whole, in random cuts, and broken off.

import { describe, expect, test } from 'bun:test'
import { type ChatEvent, collect } from '../../../src/conversation/event.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { completionTokens, promptTokens } from '../../../src/conversation/usage.ts'
import { outbound } from '../../../src/protocols/gemini/outbound/outbound.ts'
import { assertWellFormed, type Case, cases, framesOf, parseFrames } from '../../support/recordings.ts'
import { testStreams } from '../../support/stream-promises.ts'
import { providers, targetOf } from './support.ts'

const recorded = providers.flatMap((provider) => cases(provider))
const answered = recorded.filter((each) => each.status === 200)
const streams = answered.filter((each) => each.streamed && isSse(each))
const refused = recorded.filter((each) => each.status !== 200)

const spoilt = ['MALFORMED_FUNCTION_CALL', 'UNEXPECTED_TOOL_CALL']

function isSse(recording: Case): boolean {
  return !new TextDecoder().decode(recording.stream().subarray(0, 1)).startsWith('[')
}

function targetFor(recording: Case) {
  return targetOf(recording.meta.model ?? 'gemini-3-pro-preview')
}

function eventsOf(recording: Case): readonly ChatEvent[] {
  const target = targetFor(recording)
  if (!recording.streamed) return outbound.whole(recording.response(), target)
  if (isSse(recording)) return parseFrames(outbound.parser(target), framesOf([recording.stream()]))
  return outbound.whole(JSON.parse(new TextDecoder().decode(recording.stream())), target)
}

/** The chunks as they were sent, read without any of our code. */
function chunksOf(recording: Case): JsonObject[] {
  if (!recording.streamed) return [recording.response() as JsonObject]
  const text = new TextDecoder().decode(recording.stream())
  if (text.startsWith('[')) return JSON.parse(text) as JsonObject[]
  return text
    .split(/\r?\n/)
    .filter((line) => line.startsWith('data:'))
    .map((line) => JSON.parse(line.slice(5)) as JsonObject)
}

interface Raw {
  candidates?: {
    index?: number
    finishReason?: string
    content?: {
      parts?: { text?: string; thought?: boolean; functionCall?: object; thoughtSignature?: string }[]
    }
  }[]
  usageMetadata?: Record<string, number>
}

test('there are recordings to test with', () => {
  expect(answered.length).toBeGreaterThan(60)
  expect(streams.length).toBeGreaterThan(15)
  expect(refused.length).toBe(5)
})

describe.each(answered.map((each) => [`${each.provider}/${each.id}`, each] as const))(
  '%s',
  (_, recording) => {
    const events = eventsOf(recording)
    const result = collect(events)
    const raw = chunksOf(recording) as Raw[]
    const parts = raw.flatMap((chunk) => chunk.candidates?.[0]?.content?.parts ?? [])
    const reasons = raw.flatMap((chunk) => chunk.candidates?.[0]?.finishReason ?? [])

    test('keeps the rules of every answer', () => {
      expect(() => assertWellFormed(events)).not.toThrow()
    })

    test('is a failure exactly where Gemini failed', () => {
      expect(result.fault?.kind).toBe(
        reasons.some((reason) => spoilt.includes(reason)) ? 'unusable-output' : undefined,
      )
    })

    const last = raw
      .map((chunk) => chunk.usageMetadata)
      .findLast((usage) => usage?.['totalTokenCount'] !== undefined)

    test('has a count exactly where Gemini counted', () => {
      expect(result.usage !== undefined).toBe(last !== undefined)
    })

    test.each(last === undefined ? [] : [last])('counts what Gemini counted', (last) => {
      const counted = (name: string) => last[name] ?? 0
      const usage = result.usage!
      expect(promptTokens(usage)).toBe(counted('promptTokenCount') + counted('toolUsePromptTokenCount'))
      expect(completionTokens(usage)).toBe(counted('candidatesTokenCount') + counted('thoughtsTokenCount'))
      expect(promptTokens(usage) + completionTokens(usage)).toBe(counted('totalTokenCount'))
      expect(usage.cacheRead + usage.cacheReadAudio).toBe(counted('cachedContentTokenCount'))
      expect(usage.reasoning).toBe(counted('thoughtsTokenCount'))
    })

    const readable = result.fault === undefined ? [result] : []
    test.each(readable)('has the text, the thoughts, the calls and their signatures', (result) => {
      const joined = (thought: boolean) =>
        parts
          .filter((part) => (part.thought === true) === thought)
          .map((part) => part.text ?? '')
          .join('')
      const choice = result.choices[0]
      expect(choice?.text ?? '').toBe(joined(false))
      expect(
        (choice?.reasoning ?? [])
          .map((detail) => (detail.type === 'reasoning.text' ? detail.text : ''))
          .join(''),
      ).toBe(joined(true))
      const calls = parts.filter((part) => part.functionCall !== undefined)
      expect(choice?.toolCalls.map((call) => call.thoughtSignature) ?? []).toEqual(
        calls.map((part) => part.thoughtSignature),
      )
      expect(choice?.toolCalls.map((call) => JSON.parse(call.arguments)) ?? []).toEqual(
        calls.map((part) => (part.functionCall as { args?: object }).args ?? {}),
      )
    })
  },
)

// G19. Without an id of its own an answer has random call ids; all recorded ones have one.
testStreams(streams, {
  frames: framesOf,
  parser: (recording) => outbound.parser(targetFor(recording)),
})

describe('recorded refusals', () => {
  test.each([
    // case                                                       kind               retry after
    ['gemini/http-error-400--gemini-2.5-flash--rubccbf1b', 'credentials', undefined],
    ['gemini/http-error-404--gemini-3.6-flahs--paib5bbf7', 'not-found', undefined],
    ['gemini/http-error-404--there-is-no-such-model--btpd8650b', 'not-found', undefined],
    ['gemini/http-error-429--gemini-2.5-flash--rub9999c5', 'rate-limited', 48_000],
    ['vertex-gemini/http-error-400--gemini-2.5-flash--rub1c8915', 'context-length', undefined],
  ])('%s is %s', (name, kind, retryAfterMs) => {
    const recording = refused.find((each) => `${each.provider}/${each.id}` === name)!
    const { status, headers } = recording
    const fault = outbound.fault(status, headers, recording.responseText(), targetFor(recording))
    expect(fault).toMatchObject({ kind, status, retryAfterMs })
    expect(fault.message).not.toBe('')
  })
})

describe('what single recordings show', () => {
  const named = (id: string) => collect(eventsOf(answered.find((each) => each.id.endsWith(id))!))

  test('a blocked prompt has no candidates and finishes with content_filter, uncounted', () => {
    const result = named('pai10a059')
    expect(result.choices[0]).toMatchObject({
      finish: 'content_filter',
      nativeFinish: 'MODEL_ARMOR',
      text: null,
    })
    expect(result.usage).toBeUndefined()
  })

  test.each([
    ['pai53e3dd', 'content_filter', 'SAFETY'],
    ['pai6c43a7', 'content_filter', 'MODEL_ARMOR'],
    ['btp0922e5', 'length', 'MAX_TOKENS'],
    ['rub4d220e', 'stop', 'STOP'],
    ['fan861905', 'tool_calls', 'STOP'],
  ] as const)('%s finishes with %s for %s', (id, finish, nativeFinish) => {
    expect(named(id).choices[0]).toMatchObject({ finish, nativeFinish })
  })

  test('an answer that failed keeps what it cost: zero output is a count, not a gap', () => {
    const result = named('btj08aff7')
    expect(result.fault).toMatchObject({
      kind: 'unusable-output',
      providerCode: 'MALFORMED_FUNCTION_CALL',
    })
    expect(result.usage).toMatchObject({ input: 110, output: 0, reasoning: 0 })
    expect(result.choices).toEqual([])
  })

  test('spoken answers are audio, and their tokens are counted apart', () => {
    const result = named('rub74e481')
    expect(result.choices[0]?.audio?.data).toHaveLength(284864)
    expect(result.usage).toMatchObject({ input: 11, output: 0, outputAudio: 111 })
  })

  test('spoken prompts are counted apart', () => {
    expect(named('rub15bae1').usage).toMatchObject({ input: 6, inputAudio: 119, output: 10, reasoning: 25 })
  })

  test('sources become annotations at the place they vouch for', () => {
    const weather = named('btj0a015d')
    expect(weather.choices[0]?.annotations).toEqual([
      {
        kind: 'url-citation',
        url: 'https://www.google.com/search?q=weather+in+Paris,+FR',
        title: 'Weather information for Paris, FR',
        // Google counts 100 bytes: the degree sign has two.
        start: 0,
        end: 98,
      },
    ])
    expect(weather.usage?.toolCalls).toEqual({ web_search: 1 })
    const { text, annotations } = named('pai239e14').choices[0]!
    const stretches = annotations.map((each) => text!.slice(each.start, each.end))
    expect(stretches).toContain('*   **Current:** Approximately **66°F (19°C)**.')
    expect(stretches).toContain('*   **Precipitation:** 0% chance of rain.')
    expect(annotations).toHaveLength(
      14 + 1 + stretches.filter((each) => each.startsWith('**Note')).length - 1,
    )
  })

  test('log probabilities have the shape of chat completions', () => {
    expect(named('pai8a906f').choices[0]?.logprobs?.content).toEqual([
      {
        token: 'Hello',
        logprob: -6.7947026e-6,
        bytes: [72, 101, 108, 108, 111],
        top_logprobs: [
          { token: 'Hello', logprob: -6.7947026e-6, bytes: [72, 101, 108, 108, 111] },
          { token: '"', logprob: -12.196156, bytes: [34] },
        ],
      },
    ])
  })

  test('calls without an id get one that is theirs alone, and the same each time the answer is read', () => {
    const once = named('rub0fb5fa').choices[0]!.toolCalls.map((call) => call.id)
    expect(new Set(once).size).toBe(3)
    expect(named('rub0fb5fa').choices[0]!.toolCalls.map((call) => call.id)).toEqual(once)
    const all = answered.flatMap((each) =>
      collect(eventsOf(each)).choices.flatMap((choice) => choice.toolCalls),
    )
    expect(new Set(all.map((call) => call.id)).size).toBe(all.length)
  })
})
