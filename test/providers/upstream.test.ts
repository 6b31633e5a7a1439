// The requests to providers: over kept-alive connections, which a provider may have closed.

import { expect, test } from 'bun:test'
import { configureProvider } from '../../src/providers/provider.ts'
import { providerById } from '../../src/providers/registry.ts'
import { Upstream } from '../../src/providers/upstream.ts'
import { plain, startScriptedProvider } from '../support/scripted-provider.ts'
import { providerOf } from '../chat/support.ts'

test.each([
  ['at once is asked again: the connection had been closed', 0, 200, 3],
  ['after it had time to work is not: it may bill the first request', 120, 'ECONNRESET', 2],
])('a provider that resets %s', async (_, afterMs, outcome, arrivals) => {
  let requests = 0
  const provider = await startScriptedProvider({
    m: async (wire) => {
      requests += 1
      if (requests !== 2) return void (await wire.write(plain(200, 'application/json', '{}')))
      if (afterMs > 0) await Bun.sleep(afterMs)
      wire.reset()
    },
  })
  const upstream = new Upstream()
  const configured = providerOf('a', { baseUrl: provider.url })
  const send = () =>
    upstream.send({
      provider: configured,
      key: 'key',
      path: '/chat/completions',
      headers: {},
      body: '{"model":"m"}',
      abort: new AbortController(),
      connectMs: 60,
    })
  await (await send()).text()
  const second = await send().then(
    ({ status }) => status,
    (error: { fault?: { providerCode?: string } }) => error.fault?.providerCode,
  )
  expect([second, provider.arrivals.length]).toEqual([outcome, arrivals])
  await provider.stop()
})

test('a key that no header can carry is a fault of the credentials, not of the gateway', async () => {
  const sent = new Upstream().send({
    provider: providerOf('a'),
    key: 'sk-“quoted”',
    path: '/chat/completions',
    headers: {},
    body: '{}',
    abort: new AbortController(),
    connectMs: 60,
  })
  await expect(sent).rejects.toMatchObject({ name: 'UnreachableError', fault: { kind: 'credentials' } })
})

test('a configured header takes the place of the row’s, however its name is written', () => {
  const override = {
    api_key: ['key'],
    headers: { 'Anthropic-Version': '2030-01-01' },
    quirks: {},
    disabled: false,
  }
  const { headers } = configureProvider('anthropic', providerById('anthropic'), override)
  expect(new Headers(headers).get('anthropic-version')).toBe('2030-01-01')
})
