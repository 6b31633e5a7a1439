// What a fault does to the standing of an offer or a key, and when it is well again.

import { describe, expect, test } from 'bun:test'
import {
  afterFault,
  faultsToOpen,
  figuresOf,
  Health,
  probeEveryMs,
  standingOf,
  type Trouble,
} from '../../../src/chat/routing/health.ts'
import { RetryBudget } from '../../../src/chat/routing/dispatch.ts'
import type { FaultKind } from '../../../src/conversation/event.ts'
import { candidateOf, faultOf, stillClock } from '../support.ts'

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
    const trouble = afterFault(undefined, faultOf(kind, { retryAfterMs }), 0, 'acct')
    expect(standingOf(trouble, Math.max(0, coolMs - 1), 'acct')).toBe(coolMs > 0 ? 'cooling' : 'healthy')
    expect(standingOf(trouble, coolMs, 'acct')).toBe('healthy')
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
    expect(standingOf(trouble, 10 ** 9, 'acct')).toBe('healthy')
    trouble = afterFault(trouble, faultOf(kind), 0, 'acct')
  }
  expect(standingOf(trouble, 10 ** 9, 'acct')).toBe(opens ? 'open' : 'healthy')
})

describe('whose faults close an offer to whom', () => {
  const one = candidateOf('a')
  /** How the offer stands for somebody else after so many timeouts of each of these. */
  function standingAfter(faults: Readonly<Record<string, number>>) {
    const health = new Health(stillClock())
    for (const [account, times] of Object.entries(faults))
      for (let at = 0; at < times; at++) health.onFailed(one, faultOf('timeout'), account)
    return { ofAnother: health.standing(one, 'another'), ofFirst: health.standing(one, 'first') }
  }

  test('ten timeouts of one account close it to that account alone', () => {
    expect(standingAfter({ first: faultsToOpen })).toEqual({ ofAnother: 'healthy', ofFirst: 'open' })
    expect(standingAfter({ first: 10 * faultsToOpen })).toEqual({ ofAnother: 'healthy', ofFirst: 'open' })
  })

  test('two accounts together do not close it to the others, three do', () => {
    expect(standingAfter({ first: 50, second: 50 }).ofAnother).toBe('healthy')
    expect(standingAfter({ first: 4, second: 4, third: 1 }).ofAnother).toBe('healthy')
    expect(standingAfter({ first: 4, second: 4, third: 2 }).ofAnother).toBe('open')
  })

  test('an answer to anybody opens it to all', () => {
    const health = new Health(stillClock())
    for (let at = 0; at < faultsToOpen; at++) health.onFailed(one, faultOf('timeout'), 'first')
    health.onAnswer(one, 1)
    expect(health.standing(one, 'first')).toBe('healthy')
  })
})

describe('the health of all', () => {
  test('a used-up key is out for every model, another key is not', () => {
    const clock = stillClock()
    const health = new Health(clock)
    const one = candidateOf('a', { keys: ['k1', 'k2'] })
    health.onFailed(one, faultOf('quota'), 'acct')
    expect(health.standing(one, 'acct')).toBe('cooling')
    expect(health.standing({ ...one, offer: { ...one.offer, upstream: 'other' } }, 'acct')).toBe('cooling')
    expect(health.standing({ ...one, key: 'k2' }, 'acct')).toBe('healthy')
    expect(health.report(one.provider, 'acct')).toMatchObject({
      state: 'degraded',
      coolUntil: clock() + 60_000,
      troubles: [{ key: 1, upstream: null, standing: 'cooling' }],
    })
    health.onFailed({ ...one, key: 'k2' }, faultOf('credentials'), 'acct')
    expect(health.report(one.provider, 'acct').state).toBe('unavailable')
    clock.pass(60_000)
    expect(health.report(one.provider, 'acct')).toMatchObject({ state: 'healthy', coolUntil: null })
  })

  test('reports the first failure of a provider at once, and the last until the process ends', () => {
    const clock = stillClock()
    const health = new Health(clock)
    const one = candidateOf('a')
    expect(health.report(one.provider, 'acct').lastError).toBeNull()
    health.onFailed(one, faultOf('broken', { status: 500, message: 'words of the provider' }), 'acct')
    const seen = health.report(one.provider, 'acct')
    expect(seen).toMatchObject({
      state: 'degraded',
      hour: { answered: 0, failed: 1 },
      troubles: [{ key: 1, upstream: 'm', standing: 'healthy', breaker: 'closed', failures: 1 }],
      lastError: { at: clock(), code: 'upstream_error', status: 500, upstream: 'm' },
    })
    expect(JSON.stringify(seen)).not.toContain('words of the provider')
    // A request that is wrong says nothing of the provider, and its words are not for others.
    health.onFailed(one, faultOf('invalid-request', { message: 'a quoted prompt' }), 'acct')
    expect(health.report(one.provider, 'acct')).toMatchObject({
      state: 'healthy',
      troubles: [],
      lastError: { code: 'upstream_error' },
    })
  })

  test('reports a breaker as open, then as half-open when a probe may go', async () => {
    const clock = stillClock()
    const health = new Health(clock)
    const one = candidateOf('a')
    for (let n = 0; n < faultsToOpen; n++) health.onFailed(one, faultOf('timeout'), 'acct')
    const breaker = () => health.report(one.provider, 'acct').troubles[0]?.breaker
    expect(breaker()).toBe('open')
    clock.pass(probeEveryMs)
    expect(breaker()).toBe('half-open')
    expect(health.probe(one)).toBe(true)
    expect(breaker()).toBe('open')
  })

  test('reports the share of good answers and their median time', () => {
    const clock = stillClock()
    const health = new Health(clock)
    const one = candidateOf('a')
    for (const ms of [10, 20, 30, 40, 50]) health.onAnswer(one, ms)
    health.onFailed(one, faultOf('broken'), 'acct')
    const seen = health.report(one.provider, 'acct')
    const figures = { successRate: 5 / 6, p50Ms: 30, answers: 6, refusals: 0 }
    expect([figuresOf(seen.hour), figuresOf(seen.day)]).toEqual([figures, figures])
    expect(seen.countedSince).toBe(clock())
    const nothing = { successRate: null, p50Ms: null, answers: 0, refusals: 0 }
    expect(figuresOf(health.report(candidateOf('b').provider, 'acct').hour)).toEqual(nothing)
    expect(health.lastHour()).toEqual({ a: seen.hour })
  })

  test('counts the last hour and the last day, and forgets what is older', () => {
    const clock = stillClock()
    const health = new Health(clock)
    const one = candidateOf('a')
    const answers = () => {
      const { hour, day } = health.report(one.provider, 'acct')
      return [figuresOf(hour).answers, figuresOf(day).answers]
    }
    for (let minute = 0; minute < 30 * 60; minute++) {
      health.onAnswer(one, 10)
      clock.pass(60_000)
      const [hour = 0, day = 0] = answers()
      const since = minute + 1
      expect(hour).toBeWithin(Math.min(since, 55) - 1, Math.min(since, 60) + 1)
      expect(day).toBeWithin(Math.min(since, 23 * 60) - 1, Math.min(since, 24 * 60) + 1)
    }
    clock.pass(3_600_000)
    expect(answers()[0]).toBe(0)
    clock.pass(86_400_000)
    expect(answers()).toEqual([0, 0])
  })

  test('tells a provider’s refusals from its failures; a stream that broke off was no answer', () => {
    const health = new Health(stillClock())
    const one = candidateOf('a')
    const hour = () => health.report(one.provider, 'acct').hour
    for (const kind of ['rate-limited', 'quota', 'credentials'] as const)
      health.onFailed(one, faultOf(kind), 'acct')
    health.onFailed(one, faultOf('invalid-request'), 'acct')
    health.onAnswer(one, 100)
    health.onBroken(one, faultOf('cut'), 'acct')
    expect(hour()).toMatchObject({ answered: 1, refused: 3, failed: 1 })
    expect(figuresOf(hour())).toEqual({
      answers: 5,
      refusals: 3,
      successRate: 0.2,
      p50Ms: 100,
    })
  })

  test('lets one probe through in a second, however many ask', async () => {
    const clock = stillClock()
    const health = new Health(clock)
    const one = candidateOf('a')
    for (let at = 0; at < faultsToOpen; at++) health.onFailed(one, faultOf('cut'), 'acct')
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
