// What an answer has delivered: one count, however it comes in pieces, and only what no provider has counted.

import { describe, expect, test } from 'bun:test'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { Delivered, RunningTokens } from '../../src/conversation/delivered.ts'
import { kinds, textOf } from '../exactness/corpus.ts'
import { seeded } from '../simulation/random.ts'

/** A text in pieces of so many characters, of one choice. */
function deliveredIn(text: string, size: number): Delivered {
  const delivered = new Delivered()
  for (let at = 0; at < text.length; at += size) delivered.add(0, 'output', text.slice(at, at + size))
  return delivered
}

describe('the running estimate', () => {
  test.each(kinds)('of %s is within a fifth of the vocabulary, in one piece and in many', (kind) => {
    const random = seeded(1)
    const text = textOf(kind, 4_000, (of) => random.pick(of))
    const tokens = countTokens(text)
    for (const size of [1, 3, 40, 4_000]) {
      const estimate = deliveredIn(text, size).tokens
      expect(Math.abs(estimate - tokens) / tokens).toBeLessThan(0.2)
    }
  })

  test('of a text does not depend on its pieces', () => {
    const text = 'Grüße, 世界 42 🎉 camelCase\n'.repeat(50)
    const whole = new RunningTokens()
    whole.add(text)
    const pieces = new RunningTokens()
    for (const character of text) pieces.add(character)
    expect(pieces.tokens).toBeCloseTo(whole.tokens, 6)
  })
})

describe('the texts for an exact count', () => {
  test('are whole, by choice and kind, whatever the order of their pieces', () => {
    const delivered = new Delivered()
    for (const piece of ['one ', 'two ']) {
      for (const choice of [0, 1]) delivered.add(choice, 'output', piece + choice)
      delivered.add(0, 'reasoning', piece)
    }
    expect(delivered.samples('start').map(({ kind, text }) => [kind, text])).toEqual([
      ['output', 'one 0two 0'],
      ['output', 'one 1two 1'],
      ['reasoning', 'one two '],
    ])
  })

  test('of a long answer are its beginning, with the estimate of all of it', () => {
    const delivered = deliveredIn('word '.repeat(200_000), 500)
    const [sample] = delivered.samples('start')
    expect(sample!.text.length).toBeLessThan(70_000)
    expect(sample!.allTokens).toBeCloseTo(200_000, -2)
    expect(sample!.textTokens / sample!.allTokens).toBeCloseTo(sample!.text.length / 1_000_000, 2)
  })
})

describe('a count of the provider', () => {
  test('leaves what came since, and nothing else', () => {
    const delivered = deliveredIn('one two three four', 4)
    delivered.count({ output: 30, reasoning: 100 })
    delivered.add(0, 'output', ' five six')
    expect(delivered.samples('count').map(({ text }) => text)).toEqual([' five six'])
    expect(delivered.withCounted({ output: 2, reasoning: 0 })).toEqual({ output: 32, reasoning: 100 })
    expect(delivered.tokens).toBe(132)
  })

  test('that is repeated says nothing about what came since', () => {
    const delivered = new Delivered()
    for (const word of ['one', ' two', ' three']) {
      delivered.add(0, 'output', word)
      delivered.count({ output: 0, reasoning: 0 })
    }
    expect(delivered.withCounted(delivered.running('count')).output).toBeCloseTo(3, 6)
  })

  test('that came before any output is of the first tokens of it, but its reasoning has been made', () => {
    const delivered = new Delivered()
    delivered.count({ output: 3, reasoning: 500 })
    expect(delivered.withCounted({ output: 0, reasoning: 0 })).toEqual({ output: 3, reasoning: 500 })
    delivered.add(0, 'output', 'one two three four five')
    expect(delivered.withCounted({ output: 5, reasoning: 0 })).toEqual({ output: 5, reasoning: 500 })
  })
})
