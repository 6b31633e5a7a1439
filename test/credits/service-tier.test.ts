// An answer is priced at the service tier that it says, and what has no rate of its own is never charged silently.

import { describe, expect, test } from 'bun:test'
import { buildPrice } from '../../src/catalog/row.ts'
import { noUsage, serviceTierOf } from '../../src/conversation/usage.ts'
import { costOf } from '../../src/credits/price.ts'

const price = buildPrice({
  input: '1',
  cache_read: '0.1',
  output: '2',
  input_audio: '8',
  cache_read_audio: '0.8',
  tiers: [{ above_prompt_tokens: 1_000, input: '2', output: '3' }],
  service_tiers: { flex: '0.5', priority: '2' },
})
const usage = { ...noUsage, input: 100, output: 10 }

describe('a call', () => {
  test.each([
    [undefined, 120n, []],
    ['flex', 60n, []],
    ['priority', 240n, []],
    ['turbo', 120n, ['service_tier:turbo']],
    // A name that every object has.
    ['constructor', 120n, ['service_tier:constructor']],
  ] as const)('served at tier %p costs %p', (serviceTier, micros, unpriced) => {
    const cost = costOf({ ...usage, ...(serviceTier && { serviceTier }) }, price)
    expect(cost.total).toBe(micros * 1_000_000n)
    expect(cost.unpriced).toEqual([...unpriced])
    expect(cost.lines.reduce((sum, { quantity, rate }) => sum + BigInt(quantity) * rate, 0n)).toBe(cost.total)
  })

  test('with a long prompt has the long rates of its tier', () => {
    const long = { ...noUsage, input: 2_000, serviceTier: 'priority' }
    expect(costOf(long, price).lines[0]?.rate).toBe(4_000_000n)
  })

  test('with sound that the cache served costs what cached sound costs', () => {
    const { lines, unpriced } = costOf({ ...noUsage, cacheReadAudio: 3, cacheRead: 5, inputAudio: 2 }, price)
    expect(lines.map(({ item, rate }) => [item, rate])).toEqual([
      ['cacheRead', 100_000n],
      ['cacheReadAudio', 800_000n],
      ['inputAudio', 8_000_000n],
    ])
    expect(unpriced).toEqual([])
  })

  test('with tokens of a medium that has no rate says so', () => {
    expect(costOf({ ...usage, outputAudio: 4 }, price).unpriced).toEqual(['outputAudio'])
  })
})

test.each([
  ['default', undefined],
  ['auto', undefined],
  ['standard', undefined],
  ['on_demand', undefined],
  ['ON_DEMAND', undefined],
  ['TRAFFIC_TYPE_UNSPECIFIED', undefined],
  ['', undefined],
  [null, undefined],
  [{ type: 'priority' }, undefined],
  ['priority', 'priority'],
  ['FLEX', 'flex'],
  ['ON_DEMAND_FLEX', 'flex'],
  ['PROVISIONED_THROUGHPUT', 'provisioned_throughput'],
])('the tier that an answer calls %p is %p', (named, tier) => {
  expect(serviceTierOf(named)).toBe(tier)
})
