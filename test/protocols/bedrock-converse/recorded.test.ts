// Every recorded exchange with Bedrock's Converse API, parsed.

import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ChatEvent, collect } from '../../../src/conversation/event.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { completionTokens, promptTokens } from '../../../src/conversation/usage.ts'
import { outbound } from '../../../src/protocols/bedrock-converse/outbound.ts'
import { assertWellFormed, type Case, cases, parseFrames } from '../../support/recordings.ts'
import { testStreams } from '../../support/stream-promises.ts'
import { framesOf, target } from './support.ts'

const all = cases('bedrock-converse')
const good = all.filter((one) => one.status === 200)
const streams = good.filter((one) => one.streamed)
const targetOf = (one: Case) => target({ model: one.meta.model ?? '' })

function eventsOf(one: Case): readonly ChatEvent[] {
  if (!one.streamed) return outbound.whole(one.response(), targetOf(one))
  return parseFrames(outbound.parser(targetOf(one)), framesOf([one.stream()]))
}

interface Raw {
  text: string
  thoughts: { text?: string; signature?: string; redacted?: string }[]
  calls: { id: string; name: string; input: unknown }[]
  stop: unknown
  usage: Record<string, number>
}

interface Wire {
  text?: string
  toolUse?: { toolUseId: string; name: string; input?: unknown; type?: string; json?: string }
  reasoningContent?: { reasoningText?: { text?: string; signature?: string }; redactedContent?: string }
  citationsContent?: { content: { text: string }[] }
}

/** The answer as it was sent, put together from the decoded events that lie beside the recording. */
function rawAnswer(one: Case): Raw {
  const blocks: Wire[] = []
  let stop: unknown
  let usage: Raw['usage'] = {}
  if (!one.streamed) {
    const body = one.response() as unknown as {
      output: { message: { content: Wire[] } }
      stopReason: string
      usage: Raw['usage']
    }
    blocks.push(...body.output.message.content)
    stop = body.stopReason
    usage = body.usage
  } else {
    for (const line of readFileSync(join(one.dir, 'stream.events.jsonl'), 'utf8').trim().split('\n')) {
      const { headers, payload } = JSON.parse(line)
      const block: Wire = (blocks[payload.contentBlockIndex ?? 999] ??= {})
      if (headers[':event-type'] === 'contentBlockStart')
        block.toolUse = { ...payload.start.toolUse, json: '' }
      const { text, toolUse, reasoningContent: thought } = payload.delta ?? {}
      if (text !== undefined) block.text = (block.text ?? '') + text
      if (toolUse) block.toolUse!.json += toolUse.input
      if (thought) {
        const known = (block.reasoningContent ??= {})
        if (thought.redactedContent) known.redactedContent = thought.redactedContent
        else {
          known.reasoningText ??= {}
          if (thought.text !== undefined)
            known.reasoningText.text = (known.reasoningText.text ?? '') + thought.text
          if (thought.signature) known.reasoningText.signature = thought.signature
        }
      }
      stop = payload.stopReason ?? stop
      usage = payload.usage ?? usage
    }
  }
  const there = blocks.filter(Boolean)
  return {
    text: there
      .map(
        (block) =>
          (block.text ?? '') + (block.citationsContent?.content ?? []).map((each) => each.text).join(''),
      )
      .join(''),
    thoughts: there.flatMap(({ reasoningContent: thought }) =>
      thought
        ? [
            {
              ...thought.reasoningText,
              ...(thought.redactedContent ? { redacted: thought.redactedContent } : {}),
            },
          ]
        : [],
    ),
    calls: there.flatMap(({ toolUse: use }) =>
      use?.name && use.type !== 'server_tool_use'
        ? [
            {
              id: use.toolUseId,
              name: use.name,
              input: use.json === undefined ? use.input : JSON.parse(use.json || '{}'),
            },
          ]
        : [],
    ),
    stop,
    usage,
  }
}

test('the recordings are the ones this file was written for', () => {
  expect([good.length - streams.length, streams.length, all.length - good.length]).toEqual([25, 13, 3])
})

describe.each(good.map((one) => [one.id, one] as const))('%s', (_, one) => {
  const events = eventsOf(one)
  const result = collect(events)
  const choice = result.choices[0]!
  const raw = rawAnswer(one)

  test('keeps the invariants and ends well', () => {
    assertWellFormed(events)
    expect(events.at(-1)).toEqual({ kind: 'finish' })
    expect(choice.nativeFinish).toBe(String(raw.stop))
    const reason = ({ max_tokens: 'length', guardrail_intervened: 'content_filter' } as JsonObject)[
      String(raw.stop)
    ]
    expect(choice.finish as string).toBe(raw.calls.length > 0 ? 'tool_calls' : String(reason ?? 'stop'))
  })

  test('says what the blocks say: text, calls, reasoning with its signatures', () => {
    expect(choice.text ?? '').toBe(raw.text)
    expect(
      choice.toolCalls.map((call) => ({ id: call.id, name: call.name, input: JSON.parse(call.arguments) })),
    ).toEqual(raw.calls as never)
    const unwrapped = (data: string) => Buffer.from(data, 'base64').toString()
    expect(choice.reasoning.map(({ text, signature, data }) => [text, signature, data])).toEqual(
      raw.thoughts.map((each) =>
        each.redacted
          ? [undefined, undefined, unwrapped(each.redacted)]
          : [each.text ?? '', each.signature, undefined],
      ) as never,
    )
  })

  test('counts what the provider counted, cached tokens beside the input', () => {
    const {
      inputTokens,
      outputTokens,
      cacheReadInputTokens: read = 0,
      cacheWriteInputTokens: write = 0,
    } = raw.usage
    const usage = result.usage!
    expect(promptTokens(usage)).toBe(inputTokens! + read + write)
    expect(promptTokens(usage) + completionTokens(usage)).toBe(raw.usage.totalTokens!)
    expect(completionTokens(usage)).toBe(outputTokens!)
    expect([usage.cacheRead, usage.cacheWrite5m]).toEqual([read, write])
  })
})

testStreams(streams, { frames: framesOf, parser: (one) => outbound.parser(targetOf(one)) })

describe('binary framing', () => {
  test('gives the events that lie decoded beside each recording', () => {
    for (const one of streams) {
      const lines = readFileSync(join(one.dir, 'stream.events.jsonl'), 'utf8').trim().split('\n')
      const expected = lines.map((line) => JSON.parse(line))
      const frames = framesOf([one.stream()])
      expect(frames.map((frame) => frame.event)).toEqual(
        expected.map(({ headers }) => headers[':event-type']),
      )
      expect(frames.map((frame) => JSON.parse(frame.data))).toEqual(expected.map(({ payload }) => payload))
    }
  })
})

describe('citations', () => {
  test('of search results that have an address become annotations of their text', () => {
    const one = good.find((each) => each.id.includes('json-citations') && each.id.endsWith('ruba67849'))!
    const { text, annotations } = collect(eventsOf(one)).choices[0]!
    expect(annotations).toEqual([
      {
        kind: 'url-citation',
        url: 'https://example.com/ruby-facts',
        title: 'Ruby Facts',
        start: 0,
        end: text!.length,
      },
    ])
  })
})

// Nova's web grounding puts its sources behind the text they are for, in blocks without text (not a recording).
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

describe('recorded refusals', () => {
  test.each([
    ['otel881f69', 'not-found', 'ValidationException'],
    ['paib66bef', 'invalid-request', undefined],
    ['rube8889f', 'credentials', 'UnrecognizedClientException'],
  ] as const)('%s is %s', (id, kind, code) => {
    const one = all.find((each) => each.id.endsWith(id))!
    const fault = outbound.fault(one.status, one.headers, one.responseText(), target())
    expect(fault).toMatchObject({ kind, status: one.status })
    expect(fault.providerCode).toBe(code)
  })
})
