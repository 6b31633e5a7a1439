// Reasoning that a client has left out goes back to the account and the provider that it belongs to, and to no other.

import { describe, expect, test } from 'bun:test'
import type { IncomingCall } from '../../../src/chat/call.ts'
import type { Candidate } from '../../../src/chat/routing/candidates.ts'
import { Thoughts, thoughtsOf, withThoughts } from '../../../src/chat/upstream/thoughts.ts'
import type { ContentEvent } from '../../../src/conversation/progress.ts'
import type { JsonObject, ReasoningDetail } from '../../../src/conversation/request.ts'
import { callOf } from '../parts.ts'

const owner = { account: 'acct_1', line: 'line_1', provider: 'a' }
const called = { id: 'call_1', name: 'look' }
const signed: ReasoningDetail = {
  type: 'reasoning.text',
  format: 'anthropic-claude-v1',
  index: 0,
  text: 'The river rises. '.repeat(100),
  signature: 'c2ln',
}

describe('what was thought before a call', () => {
  const thoughts = new Thoughts()
  thoughts.keep(owner, called, [signed])

  test('is known by the call', () => {
    expect(thoughts.of(owner, called)).toEqual([signed])
  })

  test.each([
    ['another account', { ...owner, account: 'acct_2' }, called],
    ['another provider', { ...owner, provider: 'b' }, called],
    ['another call', owner, { ...called, id: 'call_2' }],
    ['a call of another function by that id', owner, { ...called, name: 'listen' }],
  ])('is not known to %s', (_, of, call) => {
    expect(thoughts.of(of, call)).toBeUndefined()
  })

  test.each<[string, ReasoningDetail]>([
    ['text alone, which clients send back', { ...signed, signature: null }],
    ['text of an unknown format', { ...signed, format: null }],
    ["Gemini's, whose signatures belong to parts", { ...signed, format: 'google-gemini-v1' }],
    ['more than an answer has', { ...signed, text: 'x'.repeat(600 * 1024) }],
  ])('is not kept: %s', (_, detail) => {
    const none = new Thoughts()
    none.keep(owner, called, [detail])
    expect(none.of(owner, called)).toBeUndefined()
  })

  test('takes no more room than it has', () => {
    const many = new Thoughts()
    const long = { ...signed, text: 'x'.repeat(500 * 1024) }
    for (let at = 0; at < 100; at++) many.keep(owner, { id: `call_${at}`, name: 'look' }, [long])
    expect(many.of(owner, { id: 'call_0', name: 'look' })).toBeUndefined()
    expect(many.of(owner, { id: 'call_99', name: 'look' })).toEqual([long])
  })
})

describe('a streamed answer', () => {
  const candidate = { provider: { id: 'a' } } as Candidate
  const kept = (events: ContentEvent[]) => {
    const all: [object, object, readonly ReasoningDetail[]][] = []
    const call = callOf({ model: 'a/m', messages: [{ role: 'user', content: 'Look.' }] })
    const streamed = thoughtsOf({ thoughts: { keep: (...given) => all.push(given) } }, call, candidate)
    for (const event of events) streamed!.event(event)
    return all.map(([, call, details]) => [call, details])
  }
  const thought = (choice: number, detail: Partial<ReasoningDetail>): ContentEvent => ({
    kind: 'reasoning-delta',
    choice,
    detail: { type: 'reasoning.text', format: 'anthropic-claude-v1', index: 0, ...detail },
  })
  const start = (choice: number, call: number, id: string): ContentEvent => ({
    kind: 'tool-call-start',
    choice,
    call,
    id,
    name: 'look',
    thoughtSignature: undefined,
  })
  const end = (choice: number): ContentEvent => ({
    kind: 'choice-finish',
    choice,
    reason: 'tool_calls',
    native: 'tool_use',
  })

  test('has its pieces joined, under the first call of each choice', () => {
    const events = [
      thought(0, { text: 'The ' }),
      thought(1, { text: 'A ' }),
      thought(0, { text: 'river.' }),
      thought(0, { signature: 'c2ln' }),
      start(0, 0, 'call_1'),
      start(0, 1, 'call_2'),
      end(0),
      thought(1, { text: 'weir.' }),
      start(1, 0, 'call_3'),
      end(1),
    ]
    expect(kept(events)).toMatchObject([
      [{ id: 'call_1' }, [{ text: 'The river.', signature: 'c2ln' }]],
      [{ id: 'call_3' }, [{ text: 'A weir.' }]],
    ])
  })

  test('without a call, or without a thought, leaves nothing', () => {
    expect(kept([thought(0, { text: 'The river.' }), end(0)])).toEqual([])
    expect(kept([start(0, 0, 'call_1'), end(0)])).toEqual([])
  })
})

describe('the next request', () => {
  const thoughts = new Thoughts()
  const candidates = [{ provider: { id: 'a' } }] as Candidate[]
  const call = { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{}' } }
  const asked = (assistant: JsonObject) => {
    const messages: JsonObject[] = [
      { role: 'user', content: 'Look.' },
      { role: 'assistant', content: null, tool_calls: [call], ...assistant },
      { role: 'tool', tool_call_id: 'call_1', content: 'seen' },
    ]
    return callOf({ model: 'a/m', messages })
  }
  thoughts.keep({ account: asked({}).caller.account.id, line: '', provider: 'a' }, called, [signed])
  const reasoningOf = ({ request }: IncomingCall) =>
    request
      .toChatRequest()
      .messages.flatMap((message) => (message.role === 'assistant' ? message.reasoning : []))

  test.each<[string, JsonObject]>([
    ['has sent nothing of it', {}],
    ['has sent its text', { reasoning_content: 'The river rises.' }],
  ])('has it where the client %s, and it is held for', (_, assistant) => {
    const before = asked(assistant)
    const after = withThoughts(thoughts, before, candidates)
    expect(reasoningOf(after)).toEqual([signed])
    expect(after.bodyBytes - before.bodyBytes).toBeGreaterThan(signed.text!.length)
    expect(after.request.promptParts.reading().texts).toContain(signed.text!)
    expect(after.request.promptParts.content().texts).toContain(signed.text!)
  })

  test('is as the client sent it where that is signed', () => {
    const own = { ...signed, text: 'My own.', signature: 'b3du' }
    const before = asked({ reasoning_details: [own as unknown as JsonObject] })
    expect(withThoughts(thoughts, before, candidates)).toBe(before)
  })

  test('is as it was for another provider, and where nothing is known', () => {
    const before = asked({})
    expect(withThoughts(thoughts, before, [{ provider: { id: 'b' } }] as Candidate[])).toBe(before)
    expect(withThoughts(new Thoughts(), before, candidates)).toBe(before)
  })
})
