// Amounts: exact or refused.

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { noUsage, tokenBuckets } from '../../src/conversation/usage.ts'
import { formatUsd, parseUsd, parseUsdPerMillion } from '../../src/credits/money.ts'
import { ceilingOf, costOf, type Price, type Rates } from '../../src/credits/price.ts'

test.each([
  ['1', 1_000_000_000_000n],
  ['0.000000000001', 1n],
  ['-0.5', -500_000_000_000n],
  ['0.0000000000010', 1n],
  ['0.0000000000001', undefined],
  ['9223372.036854775807', 9_223_372_036_854_775_807n],
  ['9223372.036854775808', undefined],
  ['1e3', undefined],
  ['.5', undefined],
  ['', undefined],
  ['1,5', undefined],
] as const)('%p is %p picodollars', (text, amount) => {
  expect(parseUsd(text)).toBe(amount)
})

test.each([
  [0n, '0'],
  [1n, '0.000000000001'],
  [-10n, '-0.00000000001'],
  [42_000_000n, '0.000042'],
  [99_999_999_999n, '0.099999999999'],
  [500_000_000_000n, '0.5'],
  [999_999_999_999n, '0.999999999999'],
  [1_000_000_000_000n, '1'],
  [1_000_000_000_001n, '1.000000000001'],
  [-120_500_000_000_000n, '-120.5'],
] as const)('%p picodollars are written %p', (amount, text) => {
  expect(formatUsd(amount)).toBe(text)
})

test('every amount survives being written and read', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -(2n ** 63n) + 1n, max: 2n ** 63n - 1n }), (amount) => {
      expect(parseUsd(formatUsd(amount))).toBe(amount)
    }),
  )
})

test('the finest price on the market is a whole number of picodollars per token, a finer one is refused', () => {
  expect(parseUsdPerMillion('0.0028')).toBe(2800n)
  expect(parseUsdPerMillion('0.0000005')).toBeUndefined()
  expect(parseUsdPerMillion('-1')).toBeUndefined()
})

const rates = fc
  .array(fc.bigInt({ min: 0n, max: 1000n }), {
    minLength: tokenBuckets.length,
    maxLength: tokenBuckets.length,
  })
  .map((values) => Object.fromEntries(tokenBuckets.map((bucket, at) => [bucket, values[at]!])) as Rates)

const price: fc.Arbitrary<Price> = fc.record({
  version: fc.constant('v'),
  rates,
  tiers: fc
    .array(rates, { maxLength: 2 })
    .map((list) => list.map((each, at) => ({ abovePromptTokens: (at + 1) * 50, rates: each }))),
  perCall: fc.constant({ web_search: 70n }),
  perRequest: fc.bigInt({ min: 0n, max: 9n }),
  perRequestBySearchContext: fc.constant({}),
  serviceTiers: fc.constant({}),
  unstated: fc.constant([]),
})

test('no usage within a bound costs more than its ceiling, and the lines of a cost add up to it', () => {
  const tokens = fc.integer({ min: 0, max: 60 })
  fc.assert(
    fc.property(
      price,
      fc.array(tokens, { minLength: tokenBuckets.length, maxLength: tokenBuckets.length }),
      fc.integer({ min: 0, max: 3 }),
      fc.nat(20),
      (price, counts, calls, slack) => {
        const usage = {
          ...noUsage,
          ...Object.fromEntries(tokenBuckets.map((bucket, at) => [bucket, counts[at]!])),
          toolCalls: { web_search: calls },
        }
        const prompt =
          usage.input +
          usage.cacheRead +
          usage.cacheReadAudio +
          usage.cacheWrite5m +
          usage.cacheWrite1h +
          usage.inputAudio +
          usage.inputImage
        const output = usage.output + usage.reasoning + usage.outputAudio + usage.outputImage
        const cost = costOf(usage, price)
        const bound = {
          promptTokens: prompt + slack,
          outputTokens: output + slack,
          toolCalls: { web_search: calls },
        }
        expect(cost.total <= ceilingOf(bound, price)).toBe(true)
        expect(cost.lines.reduce((sum, line) => sum + line.amount, 0n)).toBe(cost.total)
      },
    ),
  )
})

test('a ceiling is exact, however large the rate and the number of tokens', () => {
  const large = fc.bigInt({ min: 0n, max: 2n ** 60n })
  fc.assert(
    fc.property(
      fc.tuple(large, large),
      fc.tuple(fc.nat(2 ** 31 - 1), fc.nat(2 ** 31 - 1)),
      fc.nat(60),
      ([input, output], [promptTokens, outputTokens], shift) => {
        const zero = Object.fromEntries(tokenBuckets.map((bucket) => [bucket, 0n])) as Rates
        const most = { ...zero, input: input >> BigInt(shift), output: output >> BigInt(shift) }
        const price: Price = {
          version: 'v',
          rates: most,
          tiers: [],
          perCall: {},
          perRequest: 1n,
          perRequestBySearchContext: {},
          serviceTiers: {},
          unstated: [],
        }
        const exact = BigInt(promptTokens) * most.input + BigInt(outputTokens) * most.output + 1n
        expect(ceilingOf({ promptTokens, outputTokens, toolCalls: {} }, price)).toBe(exact)
      },
    ),
  )
})
