// Which texts of a value the guards see, and what becomes of it when they change.

import { describe, expect, test } from 'bun:test'
import { partsSteps, withTextsSteps } from '../../src/guards/masks.ts'
import { atOnce } from '../../src/json/json.ts'
import { promptParts, replacedPrompt } from '../../src/protocols/request/prompt-parts.ts'

const partsOf = (value: unknown) => atOnce(partsSteps(value))
const withTexts = <Value>(value: Value, texts: readonly string[]) => atOnce(withTextsSteps(value, texts))
const upper = <Value>(value: Value): Value =>
  withTexts(
    value,
    partsOf(value).map(({ text }) => text.toUpperCase()),
  )

const request = {
  messages: [
    { role: 'system', content: [{ kind: 'text', text: 'be kind', cache: undefined }] },
    {
      role: 'assistant',
      content: [],
      reasoning: [{ type: 'reasoning.text', format: 'unknown', index: 0, text: 'hm' }],
      toolCalls: [{ id: 'call_a', name: 'send', arguments: '{"a":"b"}', thoughtSignature: 'sig' }],
    },
    {
      role: 'user',
      content: [
        { kind: 'image', source: { kind: 'url', url: 'https://a.b/c' }, detail: 'auto' },
        {
          kind: 'file',
          filename: 'notes.txt',
          source: { kind: 'base64', mediaType: 'text/plain', data: btoa('words') },
        },
        {
          kind: 'file',
          filename: 'a.pdf',
          source: { kind: 'base64', mediaType: 'application/pdf', data: btoa('words') },
        },
      ],
    },
  ],
  tools: [
    {
      name: 'send',
      description: 'sends',
      parameters: { type: 'object', properties: { a: { enum: ['x'] } } },
    },
  ],
  labels: { user: 'someone' },
  sampling: { stop: ['end'], temperature: 1 },
  rest: {},
}

test('words are seen, with whose they are; names, ids, addresses and seals are not', () => {
  expect(partsOf(request).map(({ id, role, kind, text }) => `${id} ${role} ${kind} ${text}`)).toEqual([
    'messages.0.content.0.text system text be kind',
    'messages.1.reasoning.0.text assistant text hm',
    'messages.1.toolCalls.0.arguments assistant arguments {"a":"b"}',
    'messages.2.content.1.filename user text notes.txt',
    'messages.2.content.1.source.data user text words',
    'messages.2.content.2.filename user text a.pdf',
    'tools.0.description tools text sends',
    'tools.0.parameters.properties.a.enum.0 tools text x',
    'labels.user labels text someone',
    'sampling.stop.0 sampling text end',
  ])
})

test('what is the same stays the same object, and the rest is copied', () => {
  const texts = partsOf(request).map(({ text }) => text)
  expect(withTexts(request, texts)).toBe(request)
  const changed = withTexts(
    request,
    texts.map((text) => (text === 'sends' ? 'SENDS' : text)),
  )
  expect(changed.messages).toBe(request.messages)
  expect(changed.tools[0]).toEqual({ ...request.tools[0]!, description: 'SENDS' })
})

test('a text file is written as it was', () => {
  const { source } = upper(request).messages[2]!.content[1] as { source: { data: string } }
  expect(atob(source.data)).toBe('WORDS')
})

test('a name that objects have is a member like any other', () => {
  const value = JSON.parse('{"a":{"__proto__":"words","constructor":"words"}}') as object
  expect(JSON.stringify(upper(value))).toBe('{"a":{"__proto__":"WORDS","constructor":"WORDS"}}')
})

describe('what is signed', () => {
  const signed = {
    type: 'reasoning.text',
    format: 'anthropic-claude-v1',
    index: 0,
    text: 'hm',
    signature: 'sig',
  }
  const sealed = {
    type: 'reasoning',
    summary: [{ type: 'summary_text', text: 'so' }],
    encrypted_content: 'x',
  }
  const value = {
    a: [signed, { text: 'other' }],
    items: [{ at: 1, item: sealed, param: 'p' }, { text: 'last' }],
  }

  test('is withheld as a whole where it would change', () => {
    expect(upper(value)).toEqual({ a: [{ text: 'OTHER' }], items: [{ text: 'LAST' }] } as never)
  })

  test('and stays where nothing of it does', () => {
    const texts = partsOf(value).map(({ text, signed: isSigned }) => (isSigned ? text : text.toUpperCase()))
    expect(withTexts(value, texts)).toEqual({
      a: [signed, { text: 'OTHER' }],
      items: [value.items[0], { text: 'LAST' }],
    } as never)
  })
})

test('a prompt is measured by what stands in its place', () => {
  const body = { messages: [{ role: 'user', content: 'a long secret' }] }
  const prompt = replacedPrompt(
    promptParts(body, { conversation: 'messages', declared: [] }),
    new Map([['a long secret', 'x']]),
  )
  expect(prompt.reading().texts).toEqual(['x'])
  expect(prompt.content().texts).not.toContain('a long secret')
})
