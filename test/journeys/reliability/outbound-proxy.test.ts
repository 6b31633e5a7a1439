// The runtime sends requests through the proxy that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names. Providers elsewhere need
// not be reachable without it; what is on this machine, and what users name, never goes through it.

import { expect, test } from 'bun:test'
import { type Lab, startLab } from '../../chat/lab.ts'
import { runWeir } from '../../support/run-weir.ts'
import { isLoopback } from '../../../src/transport/bounded-body.ts'
import {
  completion,
  plain,
  type ScriptedProvider,
  someUsage,
  startScriptedProvider,
} from '../../support/scripted-provider.ts'

const answered = plain(200, 'application/json', completion('The river runs.', someUsage))

/** A proxy that answers every request in its provider's place, `ms` later. */
function startProxy(ms = 0): Promise<ScriptedProvider> {
  return startScriptedProvider({}, () => async (wire) => {
    await Bun.sleep(ms)
    await wire.write(answered)
    wire.end()
  })
}

/** Every name by which the runtime finds a proxy. */
function proxiedBy(proxy: ScriptedProvider): Record<string, string> {
  const { origin } = new URL(proxy.url)
  const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY'].flatMap((name) => [name, name.toLowerCase()])
  return { ...Object.fromEntries(names.map((name) => [name, origin])), NO_PROXY: '', no_proxy: '' }
}

test('a provider behind a proxy has all the time it is allowed, though it cannot be reached directly', async () => {
  const proxy = await startProxy(450)
  const lab = await startLab(
    {
      providers: { far: { base_url: 'http://far.invalid/v1', timeouts: { connect_ms: 150 } } },
      models: { 'far/m': ['far/m'] },
      settings: { limits: { attempts: 1 } },
    },
    { env: proxiedBy(proxy) },
  )
  const answer = await lab.ask('far/m')
  expect([answer.status, proxy.arrivals.map(({ path }) => path)]).toEqual([
    200,
    ['http://far.invalid/v1/chat/completions'],
  ])
  await lab.weir.stop()
  await proxy.stop()
})

test('no request to this machine goes by the proxy: providers, files by URL, and commands to the gateway', async () => {
  const proxy = await startProxy()
  // It takes files as bytes alone: the gateway has to fetch them.
  const ollama = plain(
    200,
    'application/json',
    JSON.stringify({
      message: { role: 'assistant', content: 'A ford.' },
      done: true,
      done_reason: 'stop',
      prompt_eval_count: 12,
      eval_count: 4,
    }),
  )
  const provider = await startScriptedProvider({}, (_, path) => async (wire) => {
    await wire.write(path.startsWith('/api/') ? ollama : answered)
    wire.end()
  })
  const picture = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: () => new Response(Buffer.from('GIF89a'), { headers: { 'content-type': 'image/gif' } }),
  })
  const lab = await startLab(
    {
      providers: {
        address: `http://127.0.0.1:${provider.port}/v1`,
        name: { protocol: 'ollama', base_url: `http://localhost:${provider.port}` },
      },
      models: {
        'address/m': ['address/m'],
        'name/m': { input_modalities: ['text', 'image'], offers: [{ provider: 'name', upstream: 'm' }] },
      },
      settings: { egress: { allow_hosts: [`127.0.0.1:${picture.port}`] } },
    },
    { env: proxiedBy(proxy) },
  )
  const image = { type: 'image_url', image_url: { url: `http://127.0.0.1:${picture.port}/a.gif` } }
  const statuses = [
    (await lab.ask('address/m')).status,
    (await lab.ask('name/m', { messages: [{ role: 'user', content: [image] }] })).status,
  ]
  expect([statuses, provider.arrivals.length]).toEqual([[200, 200], 2])
  expect(JSON.stringify(provider.arrivals[1]?.body)).toContain('R0lGODlh')
  await expectCommandsToAnswer(lab, proxiedBy(proxy))
  expect([proxy.arrivals, proxy.connections]).toEqual([[], 0])
  await lab.weir.stop()
  await Promise.all([proxy.stop(), provider.stop(), picture.stop(true)])
})

/** The commands that ask a running gateway, run with the same environment. */
async function expectCommandsToAnswer({ weir }: Lab, env: Readonly<Record<string, string>>): Promise<void> {
  const asked = { env: { PATH: process.env['PATH'] ?? '', HOME: weir.dataDir, ...env } }
  const url = ['--url', weir.origin]
  const healthy = await runWeir(['healthcheck', ...url], asked)
  const chat = await runWeir(['chat', '--url', weir.baseUrl, '--key', weir.key, 'address/m', 'hi'], asked)
  expect([healthy.code, chat.code, chat.stderr]).toEqual([0, 0, expect.not.stringContaining('no gateway')])
}

test('an address that a user names is dialled as it was checked, and never handed to a proxy', async () => {
  const proxy = await startProxy()
  const script = `
    import { fetchPublic } from ${JSON.stringify(import.meta.resolve('../../../src/egress/egress.ts'))}
    // Nobody is at this address: the request can only fail, or be answered by the proxy.
    const options = { allowHosts: ['192.0.2.1'], maxBytes: 1000, timeoutMs: 300 }
    console.log(await fetchPublic('http://192.0.2.1/', options).then(() => 'answered', () => 'not answered'))
  `
  const child = Bun.spawn([process.execPath, '-e', script], {
    env: { PATH: process.env['PATH'] ?? '', ...proxiedBy(proxy) },
    stdout: 'pipe',
  })
  expect((await new Response(child.stdout).text()).trim()).toBe('not answered')
  expect(proxy.connections).toBe(0)
  await proxy.stop()
})

test.each([
  ['http://127.0.0.1/v1', true],
  ['http://127.9.8.7:11434', true],
  ['http://127.1', true],
  ['http://0x7f000001', true],
  ['http://0:8000', true],
  ['http://localhost:8080/v1', true],
  ['http://LOCALHOST./v1', true],
  ['http://llm.localhost/v1', true],
  ['http://[::1]:8080', true],
  ['http://[::]:8080', true],
  ['http://[::ffff:127.0.0.1]', true],
  ['http://10.0.0.7', false],
  ['http://localhost.example.com', false],
  ['http://127.0.0.1.example.com', false],
  ['http://[::ffff:10.0.0.7]', false],
  ['https://api.example.com/127.0.0.1', false],
  ['no address', false],
])('%s is on this machine: %p', (url, expected) => {
  expect(isLoopback(url)).toBe(expected)
})
