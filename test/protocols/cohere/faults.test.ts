// What Cohere's errors mean, wherever they stand. Not recordings: written from its documentation and its users' reports.

import { describe, expect, test } from 'bun:test'
import { collect } from '../../../src/conversation/event.ts'
import { outbound } from '../../../src/protocols/cohere/outbound.ts'
import { parseFrames } from '../../support/recordings.ts'
import { target } from './support.ts'

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
      expect(collect(parseFrames(outbound.parser(target()), frames)).fault?.kind).toBe(kind)
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
    const [choice] = collect(parseFrames(outbound.parser(target()), events)).choices
    expect(choice?.toolCalls).toMatchObject([{ arguments: '{"x":1}' }])
  })
})
