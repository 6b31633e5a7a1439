// The instances that the simulated provider makes are allowed by the schemas they are made for.

import { describe, expect, test } from 'bun:test'
import { type Schema, Validator } from '@cfworker/json-schema'
import fc from 'fast-check'
import type { Json, JsonObject } from '../../src/conversation/request.ts'
import { instanceOf, sampleOf } from '../../src/providers/simulator/answer.ts'

const errorsOf = (schema: JsonObject) =>
  new Validator(schema as Schema, '2020-12').validate(instanceOf(schema)).errors.map(({ error }) => error)

describe('an instance', () => {
  test.each<[string, JsonObject]>([
    [
      'nested objects',
      {
        type: 'object',
        properties: { a: { type: 'object', properties: { b: { type: 'integer' } }, required: ['b'] } },
        required: ['a'],
      },
    ],
    [
      'enums',
      { type: 'object', properties: { unit: { type: 'string', enum: ['c', 'f'] } }, required: ['unit'] },
    ],
    ['required keys without a property', { type: 'object', required: ['free'] }],
    ['nullable types', { type: ['null', 'number'] }],
    [
      'anyOf with null',
      { anyOf: [{ type: 'null' }, { type: 'array', items: { type: 'boolean' }, minItems: 2 }] },
    ],
    [
      'allOf',
      {
        allOf: [
          { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] },
          { properties: { b: { type: 'null' } }, required: ['b'] },
        ],
      },
    ],
    [
      'definitions',
      {
        $ref: '#/$defs/p',
        $defs: {
          p: { type: 'object', properties: { x: { $ref: '#/$defs/n' } }, required: ['x'] },
          n: { type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 1 },
        },
      },
    ],
    [
      'recursion',
      {
        type: 'object',
        properties: { next: { anyOf: [{ $ref: '#' }, { type: 'null' }] } },
        required: ['next'],
      },
    ],
    [
      'recursion through arrays',
      {
        type: 'object',
        properties: { children: { type: 'array', items: { $ref: '#' } } },
        required: ['children'],
      },
    ],
    [
      'tuples',
      { type: 'array', prefixItems: [{ type: 'string' }, { type: 'integer' }], items: false, minItems: 2 },
    ],
    ['sets', { type: 'array', items: { type: 'integer' }, minItems: 4, uniqueItems: true }],
    ['bounds', { type: 'integer', minimum: 10, maximum: 12, multipleOf: 4 }],
    ['lengths', { type: 'string', minLength: 40, maxLength: 50 }],
    ['short strings', { type: 'string', maxLength: 2 }],
    [
      'formats',
      {
        type: 'object',
        properties: {
          on: { type: 'string', format: 'date' },
          who: { type: 'string', format: 'email' },
          id: { type: 'string', format: 'uuid' },
        },
        required: ['on', 'who', 'id'],
      },
    ],
    ['patterns', { type: 'string', pattern: '^[A-Z]{2}-\\d{4}$' }],
    ['maps', { type: 'object', additionalProperties: { type: 'number' }, minProperties: 2 }],
    ['const', { const: { a: [1] } }],
  ])('fits %s', (_, schema) => {
    expect(errorsOf(schema)).toEqual([])
  })

  test('fits any schema made of the usual keywords', () => {
    const { schema } = fc.letrec<{
      schema: JsonObject
      leaf: JsonObject
      object: JsonObject
      array: JsonObject
    }>((tie) => ({
      leaf: fc.oneof(
        fc.constantFrom<JsonObject>(
          { type: 'string' },
          { type: 'boolean' },
          { type: 'null' },
          { type: 'number' },
        ),
        fc
          .tuple(fc.integer({ min: -50, max: 50 }), fc.nat(20))
          .map(([minimum, more]): JsonObject => ({ type: 'integer', minimum, maximum: minimum + more })),
        fc
          .array(fc.oneof(fc.string(), fc.integer()), { minLength: 1, maxLength: 4 })
          .map((values): JsonObject => ({ enum: values })),
      ),
      object: fc
        .dictionary(fc.stringMatching(/^[a-z]{1,6}$/), tie('schema'), { maxKeys: 4 })
        .map((properties): JsonObject => ({
          type: 'object',
          properties,
          required: Object.keys(properties),
          additionalProperties: false,
        })),
      array: fc
        .tuple(tie('schema'), fc.nat(3))
        .map(([items, minItems]): JsonObject => ({ type: 'array', items, minItems })),
      schema: fc.oneof({ maxDepth: 4, depthSize: 'small' }, tie('leaf'), tie('object'), tie('array')),
    }))
    fc.assert(
      fc.property(schema, (made) => {
        expect(errorsOf(made)).toEqual([])
      }),
      { numRuns: 300 },
    )
  })

  test('is made for anything at all, and soon', () => {
    const endless: JsonObject = {
      $ref: '#/$defs/a',
      $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } },
    }
    const wide: JsonObject = { type: 'array', minItems: 1e9, items: { type: 'string', minLength: 1e9 } }
    expect(JSON.stringify(instanceOf(endless)).length).toBeLessThan(100)
    expect(JSON.stringify(instanceOf(wide)).length).toBeLessThan(1_000_000)
    const cube: JsonObject = { type: 'array', minItems: 64, items: { $ref: '#' } }
    expect(JSON.stringify(instanceOf(cube)).length).toBeLessThan(1_000_000)
    fc.assert(
      fc.property(fc.jsonValue(), (schema) => {
        expect(JSON.stringify(instanceOf(schema as Json)).length).toBeLessThan(1_000_000)
      }),
    )
  })

  // Every value of the instance may repeat what the schema holds once: 5 kB of tools took seconds and gigabytes.
  test.each([
    ['long strings', { type: 'string', minLength: 4096 }],
    ['a long name', { type: 'object', properties: { ['n'.repeat(50_000)]: { type: 'integer' } } }],
    ['a long required name', { type: 'object', required: ['n'.repeat(50_000)] }],
    ['a long constant', { const: 'c'.repeat(50_000) }],
    ['a long choice', { enum: [['c'.repeat(50_000)]] }],
    ['a long pattern', { pattern: 'p'.repeat(4_000) }],
  ] as [string, JsonObject][])('with %s everywhere is not larger than a long answer', (_, items) => {
    const schema: JsonObject = {
      type: 'array',
      minItems: 64,
      items: { type: 'array', minItems: 30, items: { $ref: '#/$defs/each' } },
      $defs: { each: items },
    }
    expect(JSON.stringify(instanceOf(schema)).length).toBeLessThan(300_000)
  })

  test('is made without reading members of the schema for every value', () => {
    const member = (at: number): [string, Json] => [`m${at}`, { type: 'integer' }]
    const many = Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => member(at)))
    const nested = (depth: number): JsonObject =>
      depth === 0 ? { $ref: '#/$defs/many' } : { type: 'array', minItems: 8, items: nested(depth - 1) }
    const schema = { ...nested(6), $defs: { many: { type: 'object', properties: many } } }
    let reads = 0
    const counted = new Proxy(many, {
      ownKeys: (target) => {
        reads += 1
        return Reflect.ownKeys(target)
      },
    })
    schema.$defs.many.properties = counted
    instanceOf(schema)
    expect(reads).toBeGreaterThan(0)
    expect(reads).toBeLessThan(100)
  })

  test('cannot pollute a prototype', () => {
    const schema = JSON.parse(
      '{"type":"object","properties":{"__proto__":{"const":{"polluted":1}}},"allOf":[{"__proto__":{"x":1}}]}',
    )
    instanceOf(schema)
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
  })
})

describe('a sample of a pattern', () => {
  test.each([
    '^abc$',
    '^\\d{3}-\\d{4}$',
    '[A-Z][a-z]+',
    '^(foo|bar)+$',
    '^(?:\\+1)?\\d{10}$',
    '^[^\\s@]+@[^\\s@]+\\.[a-z]{2,}$',
    '^#[0-9a-fA-F]{6}$',
    '^(?<year>\\d{4})-(0[1-9]|1[0-2])$',
    '^[\\w.-]*$',
    '^[^\\w]$',
    '^\\S+?$',
    'a{2,}?b{0}c',
    '',
  ])('%s matches it', (pattern) => {
    expect(sampleOf(pattern)).toMatch(new RegExp(pattern))
  })

  test.each(['(?=a)b', '(?<!a)b', '(a)\\1', '\\p{L}', '(', 'a{999999}', '[', '*'])(
    '%s has none',
    (pattern) => {
      expect(sampleOf(pattern)).toBeUndefined()
    },
  )

  test('is never longer than a page, and never throws', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'ab(){}[]|*+?\\^$,-09dw<:=') }), (pattern) => {
        expect((sampleOf(pattern) ?? '').length).toBeLessThanOrEqual(4096)
      }),
      { numRuns: 500 },
    )
    expect(
      sampleOf('((((((((((a{256}){256}){256}){256}){256}){256}){256}){256}){256}){256})'),
    ).toBeUndefined()
  })
})
