// What a deployment is asked in a minute, and at once: never more than its limits, and as much as they allow.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { candidatesFor } from '../../../src/chat/routing/candidates.ts'
import { DeploymentUse } from '../../../src/chat/routing/health.ts'
import { DeploymentFull } from '../../../src/chat/routing/fault-error.ts'
import { configureProvider, type DeploymentLimits } from '../../../src/providers/provider.ts'
import { anyRoute, modelOf, providerOf, stillClock } from '../support.ts'

const none: DeploymentLimits = {
  requestsPerMinute: undefined,
  tokensPerMinute: undefined,
  inFlight: undefined,
}

function limited(limits: Partial<DeploymentLimits>) {
  const clock = stillClock()
  const use = new DeploymentUse(clock)
  const deployment = { firstKey: 0, region: undefined, weight: 1, limits: { ...none, ...limits } }
  const provider = providerOf('lab', { deployment })
  /** What ends the call; or, where there is no room, the wait. */
  const take = (tokens = 0): (() => void) | number => {
    try {
      return use.take(provider, tokens)
    } catch (error) {
      return (error as DeploymentFull).fault.retryAfterMs!
    }
  }
  return { clock, take }
}

describe('a deployment', () => {
  test('is asked as often as it may be in a minute, and told when it may again', () => {
    const { clock, take } = limited({ requestsPerMinute: 3 })
    for (let at = 0; at < 3; at++) {
      expect(take()).toBeFunction()
      clock.pass(10_000)
    }
    // The first was thirty seconds ago.
    expect(take()).toBe(31_000)
    clock.pass(30_999)
    expect(take()).toBe(1)
    clock.pass(1)
    expect(take()).toBeFunction()
    expect(take()).toBe(10_000)
  })

  test('is asked for as many tokens as it may be, and once for more than that', () => {
    const { clock, take } = limited({ tokensPerMinute: 1_000 })
    expect(take(600)).toBeFunction()
    expect(take(401)).toBeNumber()
    expect(take(400)).toBeFunction()
    clock.pass(61_000)
    expect(take(5_000)).toBeFunction()
    expect(take(1)).toBeNumber()
  })

  test('has as many calls in flight as it may have', () => {
    const { take } = limited({ inFlight: 2 })
    const [first] = [take(), take()]
    expect(take()).toBe(1_000)
    if (typeof first === 'function') first()
    expect(take()).toBeFunction()
    expect(take()).toBe(1_000)
  })

  test('is never asked for more than its limits in any minute, and never idle without cause', () => {
    const calls = fc.array(fc.record({ waitMs: fc.nat(20_000), tokens: fc.integer({ min: 1, max: 400 }) }), {
      maxLength: 120,
    })
    fc.assert(
      fc.property(calls, fc.integer({ min: 1, max: 20 }), (sequence, requests) => {
        const { clock, take } = limited({ requestsPerMinute: requests, tokensPerMinute: 1_000 })
        const taken: { readonly at: number; readonly tokens: number }[] = []
        for (const { waitMs, tokens } of sequence) {
          clock.pass(waitMs)
          const now = clock()
          const result = take(tokens)
          if (typeof result === 'function') taken.push({ at: now, tokens })
          else expect(result).toBeWithin(1, 61_001)
          const minute = taken.filter(({ at }) => at > now - 60_000)
          expect(minute.length).toBeLessThanOrEqual(requests)
          expect(minute.reduce((sum, call) => sum + call.tokens, 0)).toBeLessThanOrEqual(1_000)
        }
      }),
    )
  })
})

const deployed = (...weights: readonly number[]) =>
  configureProvider('azure', undefined, {
    base_url: 'https://all.example/v1',
    api_key: ['shared'],
    headers: {},
    quirks: {},
    disabled: false,
    deployments: weights.map((weight, at) => ({
      base_url: at === 0 ? undefined : `https://${at}.example/v1`,
      api_key: at === 0 ? [] : [`key-${at}`],
      weight,
    })),
  })

const firstOf = (provider: ReturnType<typeof deployed>, rotation: string) =>
  candidatesFor([modelOf('azure/m')], new Map([['azure', provider]]), anyRoute, rotation, 1)

test('deployments are candidates with their own address and key; what one does not say is the provider’s', () => {
  const ways = firstOf(deployed(1, 1, 1), 'x').map(({ provider, key }) => [provider.baseUrl, key])
  expect(ways.toSorted()).toEqual([
    ['https://1.example/v1', 'key-1'],
    ['https://2.example/v1', 'key-2'],
    ['https://all.example/v1', 'shared'],
  ])
})

test('each is first as often as its weight says, and a session stays with its own', () => {
  const provider = deployed(1, 3, 6)
  const counts = new Map<string, number>()
  for (let at = 0; at < 10_000; at++) {
    const [first] = firstOf(provider, `session ${at}`)
    counts.set(first!.key!, (counts.get(first!.key!) ?? 0) + 1)
    if (at % 100 === 0) expect(firstOf(provider, `session ${at}`)[0]).toEqual(first!)
  }
  expect(counts.get('shared')! / 10_000).toBeCloseTo(0.1, 1)
  expect(counts.get('key-1')! / 10_000).toBeCloseTo(0.3, 1)
  expect(counts.get('key-2')! / 10_000).toBeCloseTo(0.6, 1)
})

test('a deployment without an address or a key is none', () => {
  const provider = configureProvider('lab', undefined, {
    api_key: [],
    headers: {},
    quirks: {},
    disabled: false,
    deployments: [
      { api_key: ['k'], weight: 1 },
      { base_url: 'https://a.example/v1', api_key: ['a'], weight: 1 },
    ],
  })
  expect(provider).toMatchObject({ baseUrl: 'https://a.example/v1', keys: ['a'] })
  expect(provider.deployments).toHaveLength(1)
})
