// JSON in steps is the same JSON.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  atOnce,
  charactersAtOnce,
  decodeSteps,
  noNames,
  parseSteps,
  stepCharacters,
  stringifySteps,
} from '../../src/json/json.ts'

/** What a parser makes of a text, or that it refuses it. */
function outcomeOf(parse: () => unknown): { value: string } | 'refused' {
  try {
    // Written out: that way the order of members counts, and `__proto__`.
    return { value: JSON.stringify(parse()) }
  } catch (error) {
    if (error instanceof SyntaxError) return 'refused'
    throw error
  }
}

const inSteps = (text: string) => outcomeOf(() => atOnce(parseSteps(text, noNames, stepCharacters)))
const natively = (text: string) => outcomeOf(() => JSON.parse(text))
const written = (value: unknown) => atOnce(stringifySteps(value, stepCharacters)).join('')

const odd = fc.constantFrom('__proto__', 'constructor', '1', '0', '', 'a"b', '\\', '\u0000', '😀', '\ud800')
const filler = fc.tuple(odd, fc.nat(2 * stepCharacters)).map(([text, length]) => text.repeat(length / 2))

/** JSON of which some part is longer than a step. */
const large = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.oneof(fc.jsonValue(), filler, fc.string({ unit: 'binary' })),
    fc.array(tie('value'), { maxLength: 6 }),
    fc.dictionary(fc.oneof(odd, fc.string()), tie('value'), { maxKeys: 6 }),
    fc
      .tuple(tie('value'), fc.integer({ min: 1, max: 20_000 }))
      .map(([each, times]) =>
        JSON.stringify(each).length * times < 400_000 ? Array<unknown>(times).fill(each) : each,
      ),
  ),
})).value

const spaced = (value: unknown, blanks: string) => JSON.stringify(value, null, blanks)

describe('parsing in steps', () => {
  test('gives what JSON.parse gives', () => {
    fc.assert(
      fc.property(large, fc.constantFrom('', ' ', '\t\t\t'), (value, blanks) => {
        const text = spaced(value, blanks)
        expect(inSteps(text)).toEqual(natively(text))
      }),
      { numRuns: 80 },
    )
  }, 30_000)

  test('refuses what JSON.parse refuses, wherever the text is cut or changed', () => {
    fc.assert(
      fc.property(
        large,
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.nat(3),
        fc.constantFrom(
          '',
          ',',
          ':',
          '"',
          '[',
          ']',
          '{',
          '}',
          '\\',
          '1',
          'e',
          ' ',
          '\n',
          'null',
          '\u0001',
          ',,',
        ),
        (value, where, dropped, inserted) => {
          const text = `[${JSON.stringify(value)},{"a":"${'x'.repeat(stepCharacters)}"}]`
          const at = Math.floor(text.length * where)
          const changed = text.slice(0, at) + inserted + text.slice(at + dropped)
          expect(inSteps(changed)).toEqual(natively(changed))
        },
      ),
      { numRuns: 200 },
    )
  }, 30_000)

  const blanks = ' '.repeat(stepCharacters + 10)
  const long = 'x'.repeat(stepCharacters)
  test.each([
    `[${blanks}]`,
    `{${blanks}}`,
    `[1,${blanks}]`,
    `[${blanks},1]`,
    `[${blanks}1${blanks},${blanks}2${blanks}]${blanks}`,
    `{${blanks}"a"${blanks}:${blanks}1${blanks},${blanks}"b":2${blanks}}`,
    `{"a":1,${blanks}}`,
    `["${long}"`,
    `["${long}",]`,
    `["${long}"}`,
    `["${long}"] x`,
    `{"${long}":1,"__proto__":"${long}","2":0,"1":"${long}"}`,
    `{"${long}" 1}`,
    `{"a":"${long}","b":1,"a":2}`,
    `{1:"${long}"}`,
    `"${long}\\"`,
    `["${long.slice(1)}\\u00e9"]`,
    `["${'\\u00e9'.repeat(20_000)}"]`,
    `["${'a\\\\'.repeat(40_000)}\\"${'\\"'.repeat(40_000)}"]`,
    `[${'1'.repeat(stepCharacters + 1)}]`,
    `["${long}\u0001"]`,
    `["${long}\\x"]`,
    `${blanks}`,
    `[[[[["${long}"],${blanks}0]]]]`,
  ])('of blanks, long strings and long numbers (case %#)', (text) => {
    expect(inSteps(text)).toEqual(natively(text))
  })
})

describe('writing in steps', () => {
  test('gives what JSON.stringify gives', () => {
    fc.assert(
      fc.property(large, (value) => {
        const holed = { a: undefined, value, list: [undefined, value], z: undefined }
        expect(written(value) === JSON.stringify(value)).toBe(true)
        expect(written(holed) === JSON.stringify(holed)).toBe(true)
      }),
      { numRuns: 80 },
    )
  }, 30_000)

  test('refuses what nests without end', () => {
    let deep: unknown = 1
    for (let level = 0; level < 50_000; level++) deep = [deep]
    expect(() => written(deep)).toThrow(RangeError)
  })

  test('keeps the halves of a character together, wherever a piece ends', () => {
    for (const offset of [0, 1]) {
      const text = `${'x'.repeat(offset)}${'😀'.repeat(stepCharacters)}\ud83d`
      expect(written([text]) === JSON.stringify([text])).toBe(true)
    }
  })
})

test('what this machine does in about two milliseconds is done at once, within bounds', () => {
  const most = charactersAtOnce()
  expect(most).toBeGreaterThanOrEqual(stepCharacters)
  expect(most).toBeLessThanOrEqual(1_048_576)
  expect(charactersAtOnce()).toBe(most)
  const text = JSON.stringify(['x'.repeat(stepCharacters)])
  expect(parseSteps(text).next()).toEqual({ done: true, value: JSON.parse(text) })
  expect(stringifySteps(JSON.parse(text)).next()).toEqual({ done: true, value: [text] })
})

describe('decoding in steps', () => {
  test('gives what a decoder gives of the whole, however it came', () => {
    fc.assert(
      fc.property(filler, fc.uint8Array({ maxLength: 9 }), fc.nat(100_000), (text, tail, cut) => {
        const bytes = Buffer.concat([Buffer.from(text), tail])
        const chunks = [bytes.subarray(0, cut), bytes.subarray(cut)]
        const whole = new TextDecoder().decode(bytes)
        expect(atOnce(decodeSteps(chunks)) === whole).toBe(true)
      }),
      { numRuns: 50 },
    )
  }, 30_000)

  test('refuses what is no UTF-8 where that is asked for', () => {
    const cut = Buffer.from('weir 😀').subarray(0, -1)
    expect(() => atOnce(decodeSteps([cut], { fatal: true }))).toThrow(TypeError)
  })
})
