// What the console shows before a payment is what the gateway credits after it.

import { expect, test } from 'bun:test'
import { formatUsd } from '../../src/credits/money.ts'
import { exchangeAt, parseMinor, parseRate } from '../../src/payments/top-up.ts'
import { amountFault, creditOf, paiseOf } from '../../src/console/pages/top-up.tsx'

test('an amount is worth the same in the console and in the gateway, to the picodollar', () => {
  for (const rate of ['89.015', '1', '0.5', '999999.999999', '83.333333'])
    for (const amount of ['100', '100.01', '500', '250.5', '49999.99', '50000', '999999999.99']) {
      const credit = exchangeAt(parseMinor(amount)!, parseRate(rate)!).credit
      expect([rate, amount, creditOf(paiseOf(amount)!, rate)]).toEqual([rate, amount, formatUsd(credit)])
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
  expect(amountFault(typed, '100', '50000')).toBe(fault)
})
