// What a client of Anthropic's protocol may send, for providers of other protocols: nothing that they would refuse or
// misread goes on, and nothing that was asked for goes missing without a word.

import { describe, expect, test } from 'bun:test'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { inbound } from '../../../src/protocols/anthropic-messages/inbound/inbound.ts'
import { outbound } from '../../../src/protocols/anthropic-messages/outbound/outbound.ts'
import { target } from './support.ts'

const bare = { model: 'lab/m', max_tokens: 100, messages: [{ role: 'user', content: 'x' }] }

function lowered(fields: JsonObject) {
  const { request, warnings } = inbound.forOtherProtocols!(
    inbound.parse({ ...bare, ...fields }).toChatRequest(),
  )
  return { request, warned: warnings.map(({ param }) => param) }
}

describe('a field that only Anthropic knows', () => {
  test.each<[string, JsonObject, string[]]>([
    ['is named', { context_management: { edits: [] } }, ['context_management']],
    ['is named, also when nobody here knows it', { mystery: 1 }, ['mystery']],
    [
      'is named, inside of output_config',
      { output_config: { task_budget: {} } },
      ['output_config.task_budget'],
    ],
    ['is not named where it changes no answer', { betas: ['a'], cache_control: { type: 'ephemeral' } }, []],
    ['is not named where it is told in other words', { thinking: { type: 'adaptive' } }, []],
  ])('%s', (_, fields, params) => {
    const { request, warned } = lowered(fields)
    expect(warned).toEqual(params)
    expect(request.rest).toEqual({})
  })
})

describe("Claude Code's accounting line, which differs in each conversation", () => {
  const line = 'x-anthropic-billing-header: cc_version=2.1.197.baf; cc_entrypoint=cli; cch=71fea;'
  const block = (text: string) => ({ type: 'text', text })
  const systemOf = (system: JsonObject['system']) =>
    lowered({ system: system! }).request.messages.flatMap(({ role, content }) =>
      role === 'system' ? content.map((part) => (part.kind === 'text' ? part.text : part.kind)) : [],
    )

  test.each<[string, JsonObject['system'], string[]]>([
    ['a block of its own', [block(line), block('You are an agent.')], ['You are an agent.']],
    ['the first line of a text', `${line}\nYou are an agent.\nBe brief.`, ['You are an agent.\nBe brief.']],
    ['all there is', line, []],
    ['what a prompt speaks of, as it stays', [block(`Never say ${line}`)], [`Never say ${line}`]],
  ])('is not sent to others: %s', (_, system, sent) => {
    expect(systemOf(system)).toEqual(sent)
  })

  test('reaches Anthropic, which reads it', () => {
    const system = [block(line), block('You are an agent.')]
    const sent = outbound.passthrough!.request!({ ...bare, system }, target(), [], undefined)
    expect(sent?.body['system']).toEqual(system)
  })
})

describe('a document', () => {
  const source = { type: 'text', media_type: 'text/plain', data: 'The river rises.' }
  const described = { title: 'Rivers', context: 'A report of 1907.', citations: { enabled: true } }
  const bodyWith = (document: JsonObject, place: 'said' | 'found') => {
    const block = { type: 'document', source, ...document }
    if (place === 'said') return { messages: [{ role: 'user', content: [block] }] }
    const result = { type: 'tool_result', tool_use_id: 'toolu_1', content: [block] }
    return {
      messages: [
        ...bare.messages,
        { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'f', input: {} }] },
        { role: 'user', content: [result] },
      ],
    }
  }
  const file = { kind: 'file', source: { kind: 'base64' } }
  const text = (said: string) => ({ kind: 'text', text: said })

  test.each<[JsonObject, object[], string[]]>([
    [described, [text('Rivers\nA report of 1907.'), { ...file, filename: 'Rivers' }], ['citations']],
    [{ title: 'Rivers' }, [text('Rivers'), { ...file, filename: 'Rivers' }], []],
    [{ context: 'A report.' }, [text('A report.'), file], []],
    [{ citations: { enabled: true } }, [file], ['citations']],
    [{ title: null, context: null, citations: { enabled: false } }, [file], []],
  ])('with %p is told in words, and citations are named', (document, parts, params) => {
    for (const place of ['said', 'found'] as const) {
      const { request, warned } = lowered(bodyWith(document, place))
      expect(request.messages.at(-1)!.content).toMatchObject(parts)
      expect(request.messages.at(-1)!.content).toHaveLength(parts.length)
      expect(JSON.stringify(request.messages)).not.toContain('cited')
      expect(warned).toEqual(params)
    }
  })

  test('that is translated for Anthropic keeps its description', () => {
    const { body, warnings } = outbound.lower(
      inbound.parse({ ...bare, ...bodyWith(described, 'said') }).toChatRequest(),
      target(),
    )
    expect((body['messages'] as JsonObject[])[0]!['content']).toEqual([
      { type: 'document', source, title: 'Rivers', context: 'A report of 1907.' },
    ])
    // Only an answer that passes as it is can hold them.
    expect(warnings.map(({ param }) => param)).toEqual(['citations'])
  })
})

describe('how hard to think', () => {
  test.each<[JsonObject, object | undefined]>([
    [{ thinking: { type: 'enabled', budget_tokens: 2048 } }, { enabled: true, maxTokens: 2048 }],
    [
      { thinking: { type: 'adaptive' }, output_config: { effort: 'low' } },
      { enabled: true, effort: 'low' },
    ],
    [{ thinking: { type: 'disabled' } }, { enabled: false }],
    [{ output_config: { effort: 'high' } }, { effort: 'high' }],
    [{ output_config: { effort: 'mighty' } }, undefined],
    [{}, undefined],
  ])('of %j', (fields, reasoning) => {
    expect(lowered(fields).request.reasoning).toEqual(reasoning as object)
  })

  test('is left to Claude where a client gives an effort and asks for no thinking', () => {
    const request = inbound.parse({ ...bare, output_config: { effort: 'high' } }).toChatRequest()
    expect(request.reasoning).toBeUndefined()
    expect(request.rest).toEqual({ output_config: { effort: 'high' } })
  })
})

const own = { name: 'lookup', input_schema: { type: 'object' } }

test('the search among tools is left out by name, and those of the client stay', () => {
  const { request, warned } = lowered({
    tools: [{ type: 'tool_search_tool_regex_20251119', name: 'x' }, own],
  })
  expect(request.tools.map(({ name }) => name)).toEqual(['lookup'])
  expect(warned).toEqual(['tools'])
})

// https://platform.claude.com/docs/en/api/messages: consecutive turns of one role are combined.
test('messages of the assistant in a row are one turn, whose calls are answered together', () => {
  const use = (id: string) => ({
    role: 'assistant',
    content: [{ type: 'tool_use', id, name: 'lookup', input: {} }],
  })
  const results = ['1', '2'].map((tool_use_id) => ({ type: 'tool_result', tool_use_id, content: 'x' }))
  const parsed = inbound.parse({
    ...bare,
    tools: [own],
    messages: [
      { role: 'user', content: 'x' },
      { role: 'assistant', content: 'I look.' },
      use('1'),
      use('2'),
      { role: 'user', content: results },
    ],
  })
  const { messages } = parsed.toChatRequest()
  expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'tool'])
  expect(messages[1]).toMatchObject({ content: [{ text: 'I look.' }], toolCalls: [{ id: '1' }, { id: '2' }] })
  expect(parsed.fields!.messages()).toEqual(['messages.0', 'messages.1', 'messages.4', 'messages.4'])
})

test('what a search of the client among its tools has found is read', () => {
  const found = [{ type: 'tool_reference', tool_name: 'lookup' }]
  const { request } = lowered({
    tools: [own],
    messages: [
      { role: 'user', content: 'x' },
      { role: 'assistant', content: [{ type: 'tool_use', id: '1', name: 'find', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: '1', content: found }] },
    ],
  })
  expect(request.messages.at(-1)).toMatchObject({ role: 'tool', content: [{ text: 'lookup' }] })
})

test.each(['bash_20250124', 'computer_20250124'])(
  'a tool of type %s is refused: no other model knows it',
  (type) => {
    expect(() => lowered({ tools: [{ type, name: 'x' }, own] })).toThrow(type)
  },
)

test('the name of a user is never longer than other providers take, and stays another for another user', () => {
  const user = (user_id: string) => lowered({ metadata: { user_id } }).request.labels.user!
  expect(user('ada')).toBe('ada')
  const [one, two] = [user(`user_${'0'.repeat(200)}`), user(`user_${'0'.repeat(199)}1`)]
  expect([one.length, two.length]).toEqual([64, 64])
  expect(one).not.toBe(two)
})
