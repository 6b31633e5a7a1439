// The receipt is added up in the browser by itself, without rounding: what does not add up is found.

import { describe, expect, test } from 'bun:test'
import { withTime } from '../../src/console/operator/requests.tsx'
import { addUp } from '../../src/console/pages/requests.tsx'
import { decimal, exact, plus, sumOf, times } from '../../src/console/strings/text.ts'
import type { Receipt } from '../../src/credits/ledger/receipt.ts'

const receipt = {
  lines: [
    { item: 'input', quantity: 1200, rate: '0.00000025', amount: '0.0003' },
    { item: 'output', quantity: 9_007_199_254_740_991, rate: '0.000000000001', amount: '9007.199254740991' },
  ],
  total: '9007.199554740991',
  charged: '9007.199554740991',
  absorbed: '0',
  drawn: [
    { pool: 'daily', lot: 'lot_1', amount: '0.2' },
    { pool: 'purchased', lot: 'lot_2', amount: '9005.999554740991' },
  ],
  on_credit: '1',
} as unknown as Receipt

describe('adding up a receipt', () => {
  test('computes each line, their sum, what was charged and the lots that paid', () => {
    const steps = addUp(receipt)
    expect(steps.map(({ holds }) => holds)).toEqual([true, true, true, true, true])
    expect(steps[1]!.says).toBe('output: 9007199254740991 × 0.000000000001 = 9007.199254740991')
  })

  test.each([
    ['a line', { lines: [{ ...receipt.lines[0]!, amount: '0.000300000001' }, receipt.lines[1]!] }, [0, 2]],
    ['the total', { total: '9007.199554740992' }, [2, 3]],
    ['the charge', { charged: '9007.199554740990' }, [3, 4]],
    ['a lot', { drawn: [receipt.drawn[0]!] }, [4]],
  ] as const)('finds one picodollar too much in %s', (_, change, wrong) => {
    const steps = addUp({ ...receipt, ...change })
    expect(steps.flatMap(({ holds }, index) => (holds ? [] : [index]))).toEqual([...wrong])
  })

  test('reads decimals of any length, with their sign', () => {
    expect(decimal(plus(exact('-0.000000000001'), exact('1')))).toBe('0.999999999999')
    expect(decimal(times(exact('-0.25'), exact('4')))).toBe('-1')
    expect(decimal(sumOf([]))).toBe('0')
    expect(() => exact('1e5')).toThrow('no decimal number')
  })
})

describe('a time behind what is searched for', () => {
  const now = new Date('2026-11-28T23:30:00Z')
  const local = (...parts: [number, number, number, number, number]) => new Date(...parts).toISOString()

  test.each([
    ['anna@example.org', { text: 'anna@example.org' }],
    ['anna@example.org 2026-11-27 14:05', { text: 'anna@example.org', at: local(2026, 10, 27, 14, 5) }],
    ['anna@example.org 2026-11-27 14:05 UTC', { text: 'anna@example.org', at: '2026-11-27T14:05:00.000Z' }],
    ['Kx3f 2026-11-27T14:05:09.123Z', { text: 'Kx3f', at: '2026-11-27T14:05:09.000Z' }],
    ['anna@example.org 9:15Z', { text: 'anna@example.org', at: '2026-11-28T09:15:00.000Z' }],
    ['2026-11-27 14:05Z', { text: '', at: '2026-11-27T14:05:00.000Z' }],
    ['anna@example.org 25:00', { text: 'anna@example.org 25:00' }],
    ['req_0123456789', { text: 'req_0123456789' }],
    ['River works 2026', { text: 'River works 2026' }],
  ])('%s', (typed, found) => {
    expect(withTime(typed, now)).toEqual(found)
  })
})
