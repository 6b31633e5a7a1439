// Lenient reading says what a schema would that takes every field of a wrong type for absent.

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { z } from 'zod'
import {
  anyObject,
  CollectedText,
  flag,
  list,
  number,
  object,
  position,
  text,
} from '../../src/protocols/lenient.ts'
import { readChunk } from '../../src/protocols/gemini/outbound/schema.ts'

const read = object({
  a: text,
  b: number,
  c: flag,
  d: position,
  e: anyObject,
  f: list(text),
  g: list(object({ a: text, b: number })),
  h: object({ a: text, g: list(list(number)) }),
})
const absent = <T extends z.ZodType>(type: T) => type.optional().catch(undefined)
const schema = z.looseObject({
  a: absent(z.string()),
  b: absent(z.number()),
  c: absent(z.boolean()),
  d: absent(z.int().min(0)),
  e: absent(z.record(z.string(), z.unknown())),
  f: absent(z.array(z.string())),
  g: absent(z.array(z.looseObject({ a: absent(z.string()), b: absent(z.number()) }))),
  h: absent(z.looseObject({ a: absent(z.string()), g: absent(z.array(z.array(z.number()))) })),
})

const leaf = fc.oneof(
  fc.constantFrom<unknown>(null, 0, -1, 1.5, Number.POSITIVE_INFINITY, 2 ** 60, '', 'x', true),
  fc.nat(9),
)
const { value } = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    leaf,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'other'), tie('value'), {
      maxKeys: 6,
    }),
  ),
}))

test('whatever is read', () => {
  fc.assert(
    fc.property(value, (json) => {
      const before = structuredClone(json)
      // What the schema takes for absent stays as a name without a value; read leniently it is gone.
      expect(read(json)).toEqual(schema.safeParse(json).data as never)
      expect(json).toEqual(before)
    }),
    { numRuns: 2_000 },
  )
})

test('what needs no mending is given back itself', () => {
  const chunk = {
    candidates: [{ content: { parts: [{ text: 'x', new: 1 }], role: 'model' }, index: 0 }],
    other: [],
  }
  expect(readChunk(chunk)).toBe(chunk as never)
})

test('a field of a wrong type is gone, its neighbours stay', () => {
  const chunk = {
    responseId: 7,
    candidates: [{ index: -1, content: { parts: [{ text: 'x', thought: 'no' }] } }],
  }
  expect(readChunk(chunk)).toStrictEqual({ candidates: [{ content: { parts: [{ text: 'x' }] } }] } as never)
  expect(readChunk({ candidates: [null] })).toStrictEqual({})
  expect(readChunk([])).toBeUndefined()
})

test('a text of any number of pieces is whole', () => {
  const pieces = fc.array(fc.string(), { maxLength: 300, size: 'max' })
  fc.assert(
    fc.property(pieces, (pieces) => {
      const collected = new CollectedText()
      for (const piece of pieces) collected.add(piece)
      expect(collected.toString()).toBe(pieces.join(''))
      expect(collected.length).toBe(pieces.join('').length)
    }),
  )
})
