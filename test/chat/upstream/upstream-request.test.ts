// One request to a provider, and everything that may end it.

import { Memory } from '../../../src/observe/memory.ts'
import { describe, expect, test } from 'bun:test'
import { AttemptAbandoned, AttemptFailed } from '../../../src/chat/routing/fault-error.ts'
import { Scheduler } from '../../../src/scheduler/scheduler.ts'
import { Watchdog } from '../../../src/chat/streaming/relay.ts'
import { Arrivals } from '../../../src/chat/upstream/arrivals.ts'
import {
  contentMsFor,
  ConnectionLimit,
  type UpstreamParts,
  UpstreamRequest,
} from '../../../src/chat/upstream/upstream-request.ts'
import type { Caller } from '../../../src/accounts/account.ts'
import { GatewayError } from '../../../src/errors/errors.ts'
import { Upstream } from '../../../src/providers/upstream.ts'
import { plain, startScriptedProvider } from '../../support/scripted-provider.ts'
import { LargeBodies } from '../../../src/http/intake/read-body.ts'
import { until } from '../lab.ts'
import type { Model } from '../../../src/catalog/row.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import type { InboundRequest } from '../../../src/protocols/protocol.ts'
import { candidateOf, envelope } from '../support.ts'

/** A request that may take a second to its first byte and two in all, and what can happen to it. */
function requested(policy: 'cancel' | 'drain' | 'free' = 'cancel', room = 1) {
  let now = 0
  const watchdog = new Watchdog(() => now)
  const client = new AbortController()
  const stopping = new AbortController()
  const connections = new ConnectionLimit(room)
  const quiet = () => undefined
  const parts = {
    watchdog,
    connections,
    arrivals: new Arrivals(1e9),
    upstream: new Upstream(),
    scheduler: new Scheduler(),
    largeBodies: new LargeBodies(),
    memory: new Memory(),
    redact: (text: string) => text.replaceAll('sk-secret', '***'),
    log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
  } as unknown as UpstreamParts
  const caller = { account: { id: 'a' }, standing: null } as Caller
  const { signal } = client
  const request = { envelope } as unknown as InboundRequest
  const asked = { caller, request, bodyBytes: 100, requestId: 'req_1', arrivedAt: performance.now() }
  const call = { ...asked, signal, stopping: stopping.signal }
  return {
    request: () =>
      new UpstreamRequest(parts, call, candidateOf('a'), { firstMs: 1_000, totalMs: 2_000 }, policy),
    client,
    stopping,
    connections,
    pass: (ms: number) => {
      now += ms
      watchdog.look()
    },
  }
}

/** Sends it to a provider that never answers, lets something happen, and says what the error means. */
async function verdictAfter(
  lab: ReturnType<typeof requested>,
  happens: () => void,
): Promise<{ kind: string; message: string }> {
  const silent = await startScriptedProvider({ m: () => undefined })
  try {
    const request = lab.request()
    const candidate = candidateOf('a', { baseUrl: silent.url })
    const sent = request.send(
      candidate,
      { path: '/chat/completions', headers: {}, body: '{"model":"m"}' },
      1_000,
    )
    happens()
    const error: unknown = await sent.catch((thrown: unknown) => thrown)
    const verdict = request.verdict(error)
    request.end()
    if (verdict instanceof AttemptFailed) return verdict.fault
    if (verdict instanceof AttemptAbandoned)
      return { kind: verdict.error.code, message: verdict.error.message }
    if (verdict instanceof GatewayError) return { kind: verdict.code, message: verdict.message }
    throw new Error(`no verdict on ${String(verdict)}`)
  } finally {
    await silent.stop()
  }
}

describe('a request to a provider', () => {
  test('fails at its deadline with a timeout', async () => {
    const lab = requested()
    expect(await verdictAfter(lab, () => lab.pass(1_001))).toMatchObject({ kind: 'timeout' })
  })

  test('ends when its client disconnects', async () => {
    const lab = requested()
    expect(await verdictAfter(lab, () => lab.client.abort())).toMatchObject({ kind: 'client_gone' })
  })

  test('ends when its caller may call no longer, with an error of its own', async () => {
    const lab = requested()
    const reason = new GatewayError('api_key_revoked')
    const verdict = await verdictAfter(lab, () => lab.stopping.abort(reason))
    expect(verdict).toMatchObject({ kind: 'api_key_revoked', message: reason.message })
  })

  test.each([
    ['was reached', 'http', true],
    ['was not', 'nowhere', false],
  ] as const)('whose client disconnects is owed if its provider %s', async (_, where, isOwed) => {
    const silent = await startScriptedProvider({ m: () => undefined })
    try {
      const lab = requested()
      const request = lab.request()
      // A network that answers nothing.
      const baseUrl = where === 'http' ? silent.url : 'http://192.0.2.1/v1'
      const sent = request.send(
        candidateOf('a', { baseUrl }),
        { path: '/chat/completions', headers: {}, body: '{"model":"m"}' },
        1_000,
      )
      if (isOwed)
        await until(
          () => silent.arrivals.length,
          (arrivals) => arrivals === 1,
        )
      lab.client.abort()
      const verdict = request.verdict(await sent.catch((thrown: unknown) => thrown))
      request.end()
      expect(verdict).toBeInstanceOf(AttemptAbandoned)
      expect((verdict as AttemptAbandoned).asked !== undefined).toBe(isOwed)
    } finally {
      await silent.stop()
    }
  })

  test('goes on for a client that has disconnected where the answer is drained', async () => {
    const lab = requested('drain')
    const verdict = await verdictAfter(lab, () => {
      lab.client.abort()
      lab.pass(1_001)
    })
    expect(verdict).toMatchObject({ kind: 'timeout' })
  })

  test.each(['cancel', 'drain', 'free'] as const)(
    'of policy %s ends when the gateway stops',
    async (policy) => {
      const lab = requested(policy)
      expect(await verdictAfter(lab, () => lab.stopping.abort())).toMatchObject({ kind: 'overloaded' })
    },
  )

  test('is never given longer than its whole call may take', async () => {
    const lab = requested()
    const request = lab.request()
    request.extend(10_000)
    lab.pass(2_001)
    expect(request.verdict(new Error('aborted'))).toMatchObject({ fault: { kind: 'timeout' } })
    request.end()
  })

  test('has no deadline of its own once its answer has begun', () => {
    const lab = requested()
    const request = lab.request()
    request.settle()
    lab.pass(5_000)
    const broken = new Error('the connection broke')
    expect(request.verdict(broken)).toBe(broken)
    request.end()
  })

  test('is refused, not queued, when as many are open as may be', () => {
    const lab = requested()
    const first = lab.request()
    expect(() => lab.request()).toThrow(expect.objectContaining({ code: 'overloaded' }))
    first.end()
    first.end()
    const next = lab.request()
    expect(lab.connections.taken).toBe(1)
    next.end()
    expect(lab.connections.taken).toBe(0)
  })

  test('waits for other answers of the turn only while others are awaited', async () => {
    const lab = requested('cancel', 4)
    const first = lab.request()
    expect(first.withOthers()).toBeUndefined()
    const second = lab.request()
    const [a, b] = [first.withOthers(), second.withOthers()]
    expect(a).toBeInstanceOf(Promise)
    expect(b).toBe(a)
    await a
    second.end()
    expect(first.withOthers()).toBeUndefined()
    first.end()
  })

  test("shows nothing secret of a provider's words", () => {
    const request = requested().request()
    const fault = { kind: 'credentials', message: 'no such key: sk-secret' } as AttemptFailed['fault']
    expect(request.verdict(new AttemptFailed(fault))).toMatchObject({
      fault: { message: 'no such key: ***' },
    })
    request.end()
  })

  test('names its call to the simulator alone', async () => {
    const provider = await startScriptedProvider({
      m: (wire) => void wire.write(plain(200, 'application/json', '{}')),
    })
    const request = requested().request()
    const sent = { path: '/chat/completions', headers: { 'x-own': '1' }, body: '{"model":"m"}' }
    const response = await request.send(candidateOf('a', { baseUrl: provider.url }), sent, 1_000)
    expect(response.status).toBe(200)
    const { headers, path } = provider.arrivals[0]!
    expect([headers.get('x-own'), headers.get('x-client-request-id'), path]).toEqual([
      '1',
      null,
      '/v1/chat/completions',
    ])
    request.end()
    await provider.stop()
  })
})

test('where another candidate waits, a long prompt has time to be read, and a model that may think has it all', () => {
  const msFor = (body: JsonObject, bodyBytes: number, more: Partial<Model> = {}, searches?: number) => {
    const candidate = candidateOf('lab')
    const asked = { ...envelope, ...(searches !== undefined && { searches }) }
    const call = { request: { body, envelope: asked } as unknown as InboundRequest, bodyBytes }
    const limits = { firstTokenMs: 10_000 }
    return contentMsFor(limits, call, { ...candidate, model: { ...candidate.model, ...more } })?.contentMs
  }
  expect(msFor({}, 100)).toBe(10_005)
  expect(msFor({}, 800_000)).toBe(50_000)
  expect(msFor({ reasoning_effort: 'none' }, 0)).toBe(10_000)
  expect(msFor({ reasoning_effort: 'low' }, 0)).toBeUndefined()
  expect(msFor({ thinking: { type: 'enabled' } }, 0)).toBeUndefined()
  expect(msFor({}, 0, { reasoning: true })).toBeUndefined()
  expect(msFor({}, 0, {}, 3)).toBeUndefined()
})

describe('connections to providers', () => {
  const http = (account: string) => ({ account, transport: 'http' }) as const

  test('are shared: an account has as many as are left for all others', () => {
    const connections = new ConnectionLimit(4)
    connections.take(http('a'))
    connections.take(http('a'))
    expect(() => connections.take(http('a'))).toThrow('its share')
    connections.take(http('b'))
    connections.take(http('c'))
    expect(() => connections.take(http('d'))).toThrow(new GatewayError('overloaded').message)
    connections.giveBack(http('a'))
    connections.take(http('d'))
  })

  test('are not taken by what is simulated', () => {
    const connections = new ConnectionLimit(1)
    for (let n = 0; n < 10; n++) connections.take({ account: 'a', transport: 'builtin' })
    connections.take(http('b'))
    expect(connections.taken).toBe(11)
  })
})
