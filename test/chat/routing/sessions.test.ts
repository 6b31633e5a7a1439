// A route under a clock that runs on: a hundred thousand calls of many conversations, while its members fail and recover.

import { expect, test } from 'bun:test'
import type { Caller } from '../../../src/accounts/account.ts'
import { routeOf } from '../../../src/catalog/route.ts'
import type { ChatLimits, PaidCall } from '../../../src/chat/call.ts'
import { candidatesFor } from '../../../src/chat/routing/candidates.ts'
import { dispatch, RetryBudget } from '../../../src/chat/routing/dispatch.ts'
import { AttemptFailed } from '../../../src/chat/routing/fault-error.ts'
import { Health } from '../../../src/chat/routing/health.ts'
import { chooseMembers } from '../../../src/chat/routing/route.ts'
import { CallSearch } from '../../../src/chat/routing/search.ts'
import { inbound } from '../../../src/protocols/openai-chat/inbound/inbound.ts'
import { anywhere } from '../../../src/protocols/request/gateway-tools.ts'
import { faultOf, modelOf, providerOf, stillClock } from '../support.ts'

const weights: Readonly<Record<string, number>> = { a: 1, b: 2, c: 7 }
const members = Object.keys(weights).map((id) => modelOf(`${id}/m`))
const providers = new Map(Object.keys(weights).map((id) => [id, providerOf(id)]))
const to = members.map(({ id }) => ({ model: id, weight: weights[id[0]!]! }))
const route = { ...members[0]!, id: 'fast', route: routeOf({ to }) }

const calls = 100_000
const conversations = 10_000
const stepMs = 50
/** Every so often one member is down for a while: for an hour and a half that is an outage of each every five minutes. */
const everyMs = 100_000
const outageMs = 20_000

test('conversations stay with their member while it is well; all members have their share', async () => {
  const clock = stillClock()
  const began = clock()
  const downNow = () => {
    const at = clock() - began
    // The first quarter is without an outage.
    if (at < (calls * stepMs) / 4 || at % everyMs > outageMs) return undefined
    return Object.keys(weights)[Math.floor(at / everyMs) % members.length]
  }
  const sessions = new Map<string, string>()
  const parts = {
    catalog: { member: (id: string) => members.find((model) => model.id === id) },
    health: new Health(clock),
    retryBudget: new RetryBudget(clock),
    limits: { attempts: 3 } as ChatLimits,
    log: { debug() {}, info() {}, warn() {}, error() {} },
    routeSessions: sessions,
  }
  const parsed = inbound.parse({ model: 'fast', messages: [{ role: 'user', content: 'hi' }] })
  const servedBy = new Map<string, string>()
  const undisturbed: Record<string, number> = { a: 0, b: 0, c: 0 }
  let moved = 0
  let movedWhileWell = 0
  let unanswered = 0
  // A stride that has no factor in common with their number visits all of them, in no order.
  for (let number = 0; number < calls; number++) {
    clock.pass(stepMs)
    const account = `account ${(number * 7_919) % conversations}`
    const request = { ...parsed, envelope: { ...parsed.envelope, sessionId: account } }
    const caller = { account: { id: account }, key: null, standing: null } as unknown as Caller
    const choice = chooseMembers(parts, route, { caller, request })
    const call = {
      caller,
      request,
      route: choice,
      requestId: `${number}`,
      signal: new AbortController().signal,
    }
    const candidates = candidatesFor(choice.members, providers, anywhere, account, 1)
    const before = servedBy.get(account)
    const known = candidates.find(({ model }) => model.id === before)
    const isWell = known !== undefined && parts.health.standing(known, account) === 'healthy'
    const search = new CallSearch(
      parts,
      call as unknown as PaidCall,
      { servedBy: () => undefined },
      candidates,
    )
    // Waits of one call do not hold up the others.
    const asked = Object.assign(search, { pause: () => Promise.resolve() })
    const down = downNow()
    try {
      const { candidate } = await dispatch(asked, async ({ provider }) => {
        if (provider.id === down) throw new AttemptFailed(faultOf('overloaded'))
        return provider.id
      })
      const { id } = candidate.model
      servedBy.set(account, id)
      if (before !== undefined && before !== id) {
        moved++
        if (isWell && candidate !== known && known.provider.id !== down) movedWhileWell++
      }
      if (number < calls / 4) undisturbed[candidate.provider.id]!++
    } catch {
      unanswered++
    }
  }
  expect({ movedWhileWell, unanswered }).toEqual({ movedWhileWell: 0, unanswered: 0 })
  // Those of a member that fails move, each once an outage at most, and none of the others.
  expect(moved).toBeGreaterThan(conversations / 4)
  for (const [id, weight] of Object.entries(weights))
    expect(Math.abs(undisturbed[id]! / (calls / 4) - weight / 10)).toBeLessThan(0.01)
}, 60_000)
