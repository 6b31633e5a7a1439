// Server-sent events are read wherever the network cuts them, and nothing without events is read for ever.

import { describe, expect, test } from 'bun:test'
import { NdjsonDecoder } from '../../../src/protocols/framing/decoder.ts'
import { encodeFrame, SseDecoder } from '../../../src/protocols/framing/sse.ts'

const bytes = (text: string) => new TextEncoder().encode(text)

describe('an event', () => {
  test('is read with its name before or after its data, from LF and CRLF, past comments', () => {
    const text = ': hello\r\n\r\nevent: a\r\ndata: 1\r\n\r\ndata: 2\nevent: b\n\ndata: 3\ndata: 4\n\n'
    const decoder = new SseDecoder()
    expect([...decoder.push(bytes(text)), ...decoder.end()]).toEqual([
      { event: 'a', data: '1' },
      { event: 'b', data: '2' },
      { event: undefined, data: '3\n4' },
    ])
  })

  test('is an error in the field of that name, as llama.cpp writes it', () => {
    const text = 'data: 1\n\nerror: {"code":400}\n\ndata: [DONE]\n\n'
    expect(new SseDecoder().push(bytes(text))).toEqual([
      { event: undefined, data: '1' },
      { event: 'error', data: '{"code":400}' },
      { event: undefined, data: '[DONE]' },
    ])
  })

  test('counts without its blank line at the end of the body', () => {
    const decoder = new SseDecoder()
    expect(decoder.push(bytes('data: last'))).toEqual([])
    expect(decoder.end()).toEqual([{ event: undefined, data: 'last' }])
  })

  test('comes back from its own text', () => {
    for (const frame of [
      { event: undefined, data: '{}' },
      { event: 'x', data: '{"a":1}' },
    ])
      expect(new SseDecoder().push(bytes(encodeFrame(frame)))).toEqual([frame])
  })
})

describe('what is no event', () => {
  test.each([
    ['a line of no field', 'x'],
    ['data without an end', 'data: x'],
    ['comments', ': still here\n'],
    ['blank lines', '\n'],
    ['unknown fields', 'odd: 1\n\n'],
  ])('%s is not read for ever', (_, piece) => {
    const decoder = new SseDecoder(10_000)
    decoder.push(bytes('data: 1\n\n'))
    const forever = () => {
      for (let sent = 0; sent < 50_000; sent += piece.length) decoder.push(bytes(piece))
    }
    expect(forever).toThrow()
  })

  test('may come between events for as long as there are events', () => {
    const decoder = new SseDecoder(1_000)
    for (let at = 0; at < 100; at++) {
      expect(decoder.push(bytes(': waiting\n\n'.repeat(20)))).toEqual([])
      expect(decoder.push(bytes('data: 1\n\n'))).toHaveLength(1)
    }
  })

  test('of newline-delimited JSON is not read for ever either', () => {
    const decoder = new NdjsonDecoder(10_000)
    const forever = () => {
      for (let at = 0; at < 50; at++) decoder.push(bytes('\n'.repeat(1_000)))
    }
    expect(forever).toThrow()
  })
})
