// Answers of Cohere's chat API of shapes that no recording has, and what the recorded ones cost.

import { describe, expect, test } from 'bun:test'
import { buildPrice } from '../../../src/catalog/row.ts'
import { collect } from '../../../src/conversation/event.ts'
import { costOf, type Price } from '../../../src/credits/price.ts'
import { outbound } from '../../../src/protocols/cohere/cohere.ts'
import { assertWellFormed, parseFrames } from '../../support/recordings.ts'
import { cohereEnd, hostsOf, recordedAnswers, saidBy } from '../recorded-hosts.ts'
import { target } from './support.ts'

const parser = () => outbound.parser(target())

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

test('the billed units are priced, not the tokens', () => {
  const price: Price = {
    ...buildPrice({ input: '0', output: '0' }),
    rates: { ...unpriced, input: 3n, output: 5n },
  }
  for (const answer of recordedAnswers(hostsOf('cohere')).filter(saidBy)) {
    const { input_tokens, output_tokens } = cohereEnd(answer).usage.billed_units
    expect(costOf(collect(answer.events).usage!, price).total).toBe(
      BigInt(input_tokens!) * 3n + BigInt(output_tokens!) * 5n,
    )
  }
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

// ---- errors: after Cohere's documentation and its users' reports --------------------------------------------

const faultOf = (status: number, body: unknown) =>
  outbound.fault(status, new Headers(), JSON.stringify(body), target())

const trial = (limit: string) => `You are using a Trial key, which is limited to ${limit}. Upgrade for more.`

test.each([
  [429, trial('10 API calls / minute'), 'rate-limited'],
  [429, trial('20 API calls per minute'), 'rate-limited'],
  [429, trial('1000 API calls / month'), 'quota'],
  [429, 'You are past the per month request limit for this model.', 'quota'],
  [429, 'Please slow down.', 'rate-limited'],
  [400, 'too many tokens: the total of 9000 exceeds 8000', 'context-length'],
  [400, 'invalid request: message must be at least 1 token long', 'invalid-request'],
  [498, 'blocked input', 'content-filter'],
] as const)('%d with "%s" is %s', (status, message, kind) => {
  expect(faultOf(status, { id: 'x', message })).toMatchObject({ kind, status, message })
})

describe('an error in place of an answer', () => {
  test.each([
    [{ id: 'x', message: 'too many tokens' }, 'context-length'],
    [{ id: 'x', message: 'Trial key: 10 calls / minute' }, 'rate-limited'],
    [{ error: 'something went wrong' }, 'broken'],
    [{}, 'broken'],
  ] as const)('%j is %s, streamed and whole', (body, kind) => {
    expect(collect(outbound.whole(body, target())).fault?.kind).toBe(kind)
    for (const event of [body, { type: 'error', ...body }]) {
      const frames = [{ event: undefined, data: JSON.stringify(event) }]
      expect(collect(parseFrames(parser(), frames)).fault?.kind).toBe(kind)
    }
  })
})

describe('an answer in another shape', () => {
  const said = (message: object) =>
    collect(outbound.whole({ message, finish_reason: 'COMPLETE' }, target())).choices[0]

  test('with plain text for its content is read', () => {
    expect(said({ content: 'All of it' })?.text).toBe('All of it')
  })

  test('with an object for the arguments of a call is read, whole and streamed', () => {
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: { x: 1 } } }
    expect(said({ tool_calls: [call] })?.toolCalls).toMatchObject([{ arguments: '{"x":1}' }])
    const events = [
      { type: 'tool-call-start', index: 0, delta: { message: { tool_calls: call } } },
      { type: 'message-end', delta: { finish_reason: 'TOOL_CALL' } },
    ].map((event) => ({ event: event.type, data: JSON.stringify(event) }))
    const [choice] = collect(parseFrames(parser(), events)).choices
    expect(choice?.toolCalls).toMatchObject([{ arguments: '{"x":1}' }])
  })
})
