import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { z } from 'zod'
import { chatCompletionRequest } from '../../src/protocols/openai-chat/inbound/schema.ts'
import { responsesRequest } from '../../src/protocols/openai-responses/inbound/schema.ts'
import { checkRequest, messagesRequest } from '../../src/protocols/anthropic-messages/inbound/schema.ts'
import { isPlainField } from '../../src/protocols/request/fields.ts'

const schemas: readonly Readonly<Record<string, z.ZodType>>[] = [
  chatCompletionRequest.shape,
  messagesRequest.unwrap().shape,
  responsesRequest.shape,
]
const names = [
  'model',
  'messages',
  'input',
  'instructions',
  'max_tokens',
  'max_output_tokens',
  'temperature',
  'top_p',
  'stream',
  'store',
]
const said = fc.record({ role: fc.constantFrom('user', 'assistant', 'system'), content: fc.string() })
const odd = fc.record(
  {
    role: fc.constantFrom('user', 'assistant', 'developer', 'tool', 'User', 1),
    content: fc.oneof(fc.string(), fc.constantFrom(null, 1, [])),
    name: fc.constantFrom('x', null),
    ['__proto__']: fc.constant({}),
  },
  { requiredKeys: ['role'] },
)
const message = fc.oneof({ weight: 4, arbitrary: said }, odd)
const value = fc.oneof(
  fc.string(),
  fc.constantFrom('x'.repeat(512), 'x'.repeat(513), '', true, false, null, undefined, -0, 0, 1, 2, 2.1, 1.5),
  fc.constantFrom(Number.NaN, Infinity, -Infinity, 2 ** 53, 2 ** 53 - 1, -1, [], {}),
  fc.double(),
  fc.array(message, { maxLength: 3 }),
)

describe('a plain field', () => {
  test.each(names)('%s is one that every schema allows', (name) => {
    let plain = 0
    fc.assert(
      fc.property(value, (given) => {
        if (!isPlainField(name, given)) return
        plain++
        for (const { [name]: schema } of schemas)
          if (schema) expect(schema.safeParse(given).success).toBe(true)
      }),
      { seed: 15, numRuns: 3_000 },
    )
    expect(plain).toBeGreaterThan(20)
  })

  test('is only one of these', () => {
    for (const name of schemas.flatMap(Object.keys)) {
      const plain = isPlainField(name, 1) || isPlainField(name, 'x') || isPlainField(name, true)
      expect([name, plain && !names.includes(name)]).toEqual([name, false])
    }
  })

  test('of a body of the Messages API means what the schema makes of it', () => {
    const body = { model: 'a/b', stream: true, messages: [{ content: 'x', role: 'user' }], max_tokens: 5 }
    expect(checkRequest(body)).toEqual(messagesRequest.parse(body))
    expect(() => checkRequest({ ...body, max_tokens: undefined })).toThrow('max_tokens')
    expect(() => checkRequest({ model: 'a/b', max_tokens: 5 })).toThrow('messages')
    expect(() => checkRequest({ ...body, thread: 'x' })).toThrow('thread')
  })
})
