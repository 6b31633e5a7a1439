// One scanner says what a text is made of, and lets what nobody changed be sent on as it came.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { atOnce, stepCharacters } from '../../src/json/json.ts'
import {
  forgetSource,
  rememberSource,
  scan,
  scanSteps,
  shapeFault,
  shapeFaultSteps,
  textAsItCame,
} from '../../src/json/scan.ts'

const anything = { depth: 1_000 }
const lists = (text: string) => {
  const scanned = scan(text, anything)
  if (scanned.kind === 'fault') throw new Error(scanned.fault.kind)
  return Object.fromEntries(
    [...scanned.shape.lists].map(([name, { spans }]) => [
      name,
      Array.from({ length: spans.length / 2 }, (_, at) => text.slice(spans[2 * at], spans[2 * at + 1])),
    ]),
  )
}

const odd = fc.constantFrom(
  'a',
  'messages',
  'tools',
  '__proto__',
  'q"uote',
  'back\\',
  '\u0000',
  '😀',
  '\ud800',
)
// As it is read: -0 is written as 0.
const json = fc.jsonValue({ maxDepth: 4 }).map((value) => JSON.parse(JSON.stringify(value)) as unknown)
const body = fc.dictionary(odd, fc.oneof(json, fc.array(json, { maxLength: 5 })), { maxKeys: 5 })

describe('a scan', () => {
  test.each([
    ['depth', '[[[1]]]', { depth: 2 }, 2],
    ['parts', '{"a":{},"b":[]}', { depth: 9, parts: 4 }, 4],
    ['parts', '{"a":1,"b":2}', { depth: 9, parts: 2 }, 2],
    ['commas', '[1,2,3]', { depth: 9, commas: 1 }, 1],
    ['values', '[1,2,3]', { depth: 9, values: 2 }, 2],
    ['infinite', '[1e400]', { depth: 9, finite: true }, 0],
  ] as const)('finds too much of %s in %s', (kind, text, limits, most) => {
    expect(scan(text, limits)).toEqual({ kind: 'fault', fault: { kind, most } })
    expect(atOnce(scanSteps(text, limits))).toEqual({ kind: 'fault', fault: { kind, most } })
  })

  test('counts keys and nothing that only looks like one, and finds the items of each list', () => {
    const text =
      '{"a:b" : "c:[,]" , "messages" : [ {"role":"user"} ,"x\\"],[" , [1,[2]] ] ,"o":{"l":[1,2]},"tools":[]}'
    expect(scan(text, anything)).toMatchObject({ shape: { colons: 6 } })
    expect(lists(text)).toEqual({ messages: [' {"role":"user"} ', '"x\\"],[" ', ' [1,[2]] '], tools: [''] })
  })

  test('gives the same in steps, of any text', () => {
    const texts = fc.oneof(
      fc.string({ unit: fc.constantFrom(...'[]{}":,\\eE+-.0129 a') }),
      body.map((value) => JSON.stringify(value)),
    )
    fc.assert(
      fc.property(texts, fc.nat(stepCharacters), (text, blanks) => {
        const long = `{"list":["${'\\"'.repeat(blanks)}",${text}`
        expect(atOnce(scanSteps(long, anything))).toEqual(scan(long, anything))
      }),
      { numRuns: 300 },
    )
  })

  test('finds every item of every list as it is written', () => {
    fc.assert(
      fc.property(body, fc.constantFrom('', ' ', '\t'), (value, blanks) => {
        const found = lists(JSON.stringify(value, null, blanks))
        for (const [name, items] of Object.entries(value)) {
          if (!Array.isArray(items) || items.length === 0) continue
          // An escaped name is not looked for.
          const spans = found[JSON.stringify(name).slice(1, -1)]!
          expect(spans.map((item) => JSON.parse(item) as unknown)).toEqual(items as unknown[])
        }
      }),
      { numRuns: 300 },
    )
  })

  test('of what is no request bounds depth and values', () => {
    const deep = `["${'\\"'.repeat(stepCharacters)}",${'['.repeat(200)}`
    expect(atOnce(shapeFaultSteps(deep))).toBe('nests deeper than 128 levels')
    expect(shapeFault(deep)).toBe('nests deeper than 128 levels')
    expect(atOnce(shapeFaultSteps('[1,2,3]', 3))).toBeUndefined()
    expect(atOnce(shapeFaultSteps('[1,2,3]', 2))).toBe('holds more than 2 values')
  })
})

/** A body as a client sends it, remembered. */
function received(text: string): Record<string, unknown> {
  const value = JSON.parse(text) as Record<string, unknown>
  const scanned = scan(text, anything)
  if (scanned.kind === 'shape') rememberSource(value, text, scanned.shape)
  return value
}

describe('what came', () => {
  const long = 'It runs to the sea. '.repeat(300)
  const text = `{ "model":"m", "messages":[ {"content":"${long}\\u0041", "role":"user"}, {"role":"user","content":"b"} ], "n":1 }`

  test('is written as it came where nothing has changed, in another order too', () => {
    const from = received(text)
    const [first, second] = from['messages'] as Record<string, unknown>[]
    const made = {
      model: 'other',
      messages: [{ role: 'user', name: undefined, content: first!['content'] }, second],
    }
    expect(textAsItCame(made, from)).toBe(
      `{"model":"other","messages":[ {"content":"${long}\\u0041", "role":"user"}, {"role":"user","content":"b"} ]}`.replace(
        '}, {',
        '}, {',
      ),
    )
  })

  test.each<[string, (items: Record<string, unknown>[]) => unknown[]]>([
    ['changed', ([a, b]) => [{ ...a, content: 'x' }, b]],
    ['a member less', ([a, b]) => [{ content: a!['content'] }, b]],
    ['a member more', ([a, b]) => [{ ...a, name: 'n' }, b]],
    ['left out', ([, b]) => [b]],
    ['put before', ([a, b]) => [{ role: 'system', content: 's' }, a, b]],
    ['in another order', ([a, b]) => [b, a]],
    ['twice', ([a, b]) => [a, a, b]],
    ['none', () => []],
  ])('is never sent in the place of an item that is %s', (_, change) => {
    const from = received(text)
    const messages = change(from['messages'] as Record<string, unknown>[])
    expect(JSON.parse(textAsItCame({ messages, n: 1 }, from)!)).toEqual(
      JSON.parse(JSON.stringify({ messages, n: 1 })),
    )
  })

  test('says the same as what would be written of any body, whatever is made of it', () => {
    const filled = fc.tuple(body, fc.array(json, { maxLength: 4 })).map(([value, items]) => ({
      ...value,
      messages: [{ content: long }, ...items],
    }))
    const changes = fc.array(fc.tuple(fc.nat(6), json), { maxLength: 3 })
    fc.assert(
      fc.property(filled, changes, fc.constantFrom('', ' '), (value, changed, blanks) => {
        const from = received(JSON.stringify(value, null, blanks))
        const messages = [...(from['messages'] as unknown[])]
        for (const [at, item] of changed) messages.splice(at % (messages.length + 1), at % 2, item)
        const made = { ...from, messages }
        expect(JSON.parse(textAsItCame(made, from)!)).toEqual(JSON.parse(JSON.stringify(made)))
      }),
      { numRuns: 300 },
    )
  })

  test('is forgotten where the body is changed', () => {
    const from = received(text)
    forgetSource(from)
    expect(textAsItCame({ ...from }, from)).toBeUndefined()
  })
})
