// More than can be taken: what is admitted is served in time, the rest is refused at once, nobody takes every place, and
// nothing is lost.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { accountWith, creditsOf, expectAudited, post, restingCredits } from '../../support/call-gateway.ts'
import { type RunningWeir, startWeir } from '../../support/run-weir.ts'

/** What a call of `real/m` costs: 12 tokens of input at 1 US dollar per million, 4 of output at 2. */
const callCosts = 20 / 1e6
const answer = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  model: 'm',
  choices: [
    { index: 0, message: { role: 'assistant', content: 'It runs to the sea.' }, finish_reason: 'stop' },
  ],
  usage: { prompt_tokens: 12, completion_tokens: 4, total_tokens: 16 },
}

/** A provider that takes `ms` for each answer, and never answers the model `stuck`. */
function startProvider(ms: number) {
  const asked = { count: 0 }
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    fetch: async (request) => {
      asked.count++
      const { model } = (await request.json()) as { model: string }
      if (model === 'stuck') return new Promise<Response>(() => undefined)
      await Bun.sleep(ms)
      return Response.json(answer)
    },
  })
  return { server, asked, url: `http://127.0.0.1:${server.port}/v1` }
}

function configOf(url: string, places: number): string {
  const price = { input: '1', output: '2' }
  const model = (name: string) => ({
    id: `real/${name}`,
    price,
    max_output_tokens: 100,
    offers: [{ provider: 'real', upstream: name, price }],
  })
  return JSON.stringify({
    local_servers: { discover: false },
    providers: { real: { protocol: 'openai-chat', api_key: 'key', base_url: url } },
    models: [model('m'), model('stuck')],
    limits: { requests_in_flight: places, attempts: 1 },
  })
}

const chatOf = (model: string, more: object = {}) => ({
  model,
  messages: [{ role: 'user', content: 'Where does it run?' }],
  ...more,
})

describe('places of calls', () => {
  const places = 8
  const provider = startProvider(1)
  let weir: RunningWeir
  let other: string
  beforeAll(async () => {
    weir = await startWeir({ config: configOf(provider.url, places) })
    other = (await accountWith(weir, 'other@example.org', { purchased: '1' })).key
  })
  afterAll(async () => {
    await weir.stop()
    await provider.server.stop(true)
  })

  /** Asks twice as often as there are places, by calls that never end; resolves when all but half have been refused. */
  async function takeAll(key: string, ask: readonly { path: string; body: object }[]) {
    const end = new AbortController()
    const refusals: { status: number; code: string | undefined }[] = []
    const { promise, resolve } = Promise.withResolvers<void>()
    for (let at = 0; at < 2 * places; at++) {
      const { path, body } = ask[at % ask.length]!
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      fetch(weir.baseUrl + path, { method: 'POST', headers, body: JSON.stringify(body), signal: end.signal })
        .then(async (response) => {
          const { error } = (await response.json()) as { error: { code?: string } }
          refusals.push({ status: response.status, code: error.code })
          if (refusals.length === 1.5 * places) resolve()
        })
        .catch(() => undefined)
    }
    await promise
    return { refusals, end: () => end.abort() }
  }

  const doors = (model: string) => [
    { path: '/chat/completions', body: chatOf(model) },
    { path: '/chat/completions', body: chatOf(model, { stream: true }) },
    { path: '/messages', body: chatOf(model, { max_tokens: 50 }) },
    { path: '/responses', body: { model, input: 'Where does it run?' } },
  ]

  test('a test key without credit takes none of a real call, whatever it asks for', async () => {
    const { key } = await accountWith(weir, 'tester@example.org', {}, '--test')
    // Test keys are answered by the simulator whatever model they name; this one hangs by its own name.
    const { refusals, end } = await takeAll(key, doors('sim/hang'))
    expect(new Set(refusals.map(({ status }) => status))).toEqual(new Set([429]))
    const real = await Promise.all(Array.from({ length: places / 2 }, () => post(weir, chatOf('real/m'))))
    expect(real.map(({ status }) => status)).toEqual(Array(places / 2).fill(200))
    // Nor all of those that are simulated.
    expect((await post(weir, chatOf('sim/echo'), { key: other })).status).toBe(200)
    end()
  })

  test('what is asked without a charge takes a place of its account as well', async () => {
    const { end } = await takeAll(weir.key, doors('real/stuck'))
    const asked = await Promise.all([
      post(weir, chatOf('real/m'), { path: '/estimate' }),
      post(weir, chatOf('real/m', { max_tokens: 50 }), { path: '/messages/count_tokens' }),
      post(weir, { model: 'real/m', input: 'Where?' }, { path: '/responses/input_tokens' }),
    ])
    expect(asked.map(({ status }) => status)).toEqual([429, 429, 429])
    expect((await post(weir, chatOf('real/m'), { path: '/estimate', key: other })).status).toBe(200)
    end()
    await restingCredits(weir)
  })

  test('an account has at most half while it is alone, and others are served', async () => {
    const { refusals, end } = await takeAll(weir.key, doors('real/stuck'))
    expect(new Set(refusals.map(({ status }) => status))).toEqual(new Set([429]))
    for (let n = 0; n < 3; n++) expect((await post(weir, chatOf('real/m'), { key: other })).status).toBe(200)
    end()
    await restingCredits(weir)
  })
})

const median = (figures: readonly number[]) => figures.toSorted((a, b) => a - b)[figures.length >> 1]!

interface Asked {
  readonly status: number
  readonly ms: number
}

describe('G14: three times the load that can be taken', () => {
  /** How many calls of one account run at a time: half of all places. */
  const atOnce = 24
  /** Long beside what a call takes of the processor, of which a busy machine leaves this test and its gateway little. */
  const providerMs = 400
  /** What else the machine does changes within seconds, so both loads are measured by turns. */
  const rounds = 5
  const seconds = 1

  test('what is admitted is served in time, the rest refused at once, nothing is lost', async () => {
    const provider = startProvider(providerMs)
    await using weir = await startWeir({ config: configOf(provider.url, 2 * atOnce) })
    const greedy = (await accountWith(weir, 'greedy@example.org', { purchased: '10' })).key
    const modest = (await accountWith(weir, 'modest@example.org', { purchased: '1' })).key
    const body = JSON.stringify(chatOf('real/m'))
    const ask = async (key: string): Promise<Asked> => {
      const began = performance.now()
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      const response = await fetch(`${weir.baseUrl}/chat/completions`, { method: 'POST', headers, body })
      await response.arrayBuffer()
      return { status: response.status, ms: performance.now() - began }
    }
    const served = (all: readonly Asked[]) => all.filter(({ status }) => status === 200)
    await ask(greedy)

    const reference: number[] = []
    const ofModest: Asked[] = []
    // As many clients as calls that may run, each with one after the other.
    const taken = () =>
      during(seconds, (isOver) =>
        Array.from({ length: atOnce }, async () => {
          const all: Asked[] = []
          while (!isOver()) all.push(await ask(greedy))
          return all
        }),
      )
    const threeTimes = (rate: number) =>
      during(seconds, (isOver) => [
        arriving(3 * rate, isOver, () => ask(greedy)),
        // What a request costs that nothing is done for, at the same time and by the same client.
        (async () => {
          while (!isOver()) {
            const began = performance.now()
            await (await fetch(`${weir.origin}/healthz`)).arrayBuffer()
            reference.push(performance.now() - began)
            await Bun.sleep(20)
          }
          return []
        })(),
        (async () => {
          while (!isOver()) ofModest.push(await ask(modest))
          return []
        })(),
      ])
    const peak: Asked[] = []
    const over: Asked[] = []
    const shares: number[] = []
    for (let round = 0; round < rounds; round++) {
      const most = await taken()
      const rate = served(most.all).length / most.seconds
      const asked = await threeTimes(rate)
      shares.push(served(asked.all).length / asked.seconds / rate)
      peak.push(...most.all)
      over.push(...asked.all)
    }
    const admitted = served(over)
    const refused = over.filter(({ status }) => status !== 200)

    expect(new Set(refused.map(({ status }) => status))).toEqual(new Set([429]))
    expect(refused.length).toBeGreaterThan(admitted.length)
    expect(median(shares)).toBeGreaterThan(0.8)
    expect(median(admitted.map(({ ms }) => ms))).toBeLessThan(2 * median(peak.map(({ ms }) => ms)))
    expect(median(refused.map(({ ms }) => ms))).toBeLessThan(50 + 3 * median(reference))
    // Whoever asks for little is served all the while.
    expect(new Set(ofModest.map(({ status }) => status))).toEqual(new Set([200]))
    expect(ofModest.length).toBeGreaterThan(3)
    expect(mostMemoryOf(weir)).toBeLessThan(1024 ** 3)

    // Each answer was asked for once and charged once; what was refused was neither.
    const answers = 1 + served(peak).length + admitted.length
    expect(provider.asked.count).toBe(answers + ofModest.length)
    await restingCredits(weir, greedy)
    expect(Number((await creditsOf(weir, greedy)).total_used)).toBeCloseTo(answers * callCosts, 9)
    expect(Number((await creditsOf(weir, modest)).total_used)).toBeCloseTo(ofModest.length * callCosts, 9)
    await expectAudited(weir)
    await provider.server.stop(true)
  }, 60_000)

  /** Runs the work for so many seconds, until all that it began has ended. */
  async function during(
    length: number,
    work: (isOver: () => boolean) => readonly Promise<readonly Asked[]>[],
  ): Promise<{ all: readonly Asked[]; seconds: number }> {
    const began = performance.now()
    const passed = () => (performance.now() - began) / 1_000
    const all = (await Promise.all(work(() => passed() >= length))).flat()
    return { all, seconds: passed() }
  }

  /** Begins `perSecond` requests a second, however many of them are under way. */
  async function arriving(perSecond: number, isOver: () => boolean, ask: () => Promise<Asked>) {
    const began = performance.now()
    const asked: Promise<Asked>[] = []
    while (!isOver()) {
      const due = ((performance.now() - began) / 1_000) * perSecond
      while (asked.length < due) asked.push(ask())
      await Bun.sleep(4)
    }
    return Promise.all(asked)
  }

  /** The most memory that the process has had so far, bytes; 0 where the system does not say. */
  function mostMemoryOf({ pid }: RunningWeir): number {
    if (process.platform !== 'linux') return 0
    const kilobytes = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
    return Number(kilobytes) * 1024
  }
})
