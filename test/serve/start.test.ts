// What happens to the files of a data directory beside a running gateway must not change or hold it.

import { expect, test } from 'bun:test'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { eventually, post } from '../support/call-gateway.ts'
import { freePort } from '../support/run-weir.ts'
import { serveWeir } from '../support/serve-weir.ts'

const hello = [{ role: 'user', content: 'Hello' }]

test('a catalog imported beside a running gateway is used from the next start on', async () => {
  const port = await freePort()
  const lab = { protocol: 'openai-chat', base_url: `http://127.0.0.1:${port}/v1`, price: 'free' }
  await using weir = await serveWeir({
    config: JSON.stringify({ local_servers: { discover: false, every_ms: 100 }, providers: { lab } }),
  })
  // Not even a whole one: a server that comes or goes rebuilds what can be called, without reading it.
  writeFileSync(join(weir.dataDir, 'catalog.json'), '{"date":')
  using _server = Bun.serve({
    hostname: '127.0.0.1',
    port,
    fetch: () => Response.json({ object: 'list', data: [{ id: 'qwen', object: 'model' }] }),
  })
  const models = await eventually(
    async () => (await fetch(`${weir.baseUrl}/models?available=true&q=lab/`)).text(),
    (text) => text.includes('lab/qwen'),
  )
  expect(models).toContain('lab/qwen')
})

test('a file in the data directory that cannot be removed keeps no gateway from stopping', async () => {
  const weir = await serveWeir()
  expect(await post(weir, { model: 'sim/echo', messages: hello })).toMatchObject({ status: 200 })
  const address = join(weir.dataDir, 'serve.json')
  rmSync(address)
  mkdirSync(address)
  expect(await weir.stop()).toBe(0)
  expect(weir.output()).toContain('could not be removed')
  expect(await fetch(weir.origin).catch(() => 'nobody')).toBe('nobody')
})
