// OpenAI refuses "object schema missing properties", which clients of the other protocols may send.

import { expect, test } from 'bun:test'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { parametersOf } from '../../../src/protocols/openai/parameters.ts'

const properties = { a: { type: 'object' } }
const choice = { anyOf: [{ type: 'object', properties }] }

test.each<[JsonObject | undefined, JsonObject]>([
  [undefined, { type: 'object', properties: {} }],
  [{}, { type: 'object', properties: {} }],
  [{ type: 'object' }, { type: 'object', properties: {} }],
  [
    { type: 'object', additionalProperties: true },
    { type: 'object', additionalProperties: true, properties: {} },
  ],
  [{ properties }, { type: 'object', properties }],
  [
    { type: 'object', properties },
    { type: 'object', properties },
  ],
  // Who has its type from others, or another one, is the provider's to judge.
  [choice, choice],
  [{ $ref: '#/$defs/a' }, { $ref: '#/$defs/a' }],
  [{ type: ['object', 'null'] }, { type: ['object', 'null'] }],
])('the parameters %j are sent as %j', (parameters, sent) => {
  const tool = { name: 'f', description: undefined, strict: undefined, cache: undefined }
  expect(parametersOf({ ...tool, parameters })).toEqual(sent)
})
