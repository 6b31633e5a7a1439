// A frame like the one learnt from gives its text and its numbers; any other frame gives nothing.

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { FrameTemplate } from '../../src/protocols/frame-template.ts'

const changing = { text: 'text', numbers: ['count', 'total'], ignored: ['pad', 'seq'] }

const frame = (text: string, count: unknown = 7, pad: unknown = 'abc', seq: unknown = 1) =>
  JSON.stringify({ seq, parts: [{ text }], pad, usage: { count, kinds: ['TEXT'] }, id: 'r1' })
const template = FrameTemplate.none.learn(frame('so "it" is'), changing, 'so "it" is')

const writers: ((text: string) => string)[] = [
  JSON.stringify,
  // As servers write it that send nothing but ASCII.
  (text) =>
    JSON.stringify(text).replace(
      /[^\x20-\x7e]/g,
      (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
    ),
  (text) => JSON.stringify(text).replaceAll('/', '\\/'),
]

test('any text is read as JSON reads it, however it is escaped', () => {
  // What ends the frame stands in some of the texts as well.
  const piece = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom('"}],"pad":"', '\\', '"', '\n', '/', '\ud83d', ''),
  )
  const texts = fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join(''))
  fc.assert(
    fc.property(texts, fc.constantFrom(...writers), fc.nat(), (text, written, count) => {
      const data = frame('@', count).replace('"@"', () => written(text))
      expect(template.read(data)).toEqual({ text, numbers: [count] })
    }),
  )
})

test('a long text is read like a short one', () => {
  const text = '"\\'.repeat(500_000)
  expect(template.read(frame(text))?.text).toBe(text)
})

test('what is ignored may be anything of its kind, and white space may follow', () => {
  expect(template.read(`${frame('x', 0, '', 123456)} \r\n\t `)).toEqual({ text: 'x', numbers: [0] })
})

test.each([
  ['another field', frame('x').replace('"r1"', '"r2"')],
  ['another name before its text', frame('x').replace('"parts"', '"parks"')],
  ['a further field', frame('x').replace('"r1"', '"r1","error":{}')],
  ['a field less', frame('x').replace(',"id":"r1"', '')],
  [
    'another order',
    JSON.stringify({
      parts: [{ text: 'x' }],
      seq: 1,
      pad: '',
      usage: { count: 7, kinds: ['TEXT'] },
      id: 'r1',
    }),
  ],
  ['a space more', frame('x').replace('[{', '[ {')],
  ['a text that ends early', frame('x').replace('"x"', '"x","signature":"y"')],
  ['a text that is none', frame('x').replace('"x"', 'null')],
  ['a line break in its text', frame('x').replace('"x"', '"\n"')],
  ['a text that is not JSON', frame('x').replace('"x"', '"\\x"')],
  ['a line break in its padding', frame('x').replace('"abc"', '"\n"')],
  ['an escape in its padding', frame('x', 7, '\\')],
  ['padding that is none', frame('x', 7, null)],
  ['a negative number', frame('x', -7)],
  ['a fraction', frame('x', 7.5)],
  ['an exponent', frame('x').replace('"count":7', '"count":7e9')],
  ['a number with a zero before it', frame('x').replace('"count":7', '"count":07')],
  ['a number too long to be exact', frame('x').replace('"count":7', '"count":1234567890123456')],
  ['a number in quotes', frame('x', '7')],
  ['no number', frame('x').replace('"count":7', '"count":')],
  ['no end', frame('x').slice(0, -1)],
  ['something after its end', `${frame('x')}}`],
  ['white space that JSON does not know', `${frame('x')}\u00a0`],
  ['nothing', ''],
])('a frame with %s is for the parser', (_, data) => {
  expect(template.read(data)).toBeUndefined()
})

test.each([
  ['with two texts', '{"text":"a","more":{"text":"b"}}'],
  ['without a text', '{"texts":"a"}'],
  ['whose text is a longer name\u2019s', '{"my\\"text":"a"}'],
  ['that was read as another text', '{"text":"b"}'],
  ['with two counts', '{"text":"a","count":1,"more":{"count":1}}'],
  ['of great length', JSON.stringify({ text: 'a', more: 'x'.repeat(100_000) })],
])('nothing is learnt from a frame %s', (_, data) => {
  expect(FrameTemplate.none.learn(data, changing, 'a').read(data)).toBeUndefined()
})

test('a value of another type is one that must not change', () => {
  const learnt = FrameTemplate.none.learn('{"text":"a","count":null}', changing, 'a')
  expect(learnt.read('{"text":"b","count":null}')).toEqual({ text: 'b', numbers: [] })
  expect(learnt.read('{"text":"b","count":3}')).toBeUndefined()
})

test('nothing more is learnt once many frames in a row were learnt from in vain', () => {
  const numbered = (at: number) => JSON.stringify({ at, text: 'a' })
  const learn = (before: FrameTemplate, at: number) => before.learn(numbered(at), changing, 'a')
  let some = FrameTemplate.none
  for (let at = 0; at < 5; at++) some = learn(some, at)
  expect(some.read(numbered(4))).toBeDefined()
  let many = some
  for (let at = 5; at < 50; at++) many = learn(many, at)
  expect(many.read(numbered(49))).toBeUndefined()
  // One that served makes up for all before it.
  let again = some.served()
  for (let at = 5; at < 12; at++) again = learn(again, at)
  expect(again.read(numbered(11))).toBeDefined()
})
