// The charge of a call that asks a provider several times, and what one client's calls never see of another's.

import { describe, expect, test } from 'bun:test'
import { type Charge, noCharge } from '../../../src/chat/billing/charge.ts'
import { EarlierRounds } from '../../../src/chat/billing/hold.ts'
import { addedUsage, noUsage } from '../../../src/conversation/usage.ts'

function chargeOf(input: number, more: Partial<Charge> = {}): Charge {
  const amount = BigInt(input) * 2n
  return {
    usage: { ...noUsage, input },
    cost: { lines: [{ item: 'input', quantity: input, rate: 2n, amount }], total: amount, unpriced: [] },
    estimated: false,
    ...more,
  }
}

describe('the charge of several rounds', () => {
  test('is the very charge of its round where there is but one', () => {
    const only = chargeOf(5)
    expect(new EarlierRounds().with(only)).toBe(only)
    expect(new EarlierRounds().with(noCharge)).toBe(noCharge)
  })

  test('adds rounds and tools up, each in lines of its own', () => {
    const rounds = new EarlierRounds()
    rounds.addRound(chargeOf(5))
    rounds.addTool({ name: 'web_search', cost: 7n, searches: 1 }, 1)
    rounds.addTool({ name: 'open_page', cost: 0n, searches: 0 }, 1)
    const { cost, usage, estimated } = rounds.with(chargeOf(6, { estimated: true }))
    expect(cost.lines.map(({ item, amount, round }) => [item, amount, round])).toEqual([
      ['input', 10n, 1],
      ['call:web_search', 7n, 1],
      ['call:open_page', 0n, 1],
      ['input', 12n, 2],
    ])
    expect([cost.total, rounds.cost]).toEqual([29n, 17n])
    expect(cost.lines.reduce((sum, { amount }) => sum + amount, 0n)).toBe(cost.total)
    expect([usage.input, usage.toolCalls, estimated]).toEqual([11, { web_search: 1 }, true])
  })
})

test('sums of usage keep every bucket, tool call and gap of a count', () => {
  const a = {
    ...noUsage,
    input: 1,
    cacheRead: 2,
    reasoning: 3,
    toolCalls: { web_search: 1 },
    serviceTier: 'flex',
  }
  const b = { ...noUsage, output: 4, toolCalls: { web_search: 2, x: 1 }, uncounted: ['prompt'] as const }
  expect(addedUsage(a, b)).toEqual({
    ...noUsage,
    input: 1,
    cacheRead: 2,
    reasoning: 3,
    output: 4,
    toolCalls: { web_search: 3, x: 1 },
    serviceTier: 'flex',
    uncounted: ['prompt'],
  })
})
