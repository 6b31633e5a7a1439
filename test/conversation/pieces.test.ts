// What comes large goes out in pieces, and means the same.

import { expect, test } from 'bun:test'
import { type ChatEvent, collect } from '../../src/conversation/event.ts'
import { inPieces, pieceCharacters, textPieces } from '../../src/conversation/delivered.ts'

const long = '😀 the weir '.repeat(30_000)
const entries = Array.from({ length: 1_000 }, (_, at) => ({ token: 'w', logprob: -at }))

const events: readonly ChatEvent[] = [
  { kind: 'message-start', id: 'a', model: 'm' },
  {
    kind: 'reasoning-delta',
    choice: 0,
    detail: { type: 'reasoning.text', format: null, index: 0, text: long, signature: 'signed' },
  },
  { kind: 'text-delta', choice: 0, text: long },
  { kind: 'refusal-delta', choice: 0, text: 'no' },
  { kind: 'tool-call-start', choice: 0, call: 0, id: 'c', name: 'f', thoughtSignature: undefined },
  { kind: 'tool-call-delta', choice: 0, call: 0, arguments: JSON.stringify(long) },
  { kind: 'logprobs', choice: 0, content: entries, refusal: entries.slice(0, 2) },
  { kind: 'choice-finish', choice: 0, reason: 'stop', native: 'stop' },
  { kind: 'finish' },
]

test('an answer in pieces is the same answer', () => {
  const pieces = [...inPieces(events)]
  expect(pieces.length).toBeGreaterThan(events.length)
  expect(collect(pieces)).toEqual(collect(events))
})

test('no piece is large, and none cuts a character in two', () => {
  const pieces = textPieces(`x${'😀'.repeat(pieceCharacters)}`)
  for (const piece of pieces) {
    expect(piece.length).toBeLessThanOrEqual(pieceCharacters)
    expect(piece.isWellFormed()).toBe(true)
  }
  expect([...inPieces(events)].every((event) => JSON.stringify(event).length < 2 * pieceCharacters)).toBe(
    true,
  )
})

test('what is small is not touched', () => {
  expect([...inPieces(events.slice(0, 1))]).toEqual(events.slice(0, 1))
  expect(textPieces('')).toEqual([''])
})
