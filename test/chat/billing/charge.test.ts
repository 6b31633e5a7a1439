// What an ended call is charged, and that its lines add up.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { atMost, billOf, chargeOf } from '../../../src/chat/billing/charge.ts'
import { noUsage, tokenBuckets, type Usage } from '../../../src/conversation/usage.ts'
import { formatUsd, parseUsd } from '../../../src/credits/money.ts'
import { price } from '../support.ts'

const counted: Usage = { ...noUsage, input: 100, output: 50 }
const early: Usage = { ...noUsage, input: 40, cacheRead: 60, output: 1 }
const complete = { usage: counted, complete: true }
const own = { prompt: 90, output: { output: 48, reasoning: 7 } }

describe('the charge', () => {
  test.each<
    [
      string,
      Partial<typeof complete> & { usage?: Usage | undefined; doubted?: boolean },
      Partial<Usage>,
      boolean,
    ]
  >([
    // what happened, what is known, the usage charged, estimated
    ['complete and counted: the count', {}, counted, false],
    ['an explicit zero is zero', { usage: noUsage }, noUsage, false],
    ['missing is counted here', { usage: undefined }, { input: 90, output: 48, reasoning: 7 }, true],
    [
      'cut before any count',
      { usage: undefined, complete: false },
      { input: 90, output: 48, reasoning: 7 },
      true,
    ],
    [
      'cut after an early count: its prompt is kept',
      { usage: early, complete: false },
      { input: 40, cacheRead: 60, output: 48 },
      true,
    ],
    [
      'cut with calls of tools that were counted: they are kept',
      { usage: { ...counted, toolCalls: { web_search: 2 } }, complete: false },
      { input: 100, output: 48, toolCalls: { web_search: 2 } },
      true,
    ],
    [
      'cut with a count of nothing: our own',
      { usage: noUsage, complete: false },
      { input: 90, output: 48 },
      true,
    ],
    ['a count that had what cannot be is an estimate without it', { doubted: true }, counted, true],
    [
      'a side that the provider left out is counted here',
      { usage: { ...noUsage, input: 100, uncounted: ['completion'] } },
      { input: 100, output: 48, reasoning: 7 },
      true,
    ],
    [
      'and so is its prompt',
      { usage: { ...noUsage, output: 50, uncounted: ['prompt'] } },
      { input: 90, output: 50, reasoning: 0 },
      true,
    ],
  ])('%s', (_, known, usage, estimated) => {
    const charge = chargeOf({ ...complete, ...known }, own, price, 'rates')
    expect(charge.usage).toMatchObject(usage)
    expect(charge.estimated).toBe(estimated)
  })

  test('of an answer that delivered nothing its missing output is none, and no estimate', () => {
    const usage: Usage = { ...noUsage, input: 100, uncounted: ['completion'] }
    const nothing = { prompt: 0, output: { output: 0, reasoning: 0 } }
    const charge = chargeOf({ usage, complete: true }, nothing, price, 'rates')
    expect(charge).toMatchObject({ usage: { input: 100, output: 0 }, estimated: false })
    expect(charge.usage.uncounted).toBeUndefined()
  })

  test('a cost that the provider names needs no count', () => {
    const usage: Usage = { ...noUsage, reportedCost: '0.0125', uncounted: ['prompt', 'completion'] }
    const charge = chargeOf({ usage, complete: true }, own, price, 'reported')
    expect([charge.cost.total, charge.estimated]).toEqual([12_500_000_000n, false])
  })

  test.each([
    ['0.0125', 12_500_000_000n],
    ['0', 0n],
    [undefined, 200_000_000n],
    ['a lot', 200_000_000n],
    ['-1', 200_000_000n],
  ])(
    'a provider that names its own price is charged %p; without a sane one the rates hold',
    (reportedCost, total) => {
      const answered = { ...complete, usage: { ...counted, reportedCost } }
      const charge = chargeOf(answered, own, price, 'reported')
      expect(charge.cost.total).toBe(total)
      expect(chargeOf(answered, own, price, 'rates').cost.total).toBe(200_000_000n)
    },
  )
})

const usages = fc
  .record(Object.fromEntries(tokenBuckets.map((bucket) => [bucket, fc.nat(1_000_000)])))
  .map((tokens) => ({ ...noUsage, ...tokens }) as Usage)

test('a charge at most so much is at most so much, and its lines still multiply and add up', () => {
  fc.assert(
    fc.property(usages, fc.bigInt(0n, 10n ** 13n), (usage, limit) => {
      const whole = chargeOf({ ...complete, usage }, own, price, 'rates')
      const { cost } = atMost(whole, limit)
      expect(cost.total <= limit || cost.total === whole.cost.total).toBe(true)
      expect(cost.total <= whole.cost.total).toBe(true)
      expect(cost.lines.reduce((sum, line) => sum + line.amount, 0n)).toBe(cost.total)
      for (const line of cost.lines) expect(BigInt(line.quantity) * line.rate).toBe(line.amount)
    }),
  )
})

test('the parts of a bill add up to its total, to the last digit', () => {
  fc.assert(
    fc.property(usages, (usage) => {
      const bill = billOf(chargeOf({ ...complete, usage }, own, price, 'rates').cost)
      const sum = Object.values(bill.lines).reduce((total, line) => total + parseUsd(line)!, 0n)
      expect(formatUsd(sum)).toBe(bill.cost)
    }),
  )
})
