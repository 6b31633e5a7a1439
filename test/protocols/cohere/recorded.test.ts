// Every recorded exchange with Cohere's chat API, parsed.

import { describe, expect, test } from 'bun:test'
import { type ChatEvent, collect } from '../../../src/conversation/event.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { completionTokens, promptTokens } from '../../../src/conversation/usage.ts'
import { buildPrice } from '../../../src/catalog/row.ts'
import { costOf, type Price } from '../../../src/credits/price.ts'
import { outbound } from '../../../src/protocols/cohere/outbound.ts'
import { assertWellFormed, type Case, cases, framesOf, parseFrames } from '../../support/recordings.ts'
import { testStreams } from '../../support/stream-promises.ts'
import { target } from './support.ts'

const all = cases('cohere-v2')
const refusals = all.filter((one) => one.status !== 200)
const streams = all.filter((one) => one.status === 200 && one.streamed)
const answers = all.filter((one) => one.status === 200 && !one.streamed)
const failed = streams.filter((one) => one.id.includes('fin-error'))
const parser = () => outbound.parser(target())

function eventsOf(one: Case): readonly ChatEvent[] {
  return one.streamed
    ? parseFrames(parser(), framesOf([one.stream()]))
    : outbound.whole(one.response(), target())
}

interface Raw {
  text: string
  thinking: string
  calls: { id: string; name: string; json: string }[]
  finish: unknown
  usage: { tokens: Record<string, number>; billed_units: Record<string, number>; cached_tokens?: number }
}

/** The answer as the provider sent it, put together by other code than the parser's. */
function rawAnswer(one: Case): Raw {
  const raw: Raw = {
    text: '',
    thinking: '',
    calls: [],
    finish: undefined,
    usage: { tokens: {}, billed_units: {} },
  }
  if (!one.streamed) {
    const body = one.response() as JsonObject & { message: JsonObject }
    raw.text = String(body.message.tool_plan ?? '')
    for (const block of (body.message.content ?? []) as JsonObject[]) {
      raw.text += String(block.text ?? '')
      raw.thinking += String(block.thinking ?? '')
    }
    for (const call of (body.message.tool_calls ?? []) as {
      id: string
      function: Record<string, string>
    }[]) {
      raw.calls.push({ id: call.id, name: call.function.name!, json: call.function.arguments! })
    }
    return { ...raw, finish: body.finish_reason, usage: body.usage as unknown as Raw['usage'] }
  }
  for (const { data } of framesOf([one.stream()])) {
    if (data === '[DONE]') continue
    const event = JSON.parse(data)
    const { content, tool_plan, tool_calls } = event.delta?.message ?? {}
    if (event.type.endsWith('-delta')) raw.text += (content?.text ?? '') + (tool_plan ?? '')
    if (event.type === 'content-delta') raw.thinking += content?.thinking ?? ''
    if (event.type === 'tool-call-start')
      raw.calls.push({ id: tool_calls.id, name: tool_calls.function.name, json: '' })
    if (event.type === 'tool-call-delta') raw.calls.at(-1)!.json += tool_calls.function.arguments
    if (event.type === 'message-end')
      Object.assign(raw, { finish: event.delta.finish_reason, usage: event.delta.usage })
  }
  return raw
}

describe('the recordings', () => {
  test('are the ones this file was written for', () => {
    expect([answers.length, streams.length, failed.length, refusals.length]).toEqual([16, 8, 2, 2])
  })
})

const good = [...answers, ...streams].filter((one) => !failed.includes(one))

describe.each(good.map((one) => [one.id, one] as const))('%s', (_, one) => {
  const events = eventsOf(one)
  const result = collect(events)
  const choice = result.choices[0]!
  const raw = rawAnswer(one)

  test('keeps the invariants and ends well', () => {
    assertWellFormed(events)
    expect(events.at(-1)).toEqual({ kind: 'finish' })
    expect(choice.nativeFinish).toBe(String(raw.finish))
    expect(choice.finish === 'tool_calls').toBe(raw.calls.length > 0)
  })

  test('says what the answer says: text, plan, thinking, calls', () => {
    expect(choice.text ?? '').toBe(raw.text)
    expect(choice.reasoning.map((detail) => detail.text).join('')).toBe(raw.thinking)
    expect(choice.toolCalls.map(({ id, name, arguments: json }) => ({ id, name, json }))).toEqual(
      raw.calls.map((call) => ({ ...call, json: call.json === 'null' ? '{}' : call.json })),
    )
  })

  test('counts the tokens, and prices the billed units', () => {
    const { tokens, billed_units: billed, cached_tokens: cached } = raw.usage
    const usage = result.usage!
    expect(promptTokens(usage)).toBe(tokens.input_tokens!)
    expect(completionTokens(usage)).toBe(tokens.output_tokens!)
    expect([usage.cacheRead, usage.reasoning]).toEqual([cached ?? 0, tokens.reasoning_tokens ?? 0])
    const price: Price = {
      ...buildPrice({ input: '0', output: '0' }),
      rates: { ...unpriced, input: 3n, output: 5n },
    }
    expect(costOf(usage, price).total).toBe(
      BigInt(billed.input_tokens!) * 3n + BigInt(billed.output_tokens!) * 5n,
    )
  })
})

/** Rates under which a token counted in a wrong bucket would show. */
const unpriced = {
  input: 0n,
  cacheRead: 1_000_000n,
  cacheReadAudio: 1_000_000n,
  cacheWrite5m: 1_000_000n,
  cacheWrite1h: 1_000_000n,
  output: 0n,
  reasoning: 1_000_000n,
  inputAudio: 1_000_000n,
  outputAudio: 1_000_000n,
  inputImage: 1_000_000n,
  outputImage: 1_000_000n,
}

testStreams(streams, { frames: framesOf, parser })

describe('an answer that finishes with ERROR', () => {
  test.each(failed.map((one) => [one.id, one] as const))('is an error, not an empty stop: %s', (_, one) => {
    const events = eventsOf(one)
    assertWellFormed(events)
    expect(collect(events).fault).toMatchObject({ kind: 'broken', providerCode: 'INVALID_TOOL_GENERATION' })
    expect(events.some((event) => event.kind === 'choice-finish')).toBe(false)
  })
})

// Not recordings: none of those at hand has such a call.
describe('a call without arguments', () => {
  const call = (text: string) => ({ id: 'c1', type: 'function', function: { name: 'now', arguments: text } })
  const streamed = (...pieces: string[]) =>
    [
      { type: 'message-start', id: 'a' },
      { type: 'tool-call-start', index: 0, delta: { message: { tool_calls: call('') } } },
      ...pieces.map((text) => ({
        type: 'tool-call-delta',
        index: 0,
        delta: { message: { tool_calls: { function: { arguments: text } } } },
      })),
      { type: 'message-end', delta: { finish_reason: 'TOOL_CALL' } },
    ].map((event) => ({ event: event.type, data: JSON.stringify(event) }))

  test.each([[['null']], [['nu', 'll']], [[]], [['{}']], [['{', '}']]])(
    'in pieces %j is an empty object',
    (pieces) => {
      const events = parseFrames(parser(), streamed(...pieces))
      assertWellFormed(events)
      expect(collect(events).choices[0]!.toolCalls).toMatchObject([{ id: 'c1', arguments: '{}' }])
    },
  )

  test('is one in whole answers too', () => {
    const body = { message: { tool_calls: [call('null')] }, finish_reason: 'TOOL_CALL' }
    expect(collect(outbound.whole(body, target())).choices[0]!.toolCalls[0]!.arguments).toBe('{}')
  })
})

// Not recordings: shapes that the protocol allows and no recording shows.
describe('an oddity', () => {
  const end = (native: string) => ({
    finish_reason: native,
    message: { content: [{ type: 'text', text: '😀 Ruby.' }] },
  })
  const said = (body: object) => collect(outbound.whole(body, target()))

  test.each([
    ['TIMEOUT', 'timeout'],
    ['ERROR', 'broken'],
  ] as const)('the finish %s is a fault', (native, kind) => expect(said(end(native)).fault?.kind).toBe(kind))

  test.each([[null], ['text'], [{}], [{ message: {} }], [[]]])(
    'the body %j is broken, and throws nothing',
    (body) => {
      expect(collect(outbound.whole(body, target())).fault?.kind).toBe('broken')
    },
  )

  test('offsets count whole characters where the quoted words stand there', () => {
    const citations = [{ start: 2, end: 6, text: 'Ruby', sources: [{ id: 'https://a.example/x' }] }]
    const { message } = end('')
    const answer = said({ finish_reason: 'COMPLETE', message: { ...message, citations } }).choices[0]!
    expect(answer.annotations).toMatchObject([{ start: 3, end: 7, url: 'https://a.example/x' }])
  })

  test('a call that the token limit cut finishes with length, a whole one with tool_calls', () => {
    const cut = (json: string) =>
      said({
        finish_reason: 'MAX_TOKENS',
        message: { tool_calls: [{ id: 'c', function: { name: 'f', arguments: json } }] },
      }).choices[0]!.finish
    expect([cut('{"a":'), cut('{"a":1}')]).toEqual(['length', 'tool_calls'])
  })

  test('log probabilities of a stretch are those of its tokens together', () => {
    const body = {
      ...end('COMPLETE'),
      logprobs: [{ text: 'Ruby', token_ids: [1, 2], logprobs: [-0.5, -0.25] }],
    }
    expect(said(body).choices[0]!.logprobs?.content).toMatchObject([{ token: 'Ruby', logprob: -0.75 }])
  })
})

describe('citations', () => {
  test('point at the words they quote in the joined text, where their source has an address', () => {
    const one = answers.find((answer) => answer.id.includes('json-citations-reasoning'))!
    const { text, annotations } = collect(eventsOf(one)).choices[0]!
    const told = ((one.response() as JsonObject).message as JsonObject).citations as { text: string }[]
    expect(annotations.map(({ start, end }) => text!.slice(start, end))).toEqual(
      told.map((each) => each.text),
    )
    expect(annotations[0]).toMatchObject({ url: 'https://example.com/ruby-facts', title: 'Ruby Facts' })
  })

  test('of documents and tools without an address are left out', () => {
    for (const id of ['stream-citations--', 'json-citations--']) {
      expect(collect(eventsOf(good.find((one) => one.id.startsWith(id))!)).choices[0]!.annotations).toEqual(
        [],
      )
    }
  })
})

describe('recorded refusals', () => {
  test.each([
    ['http-error-400', 'context-length', 'TOO_MANY_TOKENS'],
    ['http-error-401', 'credentials', undefined],
  ] as const)('%s is %s', (id, kind, code) => {
    const one = refusals.find((each) => each.id.startsWith(id))!
    const fault = outbound.fault(one.status, one.headers, one.responseText(), target())
    expect(fault).toMatchObject({ kind, status: one.status })
    expect(fault.providerCode).toBe(code)
  })
})
