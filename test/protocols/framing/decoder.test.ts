// Lines of JSON: the same frames at any cut, and a bound on how long one may get.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { NdjsonDecoder } from '../../../src/protocols/framing/decoder.ts'
import { cutAt } from '../../support/recordings.ts'

function decode(pieces: Iterable<Uint8Array>, max?: number): string[] {
  const decoder = new NdjsonDecoder(max)
  const frames = [...pieces].flatMap((piece) => decoder.push(piece))
  return [...frames, ...decoder.end()].map((frame) => frame.data)
}

describe('lines', () => {
  test('are the same however their bytes arrive', () => {
    const line = fc.json().filter((text) => !text.includes('\n'))
    fc.assert(
      fc.property(
        fc.array(line),
        fc.constantFrom('\n', '\r\n', '\n\n'),
        fc.boolean(),
        fc.array(fc.nat(200)),
        (lines, end, open, cuts) => {
          const text = lines.join(end) + (open ? '' : end)
          const bytes = new TextEncoder().encode(text)
          expect(
            decode(
              cutAt(
                bytes,
                cuts.map((cut) => Math.min(cut, bytes.length)),
              ),
            ),
          ).toEqual(lines)
        },
      ),
    )
  })

  test('that outgrow their bound are an error, whole or unfinished', () => {
    const bytes = new TextEncoder().encode('x'.repeat(101))
    expect(() => decode([bytes], 100)).toThrow('longer than 100')
    expect(() => decode([bytes.subarray(0, 60), bytes.subarray(60), new Uint8Array([10])], 100)).toThrow()
    expect(decode([bytes.subarray(1)], 100)).toHaveLength(1)
  })
})
