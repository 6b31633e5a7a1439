// A receipt can be added up again by hand.

import { expect, test } from 'bun:test'
import { noUsage } from '../../src/conversation/usage.ts'
import type { CallRecord } from '../../src/credits/ledger/ledger.ts'
import { parseUsd } from '../../src/credits/money.ts'
import { receiptOf } from '../../src/credits/ledger/receipt.ts'
import { noon, servedBySim } from './support.ts'

const record: CallRecord = {
  call: 'gen-1',
  account: 'anna',
  key: 'key1',
  tags: {},
  inGroup: null,
  model: 'sim/echo',
  state: 'settled',
  priceVersion: 'sim/echo@1',
  hold: 9_000_000n,
  openedAt: noon,
  endedAt: noon + 5,
  cost: 7_000_002n,
  charged: 7_000_000n,
  absorbed: 2n,
  estimated: false,
  usage: { ...noUsage, input: 1, cacheRead: 3, output: 2, reasoning: 4 },
  lines: [
    { item: 'input', quantity: 1, rate: 2n, amount: 2n },
    { item: 'output', quantity: 7, rate: 1_000_000n, amount: 7_000_000n },
  ],
  ending: 'finished',
  released: null,
  overLimit: false,
  served: servedBySim,
  attempts: servedBySim.attempts,
  drawn: [{ lot: 'lot_1', pool: 'purchased', amount: 7_000_000n }],
}

test('lines are quantity × rate, their sum is the total, and the lots drawn are what was charged', () => {
  const receipt = receiptOf(record)
  const sum = (amounts: readonly string[]) => amounts.reduce((total, amount) => total + parseUsd(amount)!, 0n)
  for (const line of receipt.lines)
    expect(parseUsd(line.rate)! * BigInt(line.quantity)).toBe(parseUsd(line.amount)!)
  expect(sum(receipt.lines.map((line) => line.amount))).toBe(parseUsd(receipt.total)!)
  expect(sum([receipt.charged, receipt.absorbed])).toBe(parseUsd(receipt.total)!)
  expect(sum(receipt.drawn.map((lot) => lot.amount))).toBe(parseUsd(receipt.charged)!)
  expect(receipt).toMatchObject({
    total: '0.000007000002',
    held: '0',
    usage: { prompt_tokens: 4, completion_tokens: 6 },
  })
})

test('it counts every bucket of tokens, and says that a call with a test key cost nothing', () => {
  const { usage, mode } = receiptOf(record)
  expect(usage?.tokens).toMatchObject({ input: 1, cache_read: 3, cache_write_5m: 0, output: 2, reasoning: 4 })
  expect(mode).toBe('live')
  const tested = { ...record, served: { ...servedBySim, priceVersion: 'pv_test' } }
  expect(receiptOf(tested).mode).toBe('test')
})

test('it is plain JSON, also for a call that is still open', () => {
  const open: CallRecord = {
    ...record,
    state: 'open',
    endedAt: null,
    ending: null,
    usage: null,
    lines: [],
    cost: 0n,
    charged: 0n,
    absorbed: 0n,
    served: null,
    drawn: [],
  }
  expect(JSON.parse(JSON.stringify(receiptOf(open)))).toMatchObject({
    state: 'open',
    held: '0.000009',
    total: '0',
    provider: null,
  })
})
