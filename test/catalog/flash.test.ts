// Flash class: at most 0.50 USD per million input tokens and at most 2.50 USD per million output tokens.

import { describe, expect, test } from 'bun:test'
import { buildPrice, isFlash } from '../../src/catalog/row.ts'

const limit = { input: '0.50', output: '2.50' }
const above = (input: string, output: string) => [{ above_prompt_tokens: 1_000, input, output }]

describe('a call of 1,001 prompt tokens', () => {
  test.each([
    ['both rates at their limits', limit, true],
    ['input a picodollar above', { ...limit, input: '0.500001' }, false],
    ['output a picodollar above', { ...limit, output: '2.500001' }, false],
    ['a tier at the limits', { input: '0.1', output: '1', tiers: above('0.50', '2.50') }, true],
    ['a tier whose input is above', { input: '0.1', output: '1', tiers: above('0.500001', '2.50') }, false],
    ['a tier whose output is above', { input: '0.1', output: '1', tiers: above('0.50', '2.500001') }, false],
    // The prompt may turn out shorter than its bound.
    ['a cheap tier over a dear one', { input: '0.6', output: '1', tiers: above('0.1', '1') }, false],
    // What a cache reads and writes are input tokens.
    [
      'cache rates at the limit',
      { ...limit, cache_read: '0.50', cache_write: '0.50', cache_write_1h: '0.50' },
      true,
    ],
    ['a dear cache write', { ...limit, cache_write: '0.625' }, false],
    ['a dear write for an hour', { ...limit, cache_write_1h: '1.00' }, false],
    ['dear reasoning', { ...limit, reasoning: '2.500001' }, false],
    ['dear sound, which it does not use', { ...limit, input_audio: '1', output_audio: '20' }, true],
    ['everything free', { input: '0', output: '0' }, true],
  ])('%s', (_, spec, flash) => {
    expect(isFlash(buildPrice(spec), 1_001)).toBe(flash)
  })
})

test('a prompt at the boundary of a dear tier is flash class, one of a token more is not', () => {
  const price = buildPrice({ input: '0.1', output: '1', tiers: above('0.6', '1') })
  expect([0, 1_000, 1_001].map((prompt) => isFlash(price, prompt))).toEqual([true, true, false])
})

test.each([
  ['inputAudio', { input_audio: '1' }, false],
  ['inputAudio', { input_audio: '0.50' }, true],
  ['inputImage', { input_image: '0.6' }, false],
  // Output has the other limit.
  ['outputAudio', { output_audio: '2.50' }, true],
  ['outputAudio', { output_audio: '3' }, false],
] as const)('a call with %s at %j: %p', (bucket, more, flash) => {
  expect(isFlash(buildPrice({ ...limit, ...more }), 0, [bucket])).toBe(flash)
})
