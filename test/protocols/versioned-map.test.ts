// The map that parsers keep in their states: every version stays what it was, whatever is written to which.

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { streamParser } from '../../src/protocols/openai-responses/upstream-stream.ts'
import { defaultQuirks } from '../../src/protocols/openai-responses/quirks.ts'
import { VersionedMap } from '../../src/protocols/versioned-map.ts'

test('every version of a map holds what a copy of it would hold', () => {
  const write = fc.record({ to: fc.nat(), key: fc.nat(5), value: fc.nat(), look: fc.nat() })
  fc.assert(
    fc.property(fc.array(write, { maxLength: 40 }), (writes) => {
      const versions = [new VersionedMap<number, number>()]
      const copies = [new Map<number, number>()]
      const agree = (at: number) => {
        expect([...versions[at]!.keys()]).toEqual([...copies[at]!.keys()])
        expect([...versions[at]!.values()]).toEqual([...copies[at]!.values()])
        for (const key of [0, 1, 2, 3, 4, 5]) expect(versions[at]!.get(key)).toBe(copies[at]!.get(key)!)
      }
      for (const { to, key, value, look } of writes) {
        const at = to % versions.length
        versions.push(versions[at]!.with(key, value))
        copies.push(new Map(copies[at]).set(key, value))
        agree(look % versions.length)
      }
      for (const at of versions.keys()) agree(at)
    }),
  )
})

test('a response that is read again from any event on is read the same', () => {
  const item = (at: number, fields: object) => ({
    output_index: at,
    item: { id: `fc_${at}`, type: 'function_call', call_id: `call_${at % 2}`, name: 'f', ...fields },
  })
  const part = { item_id: 'msg', output_index: 3, content_index: 0 }
  const events = [
    { type: 'response.created', response: { id: 'resp', model: 'm' } },
    ...[0, 1, 2].map((at) => ({ type: 'response.output_item.added', ...item(at, { arguments: '' }) })),
    { type: 'response.function_call_arguments.delta', output_index: 1, delta: '{"a":' },
    { type: 'response.output_text.delta', ...part, delta: 'one ' },
    { type: 'response.function_call_arguments.delta', item_id: 'fc_1', delta: '1}' },
    { type: 'response.output_text.delta', ...part, delta: 'two' },
    ...[0, 1].map((at) => ({ type: 'response.output_item.done', ...item(at, { arguments: '{"a":1}' }) })),
    {
      type: 'response.completed',
      response: {
        output: [0, 1, 2].map((at) => item(at, { arguments: '{"a":1}' }).item),
        usage: { input_tokens: 1, output_tokens: 2 },
      },
    },
  ]
  const frames = events.map((event) => ({ event: event.type, data: JSON.stringify(event) }))
  const parser = streamParser(defaultQuirks)
  const states = [parser.initial()]
  const told = frames.map((frame, at) => {
    const [next, made] = parser.step(states[at]!, frame)
    states.push(next)
    return made
  })
  expect(told.flat().filter((event) => event.kind === 'tool-call-start')).toHaveLength(3)
  expect(told.at(-1)!.at(-1)).toEqual({ kind: 'finish' })
  for (const from of [...frames.keys()].toReversed()) {
    let state = states[from]!
    for (let at = from; at < frames.length; at++) {
      const [next, made] = parser.step(state, frames[at]!)
      expect(made).toEqual(told[at]!)
      state = next
    }
  }
})
