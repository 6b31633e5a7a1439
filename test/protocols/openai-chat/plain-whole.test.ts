// A plain answer read at once is what its events would be collected to; what is not plain is left to them.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { collect } from '../../../src/conversation/event.ts'
import { plainWhole, wholeEvents } from '../../../src/protocols/openai-chat/outbound/parse.ts'
import { defaultQuirks } from '../../../src/protocols/openai-chat/outbound/quirks.ts'
import { recordedAnswers } from '../recorded-hosts.ts'
import { chatHosts } from './dialects.ts'

const thinking = { ...defaultQuirks, thinkTags: true }

describe('a whole answer read at once', () => {
  test('is the same as by its events, for every recording that it is for', () => {
    let plain = 0
    for (const host of chatHosts) {
      for (const { frames, chunks, events } of recordedAnswers([host])) {
        const read = frames === undefined ? plainWhole(chunks[0], host.quirks) : undefined
        if (!read) continue
        plain++
        expect(read).toEqual(collect(events))
      }
    }
    expect(plain).toBeGreaterThan(30)
  })

  const odd = fc.oneof(
    fc.constantFrom(null, '', 0, -1, 0.5, 1, true, 'null', 'stop', 'length', 'error', 'tool_calls'),
    fc.constantFrom<unknown>([], [{}], {}, { content: [] }, { message: 'no' }, ['x']),
  )
  const rarely = fc.oneof({ weight: 15, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: odd })
  const text = fc.oneof(
    fc.string(),
    fc.constantFrom('', ' ', '<think>a</think>b', 'a<b', ' <think>', '\n\nword'),
  )
  const message = fc.record(
    {
      role: fc.constantFrom('assistant', 'tool'),
      content: fc.oneof({ weight: 5, arbitrary: text }, { weight: 1, arbitrary: odd }),
      refusal: rarely,
      annotations: rarely,
      audio: rarely,
      images: rarely,
      tool_calls: rarely,
      function_call: rarely,
      reasoning: rarely,
      reasoning_content: rarely,
      reasoning_details: rarely,
      extra_content: rarely,
    },
    { requiredKeys: ['content'] },
  )
  const choice = fc.record(
    {
      index: odd,
      message: fc.oneof({ weight: 9, arbitrary: message }, { weight: 1, arbitrary: odd }),
      delta: message,
      finish_reason: odd,
      logprobs: rarely,
      error: rarely,
      usage: fc.constantFrom(null, { prompt_tokens: 3, completion_tokens: 2 }),
    },
    { requiredKeys: ['message'] },
  )
  const body = fc.record(
    {
      id: odd,
      model: odd,
      choices: fc.oneof(
        { weight: 6, arbitrary: fc.array(choice, { minLength: 1, maxLength: 1 }) },
        { weight: 1, arbitrary: fc.array(choice, { maxLength: 3 }) },
        { weight: 1, arbitrary: odd },
      ),
      usage: fc.constantFrom(null, {}, { prompt_tokens: 3, completion_tokens: 2, total_tokens: 9 }),
      error: rarely,
      detail: rarely,
      object: fc.constantFrom('chat.completion', 'chat.completion', 'error'),
    },
    { requiredKeys: ['choices'] },
  )

  test('is the same as by its events, for whatever a provider may send', () => {
    let plain = 0
    fc.assert(
      fc.property(body, fc.boolean(), (sent, tags) => {
        const quirks = tags ? thinking : defaultQuirks
        const read = plainWhole(sent, quirks)
        if (!read) return
        plain++
        expect(read).toEqual(collect(wholeEvents(sent, quirks)))
      }),
      { numRuns: 8_000 },
    )
    expect(plain).toBeGreaterThan(100)
  })

  test.each([
    ['a failure', { choices: [{ message: { content: 'x' } }], error: { message: 'no' } }],
    ['a call', { choices: [{ message: { content: 'x', tool_calls: [{ id: 'c' }] } }] }],
    ['several choices', { choices: [{ message: { content: 'x' } }, { message: { content: 'y' } }] }],
    ['a field nobody knows', { choices: [{ message: { content: 'x', surprise: 1 } }] }],
    ['a reason that is a failure', { choices: [{ message: { content: 'x' }, finish_reason: 'error' }] }],
  ])('%s is left to the events', (_, sent) => {
    expect(plainWhole(sent, defaultQuirks)).toBeUndefined()
  })
})
