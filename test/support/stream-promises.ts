// What every stream parser promises of every recorded stream, whatever its framing.

import { describe, expect, test } from 'bun:test'
import type { ChatEvent } from '../../src/conversation/event.ts'
import type { StreamParser } from '../../src/protocols/protocol.ts'
import type { Frame } from '../../src/protocols/sse.ts'
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
        for (let kept = 0; kept < lastNeeded(parser(one), all); kept += 1) {
          const events = parseFrames(parser(one), all.slice(0, kept))
          assertWellFormed(events)
          const last = events.at(-1)
          expect(last?.kind === 'error' && last.fault.kind).toBe('cut')
          expect(events.slice(0, -1)).toEqual(whole.slice(0, events.length - 1))
        }
      })
    },
  )
}

/** How many frames it takes until the answer is over: an end mark after that may be missing. */
function lastNeeded(parser: StreamParser, frames: readonly Frame[]): number {
  for (let kept = 0; kept <= frames.length; kept += 1) {
    const last: ChatEvent | undefined = parseFrames(parser, frames.slice(0, kept)).at(-1)
    if (last?.kind === 'finish' || (last?.kind === 'error' && last.fault.kind !== 'cut')) return kept
  }
  return frames.length
}

function* singleBytes(bytes: Uint8Array): Iterable<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 1) yield bytes.subarray(at, at + 1)
}
