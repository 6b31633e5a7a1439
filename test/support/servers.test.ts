// The servers that tests lean on do what they are told, and book what they did.

import { describe, expect, test } from 'bun:test'
import type { JsonObject } from '../../src/conversation/request.ts'
import { type Fault, type MockProvider, startMockProvider } from './mock-provider.ts'
import { rawRequest, sendRaw } from './raw-http.ts'
import { cases } from './recordings.ts'
import { everyBytes, replayOf, startReplayServer } from './replay-server.ts'
import { plain, startScriptedProvider } from './scripted-provider.ts'

const ask = (mock: MockProvider, stream: boolean, signal?: AbortSignal) =>
  fetch(`${mock.url}/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ model: 'm', stream, stream_options: { include_usage: true } }),
    ...(signal ? { signal } : {}),
  })

describe('the mock provider', () => {
  test.each([false, true])('answers and bills when nothing goes wrong (streamed: %p)', async (stream) => {
    await using mock = await startMockProvider()
    const text = await (await ask(mock, stream)).text()
    expect(text).toContain('"completion_tokens":6')
    if (stream) expect(text).toEndWith('data: [DONE]\n\n')
    expect(await mock.ended(0)).toMatchObject({ ending: 'done', billed: { prompt: 12, completion: 6 } })
  })

  test.each<[Fault, boolean, string, number | undefined]>([
    // fault, streamed, how the provider sees its end, completion tokens it bills
    [{ kind: 'status', status: 429, headers: { 'retry-after': '2' } }, true, 'faulted', undefined],
    [{ kind: 'status', status: 503, body: 'html' }, false, 'faulted', undefined],
    [{ kind: 'html' }, true, 'faulted', undefined],
    [{ kind: 'empty-body' }, false, 'faulted', undefined],
    [{ kind: 'invalid-json' }, false, 'faulted', undefined],
    [{ kind: 'error-after-200', at: 'first-frame' }, true, 'faulted', undefined],
    [{ kind: 'error-after-200', at: 'mid-stream' }, true, 'faulted', 3],
    [{ kind: 'truncate', at: 'mid-stream' }, true, 'faulted', 3],
    [{ kind: 'truncate', at: 'before-usage' }, true, 'faulted', 6],
    [{ kind: 'truncate', at: 'mid-stream' }, false, 'faulted', 6],
    [{ kind: 'usage', usage: undefined }, true, 'done', 6],
    [{ kind: 'crlf' }, true, 'done', 6],
    [{ kind: 'one-byte-at-a-time' }, true, 'done', 6],
    [{ kind: 'one-byte-at-a-time' }, false, 'done', 6],
    [{ kind: 'no-done' }, true, 'done', 6],
  ])('books %j (streamed: %p) as %s', async (fault, stream, ending, completion) => {
    await using mock = await startMockProvider({ fault: () => fault })
    const response = await ask(mock, stream)
    const text = await response.text()
    expect(response.status).toBe(fault.kind === 'status' ? fault.status : 200)
    if (fault.kind === 'truncate' && stream) expect(text).not.toContain('[DONE]')
    if (fault.kind === 'usage') expect(text).not.toContain('usage')
    const line = await mock.ended(0)
    expect([line.ending, line.billed?.completion] as unknown[]).toEqual([ending, completion])
  })

  test.each(['before-headers', 'mid-stream', 'before-usage'] as const)('resets %s', async (at) => {
    await using mock = await startMockProvider({ fault: () => ({ kind: 'reset', at }) })
    const outcome = await ask(mock, true)
      .then((response) => response.text())
      .catch(() => 'reset')
    expect(outcome).toBe('reset')
    expect((await mock.ended(0)).ending).toBe('faulted')
  })

  test.each(['before-headers', 'mid-stream', 'before-usage'] as const)(
    'hangs %s until the caller leaves',
    async (at) => {
      await using mock = await startMockProvider({ fault: () => ({ kind: 'hang', at }) })
      const caller = new AbortController()
      const asked = ask(mock, true, caller.signal)
      const left = asked.then((response) => response.text()).catch(() => 'aborted')
      if (at === 'before-headers') while (mock.bill.length === 0) await new Promise(setImmediate)
      else await asked
      caller.abort()
      expect(await left).toBe('aborted')
      expect((await mock.ended(0)).ending).toBe('left')
    },
  )

  test('gives each call its own fault', async () => {
    const script: (Fault | undefined)[] = [{ kind: 'status', status: 500 }, undefined]
    await using mock = await startMockProvider({ fault: (call) => script[call] })
    expect((await ask(mock, false)).status).toBe(500)
    expect((await ask(mock, false)).status).toBe(200)
    expect(mock.bill.map((line) => (line.body as JsonObject)['model'])).toEqual(['m', 'm'])
  })
})

describe('the replay server', () => {
  test('gives recorded bytes back whatever the cuts, and keeps the request', async () => {
    const recorded = cases('openai-chat').find((each) => each.streamed && each.status === 200)!
    await using server = startReplayServer([replayOf(recorded)], everyBytes(7))
    const response = await fetch(`${server.url}/v1/chat/completions?x=1`, {
      method: 'POST',
      body: '{"model":"a"}',
    })
    expect(await response.text()).toBe(new TextDecoder().decode(recorded.stream()))
    expect(response.headers.get('content-type')).toContain('text/event-stream')
    expect(server.requests[0]).toMatchObject({
      method: 'POST',
      path: '/v1/chat/completions?x=1',
      json: { model: 'a' },
    })
  })
})

describe('raw requests', () => {
  test('carry what no client would send, and end with the response', async () => {
    await using server = startReplayServer([
      { status: 201, headers: {}, body: new TextEncoder().encode('für') },
    ])
    const port = Number(new URL(server.url).port)
    const twice = [
      ['Host', 'a'],
      ['Host', 'b'],
    ] as const
    expect(await sendRaw(port, rawRequest('GET / HTTP/1.1', twice))).toMatchObject({
      status: 201,
      body: 'für',
    })
    const closed = await sendRaw(port, 'NOT HTTP\r\n\r\n')
    expect(closed.status).not.toBe(201)
  })
})

describe('the scripted provider', () => {
  test('adds no listener for each request of a kept-alive connection', async () => {
    const provider = await startScriptedProvider({
      m: async (wire) => void (await wire.write(plain(200, 'application/json', '{}'))),
    })
    const warnings: unknown[] = []
    const note = (warning: unknown) => void warnings.push(warning)
    process.on('warning', note)
    for (let request = 0; request < 12; request++) {
      const body = JSON.stringify({ model: 'm' })
      await (await fetch(`${provider.url}/chat/completions`, { method: 'POST', body })).text()
    }
    // Warnings are emitted in a later turn.
    await new Promise(setImmediate)
    process.off('warning', note)
    const { connections } = provider
    await provider.stop()
    expect({ connections, warnings }).toEqual({ connections: 1, warnings: [] })
  })
})
