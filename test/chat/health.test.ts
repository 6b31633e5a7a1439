// What a fault does to the standing of an offer or a key, and when it is well again.

import { describe, expect, test } from 'bun:test'
import { afterFault, faultsToOpen, Health, standingOf, type Trouble } from '../../src/chat/health.ts'
import { RetryBudget } from '../../src/chat/retry-budget.ts'
import type { FaultKind } from '../../src/conversation/event.ts'
import { candidateOf, faultOf, stillClock } from './support.ts'

describe('after one fault', () => {
  test.each<[FaultKind, number | undefined, number]>([
    // fault, Retry-After, how long it cools down
    ['rate-limited', 30_000, 30_000],
    ['rate-limited', undefined, 1_000],
    ['quota', undefined, 60_000],
    ['credentials', undefined, 60_000],
    ['overloaded', 5_000, 5_000],
    ['overloaded', undefined, 0],
    ['broken', undefined, 0],
    ['invalid-request', undefined, 0],
    ['context-length', undefined, 0],
    ['not-found', undefined, 0],
    ['rate-limited', 10 ** 12, 86_400_000],
  ])('%s with Retry-After %p cools down for %p ms', (kind, retryAfterMs, coolMs) => {
    const trouble = afterFault(undefined, faultOf(kind, { retryAfterMs }), 0)
    expect(standingOf(trouble, Math.max(0, coolMs - 1))).toBe(coolMs > 0 ? 'cooling' : 'healthy')
    expect(standingOf(trouble, coolMs)).toBe('healthy')
  })
})

test.each<[FaultKind, boolean]>([
  ['broken', true],
  ['cut', true],
  ['timeout', true],
  ['overloaded', true],
  ['rate-limited', false],
  ['invalid-request', false],
  ['content-filter', false],
])('%s again and again opens the breaker: %p', (kind, opens) => {
  let trouble: Trouble | undefined
  for (let at = 1; at <= faultsToOpen; at++) {
    expect(standingOf(trouble, 10 ** 9)).toBe('healthy')
    trouble = afterFault(trouble, faultOf(kind), 0)
  }
  expect(standingOf(trouble, 10 ** 9)).toBe(opens ? 'open' : 'healthy')
})

describe('the health of all', () => {
  test('a used-up key is out for every model, another key is not', () => {
    const clock = stillClock()
    const health = new Health(clock)
    const one = candidateOf('a', { keys: ['k1', 'k2'] })
    health.failed(one, faultOf('quota'), 1)
    expect(health.standing(one)).toBe('cooling')
    expect(health.standing({ ...one, offer: { ...one.offer, upstream: 'other' } })).toBe('cooling')
    expect(health.standing({ ...one, key: 'k2' })).toBe('healthy')
    expect(health.report(one.provider)).toMatchObject({
      state: 'degraded',
      coolUntil: clock() + 60_000,
      troubles: [{ key: 1, upstream: null, standing: 'cooling' }],
    })
    health.failed({ ...one, key: 'k2' }, faultOf('credentials'), 1)
    expect(health.report(one.provider).state).toBe('unavailable')
    clock.pass(60_000)
    expect(health.report(one.provider)).toMatchObject({ state: 'healthy', coolUntil: null })
  })

  test('reports the share of good answers and their median time', () => {
    const health = new Health(stillClock())
    const one = candidateOf('a')
    for (const ms of [10, 20, 30, 40, 50]) health.answered(one, ms)
    health.failed(one, faultOf('broken'), 999)
    expect(health.report(one.provider)).toMatchObject({ successRate: 5 / 6, p50Ms: 30, answers: 6 })
    expect(health.report(candidateOf('b').provider)).toMatchObject({ successRate: null, p50Ms: null })
  })

  test('lets one probe through in a second, however many ask', () => {
    const clock = stillClock()
    const health = new Health(clock)
    const one = candidateOf('a')
    for (let at = 0; at < faultsToOpen; at++) health.failed(one, faultOf('cut'), 1)
    let probes = 0
    for (let ms = 0; ms < 10_000; ms += 10) {
      if (health.probe(one)) probes += 1
      clock.pass(10)
    }
    expect(probes).toBe(9)
  })
})

describe('the retry budget', () => {
  test('allows a few to a quiet gateway, a tenth to a busy one, and slides', () => {
    const clock = stillClock()
    const budget = new RetryBudget(clock)
    const takeAll = () => {
      let taken = 0
      while (budget.take()) taken += 1
      return taken
    }
    budget.request()
    expect(takeAll()).toBe(10)
    for (let at = 0; at < 1_000; at++) budget.request()
    expect(takeAll()).toBe(90)
    clock.pass(10_000)
    expect(takeAll()).toBe(10)
    clock.pass(5_000)
    expect(takeAll()).toBe(0)
  })
})
