// What `weir models` shows to whom, and how servers on this machine are found.

import { afterAll, describe, expect, test } from 'bun:test'
import { Discovery } from '../../src/serve/gateway/catalog.ts'
import { loadConfig } from '../../src/config/config.ts'
import { providerById } from '../../src/providers/registry.ts'
import { tempDir } from '../support/tmp.ts'
import { json, run } from './run.ts'

const dir = tempDir()
afterAll(() => dir.remove())
const noServers = { WEIR_LOCAL_SERVERS_DISCOVER: 'false' }
const bare = { cwd: dir.path, env: noServers }
const keyed = { cwd: dir.path, env: { ...noServers, GROQ_API_KEY: 'gsk-x' } }

const providersIn = (text: string) =>
  [...new Set([...text.matchAll(/^([a-z]+)\//gm)].map(([, provider]) => provider))].toSorted()

describe('weir models', () => {
  test('shows a person at a terminal what can be called now, once a provider is configured', async () => {
    const { out } = await run({ ...keyed, terminal: true }, 'models')
    expect(providersIn(out)).toEqual(['groq', 'sim'])
    expect(out).toContain(' models that can be called now (--all lists the whole catalog)')
  })

  test('counts one as one', async () => {
    const { out } = await run(bare, 'models', 'sim/echo')
    expect(out).toContain('\n1 model, prices of ')
  })

  test('shows the whole catalog where there is nothing to choose from, to programs, and with --all', async () => {
    const outs = await Promise.all([
      run({ ...bare, terminal: true }, 'models'),
      run(keyed, 'models'),
      run({ ...keyed, terminal: true }, 'models', '--all'),
    ])
    for (const { out } of outs) expect(providersIn(out)).toContain('openai')
  })

  test('lists what is available as JSON when it is asked to', async () => {
    const some = (await json(keyed, 'models', '--available')) as { id: string }[]
    expect(providersIn(some.map(({ id }) => id).join('\n'))).toEqual(['groq', 'sim'])
    expect(((await json(keyed, 'models')) as unknown[]).length).toBeGreaterThan(1_000)
  })

  test('is not asked for both at once', async () => {
    expect(await run(bare, 'models', '--all', '--available')).toMatchObject({ code: 2, out: '' })
  })
})

describe('discovery', () => {
  const config = (() => {
    const loaded = loadConfig({
      flags: {},
      env: { WEIR_LOCAL_SERVERS_TIMEOUT_MS: '50' },
      cwd: dir.path,
      readFile: () => undefined,
    })
    if (loaded.kind === 'faulty') throw new Error('the defaults are faulty')
    return loaded.config
  })()
  const listening = (answer: () => Response | Promise<Response>) =>
    Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: answer })
  const rowAt = (port: number | undefined) => ({
    ...providerById('vllm')!,
    baseUrl: `http://127.0.0.1:${port}/v1`,
  })
  const listed = () => Response.json({ data: [{ id: 'a' }] })

  test('finds a server, keeps it while it is too busy to answer, and loses it when it is gone', async () => {
    let answer: () => Response | Promise<Response> = listed
    const server = listening(() => answer())
    const patient = { ...config, local_servers: { ...config.local_servers, timeout_ms: 10_000 } }
    const discovery = new Discovery(() => patient, 1, [rowAt(server.port)])
    const found = [
      { id: 'vllm', baseUrl: `http://127.0.0.1:${server.port}/v1`, models: [{ name: 'a', embeds: false }] },
    ]
    expect(await discovery.scan()).toEqual(found)
    answer = () => new Promise(() => undefined)
    patient.local_servers.timeout_ms = 50
    expect(await discovery.scan()).toEqual(found)
    patient.local_servers.timeout_ms = 10_000
    await server.stop(true)
    expect(await discovery.scan()).toEqual([])
  })

  test('does not ask the gateway itself, nor anybody when it is told not to', async () => {
    const server = listening(listed)
    const silent = { ...config, local_servers: { ...config.local_servers, discover: false } }
    expect(await new Discovery(() => config, server.port!, [rowAt(server.port)]).scan()).toEqual([])
    expect(await new Discovery(() => silent, 1, [rowAt(server.port)]).scan()).toEqual([])
    // Gateways that share a database would have different models.
    const shared = { ...config, store: { ...config.store, url: 'postgres://weir@db/weir' } }
    expect(await new Discovery(() => shared, 1, [rowAt(server.port)]).scan()).toEqual([])
    const local_servers = { ...config.local_servers, discover: true }
    expect(
      await new Discovery(() => ({ ...shared, local_servers }), 1, [rowAt(server.port)]).scan(),
    ).toHaveLength(1)
    await server.stop(true)
  })
})
