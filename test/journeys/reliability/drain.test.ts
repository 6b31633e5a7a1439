// SIGTERM: the gateway says it is not ready, turns new calls away, lets the streams in flight finish, cuts off what
// takes too long with an error and a settled charge, and exits 0 without waiting for idle connections.

import { describe, expect, test } from 'bun:test'
import { codeIn, type Lab, startLab, until, wordsIn } from '../../chat/lab.ts'
import { startPacedProvider } from '../../chat/paced-provider.ts'
import { startMockProvider } from '../../support/mock-provider.ts'
import { tempDir } from '../../support/tmp.ts'

/** Reads until the first words have come; then gives what is needed to read on. */
async function begun(response: Response) {
  const reader = response.body!.getReader()
  const decoder = new TextDecoder()
  let text = ''
  while (wordsIn(text) === '') text += decoder.decode((await reader.read()).value, { stream: true })
  return async () => {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return text
      text += decoder.decode(value, { stream: true })
    }
  }
}

async function auditOf(lab: Lab): Promise<number> {
  return (await lab.weir.command('ledger', 'audit', '--json')).code
}

describe('a gateway that is told to stop', () => {
  test('G21: is not ready, takes nothing new, finishes its streams, and exits 0', async () => {
    const seen = Promise.withResolvers<void>()
    const words = Array.from({ length: 40 }, () => 'word ')
    const provider = startPacedProvider(words, 20, 0, seen.promise)
    const lab = await startLab({ providers: { paced: provider.url }, models: { 'paced/m': ['paced/m'] } })
    // Connections that stay open and idle.
    await Promise.all(
      Array.from({ length: 20 }, () => fetch(`${lab.weir.origin}/healthz`).then((r) => r.text())),
    )
    const rest = await begun(await lab.open('paced/m', { stream: true }))
    const whole = lab.ask('paced/m')
    await until(() => provider.calls.length === 2)
    const stopped = lab.weir.stop()
    const unready = await until(
      () => fetch(`${lab.weir.origin}/readyz`),
      ({ status }) => status === 503,
    )
    expect(await unready.json()).toMatchObject({ draining: true })
    expect((await fetch(`${lab.weir.origin}/healthz`)).status).toBe(200)
    const refused = await lab.ask('paced/m')
    expect([refused.status, codeIn(refused.text)]).toEqual([503, 'overloaded'])
    expect(refused.headers.get('retry-after')).toBe('1')
    expect(refused.headers.get('x-should-retry')).toBe('true')
    seen.resolve()

    const text = await rest()
    expect(wordsIn(text)).toBe('word '.repeat(40))
    expect(text).toEndWith('data: [DONE]\n\n')
    expect((await whole).status).toBe(200)
    const finished = performance.now()
    expect(await stopped).toBe(0)
    expect(performance.now() - finished).toBeLessThan(2_000)
    provider.stop()
  })

  test('cuts off what takes longer than it may wait, says so, and settles it', async () => {
    const home = tempDir('weir-drain-')
    const mock = await startMockProvider({
      fault: (_, { model }) => ({ kind: 'hang', at: model === 'm' ? 'mid-stream' : 'before-headers' }),
    })
    const settings = {
      providers: { mock: mock.url },
      models: { 'mock/m': ['mock/m'], 'mock/late': ['mock/late'] },
      settings: { timeouts: { shutdown_ms: 300 } },
    }
    const lab = await startLab(settings, { dataDir: home.join('data') })
    const rest = await begun(await lab.open('mock/m', { stream: true }))
    const late = lab.ask('mock/late', { stream: true })
    await until(() => mock.bill.length === 2)
    const stopped = lab.weir.stop()
    const text = await rest()
    expect(codeIn(text)).toBe('overloaded')
    expect(text).toContain('shutting down')
    expect(text).toEndWith('data: [DONE]\n\n')
    const turnedAway = await late
    expect([turnedAway.status, codeIn(turnedAway.text)]).toEqual([503, 'overloaded'])
    expect(await stopped).toBe(0)
    expect(lab.weir.output()).not.toContain('recovery')

    const next = await startLab(settings, { dataDir: home.join('data') })
    expect(next.weir.output()).not.toContain('an earlier process')
    expect(await auditOf(next)).toBe(0)
    expect(
      await next.weir.command('credits', 'show', '--account', 'owner@localhost', '--json'),
    ).toMatchObject({ code: 0, stdout: expect.stringMatching(/"held":\s*"0"/) })
    await next.weir.stop()
    await mock.stop()
    home.remove()
    // Four processes start, one after the other.
  }, 30_000)

  test('with nothing in flight is gone at once, whatever connections are open', async () => {
    const lab = await startLab({ providers: {}, models: {} })
    await Promise.all(
      Array.from({ length: 50 }, () => fetch(`${lab.weir.origin}/healthz`).then((r) => r.text())),
    )
    const silent = await Bun.connect({
      hostname: '127.0.0.1',
      port: lab.weir.port,
      socket: { data: () => undefined },
    })
    const asked = performance.now()
    expect(await lab.weir.stop()).toBe(0)
    expect(performance.now() - asked).toBeLessThan(2_000)
    silent.end()
  })
})
