// Which member of a virtual model a call is led to.

import { describe, expect, test } from 'bun:test'
import type { Caller } from '../../../src/accounts/account.ts'
import { routeOf } from '../../../src/catalog/route.ts'
import type { Model } from '../../../src/catalog/row.ts'
import {
  chooseMembers,
  type RoutedCall,
  routeNote,
  type RouteParts,
  withRouteDefaults,
} from '../../../src/chat/routing/route.ts'
import { inbound } from '../../../src/protocols/openai-chat/inbound/inbound.ts'
import { modelOf, priceOf } from '../support.ts'

const [one, two, three] = [
  modelOf('a/one', { offers: [{ provider: 'a', upstream: 'one', price: priceOf(3n, 9n) }] }),
  modelOf('b/two', { offers: [{ provider: 'b', upstream: 'two', price: priceOf(1n, 2n) }] }),
  modelOf('c/three', { offers: [{ provider: 'c', upstream: 'three', price: priceOf(2n, 4n) }] }),
]
type Written = Parameters<typeof routeOf>[0]
const virtual = (written: Written, id = 'fast') => ({ ...one, id, route: routeOf(written) })

function partsWith(more: readonly Model[] = [], latencies: Record<string, number> = {}): RouteParts {
  const models = [one, two, three, ...more]
  return {
    catalog: { member: (id) => models.find((model) => model.id === id) },
    health: { latencyMs: ({ upstream }) => latencies[upstream] },
    routeSessions: new Map<string, string>(),
  }
}

function callOf(account: string, body: object = {}): RoutedCall {
  const request = inbound.parse({ model: 'fast', messages: [{ role: 'user', content: 'hi' }], ...body })
  const caller = { account: { id: account }, key: null, standing: null } as unknown as Caller
  return { caller, request }
}

const all = ['a/one', 'b/two', 'c/three']
const ids = (models: readonly Model[]) => models.map(({ id }) => id)

test.each([
  ['order', {}, all],
  ['price', {}, ['b/two', 'c/three', 'a/one']],
  ['latency', { one: 300, two: 200, three: 100 }, ['c/three', 'b/two', 'a/one']],
  // What was never asked is asked first, so that it becomes known.
  ['latency', { one: 300, two: 200 }, ['c/three', 'b/two', 'a/one']],
] as const)('%s puts the members in its order', (pick, latencies, expected) => {
  const { members, reason } = chooseMembers(
    partsWith([], latencies),
    virtual({ to: all, pick }),
    callOf('anna'),
  )
  expect({ reason, members: ids(members) }).toEqual({ reason: pick, members: [...expected] })
})

describe('weight', () => {
  const to = [
    { model: 'a/one', weight: 1 },
    { model: 'b/two', weight: 2 },
    { model: 'c/three', weight: 7 },
  ]
  const first = (account: string, written: Written = { to }) =>
    chooseMembers(partsWith(), virtual(written), callOf(account)).members[0]!.id

  test('shares accounts within one percent, and every call of an account has the same member', () => {
    const accounts = Array.from({ length: 100_000 }, (_, at) => `account ${at}`)
    const parts = partsWith()
    const route = virtual({ to })
    const call = callOf('')
    const count: Record<string, number> = {}
    for (const account of accounts) {
      const caller = { ...call.caller, account: { ...call.caller.account, id: account } }
      const { id } = chooseMembers(parts, route, { ...call, caller }).members[0]!
      count[id] = (count[id] ?? 0) + 1
    }
    expect(Math.abs(count['a/one']! / 100_000 - 0.1)).toBeLessThan(0.01)
    expect(Math.abs(count['b/two']! / 100_000 - 0.2)).toBeLessThan(0.01)
    expect(Math.abs(count['c/three']! / 100_000 - 0.7)).toBeLessThan(0.01)
    expect(first('account 7')).toBe(first('account 7'))
  })

  test('that is raised moves accounts to that member, and no others', () => {
    const raised = [to[0]!, { model: 'b/two', weight: 4 }, to[2]!]
    for (let at = 0; at < 500; at++) {
      const after = first(`account ${at}`, { to: raised })
      if (after !== first(`account ${at}`)) expect(after).toBe('b/two')
    }
  })
})

describe('a session', () => {
  const latencies: Record<string, number> = { one: 100, two: 200, three: 300 }
  const route = virtual({ to: all, pick: 'latency' })

  test.each([
    [
      'by the name that the client gives it',
      { session_id: 's' },
      { session_id: 's', messages: [{ role: 'user', content: 'else' }] },
    ],
    [
      'by its prompt cache key',
      { prompt_cache_key: 'k' },
      { prompt_cache_key: 'k', messages: [{ role: 'user', content: 'else' }] },
    ],
    [
      'by how it begins',
      {},
      {
        messages: [
          { role: 'user', content: 'hi' },
          { role: 'assistant', content: 'ho' },
          { role: 'user', content: 'on' },
        ],
      },
    ],
  ])('stays with the member that has served it, known %s', (_, begun, goneOn) => {
    const parts = partsWith([], latencies)
    const first = chooseMembers(parts, route, callOf('anna', begun))
    expect(first.reason).toBe('latency')
    parts.routeSessions.set(first.session!, 'b/two')
    const next = chooseMembers(parts, route, callOf('anna', goneOn))
    expect({ reason: next.reason, members: ids(next.members) }).toEqual({
      reason: 'session',
      members: ['b/two', 'a/one', 'c/three'],
    })
    // Another account's conversation that begins alike is another.
    expect(chooseMembers(parts, route, callOf('bert', goneOn)).reason).toBe('latency')
  })

  test('is told from others by the ends of a long beginning and by its length', () => {
    const sessionWith = (content: unknown) =>
      chooseMembers(partsWith(), route, callOf('anna', { messages: [{ role: 'user', content }] })).session
    const long = 'x'.repeat(100_000)
    expect(sessionWith(long)).toBe(sessionWith(long))
    const others = [
      `${long}y`,
      `y${long.slice(1)}`,
      `${long.slice(1)}y`,
      long.slice(1),
      [{ type: 'text', text: long }],
    ]
    expect(new Set([long, ...others].map(sessionWith)).size).toBe(6)
  })

  test('whose member has left the route begins anew', () => {
    const parts = partsWith([], latencies)
    parts.routeSessions.set(chooseMembers(parts, route, callOf('anna')).session!, 'd/gone')
    expect(chooseMembers(parts, route, callOf('anna')).reason).toBe('latency')
  })
})

test('a route within a route gives its members in its own order; none stands twice', () => {
  const inner = virtual({ to: ['a/one', 'b/two'], pick: 'price' }, 'inner')
  const { members } = chooseMembers(
    partsWith([inner]),
    virtual({ to: ['inner', 'a/one', 'c/three'] }),
    callOf('anna'),
  )
  expect(ids(members)).toEqual(['b/two', 'a/one', 'c/three'])
})

test('the note names who served in the end, and why the others did not', () => {
  const choice = chooseMembers(partsWith(), virtual({ to: ['gone/x', ...all] }), callOf('anna'))
  const attempt = {
    provider: 'a',
    outcome: 'failed',
    code: 'rate_limited',
    upstreamId: null,
    ms: 1,
    status: 429,
    reason: null,
  } as const
  expect(routeNote(choice, three, [attempt])).toEqual({
    id: 'fast',
    model: 'c/three',
    reason: 'order',
    passedOver: [
      { model: 'gone/x', reason: 'not_sold' },
      { model: 'a/one', reason: 'rate_limited' },
      { model: 'b/two', reason: 'cooling' },
    ],
  })
})

describe('defaults', () => {
  const defaults = {
    temperature: 0.2,
    reasoning: 'low',
    system: 'Be brief.',
    max_cost: '0.05',
    max_tokens: 100,
  } as const
  const { members: _, ...choice } = chooseMembers(partsWith(), virtual({ to: all, defaults }), callOf('anna'))
  const withThem = (body: object) => {
    const { request, caller } = callOf('anna', body)
    const call = { request, caller, bodyBytes: 50 } as Parameters<typeof withRouteDefaults>[0]
    return withRouteDefaults(call, { ...choice, members: [one] })
  }

  test('are what the client does not say', () => {
    const { request, bodyBytes } = withThem({})
    expect(request.envelope).toMatchObject({ maxCost: '0.05', maxOutputTokens: 100 })
    expect(request.toChatRequest()).toMatchObject({
      maxOutputTokens: 100,
      sampling: { temperature: 0.2 },
      reasoning: { effort: 'low' },
      messages: [{ role: 'system', content: [{ text: 'Be brief.' }] }, { role: 'user' }],
    })
    // The hold counts what is added.
    expect(bodyBytes).toBeGreaterThan(50 + 'Be brief.'.length)
    expect(request.promptParts.reading().texts).toContain('Be brief.')
    expect(request.isAdded?.('temperature')).toBe(true)
    expect(request.isAdded?.('top_p')).toBe(false)
    expect(request.translated).toBe(true)
  })

  test('give way to what the client says', () => {
    const { request } = withThem({
      temperature: 1,
      max_tokens: 7,
      max_cost: '0.01',
      reasoning_effort: 'high',
    })
    expect(request.envelope).toMatchObject({ maxCost: '0.01', maxOutputTokens: 7 })
    expect(request.toChatRequest()).toMatchObject({
      maxOutputTokens: 7,
      sampling: { temperature: 1 },
      reasoning: { effort: 'high' },
    })
  })
})
