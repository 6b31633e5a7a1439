// A provider that fails before the first byte costs the client nothing but time: another offer, another key or a
// second try answers. After the first byte nobody tries again.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { codeIn, type Lab, startLab, until, wordsIn } from '../../chat/lab.ts'
import { type Fault, type MockProvider, startMockProvider } from '../../support/mock-provider.ts'
import { faultsToOpen } from '../../../src/chat/routing/health.ts'

/** What goes wrong with each model of the first provider, call by call; the last goes on for ever. */
const faults: Record<string, readonly (Fault | undefined)[]> = {
  down: [{ kind: 'status', status: 500 }],
  html: [{ kind: 'html' }],
  reset: [{ kind: 'reset', at: 'before-headers' }],
  'first-frame': [{ kind: 'error-after-200', at: 'first-frame' }],
  limited: [{ kind: 'status', status: 429, headers: { 'retry-after': '30' } }],
  once: [{ kind: 'status', status: 503 }, undefined],
  moment: [{ kind: 'status', status: 429, headers: { 'retry-after-ms': '300' } }, undefined],
  later: [{ kind: 'status', status: 429, headers: { 'retry-after': '30' } }],
  cut: [{ kind: 'truncate', at: 'mid-stream' }],
  lone: [{ kind: 'status', status: 500 }],
}

let first: MockProvider
let second: MockProvider
let keyed: MockProvider
let lab: Lab

beforeAll(async () => {
  const seen = new Map<string, number>()
  const scripted = (_: number, body: { model?: unknown }) => {
    const model = String(body.model)
    const call = seen.get(model) ?? 0
    seen.set(model, call + 1)
    const script = faults[model]
    return script?.[Math.min(call, script.length - 1)]
  }
  first = await startMockProvider({ fault: scripted })
  second = await startMockProvider({ words: ['second'] })
  keyed = await startMockProvider()
  const both = ['down', 'html', 'reset', 'first-frame', 'limited']
  const alone = ['once', 'moment', 'later', 'cut', 'lone']
  lab = await startLab({
    providers: {
      first: first.url,
      second: second.url,
      keyed: { base_url: keyed.url, api_key: ['key-one', 'key-two', 'key-three'] },
    },
    models: {
      ...Object.fromEntries(both.map((name) => [`both/${name}`, [`first/${name}`, `second/${name}`]])),
      ...Object.fromEntries(alone.map((name) => [`first/${name}`, [`first/${name}`]])),
      'second/m': ['second/m'],
      'keyed/m': ['keyed/m'],
    },
  })
})

afterAll(async () => {
  await lab?.weir.stop()
  await Promise.all([first, second, keyed].map((mock) => mock?.stop()))
})

const callsOf = (mock: MockProvider, model: string) => mock.bill.filter((line) => line.model === model).length

describe('another offer answers when the first', () => {
  test.each([
    ['is down', 'down'],
    ['answers with a web page', 'html'],
    ['resets the connection', 'reset'],
    ['says 200 and then fails', 'first-frame'],
    ['limits our rate', 'limited'],
  ])('%s', async (_, name) => {
    for (const stream of [false, true]) {
      const answer = await lab.ask(`both/${name}`, { stream })
      expect(answer.status).toBe(200)
      expect(answer.headers.get('x-weir-provider')).toBe('second')
      expect(wordsIn(answer.text)).toBe('second')
      expect(answer.text).not.toContain('"error"')
    }
    expect(await lab.held()).toBe('0')
  })

  test('and the receipt names every try, the charge only the one that answered', async () => {
    const before = await lab.used()
    const { requestId } = await lab.ask('both/down')
    const receipt = JSON.stringify(await lab.get(`/v1/generation?id=${requestId}`))
    expect(receipt).toContain('"second"')
    expect((await lab.used()) - before).toBeCloseTo(14e-6, 12)
  })

  test('is a model named in models[]', async () => {
    const answer = await lab.ask('first/lone', { models: ['second/m'] })
    expect(answer.headers.get('x-weir-model')).toBe('second/m')
  })
})

describe('a lone offer', () => {
  test.each([false, true])('that was down for a moment is asked again (streamed: %p)', async (stream) => {
    const before = callsOf(first, 'once')
    const answer = await lab.ask('first/once', { stream })
    expect(answer.status).toBe(200)
    expect(callsOf(first, 'once') - before).toBe(stream ? 1 : 2)
  })

  test('that asks for a short wait is given it', async () => {
    const answer = await lab.ask('first/moment')
    expect(answer.status).toBe(200)
    expect(answer.ms).toBeGreaterThanOrEqual(300)
  })

  test('that asks for a long wait is not asked again: the client is told how long', async () => {
    const answer = await lab.ask('first/later')
    expect([answer.status, codeIn(answer.text)]).toEqual([429, 'upstream_rate_limited'])
    expect(answer.headers.get('retry-after')).toBe('30')
    expect(callsOf(first, 'later')).toBe(1)
  })

  test('is never asked again after its first byte', async () => {
    const answer = await lab.ask('first/cut', { stream: true })
    expect(answer.status).toBe(200)
    expect(wordsIn(answer.text)).toStartWith('The river')
    expect(codeIn(answer.text)).toBe('upstream_error')
    expect(answer.text).toEndWith('data: [DONE]\n\n')
    expect(callsOf(first, 'cut')).toBe(1)
  })
})

test('G12: a provider that is down for good is given a rest, and is back within a second of its recovery', async () => {
  const before = callsOf(first, 'lone')
  const began = performance.now()
  const answers = []
  for (let at = 0; at < 120; at++) answers.push(await lab.ask('first/lone'))
  const seconds = (performance.now() - began) / 1000
  const calls = callsOf(first, 'lone') - before
  // What opens the breaker, the retries that are always allowed, and a probe a second.
  expect(calls).toBeLessThanOrEqual(faultsToOpen + 10 + Math.ceil(seconds))
  const rested = answers.at(-1)!
  expect([rested.status, codeIn(rested.text)]).toEqual([503, 'no_provider_available'])
  expect(rested.headers.get('retry-after')).toBe('1')
  const told = (await lab.get('/v1/providers'))['data'] as {
    id: string
    state: string
    troubles: unknown[]
  }[]
  expect(told.find(({ id }) => id === 'first')).toMatchObject({ state: 'degraded' })
  expect(told.find(({ id }) => id === 'second')).toMatchObject({ state: 'healthy', success_rate: 1 })
  expect(JSON.stringify(told)).not.toContain('key-one')
  const listed = (await lab.get('/v1/models?provider=second'))['data'] as { providers: object[] }[]
  expect(listed[0]!.providers).toContainEqual({
    id: 'second',
    success_rate: 1,
    p50_latency_ms: expect.any(Number),
  })

  faults['lone'] = [undefined]
  const back = await until(
    () => lab.ask('first/lone'),
    ({ status }) => status === 200,
    2_500,
  )
  expect(back.status).toBe(200)
  expect((await lab.ask('first/lone')).status).toBe(200)
}, 30_000)

describe('several keys', () => {
  const keysUsed = (from: number) => new Set(keyed.bill.slice(from).map((line) => line.authorization))

  test('are used in turn', async () => {
    const from = keyed.bill.length
    for (let at = 0; at < 40; at++) await lab.ask('keyed/m')
    expect(keysUsed(from).size).toBe(3)
  })

  test('a session stays with one of them', async () => {
    for (const session_id of ['a', 'b', 'c', 'd']) {
      const from = keyed.bill.length
      for (let at = 0; at < 5; at++) await lab.ask('keyed/m', { session_id })
      expect(keysUsed(from).size).toBe(1)
    }
  })
})

test('nothing is held and the ledger proves itself after all of this', async () => {
  expect(await lab.held()).toBe('0')
  expect(await lab.weir.command('ledger', 'audit', '--json')).toMatchObject({ code: 0 })
})

test('/metrics has every attempt, and who is in trouble', async () => {
  const made = await lab.weir.command('keys', 'create', '--account', 'owner@localhost', '--management')
  const authorization = `Bearer ${made.stdout.trim()}`
  const answer = await fetch(`${lab.weir.origin}/metrics`, { headers: { authorization } })
  const figures = new Map(
    (await answer.text()).split('\n').map((line) => line.split(/ (?=\S+$)/) as [string, string]),
  )
  const attempts = (provider: string, outcome: string) =>
    Number(figures.get(`weir_attempts_total{provider="${provider}",outcome="${outcome}"}`) ?? 0)
  expect(attempts('second', 'served')).toBe(second.bill.length)
  expect(attempts('keyed', 'served')).toBe(keyed.bill.length)
  for (const [outcome, least] of [
    ['upstream_error', 10],
    ['upstream_rate_limited', 2],
    ['served', 2],
  ] as const)
    expect([outcome, attempts('first', outcome) >= least]).toEqual([outcome, true])
  expect(Number(figures.get('weir_provider_state{provider="first"}'))).toBeGreaterThan(0)
  expect(figures.get('weir_provider_troubles{provider="second",state="open"}')).toBe('0')
})
