// MCP servers that accounts register: in the console, by operators' programs and at the command line. What they are sent
// is shown to nobody and stands nowhere in clear.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { accountWith, eventually } from '../../support/call-gateway.ts'
import { ConsoleClient, signedIn } from '../../support/console-client.ts'
import { anySchema, mcpServer, type TestMcpServer } from '../../support/mcp-server.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

const token = 'token-that-is-nobodys-business'
const masterKey = 'master-key-0123456789-abcdefghijklm'

let server: TestMcpServer
let weir: ServedWeir
let anna: ConsoleClient
beforeAll(async () => {
  server = mcpServer({ tools: [{ name: 'echo', inputSchema: anySchema }] })
  weir = await serveWeir({
    config: `local_servers: { discover: false }\nsecrets: { master_key: ${masterKey} }\negress: { allow_hosts: ['${server.host}'] }\n`,
  })
  await accountWith(weir, 'anna@example.org', { purchased: '5' })
  anna = await signedIn(weir, 'anna@example.org')
}, 30_000)
afterAll(async () => {
  server[Symbol.dispose]()
  await weir.stop()
})

test('an account registers a server, tries it and forgets it', async () => {
  const made = await anna.post('mcp-servers', {
    name: 'files',
    url: server.url,
    token,
    headers: { 'x-team': 'a' },
  })
  expect(made).toMatchObject({
    status: 201,
    json: { name: 'files', url: server.url, headers: ['x-team', 'authorization'], authorized: false },
  })
  expect(await anna.post('mcp-servers/files/test')).toMatchObject({
    status: 200,
    json: { ok: true, tools: ['echo'], error: null },
  })
  expect(server.requests.at(-1)!.headers.get('authorization')).toBe(`Bearer ${token}`)
  expect(server.requests.at(-1)!.headers.get('x-team')).toBe('a')
  const { json } = await anna.get('mcp-servers')
  expect(json.data).toHaveLength(1)
  expect(JSON.stringify([made.json, json])).not.toContain(token)

  expect(await anna.send('DELETE', 'mcp-servers/files')).toMatchObject({ status: 200 })
  expect(await anna.send('DELETE', 'mcp-servers/files')).toMatchObject({ status: 404 })
  expect(await anna.post('mcp-servers/files/test')).toMatchObject({ status: 404 })
})

test('S16 its token is nowhere in the data directory', async () => {
  await anna.post('mcp-servers', { name: 'kept', url: server.url, token })
  for (const file of readdirSync(weir.dataDir, { recursive: true, withFileTypes: true })) {
    if (!file.isFile()) continue
    const bytes = readFileSync(join(file.parentPath, file.name))
    expect([file.name, bytes.includes(token), bytes.includes(masterKey)]).toEqual([file.name, false, false])
  }
  expect(weir.output()).not.toContain(token)
})

test('S11 the servers of another account are as those that are not there', async () => {
  await anna.post('mcp-servers', { name: 'annas', url: server.url })
  await accountWith(weir, 'bert@example.org', { purchased: '5' })
  const bert = await signedIn(weir, 'bert@example.org')
  expect((await bert.get('mcp-servers')).json).toEqual({ data: [] })
  const said = async (name: string) => {
    const { status, json } = await bert.post(`mcp-servers/${name}/test`)
    return { status, text: JSON.stringify(json).replace(/req_\w+/, '') }
  }
  expect(await said('annas')).toEqual(await said('none'))
  expect((await bert.send('DELETE', 'mcp-servers/annas')).status).toBe(404)
  expect((await anna.post('mcp-servers/annas/test')).status).toBe(200)
})

test.each<[object, string]>([
  [{ name: 'a b', url: 'https://a.example' }, 'name'],
  [{ name: 'a', url: 'file:///etc/passwd' }, 'url'],
  [{ name: 'a', url: 'npx some-server' }, 'url'],
  [{ name: 'a', url: 'https://user@a.example' }, 'url'],
  [{ name: 'a', url: 'https://a.example', headers: { Host: 'b' } }, 'headers.Host'],
  [{ name: 'a', url: 'https://a.example', headers: { 'x-a': 'b\r\nc: d' } }, 'headers.x-a'],
  [{ name: 'a', url: 'https://a.example', token: 't', headers: { Authorization: 'u' } }, 'token'],
])('what no server can be is refused: %j', async (body, param) => {
  const { status, json } = await anna.post('mcp-servers', body)
  expect([status, (json.error as { param: string }).param]).toEqual([400, param])
})

test('S3 a registered address is checked when it is reached', async () => {
  await anna.post('mcp-servers', { name: 'metadata', url: 'http://169.254.169.254/mcp' })
  expect(await anna.post('mcp-servers/metadata/test')).toMatchObject({ status: 400, code: 'url_not_allowed' })
})

test('operators register for any account by a management key, and it is recorded without the secret', async () => {
  const made = await weir.command('accounts', 'role', 'anna@example.org', 'operator')
  expect(made.code).toBe(0)
  const { stdout } = await weir.command(
    'keys',
    'create',
    '--management',
    '--account',
    'anna@example.org',
    '--json',
  )
  const { key } = JSON.parse(stdout) as { key: string }
  const shown = await weir.command('accounts', 'show', 'bert@example.org', '--json')
  const { id: bert } = JSON.parse(shown.stdout) as { id: string }
  const admin = (method: string, path: string, body?: object) =>
    fetch(`${weir.origin}/admin/v1/accounts/${bert}/${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    })
  // Another process has changed the role: the server knows within a quarter of a second.
  const list = await eventually(
    () => admin('GET', 'mcp-servers'),
    ({ status }) => status !== 403,
  )
  expect(list.status).toBe(200)
  expect((await admin('POST', 'mcp-servers', { name: 'given', url: server.url, token })).status).toBe(201)
  expect(await (await admin('POST', 'mcp-servers/given/test', {})).json()).toMatchObject({ ok: true })
  const acts = await weir.command('accounts', 'show', 'bert@example.org', '--json')
  expect(acts.stdout).not.toContain(token)
  expect((await admin('DELETE', 'mcp-servers/given')).status).toBe(200)
})

test('weir mcp add, list, test and remove do the same beside the server', async () => {
  const account = ['--account', 'bert@example.org', '--json']
  const added = await weir.command(
    'mcp',
    'add',
    'local',
    server.url,
    '--token',
    token,
    '--header',
    'x-team: b',
    ...account,
  )
  expect(JSON.parse(added.stdout)).toMatchObject({ name: 'local', headers: ['x-team', 'Authorization'] })
  const tried = await weir.command('mcp', 'test', 'local', ...account)
  expect(JSON.parse(tried.stdout)).toEqual({ name: 'local', ok: true, tools: ['echo'], error: null })
  const listed = await weir.command('mcp', 'list', ...account)
  expect(JSON.parse(listed.stdout)).toMatchObject([{ name: 'local', url: server.url }])
  expect(added.stdout + listed.stdout).not.toContain(token)
  expect((await weir.command('mcp', 'remove', 'local', ...account)).code).toBe(0)
  expect((await weir.command('mcp', 'test', 'local', ...account)).code).toBe(1)
}, 20_000)

test('without a master key nothing secret is taken, and the error names the setting', async () => {
  await using plain = await serveWeir({ config: 'local_servers: { discover: false }' })
  const add = (...more: string[]) =>
    plain.command('mcp', 'add', 'a', 'https://a.example', '--account', 'owner@localhost', ...more)
  const refused = await add('--token', token)
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('secrets.master_key')])
  expect((await add()).code).toBe(0)
}, 30_000)
