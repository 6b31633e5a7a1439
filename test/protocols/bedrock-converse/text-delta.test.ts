// A delta of text and nothing else is read without the schema, and means what the schema would make of it.

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { outbound } from '../../../src/protocols/bedrock-converse/parse.ts'
import type { Frame } from '../../../src/protocols/framing/sse.ts'
import { cases, parseFrames } from '../../support/recordings.ts'
import { framesOf, target } from './support.ts'

const parser = () => outbound.parser(target())
const recorded = cases('bedrock-converse').filter((one) => one.status === 200 && one.streamed)

/** The same delta with a field that says nothing, which only the schema passes over. */
function withEmptyField(frame: Frame): Frame {
  const event = JSON.parse(frame.data) as { delta?: unknown }
  if (frame.event !== 'contentBlockDelta' || typeof event.delta !== 'object' || event.delta === null)
    return frame
  return { ...frame, data: JSON.stringify({ ...event, delta: { toolUse: null, ...event.delta } }) }
}

const delta = (contentBlockIndex: unknown, fields: unknown): Frame => ({
  event: 'contentBlockDelta',
  // What JSON.stringify cannot write, JSON can hold.
  data: JSON.stringify({ contentBlockIndex, delta: fields }).replace('"endless"', '1e999'),
})

test.each(recorded.map((one) => [one.id, framesOf([one.stream()])] as const))(
  '%s reads the same',
  (_, frames) => {
    expect(parseFrames(parser(), frames)).toEqual(parseFrames(parser(), frames.map(withEmptyField)))
  },
)

test('so does any delta, whatever else it holds', () => {
  const text = fc.oneof(
    { weight: 9, arbitrary: fc.string({ unit: 'binary' }) },
    { weight: 1, arbitrary: fc.constantFrom(null, 1, {}) },
  )
  const other = fc.constantFrom(
    null,
    '',
    'x',
    {},
    { text: 'y' },
    { input: '{}' },
    { source: { bytes: 'AA==' } },
  )
  const fields = fc.record(
    { text, citation: other, image: other, reasoningContent: other, toolUse: other, unknown: other },
    { requiredKeys: ['text'] },
  )
  const index = fc.oneof(
    { weight: 9, arbitrary: fc.nat(2) },
    { weight: 1, arbitrary: fc.constantFrom(null, 'endless', '0') },
  )
  const usually = fc.oneof({ weight: 3, arbitrary: fc.record({ text }) }, { weight: 1, arbitrary: fields })
  fc.assert(
    fc.property(fc.array(fc.tuple(index, usually), { maxLength: 8 }), (deltas) => {
      const frames = deltas.map(([at, told]) => delta(at, told))
      const stop: Frame = { event: 'contentBlockStop', data: '{"contentBlockIndex":0}' }
      const whole = [...frames, stop]
      expect(parseFrames(parser(), whole)).toEqual(parseFrames(parser(), whole.map(withEmptyField)))
    }),
    { numRuns: 500 },
  )
}, 30_000)

test.each([
  ['reasoning', { reasoningContent: { text: 'y' } }, ['reasoning-delta']],
  ['an image', { image: { format: 'png', source: { bytes: 'AA==' } } }, ['image']],
  ['a citation', { citation: { title: 't' } }, []],
])('a delta of text that holds %s as well is that', (_, fields, kinds) => {
  const events = parser().push(delta(0, { text: 'x', ...fields }))
  expect(events.map((event): string => event.kind)).toEqual(kinds)
})
