// Frames that differ in their text alone are mended by exchanging it, and only those.

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { ContentTemplate } from '../../../src/protocols/framing/text-template.ts'
import { FrameRepair } from '../../../src/protocols/openai-chat/passthrough/repair.ts'

const theirs = (content: string, finish: string | null = null) =>
  JSON.stringify({ model: 'm', choices: [{ index: 0, delta: { content }, finish_reason: finish }], seed: 7 })
const ours = (content: string) =>
  JSON.stringify({ id: 'req_1', choices: [{ index: 0, delta: { content }, finish_reason: null }], seed: 7 })

const frame = (data: string) => ({ event: undefined, data })
const learn = (from: string, to: string) => ContentTemplate.learn(frame(from), frame(to))

test('any text is carried over as the same JSON string', () => {
  const template = learn(theirs('learnt "so"'), ours('learnt "so"'))!
  fc.assert(
    fc.property(fc.string({ unit: 'binary', minLength: 1 }), (text) => {
      const found = template.textOf(theirs(text))
      expect(found).toBeDefined()
      expect(JSON.parse(template.mend(found!))).toEqual(JSON.parse(ours(text)))
    }),
  )
})

test.each([
  ['another ending', theirs('x', 'stop')],
  ['another field', theirs('x').replace('"seed":7', '"seed":8')],
  ['no text', theirs('')],
  ['a text that ends early and goes on as something else', theirs('x').replace('"x"', '"x","refusal":"y"')],
  ['half a frame', theirs('x').slice(0, -3)],
  ['a bare control character in its text', theirs('x').replace('"x"', '"\t"')],
])('a frame with %s is left to the parser', (_, data) => {
  expect(learn(theirs('a'), ours('a'))!.textOf(data)).toBeUndefined()
})

test.each([
  ['without text', '{"choices":[]}', ours('a')],
  ['with two texts', '{"content":"a","more":{"content":"a"}}', ours('a')],
  ['whose text was changed', theirs('a'), ours('b')],
])('nothing is learnt from a frame %s', (_, from, to) => {
  expect(learn(from, to)).toBeUndefined()
})

test('a stream mended with and without what was learnt reads the same', () => {
  const context = {
    id: 'req_1',
    model: 'p/m',
    created: 1,
    includeUsage: true,
    warnings: [],
    extra: { mode: 'test' },
  }
  const chunk = (delta: object, more: object = {}) =>
    JSON.stringify({ id: 'u1', model: 'm', choices: [{ index: 0, delta, finish_reason: null }], ...more })
  const pieces = fc.oneof(
    fc.string({ unit: 'binary' }).map((content) => chunk({ content })),
    fc.string().map((reasoning) => chunk({ reasoning })),
    fc.constant(chunk({}, { note: 'rides along' })),
    fc.constant(JSON.stringify({ id: 'u1', model: 'm', choices: [], note: 'carried' })),
  )
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 30 }), (frames) => {
      const fast = new FrameRepair(context)
      const read = frames.flatMap((data) => fast.push({ event: undefined, data }))
      const texts = (data: string) => {
        const { choices } = JSON.parse(data) as { choices: { delta: { content?: string } }[] }
        return choices[0]?.delta.content ?? ''
      }
      const sent = frames.map(texts).join('')
      expect(read.map((frame) => texts(frame.data)).join('')).toBe(sent)
      const notes = read.filter((frame) => 'note' in (JSON.parse(frame.data) as object)).length
      expect(notes).toBeLessThanOrEqual(frames.filter((data) => data.includes('"note"')).length)
      expect(
        new Set(read.map((frame) => (JSON.parse(frame.data) as { id: string }).id)).size,
      ).toBeLessThanOrEqual(1)
    }),
  )
})
