// A text in pieces reads as if it had come at once.

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { CollectedText } from '../../src/protocols/lenient.ts'

test('a text of any number of pieces is whole', () => {
  const pieces = fc.array(fc.string(), { maxLength: 300, size: 'max' })
  fc.assert(
    fc.property(pieces, (pieces) => {
      const text = new CollectedText()
      for (const piece of pieces) text.add(piece)
      expect(text.toString()).toBe(pieces.join(''))
      expect(text.length).toBe(pieces.join('').length)
    }),
  )
})
