// Amazon's binary framing: any cut, either checksum, every type of header.

import { describe, expect, test } from 'bun:test'
import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import { AwsEventStreamDecoder } from '../../../src/protocols/framing/decoder.ts'
import { cutAt } from '../../support/recordings.ts'
import { message, textHeader } from '../../support/aws-event-stream.ts'

const decode = (pieces: Iterable<Uint8Array>, max?: number) => {
  const decoder = new AwsEventStreamDecoder(max)
  const frames = [...pieces].flatMap((piece) => decoder.push(piece))
  return [...frames, ...decoder.end()]
}
/** The frames, or none where the bytes are refused. */
function framesOrNone(bytes: Uint8Array): unknown[] {
  try {
    return decode([bytes])
  } catch {
    return []
  }
}
const event = (name: string, data: string) => message({ ':message-type': 'event', ':event-type': name }, data)

describe('messages', () => {
  test('are the same frames at any cut, those inside a prelude included', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.string({ maxLength: 20 }), fc.string()), { maxLength: 5 }),
        fc.array(fc.nat(400)),
        (events, cuts) => {
          const bytes = Buffer.concat(events.map(([name, data]) => event(name, data)))
          const at = cuts.map((cut) => Math.min(cut, bytes.length))
          expect(decode(cutAt(bytes, at))).toEqual(events.map(([name, data]) => ({ event: name, data })))
        },
      ),
    )
    const bytes = event('a', '{"x":"ü"}')
    for (let cut = 0; cut <= bytes.length; cut += 1) {
      expect(decode(cutAt(bytes, [cut]))).toEqual([{ event: 'a', data: '{"x":"ü"}' }])
    }
  })

  test('with any byte changed are refused, never read as something else', () => {
    const whole = event('one', '{"text":"hello"}')
    for (let at = 0; at < whole.length; at += 1) {
      const corrupt = new Uint8Array(whole)
      corrupt[at] = corrupt[at]! ^ 0x41
      expect(framesOrNone(corrupt)).toEqual([])
    }
  })

  test('broken off anywhere inside say nothing', () => {
    const bytes = event('a', '{}')
    for (let kept = 1; kept < bytes.length; kept += 1) {
      expect(decode([bytes.subarray(0, kept)])).toEqual([])
    }
  })

  test('larger than their bound are refused before they are read', () => {
    const bytes = event('a', 'x'.repeat(200))
    expect(() => decode([bytes.subarray(0, 12)], 100)).toThrow('larger than 100')
  })

  test('that say a length too small for themselves are refused', () => {
    const prelude = Buffer.alloc(12)
    prelude.writeUInt32BE(12, 0)
    prelude.writeUInt32BE(crc32(prelude.subarray(0, 8)), 8)
    expect(() => decode([prelude])).toThrow('shorter')
  })

  test('of exceptions and errors are named as such', () => {
    expect(
      decode([
        message(
          { ':message-type': 'exception', ':exception-type': 'throttlingException' },
          '{"message":"slow"}',
        ),
        message(
          { ':message-type': 'error', ':error-code': 'InternalFailure', ':error-message': 'oh "no"' },
          '',
        ),
      ]),
    ).toEqual([
      { event: 'exception:throttlingException', data: '{"message":"slow"}' },
      { event: 'exception:InternalFailure', data: '{"message":"oh \\"no\\""}' },
    ])
  })

  test('may have headers of every type between those that matter', () => {
    const name = (type: number, ...value: number[]) => Buffer.from([1, 120, type, ...value])
    const headers = [
      name(0),
      name(1),
      name(2, 1),
      name(3, 1, 2),
      name(4, 1, 2, 3, 4),
      name(5, 1, 2, 3, 4, 5, 6, 7, 8),
      name(6, 0, 2, 9, 9),
      name(8, 1, 2, 3, 4, 5, 6, 7, 8),
      name(9, ...Array.from({ length: 16 }, () => 7)),
      textHeader(':message-type', 'event'),
      textHeader(':event-type', 'last'),
    ]
    expect(decode([message(headers, '{}')])).toEqual([{ event: 'last', data: '{}' }])
    expect(() => decode([message([name(12)], '{}')])).toThrow('header')
  })
})
