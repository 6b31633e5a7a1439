// The runtime sends requests through the proxy that HTTP_PROXY or HTTPS_PROXY names: providers need not be reachable
// without it.

import { expect, test } from 'bun:test'
import { startLab } from '../../chat/lab.ts'
import { completion, plain, someUsage, startScriptedProvider } from '../../support/scripted-provider.ts'

/** Refuses connections. */
const closed = 'http://127.0.0.1:9/v1'

test('a provider behind a proxy has all the time it is allowed, though it cannot be reached directly', async () => {
  const proxy = await startScriptedProvider({
    m: async (wire) => {
      await Bun.sleep(450)
      await wire.write(plain(200, 'application/json', completion('The river runs.', someUsage)))
      wire.end()
    },
  })
  const lab = await startLab(
    {
      providers: { far: { base_url: closed, timeouts: { connect_ms: 150 } } },
      models: { 'far/m': ['far/m'] },
      settings: { limits: { attempts: 1 } },
    },
    { env: { HTTP_PROXY: new URL(proxy.url).origin, NO_PROXY: '' } },
  )
  const answer = await lab.ask('far/m')
  expect([answer.status, proxy.arrivals.map(({ path }) => path)]).toEqual([
    200,
    ['http://127.0.0.1:9/v1/chat/completions'],
  ])
  await lab.weir.stop()
  await proxy.stop()
})
