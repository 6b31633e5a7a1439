// What every stream parser promises of every recorded stream, whatever its framing.

import { describe, expect, test } from 'bun:test'
import type { StreamParser } from '../../src/protocols/protocol.ts'
import type { Frame } from '../../src/protocols/framing/sse.ts'
import { assertWellFormed, type Case, parseFrames, randomCuts } from './recordings.ts'

export interface StreamReader {
  readonly frames: (pieces: Iterable<Uint8Array>) => readonly Frame[]
  readonly parser: (recording: Case) => StreamParser
}

/** Declares the tests: the same events at any cut of the bytes, and never a clean finish of a broken stream. */
export function testStreams(streams: readonly Case[], { frames, parser }: StreamReader): void {
  describe.each(streams.map((one) => [`${one.provider}/${one.id}`, one] as const))(
    'the stream of %s',
    (_, one) => {
      const bytes = one.stream()
      const all = frames([bytes])
      const whole = parseFrames(parser(one), all)

      test('is the same however its bytes arrive', () => {
        for (let seed = 1; seed <= 12; seed += 1) {
          expect(parseFrames(parser(one), frames(randomCuts(bytes, seed)))).toEqual(whole)
        }
        expect(parseFrames(parser(one), frames(singleBytes(bytes.subarray(0, 4096))))).toEqual(
          parseFrames(parser(one), frames([bytes.subarray(0, 4096)])),
        )
      })

      test('cut short after any event is an error, never a clean finish', () => {
        // One walk over the frames: what came before is always the beginning of the whole, so only the end is looked at.
        const machine = parser(one)
        let made = 0
        for (const frame of all) {
          const last = machine.end()
          expect(last).toHaveLength(1)
          expect(last[0]?.kind === 'error' && last[0].fault.kind).toBe('cut')
          const events = machine.push(frame)
          for (const event of events) expect(event).toEqual(whole[made++]!)
          if (events.some((event) => event.kind === 'finish' || event.kind === 'error')) break
        }
        // Nothing after an end; where the protocol has no end mark, the end of the body is one.
        expect(machine.end()).toEqual(whole.slice(made))
        assertWellFormed(whole)
      })
    },
  )
}

function* singleBytes(bytes: Uint8Array): Iterable<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 1) yield bytes.subarray(at, at + 1)
}
