// From rupees to credit, to the last picodollar.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { formatUsd } from '../../src/credits/money.ts'
import {
  creditOfPart,
  exchangeAt,
  formatMinor,
  formatRate,
  parseMinor,
  parseRate,
} from '../../src/payments/top-up.ts'

const rate = parseRate('89.015')!

describe('an exchange', () => {
  test.each([
    // paise   rate       credit              rounding
    [50_000n, '89.015', '5.617030837499', 1n],
    [10_000n, '89.015', '1.123406167499', 1n],
    [5_000_000n, '100', '500', 0n],
    [1n, '89.015', '0.000112340616', 1n],
    [1n, '0.000001', '10000', 0n],
  ] as const)('of %p paise at %p gives %p USD', (paise, text, credit, rounding) => {
    const given = exchangeAt(paise, parseRate(text)!)
    expect([formatUsd(given.credit), given.rounding]).toEqual([credit, rounding])
  })

  test('is the floor of the exact quotient, and says whether anything was cut off', () => {
    fc.assert(
      fc.property(fc.bigInt(1n, 10n ** 9n), fc.bigInt(1n, 10n ** 9n), (paise, perUsd) => {
        const { credit, rounding } = exchangeAt(paise, perUsd)
        const exact = paise * 10n ** 18n
        expect(credit * perUsd * 100n <= exact && exact < (credit + 1n) * perUsd * 100n).toBe(true)
        expect(rounding === 0n).toBe(credit * perUsd * 100n === exact)
      }),
    )
  })

  test('taken back in parts of whatever sizes is what was given', () => {
    fc.assert(
      fc.property(fc.array(fc.bigInt(1n, 10n ** 7n), { minLength: 1, maxLength: 20 }), (parts) => {
        let before = 0n
        let credit = 0n
        for (const part of parts) {
          credit += creditOfPart(before, part, rate)
          before += part
        }
        expect(credit).toBe(exchangeAt(before, rate).credit)
      }),
    )
  })
})

test.each(['', '0', '0.0', '-1', '1e2', '1.1234567', 'abc', '1234567', ' 1', '٣'])(
  '%p is no rate',
  (text) => {
    expect(parseRate(text)).toBeUndefined()
  },
)

test.each(['', '-5', '5.005', '1e3', '5,00', '.5', ' 5', '5.', 'NaN'])('%p is no amount', (text) => {
  expect(parseMinor(text)).toBeUndefined()
})

test.each([
  ['500', '500'],
  ['500.5', '500.50'],
  ['500.50', '500.50'],
  ['0500.00', '500'],
  ['0.01', '0.01'],
])('%p is written %p', (given, shown) => {
  expect(formatMinor(parseMinor(given)!)).toBe(shown)
})

test('a rate is written without trailing zeros', () => {
  expect(['89.015', '90', '0.000001', '89.500000'].map((text) => formatRate(parseRate(text)!))).toEqual([
    '89.015',
    '90',
    '0.000001',
    '89.5',
  ])
})
