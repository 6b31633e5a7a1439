// What the console shows before a payment is what the gateway credits after it.

import { expect, test } from 'bun:test'
import { exchange, formatUsd, givenDecimals, parseMinor, parseRate } from '../../src/credits/money.ts'
import { amountFault, creditOf, minorOf } from '../../src/console/pages/top-up.tsx'

test('an amount is worth the same in the console and in the gateway, to the picodollar', () => {
  for (const currency of ['INR', 'JPY', 'KWD'])
    for (const rate of ['89.015', '1', '0.5', '999999.999999', '83.333333'])
      for (const text of ['100', '100.01', '500', '250.5', '49999.99', '50000', '999999999.99']) {
        const amount = parseMinor(text, currency)
        const decimals = givenDecimals(currency)
        const here = minorOf(text, decimals)
        const credit = amount && exchange({ amount, currency, rate: parseRate(rate)! }).credit
        const shown = here && creditOf(here, { rate, decimals })
        expect([currency, rate, text, shown]).toEqual([currency, rate, text, credit && formatUsd(credit)])
      }
})

test.each([
  ['100', undefined],
  ['100.5', undefined],
  ['50000', undefined],
  ['', 'empty'],
  ['99.99', 'too_small'],
  ['50000.01', 'too_large'],
  ['100.005', 'decimals'],
  ['1e3', 'no_amount'],
  ['-100', 'no_amount'],
  ['1,000', 'no_amount'],
] as const)('of the typed amount %p it says %p', (typed, fault) => {
  expect(amountFault(typed, { min: '100', max: '50000', decimals: 2 })).toBe(fault)
})

test('an amount of a currency without decimals has none', () => {
  const yen = { min: '500', max: '50000', decimals: 0 }
  expect(['500', '500.5', '499'].map((typed) => amountFault(typed, yen))).toEqual([
    undefined,
    'decimals',
    'too_small',
  ])
})
