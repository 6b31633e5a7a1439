// Schemas of clients that repeat themselves by references: a few kilobytes must not take seconds, or gigabytes. Each of
// these took the process longer than a test may.

import { expect, test } from 'bun:test'
import type { Json, JsonObject } from '../../src/conversation/request.ts'
import { closedSchema, rootObjectOf } from '../../src/protocols/claude/tools.ts'
import { outbound as gemini } from '../../src/protocols/gemini/outbound/outbound.ts'
import { toSubset } from '../../src/protocols/gemini/schema-subset.ts'
import { chat } from '../support/conversation.ts'

const times = (count: number, make: (at: number) => Json): Json[] =>
  Array.from({ length: count }, (_, at) => make(at))
const members = (count: number, make: (at: number) => Json): JsonObject =>
  Object.fromEntries(times(count, make).map((made, at) => [`m${at}`, made]))
const reference = (name: string): JsonObject => ({ $ref: `#/$defs/${name}` })

test('alternatives of alternatives are read once each', () => {
  const level = (name: string): JsonObject => ({ anyOf: times(64, () => reference(name)) })
  const $defs = {
    b: level('c'),
    c: level('d'),
    d: { properties: { x: { type: 'string' } }, required: ['x'] },
  }
  const { schema } = rootObjectOf({ ...level('b'), $defs })
  expect(schema).toMatchObject({ type: 'object', properties: { x: { type: 'string' } }, required: ['x'] })
})

test('different alternatives of alternatives are, too', () => {
  const level = (name: string) => ({ anyOf: times(16, (at) => reference(`${name}${at}`)) })
  const $defs = Object.fromEntries(
    ['a', 'b', 'c', 'd'].flatMap((name, depth) =>
      times(16, (at) => {
        const last = { properties: { [`x${at}`]: { type: 'string' } } }
        return depth === 3 ? last : level('bcd'[depth]!)
      }).map((schema, at) => [`${name}${at}`, schema]),
    ),
  )
  const { schema } = rootObjectOf({ ...level('a'), $defs })
  expect(Object.keys(schema['properties'] as JsonObject)).toHaveLength(16)
})

test('a member of thousands of alternatives may be any of them', () => {
  const { schema } = rootObjectOf({ anyOf: times(20_000, (at) => ({ properties: { a: { const: at } } })) })
  expect(schema['properties']).toMatchObject({ a: { anyOf: { length: 20_000 } } })
})

test('a schema that repeats large parts beyond reason is refused', () => {
  const large = { properties: members(5_000, () => ({ type: 'string', description: 'a member' })) }
  const names = times(100, (at) => `d${at}`) as string[]
  const $defs = Object.fromEntries(names.map((name) => [name, large]))
  expect(() => rootObjectOf({ anyOf: names.map(reference), $defs })).toThrow(/repeat each other/)
})

test('a chain of thousands of references has no closed form', () => {
  const length = 20_000
  const $defs = Object.fromEntries(
    times(length, (at) => (at === length - 1 ? { type: 'string' } : reference(`d${at + 1}`))).map(
      (schema, at) => [`d${at}`, schema],
    ),
  )
  const properties = { a: reference('d0') }
  expect(closedSchema({ type: 'object', properties, $defs, additionalProperties: false })).toBeUndefined()
})

test('the subset of a schema has no more text than the limit of its schemas allows', () => {
  const $defs = { x: { type: 'string', description: 'd'.repeat(50_000) } }
  const { schema, dropped } = toSubset({
    type: 'object',
    properties: members(2_000, () => reference('x')),
    $defs,
  })
  expect(JSON.stringify(schema).length).toBeLessThan(5_000_000)
  expect(dropped).toContain('nesting')
})

test('merging a schema thousands of times stops at that limit', () => {
  const $defs = { big: { properties: members(20_000, () => ({ type: 'string' })) } }
  const allOf = times(3_000, () => reference('big'))
  expect(toSubset({ type: 'object', allOf, $defs }).dropped).toContain('nesting')
})

test('the functions of a request share a limit', () => {
  const level = (name: string) => ({ type: 'object', properties: members(2, () => reference(name)) })
  const steps = Object.fromEntries(times(12, (at) => level(`d${at + 1}`)).map((step, at) => [`d${at}`, step]))
  const $defs = { ...steps, d12: { type: 'string' } }
  const tools = Array.from({ length: 100 }, (_, at) => ({
    name: `f${at}`,
    description: undefined,
    parameters: { ...level('d0'), $defs },
    strict: undefined,
    cache: undefined,
  }))
  const { body } = gemini.lower(chat({ tools }), {
    model: 'gemini-2.0-flash',
    provider: 'gemini',
    quirks: gemini.defaultQuirks,
    maxOutputTokens: undefined,
    reasoning: false,
    rememberedSignature: () => undefined,
  })
  expect(JSON.stringify(body['tools']).length).toBeLessThan(4_000_000)
})
