// What the client has of a stream that another candidate goes on with, and what of the next part it has already.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { SaidSoFar, Seam } from '../../../src/chat/streaming/continued-stream.ts'
import type { ContentEvent } from '../../../src/conversation/delivered.ts'

const say = (text: string): ContentEvent => ({ kind: 'text-delta', choice: 0, text })
const think = (text: string, index = 0): ContentEvent => ({
  kind: 'reasoning-delta',
  choice: 0,
  detail: { type: 'reasoning.text', format: null, index, text },
})
const finish: ContentEvent = { kind: 'choice-finish', choice: 0, reason: 'stop', native: 'stop' }

/** What is new of a part, however it is cut into pieces. */
function newOf(seam: Seam, part: string, cuts: readonly number[]): string {
  const places = [0, ...new Set(cuts.filter((at) => at < part.length)), part.length].toSorted((a, b) => a - b)
  const pieces = places.slice(1).map((end, at) => part.slice(places[at], end))
  return pieces.map((piece) => seam.take(piece)).join('') + seam.end()
}

const cutsOf = fc.array(fc.nat(60), { maxLength: 8 })

describe('of the part behind a seam, however it is cut,', () => {
  test.each([
    // repeated, space, part, new
    ['', '', ' to the sea', ' to the sea'],
    ['', ' ', ' to the sea', 'to the sea'],
    ['', ' ', 'to the sea', 'to the sea'],
    ['', ' ', '\nto the sea', '\nto the sea'],
    ['', '\n\n', '\n\nNext', 'Next'],
    ['', '\n\n', '\nNext', 'Next'],
    ['', ' ', '  to', ' to'],
    ['It runs', '', 'It runs to', ' to'],
    ['It runs', ' ', 'It runs to', 'to'],
    ['It runs', '', 'It rushes', 'It rushes'],
    ['It runs', '', 'It', 'It'],
    ['It runs', ' ', ' to', 'to'],
  ])('after %j and %j, %j is %j', (repeated, space, part, fresh) => {
    fc.assert(
      fc.property(cutsOf, (cuts) => {
        expect(newOf(new Seam(repeated, space), part, cuts)).toBe(fresh)
      }),
      { numRuns: 50 },
    )
  })
})

describe('an answer may be gone on with', () => {
  const call: ContentEvent = {
    kind: 'tool-call-start',
    choice: 0,
    call: 0,
    id: 'c',
    name: 'f',
    thoughtSignature: undefined,
  }
  test.each<[string, readonly ContentEvent[], boolean]>([
    ['before anything', [], false],
    ['after a space alone', [say(' ')], false],
    ['within a text', [say('It ')], true],
    ['within a text behind a thought', [think('Hm'), say('It ')], true],
    ['within a thought', [think('Hm')], false],
    ['within a thought behind a text', [say('It '), think('Hm', 1)], false],
    ['behind a call', [say('It '), call], false],
    [
      'within a refusal',
      [say('It '), { kind: 'refusal-delta', choice: 0, text: 'no' } as ContentEvent],
      false,
    ],
    ['behind its finish reason', [say('It.'), finish], false],
    ['behind an image', [say('It '), { kind: 'image', choice: 0, mediaType: 'image/png', data: '' }], false],
    ['behind more than anybody is sent', [say('x'.repeat(1_000_001))], false],
  ])('%s: %3$p', (_, events, may) => {
    const said = new SaidSoFar(() => undefined)
    for (const event of events) said.take(event)
    expect(said.isText).toBe(may)
  })
})

test('the parts are one answer: thoughts and citations go on where those before end', () => {
  const out: ContentEvent[] = []
  const said = new SaidSoFar((event) => void out.push(event))
  const cite = (start: number, end: number): ContentEvent => ({
    kind: 'annotation',
    choice: 0,
    annotation: { kind: 'url-citation', url: 'https://a.example', title: '', start, end },
  })
  for (const event of [think('Hm'), say('It runs '), cite(0, 2)]) said.take(event)
  said.onSeam('It runs', 'rest')
  for (const event of [think('So'), say(' to the sea'), cite(3, 6), finish]) said.take(event)
  expect(said.text).toBe('It runs to the sea')
  expect(out).toEqual([
    think('Hm'),
    say('It runs '),
    cite(0, 2),
    think('So', 1),
    say('to the sea'),
    cite(10, 13),
    finish,
  ])
})
