// Long integers are kept where nothing reads them, and are numbers everywhere else.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  atOnce,
  isRaw,
  parseExact,
  parseOpaque,
  parseSteps,
  stepCharacters,
  stringifySteps,
} from '../../src/json/json.ts'

const names = { objects: new Set(['args']), integers: new Set(['seed']) }
const big = '1234567890123456789'
const rounded = '1234567890123456800'

describe('parsing with exact integers', () => {
  test('writes every integer as it came', () => {
    const integer = fc.bigInt({ min: -(10n ** 40n), max: 10n ** 40n })
    fc.assert(
      fc.property(fc.array(integer), fc.constantFrom('', ' ', '\n'), (list, blank) => {
        const text = `{"list":[${list.map((each) => blank + each).join()}]}`
        expect(JSON.stringify(parseExact(text))).toBe(text.replaceAll(/\s/g, ''))
      }),
    )
  })

  test('is JSON.parse for all else', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify({ value, kept: `: ${big}`, args: value })
        expect(JSON.stringify(parseExact(text))).toBe(text)
        expect(JSON.stringify(parseOpaque(text, names))).toBe(text)
      }),
    )
  })

  test.each([
    ['a number of its own', big, rounded],
    ['a fraction', '[1234567890123456.78]', '[1234567890123456.8]'],
    ['an exponent', '[1234567890123456789e2]', '[123456789012345680000]'],
    ['more digits than anybody uses', `[${'1'.repeat(1000)}]`, '[null]'],
    ['a text', `["${big}"]`, `["${big}"]`],
  ])('leaves %s to JSON.parse', (_, text, expected) => {
    expect(JSON.stringify(parseExact(text))).toBe(expected)
  })
})

describe('parsing with opaque members', () => {
  test.each([
    [`{"max":${big},"args":{"id":${big}}}`, `{"max":${rounded},"args":{"id":${big}}}`],
    [`{"seed":${big},"in":{"seed":[${big}]}}`, `{"seed":${big},"in":{"seed":[${rounded}]}}`],
    [
      `{"a":[{"args":{"in":[{"id":-${big}}]}},${big}]}`,
      `{"a":[{"args":{"in":[{"id":-${big}}]}},${rounded}]}`,
    ],
    // Only objects are passed on unread: a list called `input` holds messages.
    [`{"args":[${big},{"max":${big}}]}`, `{"args":[${rounded},{"max":${rounded}}]}`],
    [`{"args":${big}}`, `{"args":${rounded}}`],
    [`{"__proto__":{"n":${big}}}`, `{"__proto__":{"n":${rounded}}}`],
  ])('%s', (text, expected) => {
    const parsed = parseOpaque(text, names)
    expect(JSON.stringify(parsed)).toBe(expected)
    expect(Object.getPrototypeOf(parsed)).toBe(Object.prototype)
    const filler = `"${'x'.repeat(stepCharacters)}"`
    for (const long of [`[${filler},${text}]`, `[${text.replaceAll('{"', `{"x":${filler},"`)}]`]) {
      const inSteps = atOnce(parseSteps(long, names, stepCharacters))
      expect(atOnce(stringifySteps(inSteps, stepCharacters)).join('')).toBe(
        JSON.stringify(parseOpaque(long, names)),
      )
    }
  })

  test('a number outside is one to typeof', () => {
    expect(parseOpaque(`{"max":${big},"args":{"id":${big}}}`, names)).toMatchObject({ max: Number(big) })
    expect(isRaw((parseExact(`[${big}]`) as unknown[])[0])).toBe(true)
    expect(isRaw({ rawJSON: big })).toBe(false)
  })
})
