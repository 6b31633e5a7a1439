// A beginning that was sent before is not parsed again, and nothing but time tells.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { parseJson } from '../../src/http/intake/read-body.ts'
import { GatewayError } from '../../src/errors/errors.ts'
import { Prefixes, scan, textAsItCame } from '../../src/json/scan.ts'

const long = 'It runs to the sea, "as it always ran".\n'.repeat(500)

/** What a body is read as, or why it is refused. */
function outcomeOf(text: string, prefixes?: Prefixes, name = 'anna'): unknown {
  try {
    const json = parseJson(text, 64, 200_000, prefixes && { prefixes, name })
    prefixes?.keep(json)
    return json
  } catch (error) {
    if (error instanceof GatewayError) return { refused: error.message, param: error.details.param }
    throw error
  }
}

const system = { role: 'system', content: long }
const turn = (at: number) => ({ role: at % 2 === 0 ? 'user' : 'assistant', content: `turn ${at}` })
const bodyOf = (turns: number, more: object = {}) => ({
  model: 'm',
  tools: [{ name: 'a', parameters: { type: 'object' } }, { name: 'b' }],
  messages: [system, ...Array.from({ length: turns }, (_, at) => turn(at))],
  ...more,
})

test('the turns of a conversation share what they have in common', () => {
  const prefixes = new Prefixes()
  const read = (turns: number) =>
    outcomeOf(JSON.stringify(bodyOf(turns, { stream: turns % 2 === 0 })), prefixes) as ReturnType<
      typeof bodyOf
    >
  const first = read(2)
  for (let turns = 3; turns < 8; turns++) {
    const next = read(turns)
    expect(next).toEqual({ ...bodyOf(turns), stream: turns % 2 === 0 } as typeof next)
    expect(next.messages[0]).toBe(first.messages[0]!)
    expect(next.tools[1]).toBe(first.tools[1]!)
  }
  // One conversation is one text, however many turns it has.
  expect(prefixes.size).toBeLessThan(2 * long.length + 3_000)
})

test('of several conversations each goes on from its own', () => {
  const prefixes = new Prefixes()
  const others = ['river', 'weir', 'sea']
  const text = (about: string, turns: number) =>
    JSON.stringify(
      bodyOf(turns, {
        messages: [
          system,
          { role: 'user', content: about },
          ...Array.from({ length: turns }, (_, at) => turn(at)),
        ],
      }),
    )
  for (let turns = 10; turns < 14; turns++)
    for (const about of others) {
      if (turns > 10) expect(prefixes.restOf('anna', text(about, turns))!.text.length).toBeLessThan(200)
      outcomeOf(text(about, turns), prefixes)
    }
})

test('what is sent once more is not remembered again', () => {
  const prefixes = new Prefixes()
  const text = JSON.stringify(bodyOf(3))
  const read = () => outcomeOf(text, prefixes) as ReturnType<typeof bodyOf>
  const [first, second, third] = [read(), read(), read()]
  expect([second, third]).toEqual([first, first])
  expect(third.messages[2]).toBe(first.messages[2]!)
  expect(prefixes.size).toBe(text.length + 1)
})

test('what is shared cannot be changed by whoever has it', () => {
  const prefixes = new Prefixes()
  const read = outcomeOf(JSON.stringify(bodyOf(2)), prefixes) as ReturnType<typeof bodyOf>
  expect(() => {
    read.messages[0]!.content = 'else'
  }).toThrow(TypeError)
})

test('another name has nothing of it', () => {
  const prefixes = new Prefixes()
  const anna = outcomeOf(JSON.stringify(bodyOf(2)), prefixes, 'anna') as ReturnType<typeof bodyOf>
  const bert = outcomeOf(JSON.stringify(bodyOf(2)), prefixes, 'bert') as ReturnType<typeof bodyOf>
  expect(bert).toEqual(anna)
  expect(bert.messages[0]).not.toBe(anna.messages[0]!)
})

describe('a later text', () => {
  const before = JSON.stringify(bodyOf(3))
  const end = before.lastIndexOf(']')
  test.each<[string, string]>([
    ['with a comma behind the last item', `${before.slice(0, end)},]}`],
    ['without a comma between two items', `${before.slice(0, end)}{"role":"user"}]}`],
    ['with two commas', `${before.slice(0, end)},,{"role":"user"}]}`],
    ['that breaks off', before.slice(0, end)],
    ['that names a list twice', `${before.slice(0, -1)},"messages":[]}`],
    ['that has a key twice in what is new', `${before.slice(0, end)},{"a":1,"a":2}]}`],
    ['that names a prototype in what is new', `${before.slice(0, end)},{"__proto__":{}}]}`],
    ['whose number goes on', before.replace('"turn 2"}', '"turn 2"}1')],
    ['with a number that is too large', `${before.slice(0, end)},1e999]}`],
    ['of too many parts', `${before.slice(0, end)}${',{"a":{}}'.repeat(40_000)}]}`],
    [
      'of as many parts as may be',
      `${before.slice(0, end)},${JSON.stringify(Array.from({ length: 49_900 }, () => ({})))}]}`,
    ],
    ['with blanks', JSON.stringify(bodyOf(5), null, 1)],
    ['that ends earlier', JSON.stringify(bodyOf(1))],
    ['that is another', JSON.stringify(bodyOf(5, { messages: [turn(0), system] }))],
    ['whose list is no list now', JSON.stringify({ ...bodyOf(3), messages: long })],
    ['with an integer beyond 2^53', `${before.slice(0, end)},{"content":12345678901234567890}]}`],
  ])('%s is read, or refused, as it is without', (_, text) => {
    const prefixes = new Prefixes()
    outcomeOf(before, prefixes)
    expect(outcomeOf(text, prefixes)).toEqual(outcomeOf(text))
  })
})

test('any texts that have much in common are read as they are without, and sent on as they came', () => {
  const json = fc.jsonValue({ maxDepth: 3 })
  const lists = fc.record({
    a: fc.array(json, { maxLength: 4 }),
    b: fc.array(json, { maxLength: 4 }),
    z: json,
  })
  const change = fc.tuple(fc.constantFrom('a', 'b', 'messages'), fc.nat(5), json, fc.boolean())
  fc.assert(
    fc.property(
      lists,
      fc.array(change, { maxLength: 6 }),
      fc.constantFrom('', ' '),
      (value, changes, blanks) => {
        const prefixes = new Prefixes()
        const body: Record<string, unknown> = {
          a: value.a,
          messages: [system, ...value.b],
          b: value.b,
          z: value.z,
        }
        for (const [key, at, item, replaces] of changes) {
          const text = JSON.stringify(body, null, blanks)
          const read = outcomeOf(text, prefixes) as Record<string, unknown>
          const alone = outcomeOf(text)
          expect(read).toEqual(alone as typeof read)
          const sent = textAsItCame({ ...read }, read)
          if (sent !== undefined) expect(JSON.parse(sent)).toEqual(JSON.parse(text))
          const items = [...(body[key] as unknown[])]
          items.splice(at % (items.length + 1), replaces ? 1 : 0, item)
          body[key] = items
        }
      },
    ),
    { numRuns: 200 },
  )
})

test('whoever sends more than anybody, and under how many names, takes a bounded memory', () => {
  const prefixes = new Prefixes(400_000)
  for (let at = 0; at < 200; at++)
    outcomeOf(JSON.stringify(bodyOf(2, { messages: [{ role: 'user', content: `${at} ${long}` }] })), prefixes)
  // One name keeps a few of its texts.
  expect(prefixes.size).toBeLessThan(101_000)
  for (let at = 0; at < 200; at++) outcomeOf(JSON.stringify(bodyOf(2)), prefixes, `name ${at}`)
  expect(prefixes.size).toBeLessThan(400_001)
})

test('the scan of a rest counts what is not scanned again', () => {
  const prefixes = new Prefixes()
  const text = JSON.stringify(bodyOf(3))
  outcomeOf(text, prefixes)
  const rest = prefixes.restOf('anna', JSON.stringify(bodyOf(4)))!
  const whole = scan(text, { depth: 64 })
  expect(rest.text.length).toBeLessThan(200)
  expect(whole.kind === 'shape' && whole.shape.lists.get('messages')!.counts.slice(-2)).toEqual([
    rest.parts,
    rest.commas,
  ])
})
