// Whoever works in the folder of somebody else sends no key and no prompt where that folder says: not by its weir.yaml,
// not by its data directory, not by its .env.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { mkdirSync, writeFileSync } from 'node:fs'
import { type RunningWeir, runWeir, startWeir, weirCommand } from '../support/run-weir.ts'
import { tempDir } from '../support/tmp.ts'
import { run } from './run.ts'

interface Listener {
  readonly url: string
  readonly port: number
  /** The `authorization` of every request. */
  readonly seen: (string | null)[]
}

const dir = tempDir('weir-folder-')
const servers: { stop(force: boolean): unknown }[] = []

function listener(): Listener {
  const seen: (string | null)[] = []
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: ({ headers }) => {
      seen.push(headers.get('authorization'))
      const text = { choices: [{ delta: { content: 'Hello' }, finish_reason: 'stop' }] }
      return new Response(`data: ${JSON.stringify(text)}\n\ndata: [DONE]\n\n`)
    },
  })
  servers.push(server)
  return { url: `http://127.0.0.1:${server.port}/v1`, port: server.port!, seen }
}

/** The folder of somebody else, which has everything that could name an address. */
const evil = listener()
const mine = listener()
const folder = dir.join('cloned')
const home = dir.join('home')
const own = `${home}/.config/weir`
/** On no machine that a test could reach. */
const elsewhere = 'http://192.0.2.1/v1'
let weir: RunningWeir

beforeAll(async () => {
  mkdirSync(folder, { recursive: true })
  mkdirSync(own, { recursive: true })
  const settings = {
    server: { host: '127.0.0.1', port: evil.port, public_url: `http://127.0.0.1:${evil.port}` },
    local_servers: { discover: false, timeout_ms: 50 },
    search: { backend: 'searxng', base_url: elsewhere, api_key: '${OPENAI_API_KEY}' },
    providers: { lab: { protocol: 'openai-chat', base_url: elsewhere, price: 'free' } },
  }
  writeFileSync(`${folder}/weir.yaml`, JSON.stringify(settings))
  writeFileSync(`${folder}/.env`, `WEIR_URL=${evil.url}\nHTTP_PROXY=http://127.0.0.1:${evil.port}\n`)
  // A server that runs on the data directory of that folder: its address lies in a file there.
  weir = await startWeir({ dataDir: `${folder}/weir-data` })
}, 30_000)

afterAll(async () => {
  await weir?.stop()
  for (const server of servers) void server.stop(true)
  dir.remove()
})

const env = { HOME: home, WEIR_API_KEY: 'secret-key', OPENAI_API_KEY: 'provider-key' }
const here = (more: object = {}) => ({ cwd: folder, env: { ...env, ...more } })

describe('in a folder with a weir.yaml, a data directory and a server', () => {
  test.each([
    ['WEIR_URL', { WEIR_URL: mine.url }, []],
    ['WEIR_URL without its version', { WEIR_URL: mine.url.replace('/v1', '') }, []],
    ['--url', { WEIR_URL: evil.url }, ['--url', mine.url]],
    ['the environment', { WEIR_PORT: String(mine.port) }, []],
  ])('weir chat asks the gateway of %s', async (_, more, args) => {
    const before = mine.seen.length
    expect(await run(here(more), 'chat', 'sim/echo', 'x', ...args)).toMatchObject({ code: 0, out: 'Hello\n' })
    expect({ mine: mine.seen.slice(before), evil: evil.seen }).toEqual({
      mine: ['Bearer secret-key'],
      evil: [],
    })
  })

  test('weir chat asks the gateway of the user’s own file', async () => {
    for (const server of [{ port: mine.port }, { public_url: mine.url.replace('/v1', '') }]) {
      writeFileSync(`${own}/weir.yaml`, JSON.stringify({ server }))
      expect(await run(here(), 'chat', 'sim/echo', 'x')).toMatchObject({ code: 0, out: 'Hello\n' })
      const elsewhereToo = { HOME: '/nonexistent', XDG_CONFIG_HOME: `${home}/.config` }
      expect(await run(here(elsewhereToo), 'chat', 'sim/echo', 'x')).toMatchObject({ code: 0 })
    }
    writeFileSync(`${own}/weir.yaml`, '')
    expect(evil.seen).toEqual([])
  })

  test.each([
    ['WEIR_CONFIG', { WEIR_CONFIG: './weir.yaml' }],
    ['WEIR_DATA_DIR', { WEIR_DATA_DIR: 'weir-data' }],
    ['no home directory', { HOME: '' }],
  ])('weir chat and weir connect are not led there by %s', async (_, more) => {
    const { err, code } = await run(here({ ...more, WEIR_PORT: '9' }), 'chat', 'sim/echo', 'x')
    expect({ code, err }).toMatchObject({ code: 1, err: expect.stringContaining('at http://127.0.0.1:9/v1') })
    expect(err).toContain('count only if --config or --data-dir names them')
    const { out } = await run(here(more), 'connect', 'curl')
    expect(out).toContain('http://127.0.0.1:8787/v1')
  })

  test('what the command line names counts, also in that folder', async () => {
    const { out } = await run(here(), 'connect', 'curl', '--config', 'weir.yaml')
    expect(out).toContain(`http://127.0.0.1:${evil.port}/v1`)
    const served = await run(here(), 'connect', 'curl', '--data-dir', 'weir-data')
    expect(served.out).toContain(weir.baseUrl)
    expect((await run(here({ WEIR_URL: mine.url }), 'connect', 'curl')).out).toContain(mine.url)
    expect((await run(here(), 'connect', 'curl', '--url', mine.url)).out).toContain(mine.url)
  })

  test('weir doctor asks no address of that weir.yaml which is not of this machine', async () => {
    const { out } = await run(here(), 'doctor', '--json')
    const { findings } = JSON.parse(out) as { findings: { check: string; detail: string }[] }
    const said = (check: string) => findings.find((each) => each.check === check)?.detail
    for (const check of ['provider lab', 'web search'])
      expect(said(check)).toContain(`not asked: ${elsewhere} is from the weir.yaml of this folder`)
    const named = await run(here(), 'doctor', '--json', '--config', 'weir.yaml')
    expect(named.out).toContain(`nothing answers at ${elsewhere}`)
  })

  test('weir doctor --provider sends no key there', async () => {
    const cwd = dir.join('aliased')
    mkdirSync(cwd, { recursive: true })
    // What YAML merges is of the file as well.
    writeFileSync(
      `${cwd}/weir.yaml`,
      `providers:\n  a: &x { protocol: openai-chat, base_url: "${elsewhere}" }\n  openai: { <<: *x }\n  groq: *x\n`,
    )
    for (const id of ['a', 'openai', 'groq']) {
      const keys = { GROQ_API_KEY: 'provider-key', [`WEIR_PROVIDERS_A_API_KEY`]: 'provider-key' }
      const ran = await run({ cwd, env: { ...env, ...keys } }, 'doctor', '--provider', id)
      expect(ran).toMatchObject({
        code: 2,
        err: expect.stringContaining(`its key would be sent to ${elsewhere}, which is from the weir.yaml`),
      })
    }
  })

  test('weir models asks no server there', async () => {
    const { out, code } = await run(here(), 'models', '--available', '--json')
    expect(code).toBe(0)
    expect(out).toContain('sim/echo')
  })

  test('weir healthcheck asks no address that is not of this machine', async () => {
    const cwd = dir.join('unhealthy')
    mkdirSync(cwd, { recursive: true })
    writeFileSync(`${cwd}/weir.yaml`, 'server: { host: "192.0.2.1" }')
    expect(await run({ cwd }, 'healthcheck')).toMatchObject({
      code: 1,
      err: expect.stringContaining('is not on this machine: give it with --url'),
    })
  })
})

describe('the program as it is started', () => {
  test('does not read the .env of the folder, by whatever it runs', async () => {
    const started = { PATH: process.env['PATH'] ?? '', HOME: home, WEIR_API_KEY: 'secret-key' }
    const closed = await runWeir(['chat', 'sim/echo', 'x'], {
      cwd: folder,
      env: { ...started, WEIR_PORT: '9' },
    })
    expect(closed).toMatchObject({ code: 1, stderr: expect.stringContaining('at http://127.0.0.1:9/v1') })
    const open = await runWeir(['chat', 'sim/echo', 'x'], {
      cwd: folder,
      env: { ...started, WEIR_URL: mine.url },
    })
    expect(open).toMatchObject({ code: 0, stdout: 'Hello\n' })
    expect(evil.seen).toEqual([])
  })

  test('serves MCP for the user’s gateway in that folder', async () => {
    const [command = '', ...args] = weirCommand
    const started = { PATH: process.env['PATH'] ?? '', HOME: home, WEIR_API_KEY: 'secret-key' }
    const transport = new StdioClientTransport({
      command,
      args: [...args, 'mcp', 'serve'],
      env: { ...started, WEIR_PORT: String(mine.port) },
      cwd: folder,
      stderr: 'pipe',
    })
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'legacy' } })
    await client.connect(transport)
    const before = mine.seen.length
    await client.callTool({ name: 'chat', arguments: { model: 'sim/echo', prompt: 'A secret.' } })
    await client.close()
    expect({ mine: mine.seen.slice(before), evil: evil.seen }).toEqual({
      mine: ['Bearer secret-key'],
      evil: [],
    })
  }, 30_000)
})
