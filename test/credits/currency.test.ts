// From money to credit, to the last picodollar.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  creditOfPart,
  currencies,
  decimalsOf,
  exchange,
  formatMinor,
  formatRate,
  formatUsd,
  givenDecimals,
  parseMinor,
  parseRate,
} from '../../src/credits/money.ts'

const rate = parseRate('89.015')!
const inr = { currency: 'INR', rate }

const any = fc.constantFrom(...currencies)

describe('an exchange', () => {
  test.each([
    // smallest units, rate, credit, rounding
    [50_000n, 'INR', '89.015', '5.617030837499', 1n],
    [10_000n, 'INR', '89.015', '1.123406167499', 1n],
    [5_000_000n, 'INR', '100', '500', 0n],
    [1n, 'INR', '89.015', '0.000112340616', 1n],
    [1n, 'INR', '0.000001', '10000', 0n],
    [2_000n, 'EUR', '0.8', '25', 0n],
    [1_500n, 'JPY', '150', '10', 0n],
    [1_500n, 'KWD', '0.3', '5', 0n],
    [1n, 'KWD', '0.307', '0.00325732899', 1n],
  ] as const)('of %p %p at %p gives %p USD', (amount, currency, text, credit, rounding) => {
    const given = exchange({ amount, currency, rate: parseRate(text)! })
    expect([formatUsd(given.credit), given.rounding]).toEqual([credit, rounding])
  })

  test('is the floor of the exact quotient, and says whether anything was cut off', () => {
    fc.assert(
      fc.property(any, fc.bigInt(1n, 10n ** 9n), fc.bigInt(1n, 10n ** 9n), (currency, amount, perUsd) => {
        const { credit, rounding } = exchange({ amount, currency, rate: perUsd })
        const unit = perUsd * 10n ** BigInt(decimalsOf(currency))
        const exact = amount * 10n ** 18n
        expect(credit * unit <= exact && exact < (credit + 1n) * unit).toBe(true)
        expect(rounding === 0n).toBe(credit * unit === exact)
      }),
    )
  })

  test('taken back in parts of whatever sizes is what was given', () => {
    fc.assert(
      fc.property(fc.array(fc.bigInt(1n, 10n ** 7n), { minLength: 1, maxLength: 20 }), (parts) => {
        let before = 0n
        let credit = 0n
        for (const part of parts) {
          credit += creditOfPart(inr, before, part)
          before += part
        }
        expect(credit).toBe(exchange({ ...inr, amount: before }).credit)
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
  expect(parseMinor(text, 'INR')).toBeUndefined()
})

test.each([
  ['500', '500'],
  ['500.5', '500.50'],
  ['500.50', '500.50'],
  ['0500.00', '500'],
  ['0.01', '0.01'],
])('%p is written %p', (given, shown) => {
  expect(formatMinor(parseMinor(given, 'INR')!, 'INR')).toBe(shown)
})

test('a rate is written without trailing zeros', () => {
  expect(['89.015', '90', '0.000001', '89.500000'].map((text) => formatRate(parseRate(text)!))).toEqual([
    '89.015',
    '90',
    '0.000001',
    '89.5',
  ])
})

test.each([
  ['1500', 'JPY', 1_500n, '1500'],
  ['1500.5', 'JPY', undefined, undefined],
  ['1.5', 'KWD', 1_500n, '1.500'],
  ['1.505', 'KWD', undefined, undefined],
  ['12.3', 'EUR', 1_230n, '12.30'],
] as const)('%p %s is %p of its smallest units', (text, currency, amount, shown) => {
  const read = parseMinor(text, currency)
  expect([read, read && formatMinor(read, currency)]).toEqual([amount, shown])
})

test('what was read is written so that it is read again, in every currency', () => {
  fc.assert(
    fc.property(any, fc.nat(99), fc.nat(10 ** 9), (currency, fraction, units) => {
      const places = givenDecimals(currency)
      const text = places === 0 ? String(units) : `${units}.${String(fraction).padStart(2, '0')}`
      const amount = parseMinor(text, currency)!
      const shown = formatMinor(amount, currency)
      // Where a currency has three decimals the last is always zero.
      expect(
        parseMinor(decimalsOf(currency) === 3 ? shown.replace(/(\.\d\d)0$/, '$1') : shown, currency),
      ).toBe(amount)
    }),
  )
})

test('no currency is there twice, and none that a processor counts otherwise', () => {
  expect(new Set(currencies).size).toBe(currencies.length)
  expect(currencies.filter((code) => ['ISK', 'MGA', 'UGX'].includes(code))).toEqual([])
  expect(currencies.filter((code) => !/^[A-Z]{3}$/.test(code))).toEqual([])
})
