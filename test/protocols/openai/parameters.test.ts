// OpenAI refuses "object schema missing properties", and alternatives at the root; clients of other protocols send both.

import { describe, expect, test } from 'bun:test'
import type { FunctionTool, JsonObject } from '../../../src/conversation/request.ts'
import { parametersOf, withRootObjects } from '../../../src/protocols/openai/parameters.ts'
import { chat } from '../../support/conversation.ts'

const properties = { a: { type: 'object' } }

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
  // What has another type is the provider's to judge.
  [{ type: ['object', 'null'] }, { type: ['object', 'null'] }],
])('the parameters %j are sent as %j', (parameters, sent) => {
  const tool = { name: 'f', description: undefined, strict: undefined, cache: undefined }
  expect(parametersOf({ ...tool, parameters })).toEqual(sent)
})

describe('a schema whose root is no plain object', () => {
  const a = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] }
  const b = { type: 'object', properties: { b: { type: 'number' } }, required: ['b'] }
  const both = { a: { type: 'string' }, b: { type: 'number' } }
  const sentFor = (parameters: JsonObject, more: Partial<FunctionTool> = {}) => {
    const tool = { name: 'f', description: 'D', strict: undefined, cache: undefined, parameters, ...more }
    const { request, warnings } = withRootObjects(chat({ tools: [tool] }))
    return { ...request.tools[0]!, warnings }
  }

  test.each<[JsonObject, JsonObject]>([
    [
      { $ref: '#/$defs/a', $defs: { a } },
      { ...a, $defs: { a } },
    ],
    [{ allOf: [a, b] }, { type: 'object', properties: both, required: ['a', 'b'] }],
  ])('%j is %j, and says the same', (parameters, schema) => {
    const sent = sentFor(parameters, { strict: true })
    expect(sent).toMatchObject({ description: 'D', strict: true, warnings: [] })
    expect(sent.parameters).toEqual(schema)
  })

  test.each<[JsonObject, JsonObject]>([
    [{ anyOf: [a, b] }, { anyOf: [a, b] }],
    [{ type: 'object', oneOf: [a, b] }, { oneOf: [a, b] }],
    [{ anyOf: [{ $ref: '#/$defs/a' }, b], $defs: { a } }, { anyOf: [{ $ref: '#/$defs/a' }, b] }],
  ])('%j has all members, and its description says which go together', (parameters, rule) => {
    const sent = sentFor(parameters, { strict: true })
    expect(sent.parameters).toMatchObject({ type: 'object', properties: both })
    for (const keyword of ['anyOf', 'oneOf', 'allOf', '$ref'])
      expect(sent.parameters).not.toHaveProperty(keyword)
    expect(sent.description).toBe(
      `D\n\nThe arguments must also match this JSON Schema: ${JSON.stringify(rule)}`,
    )
    expect(sent.strict).toBe(false)
    expect(sent.warnings.map(({ param }) => param)).toEqual(['tools'])
  })

  test('what may not be says so in words', () => {
    expect(sentFor({ ...a, not: b }).description).toContain(JSON.stringify({ not: b }))
    expect(sentFor({ ...a, not: b }).parameters).toEqual(a)
  })

  test('a plain object is as it was', () => {
    const request = chat({
      tools: [{ name: 'f', description: '', strict: true, cache: undefined, parameters: a }],
    })
    expect(withRootObjects(request).request).toBe(request)
  })
})
