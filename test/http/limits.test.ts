// Limits of requests: how many at one time, how many in a minute, and what those over them are told.

import { describe, expect, test } from 'bun:test'
import type { ApiKey, Caller } from '../../src/accounts/account.ts'
import { InFlight, type Kind } from '../../src/chat/call.ts'
import { Limiter, type RequestLimits } from '../../src/http/intake/paid/limits.ts'
import { codeIn, startLab } from '../chat/lab.ts'
import { stillClock } from '../chat/support.ts'

const caller = (account: string, key = `key of ${account}`, limits: Partial<ApiKey> = {}) =>
  ({
    account: { id: account },
    key: { id: key, requestsPerMinute: null, tokensPerMinute: null, ...limits },
    standing: null,
    channel: 'api',
    mode: 'live',
  }) as Caller

const none: RequestLimits = {
  inFlight: 100,
  inFlightPerAccount: 50,
  keyRequestsPerMinute: 0,
  keyTokensPerMinute: 0,
  accountRequestsPerMinute: 0,
}

function setUp(limits: Partial<RequestLimits>) {
  const clock = stillClock(0)
  const limiter = new Limiter(() => ({ ...none, ...limits }), new InFlight(), clock)
  let requests = 0
  const enter = (who: Caller, stays = false, kind: Kind = 'real') => {
    const id = `req${++requests}`
    try {
      void limiter.enter(who, id, kind)
      if (!stays) limiter.leave(id)
      return 'in'
    } catch (error) {
      const { code, details } = error as { code: string; details: { retryAfterMs?: number } }
      return `${code} ${details.retryAfterMs}`
    }
  }
  return { clock, limiter, enter }
}

describe('at one time', () => {
  test('an account has its share, the gateway its own', () => {
    const { enter, limiter } = setUp({ inFlight: 3, inFlightPerAccount: 2 })
    expect([enter(caller('a'), true), enter(caller('a'), true)]).toEqual(['in', 'in'])
    expect(enter(caller('a'))).toBe('rate_limit_exceeded 1000')
    expect(enter(caller('b'), true)).toBe('in')
    expect(enter(caller('c'))).toBe('overloaded 1000')
    limiter.leave('req1')
    limiter.leave('req1')
    expect([enter(caller('a'), true), enter(caller('c'))]).toEqual(['in', 'overloaded 1000'])
  })
})

describe('where no share of an account is set', () => {
  const setUpShared = (inFlight: number) => setUp({ inFlight, inFlightPerAccount: 0 })

  test('one alone has half of the places, and whoever comes finds one', () => {
    const { enter } = setUpShared(10)
    const all = Array.from({ length: 20 }, () => enter(caller('a'), true))
    expect(all.filter((answer) => answer === 'in')).toHaveLength(5)
    expect(all.at(-1)).toBe('rate_limit_exceeded 1000')
    expect(enter(caller('b'), true)).toBe('in')
  })

  test('however many take what they can, nobody takes all', () => {
    const { enter } = setUpShared(100)
    for (const greedy of ['a', 'b', 'c', 'd', 'e', 'f']) while (enter(caller(greedy), true) === 'in');
    expect(enter(caller('late'), true)).toBe('in')
  })

  test('what is given back may be taken again', () => {
    const { enter, limiter } = setUpShared(4)
    expect([enter(caller('a'), true), enter(caller('a'), true)]).toEqual(['in', 'in'])
    expect(enter(caller('a'))).toBe('rate_limit_exceeded 1000')
    limiter.leave('req1')
    expect(enter(caller('a'))).toBe('in')
  })

  test('a single place is for whoever comes first', () => {
    const { enter } = setUpShared(1)
    expect([enter(caller('a'), true), enter(caller('b'))]).toEqual(['in', 'overloaded 1000'])
  })
})

test('simulated calls take no places of real ones, nor real ones of theirs', () => {
  const { enter } = setUp({ inFlight: 4, inFlightPerAccount: 0 })
  for (const account of ['a', 'b', 'c', 'd']) while (enter(caller(account), true, 'simulated') === 'in');
  expect(enter(caller('e'), true, 'simulated')).toBe('overloaded 1000')
  // Not even those of the same account.
  for (const account of ['a', 'b', 'c', 'd']) expect(enter(caller(account), true, 'real')).toBe('in')
  expect(enter(caller('e'), true, 'real')).toBe('overloaded 1000')
})

test.each([
  [{ inFlightPerAccount: 1 }, 'The account has 1 request in flight, the most it may have.'],
  [{ keyRequestsPerMinute: 1 }, 'The limit of 1 request a minute is reached.'],
  [
    { inFlight: 2, inFlightPerAccount: 0 },
    'The account has 1 request in flight, its share: as many places are left for all others.',
  ],
])('with %p who is over it reads: %s', (limits, message) => {
  const { limiter, enter } = setUp(limits)
  enter(caller('a'), true)
  expect(() => limiter.enter(caller('a'), 'next', 'real')).toThrow(message)
})

describe('in a minute', () => {
  test('a key has so many requests, and they come back evenly', () => {
    const { clock, enter } = setUp({ keyRequestsPerMinute: 60 })
    const all = Array.from({ length: 61 }, () => enter(caller('a')))
    expect(all.filter((answer) => answer === 'in')).toHaveLength(60)
    expect(all.at(-1)).toBe('rate_limit_exceeded 1000')
    clock.pass(999)
    expect(enter(caller('a'))).toBe('rate_limit_exceeded 1')
    clock.pass(1)
    expect(enter(caller('a'))).toBe('in')
    expect(enter(caller('a', 'another key'))).toBe('in')
  })

  test('S33: many keys of one account share the limit of the account', () => {
    const { enter } = setUp({ accountRequestsPerMinute: 2 })
    expect(['1', '2', '3'].map((key) => enter(caller('a', key)))).toEqual([
      'in',
      'in',
      'rate_limit_exceeded 30000',
    ])
  })

  test('tokens count when they are known; who is over waits until the debt is paid', () => {
    const { clock, limiter, enter } = setUp({ keyTokensPerMinute: 600 })
    expect(enter(caller('a'))).toBe('in')
    limiter.spentTokens('key of a', 700)
    expect(enter(caller('a'))).toBe('rate_limit_exceeded 10100')
    clock.pass(10_100)
    expect(enter(caller('a'))).toBe('in')
  })

  test('a key has limits of its own, below those of every key and never above', () => {
    const { enter, limiter } = setUp({ keyRequestsPerMinute: 3 })
    const narrow = caller('a', 'narrow', { requestsPerMinute: 1 })
    const wide = caller('a', 'wide', { requestsPerMinute: 1000 })
    expect([enter(narrow), enter(narrow)]).toEqual(['in', 'rate_limit_exceeded 60000'])
    expect([enter(wide), enter(wide), enter(wide), enter(wide)]).toEqual([
      'in',
      'in',
      'in',
      'rate_limit_exceeded 20000',
    ])
    expect(limiter.headers(narrow)['x-ratelimit-limit-requests']).toBe('1')
  })

  test('a key and its successor have one limit between them, however they overlap', () => {
    const { enter, limiter } = setUp({})
    const both = (id: string, lineage: string | null) =>
      caller('a', id, { requestsPerMinute: 3, tokensPerMinute: 600, lineage })
    const [old, next] = [both('old', null), both('next', 'old')]
    expect([enter(old), enter(next), enter(old)]).toEqual(['in', 'in', 'in'])
    expect([enter(old), enter(next)]).toEqual(Array(2).fill('rate_limit_exceeded 20000'))
    limiter.spentTokens('next', 500)
    expect(limiter.headers(old)['x-ratelimit-remaining-tokens']).toBe('100')
  })

  test('a key’s own limit holds where the gateway has none, and from the request after it was changed', () => {
    const { clock, enter, limiter } = setUp({})
    const own = (limits: Partial<ApiKey>) => caller('a', 'own', limits)
    expect(enter(own({ tokensPerMinute: 600 }))).toBe('in')
    limiter.spentTokens('own', 700)
    expect(enter(own({ tokensPerMinute: 600 }))).toBe('rate_limit_exceeded 10100')
    expect(enter(own({}))).toBe('in')
    clock.pass(10_100)
    expect(enter(own({ tokensPerMinute: 600 }))).toBe('in')
    limiter.spentTokens('a key without a limit', 1_000_000)
    expect(enter(caller('a', 'a key without a limit'))).toBe('in')
    expect(enter(own({ requestsPerMinute: 2 }))).toBe('in')
    expect(enter(own({ requestsPerMinute: 1 }))).toBe('in')
    expect(enter(own({ requestsPerMinute: 1 }))).toBe('rate_limit_exceeded 60000')
  })

  test('the headers tell of the limit that is closest, and of none where none applies', () => {
    const { enter, limiter } = setUp({ keyRequestsPerMinute: 10, accountRequestsPerMinute: 100 })
    enter(caller('a'))
    expect(limiter.headers(caller('a'))).toEqual({
      'x-ratelimit-limit-requests': '10',
      'x-ratelimit-remaining-requests': '9',
      'x-ratelimit-reset-requests': '6000ms',
    })
    expect(setUp({}).limiter.headers(caller('a'))).toEqual({})
  })
})

test('a client over its limit gets a 429 with the time to wait, before anything is held', async () => {
  const lab = await startLab({
    providers: {},
    models: {},
    settings: { rate_limits: { key_requests_per_minute: 3 } },
  })
  try {
    const answers = [
      await lab.ask('sim/echo'),
      await lab.ask('sim/echo', { stream: true }),
      // Refused for another reason, it has counted all the same, and says so.
      await lab.ask('sim/nothing-of-this-name'),
      await lab.ask('sim/echo'),
    ]
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 404, 429])
    expect(answers.map(({ headers }) => headers.get('x-ratelimit-remaining-requests'))).toEqual([
      '2',
      '1',
      '0',
      '0',
    ])
    const refused = answers[3]!
    expect(codeIn(refused.text)).toBe('rate_limit_exceeded')
    expect(Number(refused.headers.get('retry-after'))).toBeWithin(1, 31)
    expect(refused.headers.get('x-should-retry')).toBe('true')
    expect(await lab.held()).toBe('0')
  } finally {
    await lab.weir.stop()
  }
})
