// Every recorded exchange with Claude at Anthropic, Vertex and Bedrock, parsed.

import { describe, expect, test } from 'bun:test'
import { type ChatEvent, collect } from '../../../src/conversation/event.ts'
import type { WebSearchDeclaration } from '../../../src/conversation/gateway-tools.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { completionTokens, promptTokens } from '../../../src/conversation/usage.ts'
import { outbound } from '../../../src/protocols/anthropic-messages/outbound/outbound.ts'
import { assertWellFormed, type Case, cases, framesOf, parseFrames } from '../../support/recordings.ts'
import { testStreams } from '../../support/stream-promises.ts'
import { isWork } from '../../../src/protocols/claude/tools.ts'
import { assistant, chat, user, webSearch } from '../../support/conversation.ts'
import { target as anyTarget } from './support.ts'

const target = anyTarget()
const search: WebSearchDeclaration = { ...webSearch, engine: 'native' }
const parser = () => outbound.parser(target)

const all = ['anthropic', 'vertex-anthropic', 'bedrock-invoke-anthropic'].flatMap(cases)
const streams = all.filter((one) => one.streamed && one.provider !== 'bedrock-invoke-anthropic')
const answers = all.filter((one) => !one.streamed && one.status === 200)
const refusals = all.filter((one) => one.status !== 200)
// Claude 2 on Bedrock answers `{completion}`: text completion, the protocol before this one.
const messages = answers.filter((one) => 'content' in (one.response() as JsonObject))

const eventsOf = (one: Case): readonly ChatEvent[] =>
  one.streamed ? parseFrames(parser(), framesOf([one.stream()])) : outbound.whole(one.response(), target)

/** The content blocks of an answer and its usage, put together by other means than the parser's. */
function rawAnswer(one: Case): { content: JsonObject[]; usage: JsonObject; stop: unknown } {
  if (!one.streamed) {
    const body = one.response() as JsonObject
    return { content: body.content as JsonObject[], usage: body.usage as JsonObject, stop: body.stop_reason }
  }
  const content: JsonObject[] = []
  const usage: JsonObject = {}
  let stop: unknown
  for (const frame of framesOf([one.stream()])) {
    const event = JSON.parse(frame.data)
    if (event.type === 'message_start') Object.assign(usage, event.message.usage)
    if (event.type === 'message_delta') Object.assign(usage, event.usage)
    if (event.type === 'message_delta') stop = event.delta.stop_reason
    if (event.type === 'content_block_start') content[event.index] = { ...event.content_block, json: '' }
    if (event.type !== 'content_block_delta') continue
    const block = content[event.index]!
    const { delta } = event
    if (delta.type === 'text_delta') block.text += delta.text
    if (delta.type === 'thinking_delta') block.thinking += delta.thinking
    if (delta.type === 'signature_delta') block.signature = delta.signature
    if (delta.type === 'input_json_delta') block.json += delta.partial_json
  }
  for (const block of content) if (block.json) block.input = JSON.parse(String(block.json))
  return { content, usage, stop }
}

const n = (value: unknown): number => (typeof value === 'number' ? value : 0)

describe('the recordings', () => {
  test('are the ones this file was written for', () => {
    expect([streams.length, messages.length, answers.length - messages.length, refusals.length]).toEqual([
      17, 52, 2, 6,
    ])
  })
})

describe.each([...streams, ...messages].map((one) => [`${one.provider}/${one.id}`, one] as const))(
  '%s',
  (_, one) => {
    const events = eventsOf(one)
    const result = collect(events)
    const raw = rawAnswer(one)
    const of = (type: string) => raw.content.filter((block) => block.type === type)

    test('keeps the invariants and ends well', () => {
      assertWellFormed(events)
      expect(events.at(-1)).toEqual({ kind: 'finish' })
      expect(result.choices[0]?.nativeFinish).toBe(String(raw.stop))
    })

    test('says what the blocks say: text, calls, reasoning', () => {
      const choice = result.choices[0]!
      expect(choice.text ?? '').toBe(
        of('text')
          .map((block) => block.text)
          .join(''),
      )
      expect(
        choice.toolCalls.map(({ id, name, arguments: json }) => ({ id, name, input: JSON.parse(json) })),
      ).toEqual(of('tool_use').map(({ id, name, input }) => ({ id, name, input }) as never))
      const thoughts = raw.content.filter((block) => String(block.type).endsWith('thinking'))
      const kept = choice.reasoning.filter((detail) => detail.type !== 'reasoning.summary' && !isWork(detail))
      expect(kept.map((detail) => detail.signature ?? detail.data)).toEqual(
        thoughts.map((block) => String(block.signature ?? block.data)),
      )
      expect(kept.map((detail) => detail.text)).toEqual(
        thoughts.map((block) => block.thinking as string | undefined),
      )
    })

    test('carries what its own search found, encrypted, to the next turn', () => {
      const { text, reasoning } = result.choices[0]!
      const ids = new Set(of('web_search_tool_result').map((block) => block.tool_use_id))
      // A search that has not been answered cannot go back by itself.
      const found = raw.content.flatMap(({ type, id, name, input, tool_use_id, content }): JsonObject[] => {
        if (type === 'server_tool_use' && ids.has(id)) return [{ type, id: id!, name: name!, input: input! }]
        return type === 'web_search_tool_result'
          ? [{ type, tool_use_id: tool_use_id!, content: content! }]
          : []
      })
      const said = text === null || text.trim() === '' ? '.' : text
      const turns = [user('Hi'), assistant(said, { reasoning })]
      const { body } = outbound.lower(chat({ messages: turns, webSearch: search }), target)
      const back = (body['messages'] as { content: JsonObject[] }[])[1]!.content
      expect(back.filter(({ type }) => /^server_tool_use$|_tool_result$/.test(String(type)))).toEqual(found)
      const without = outbound.lower(chat({ messages: turns }), target).body
      expect(JSON.stringify(without['messages'])).not.toContain('web_search_tool_result')
    })

    test('finishes with tool_calls exactly when the client has calls to run', () => {
      expect(result.choices[0]!.finish === 'tool_calls').toBe(of('tool_use').length > 0)
    })

    test('counts what the provider counted, cached tokens beside the input', () => {
      const { usage } = raw
      const rounds = Array.isArray(usage.iterations) ? (usage.iterations as JsonObject[]) : [usage]
      const sum = (...fields: string[]) =>
        rounds.reduce((total, round) => total + fields.reduce((all, field) => all + n(round[field]), 0), 0)
      const counted = result.usage!
      expect(promptTokens(counted)).toBe(
        sum('input_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens'),
      )
      expect(completionTokens(counted)).toBe(sum('output_tokens'))
      expect(counted.cacheRead).toBe(sum('cache_read_input_tokens'))
      const split = usage.cache_creation as JsonObject | undefined
      expect(counted.cacheWrite1h).toBe(n(split?.ephemeral_1h_input_tokens))
      expect(counted.reasoning).toBe(
        n((usage.output_tokens_details as JsonObject | undefined)?.thinking_tokens),
      )
      const searches = n((usage.server_tool_use as JsonObject | undefined)?.web_search_requests)
      expect(counted.toolCalls).toEqual(searches > 0 ? { web_search: searches } : {})
    })
  },
)

describe('usage', () => {
  const usageIn = (folder: string, id: string) =>
    collect(eventsOf(all.find((one) => one.provider === folder && one.id.includes(id))!)).usage

  test('adds up the rounds of a compaction, which the top level leaves out', () => {
    const usage = usageIn('anthropic', 'json-compaction--claude-sonnet-4-6--pai')!
    expect(promptTokens(usage)).toBe(55_416)
    expect(completionTokens(usage)).toBe(133)
  })

  test('adds up the rounds of an advisor, with the thinking the top level tells', () => {
    const usage = usageIn('anthropic', 'stream-server-tool-reasoning-sig--claude-sonnet-5')!
    expect(usage).toMatchObject({ input: 1128 + 2543 + 1283, output: 163 - 47, reasoning: 47 })
  })

  test('keeps five-minute and one-hour writes apart', () => {
    expect(usageIn('anthropic', 'json-cache-1h')).toMatchObject({
      input: 3,
      cacheWrite5m: 14,
      cacheWrite1h: 2056,
    })
  })

  test('keeps the split of message_start when message_delta only has totals', () => {
    expect(usageIn('anthropic', 'btjcf3b7c')).toMatchObject({ cacheWrite5m: 234, cacheRead: 2458, input: 13 })
  })

  test('keeps the input of message_start when message_delta has only output', () => {
    expect(usageIn('vertex-anthropic', 'stream-tool--claude-3-7-sonnet-20250219--fan345be9')).toMatchObject({
      input: 394,
      output: 76,
    })
  })
})

describe('citations', () => {
  test('become annotations of the joined text, at the block they are for', () => {
    const one = streams.find((stream) => stream.id.includes('stream-server-tool-sig'))!
    const { text, annotations } = collect(eventsOf(one)).choices[0]!
    expect(annotations).toHaveLength(2)
    const blocks = rawAnswer(one).content.filter((block) => block.type === 'text')
    const cited = annotations.map(({ start, end }) => text!.slice(start, end))
    expect(cited).toEqual([blocks[0]!.text, blocks[2]!.text] as string[])
    expect(annotations[0]).toMatchObject({
      url: 'https://www.ruby-lang.org/en/downloads/',
      title: 'Download Ruby | Ruby',
    })
  })

  test('of documents have no address and are left out', () => {
    const one = streams.find((stream) => stream.id.includes('stream-citations'))!
    expect(collect(eventsOf(one)).choices[0]!.annotations).toEqual([])
  })

  test('of search results are kept where their source is an address', () => {
    const one = messages.find((answer) => answer.id.includes('json-citations'))!
    const { annotations, text } = collect(eventsOf(one)).choices[0]!
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

testStreams(streams, { frames: framesOf, parser })

describe('text completions of Claude 2 on Bedrock', () => {
  test('are another protocol, whose texts are read all the same', () => {
    const completions = answers.filter((answer) => !messages.includes(answer))
    expect(completions.length).toBeGreaterThan(0)
    for (const one of completions) {
      const events = outbound.whole(one.response(), target)
      assertWellFormed(events)
      const { completion, stop_reason } = one.response() as JsonObject
      expect(collect(events).choices).toMatchObject([
        { text: completion, finish: 'stop', nativeFinish: stop_reason },
      ])
    }
  })

  test('are counted where a stream ends with its metrics', () => {
    const pieces = [
      { completion: ' Hello', stop_reason: null, stop: null },
      {
        completion: ' you',
        stop_reason: 'max_tokens',
        'amazon-bedrock-invocationMetrics': { inputTokenCount: 9, outputTokenCount: 2 },
      },
    ]
    const events = parseFrames(
      parser(),
      pieces.map((piece) => ({ event: undefined, data: JSON.stringify(piece) })),
    )
    assertWellFormed(events)
    const { choices, usage } = collect(events)
    expect(choices).toMatchObject([{ text: ' Hello you', finish: 'length' }])
    expect(usage).toMatchObject({ input: 9, output: 2 })
  })
})

describe('recorded refusals', () => {
  test.each(refusals.map((one) => [one.id, one] as const))('%s', (id, one) => {
    const fault = outbound.fault(one.status, one.headers, one.responseText(), target)
    const kind =
      one.status === 400
        ? id.includes('rub9de04a')
          ? 'context-length'
          : 'invalid-request'
        : ({ 401: 'credentials', 403: 'credentials', 404: 'not-found' } as Record<number, string>)[one.status]
    expect(fault.kind as string | undefined).toBe(kind)
    expect(fault.status).toBe(one.status)
    expect(fault.message).not.toBe('')
  })

  test('name the field at fault where the message does', () => {
    const one = refusals.find((refusal) => refusal.id.includes('ddtdd03d5'))!
    expect(outbound.fault(one.status, one.headers, one.responseText(), target).param).toBe('messages.0')
  })
})
