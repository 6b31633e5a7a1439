// JSON Schema as older models read it: what is translated, what is dropped and named, and that nothing runs away.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { Json, JsonObject } from '../../../src/conversation/request.ts'
import { parseExact } from '../../../src/json/json.ts'
import { toSubset } from '../../../src/protocols/gemini/schema-subset.ts'

describe('translated', () => {
  test.each<[string, JsonObject, JsonObject, string[]]>([
    ['a nullable type', { type: ['string', 'null'] }, { type: 'string', nullable: true }, []],
    [
      'several types',
      { type: ['string', 'integer'], description: 'd' },
      { description: 'd', anyOf: [{ type: 'string' }, { type: 'integer' }] },
      [],
    ],
    [
      'null among alternatives',
      { anyOf: [{ type: 'integer' }, { type: 'null' }] },
      { type: 'integer', nullable: true },
      [],
    ],
    [
      'oneOf',
      { oneOf: [{ type: 'integer' }, { type: 'string' }] },
      { anyOf: [{ type: 'integer' }, { type: 'string' }] },
      [],
    ],
    ['a constant', { const: 'a' }, { type: 'string', enum: ['a'] }, []],
    [
      'an enumeration with null',
      { enum: ['a', null], type: 'string' },
      { type: 'string', enum: ['a'], nullable: true },
      [],
    ],
    [
      'exclusive bounds beyond 2^53',
      parseExact('{"exclusiveMaximum":9007199254740995,"enum":[9007199254740993]}') as JsonObject,
      { type: 'number', maximum: 9007199254740996 },
      ['enum'],
    ],
    [
      'exclusive bounds of integers',
      { type: 'integer', exclusiveMinimum: 0, exclusiveMaximum: 10 },
      { type: 'integer', minimum: 1, maximum: 9 },
      [],
    ],
    [
      'exclusive bounds of numbers',
      { type: 'number', exclusiveMinimum: 0, minimum: -5 },
      { type: 'number', minimum: 0 },
      [],
    ],
    [
      'references',
      {
        type: 'object',
        properties: { a: { $ref: '#/$defs/A', description: 'this one' } },
        $defs: { A: { type: 'string' } },
      },
      { type: 'object', properties: { a: { type: 'string', description: 'this one' } } },
      [],
    ],
    [
      'allOf',
      {
        allOf: [
          { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] },
          { properties: { b: { type: 'number' } }, required: ['b'] },
        ],
      },
      { type: 'object', properties: { a: { type: 'string' }, b: { type: 'number' } }, required: ['a', 'b'] },
      [],
    ],
    [
      'what has no effect',
      { $schema: 's', $id: 'i', type: 'string', examples: ['x'] },
      { type: 'string' },
      [],
    ],
    [
      'closed objects',
      { type: 'object', properties: {}, additionalProperties: false },
      { type: 'object', properties: {} },
      [],
    ],
    [
      'required names without a property',
      { type: 'object', properties: {}, required: ['x'] },
      { type: 'object', properties: {} },
      [],
    ],
    ['lists of anything', { type: 'array' }, { type: 'array', items: { type: 'string' } }, []],
    [
      'tuples',
      { prefixItems: [{ type: 'string' }, { type: 'integer' }] },
      { type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'integer' }] } },
      ['prefixItems'],
    ],
    ['known formats', { type: 'string', format: 'date-time' }, { type: 'string', format: 'date-time' }, []],
    ['other formats', { type: 'string', format: 'email' }, { type: 'string' }, ['format']],
    ['numbers to choose from', { enum: [1, 2] }, { type: 'number' }, ['enum']],
    [
      'constraints without a word',
      { type: 'object', properties: {}, patternProperties: {}, propertyNames: {} },
      { type: 'object', properties: {} },
      ['patternProperties', 'propertyNames'],
    ],
    [
      'alternatives beside properties',
      {
        type: 'object',
        properties: { a: { type: 'string' } },
        anyOf: [{ required: ['a'] }, { required: ['b'] }],
      },
      { type: 'object', properties: { a: { type: 'string' } } },
      ['anyOf'],
    ],
    ['a reference to nowhere', { $ref: '#/$defs/None' }, { type: 'object' }, ['$ref']],
    ['a reference outside', { $ref: 'https://example.com/schema' }, { type: 'object' }, ['$ref']],
    [
      'a property named like a keyword',
      { type: 'object', properties: { $ref: { type: 'string' } } },
      { type: 'object', properties: { $ref: { type: 'string' } } },
      [],
    ],
  ])('%s', (_, schema, subset, dropped) => {
    expect(toSubset(schema)).toEqual({ schema: subset, dropped })
  })
})

describe('bounded', () => {
  test('a recursive schema ends in a plain object', () => {
    const node = { type: 'object', properties: { next: { $ref: '#' } } }
    const { schema, dropped } = toSubset(node)
    expect(JSON.stringify(schema).length).toBeLessThan(500)
    expect(dropped).toEqual(['$ref'])
  })

  test('references that double at every level stop', () => {
    const $defs: JsonObject = {}
    for (let level = 0; level < 40; level++) {
      const next = { $ref: `#/$defs/d${level + 1}` }
      $defs[`d${level}`] = { type: 'object', properties: { a: next, b: next } }
    }
    const { schema, dropped } = toSubset({ $ref: '#/$defs/d0', $defs })
    expect(JSON.stringify(schema).length).toBeLessThan(500_000)
    expect(dropped).toContain('nesting')
  })

  test.each<[string, JsonObject]>([
    ['allOf of itself', { allOf: [{ $ref: '#' }] }],
    [
      'two that are each other',
      { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } },
    ],
    [
      'allOf in a circle',
      {
        $ref: '#/$defs/a',
        $defs: { a: { allOf: [{ $ref: '#/$defs/b' }] }, b: { allOf: [{ $ref: '#/$defs/a' }] } },
      },
    ],
  ])('%s ends', (_, schema) => {
    expect(toSubset(schema).dropped).not.toEqual([])
  })
})

test('whatever comes in, only words of the subset come out, and a second conversion changes nothing', () => {
  const allowed = new Set(
    'type format title description nullable default items minItems maxItems enum properties propertyOrdering required minProperties maxProperties minimum maximum minLength maxLength pattern anyOf'.split(
      ' ',
    ),
  )
  const check = (schema: Json): void => {
    const object = schema as JsonObject
    for (const key of Object.keys(object)) expect(allowed).toContain(key)
    for (const member of Object.values((object['properties'] ?? {}) as JsonObject)) check(member)
    for (const each of (object['anyOf'] ?? []) as Json[]) check(each)
    if (object['items'] !== undefined) check(object['items'])
  }
  const { schema } = fc.letrec((tie) => ({
    schema: fc.oneof(
      { maxDepth: 4 },
      fc.record({
        type: fc.constantFrom(
          'string',
          'integer',
          'number',
          'boolean',
          ['string', 'null'],
          ['integer', 'string'],
        ),
      }),
      fc.record({ enum: fc.array(fc.oneof(fc.string(), fc.integer())) }),
      fc.record({ anyOf: fc.array(tie('schema'), { minLength: 1, maxLength: 3 }) }),
      fc.record({ allOf: fc.array(tie('schema'), { maxLength: 3 }) }),
      fc.record({ type: fc.constant('array'), items: tie('schema') }),
      fc.record({
        type: fc.constant('object'),
        properties: fc.dictionary(fc.string(), tie('schema')),
        not: fc.constant({}),
      }),
      fc.record({ $ref: fc.constantFrom('#', '#/properties/a', '#/x') }),
    ),
  }))
  fc.assert(
    fc.property(schema, (value) => {
      const once = toSubset(value as JsonObject)
      check(once.schema)
      expect(toSubset(once.schema).schema).toEqual(once.schema)
    }),
    { numRuns: 200 },
  )
})
