// Registered MCP servers behind OAuth: authorised in the browser by whoever began it, refreshed when a token ends, and
// used in calls by their name.

import { afterAll, beforeAll, beforeEach, expect, spyOn, test } from 'bun:test'
import { createHash } from 'node:crypto'
import OpenAI from 'openai'
import { accountWith } from '../../support/call-gateway.ts'
import { eventually } from '../../support/call-gateway.ts'
import { ConsoleClient, signedIn } from '../../support/console-client.ts'
import { anySchema, mcpServer, type TestMcpServer } from '../../support/mcp-server.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

interface Granted {
  readonly challenge: string
  readonly redirect: string
}

/** An authorisation server and the MCP server that trusts it, in one. */
const codes = new Map<string, Granted>()
const access = new Set<string>()
const refresh = new Set<string>()
let lifetime: number | undefined = 3_600
/** Tools want more than the tokens were given for. */
let lacking = false
/** By it, the authorisation server is another one. */
let issuerPath = ''
/** Clients as they introduce themselves with a secret. */
const secrets: (string | null)[] = []
let metadata: (origin: string) => object = (origin) => ({
  issuer: origin + issuerPath,
  authorization_endpoint: `${origin}/authorize`,
  token_endpoint: `${origin}/token`,
  registration_endpoint: `${origin}/register`,
  response_types_supported: ['code'],
  code_challenge_methods_supported: ['S256'],
  token_endpoint_auth_methods_supported: ['none'],
})
const usual = metadata
/** Holds the metadata back. */
let hold: (() => Promise<void>) | undefined
const asked: string[] = []

function issued() {
  const [token, next] = [crypto.randomUUID(), crypto.randomUUID()]
  access.add(token)
  refresh.add(next)
  return Response.json({
    access_token: token,
    token_type: 'Bearer',
    ...(lifetime !== undefined && { expires_in: lifetime }),
    refresh_token: next,
  })
}

async function http(request: Request): Promise<Response | undefined> {
  const { pathname, origin } = new URL(request.url)
  asked.push(pathname)
  if (pathname.startsWith('/.well-known/oauth-protected-resource'))
    return Response.json({ resource: `${origin}/mcp`, authorization_servers: [origin + issuerPath] })
  if (pathname === `/.well-known/oauth-authorization-server${issuerPath}`) {
    await hold?.()
    return Response.json(metadata(origin))
  }
  if (pathname === '/register') {
    const body = (await request.json()) as object
    return Response.json({ ...body, client_id: 'client' }, { status: 201 })
  }
  if (pathname === '/token') {
    const form = new URLSearchParams(await request.text())
    secrets.push(form.get('client_secret'))
    if (form.get('grant_type') === 'refresh_token')
      return refresh.delete(form.get('refresh_token')!)
        ? issued()
        : Response.json(
            { error: 'invalid_grant', error_description: `unknown: ${form.get('refresh_token')}` },
            { status: 400 },
          )
    const granted = codes.get(form.get('code')!)
    const challenge = createHash('sha256').update(form.get('code_verifier')!).digest('base64url')
    const isGood = granted?.challenge === challenge && granted.redirect === form.get('redirect_uri')
    if (!isGood || !codes.delete(form.get('code')!))
      return Response.json({ error: 'invalid_grant' }, { status: 400 })
    return issued()
  }
  if (pathname !== '/mcp') return new Response(null, { status: 404 })
  const token = request.headers.get('authorization')?.replace('Bearer ', '') ?? ''
  if (!access.has(token)) return new Response('who are you', { status: 401 })
  if (!lacking || !(await request.clone().text()).includes('tools/call')) return undefined
  const challenge = 'Bearer error="insufficient_scope", scope="files:write"'
  return new Response(null, { status: 403, headers: { 'www-authenticate': challenge } })
}

let server: TestMcpServer
let weir: ServedWeir
let anna: ConsoleClient
let key: string
beforeAll(async () => {
  server = mcpServer({ tools: [{ name: 'echo', inputSchema: anySchema }], http })
  weir = await serveWeir({
    config: `
local_servers: { discover: false }
secrets: { master_key: master-key-0123456789-abcdefghijklm }
egress: { allow_hosts: ['${server.host}'] }
`,
  })
  key = (await accountWith(weir, 'anna@example.org', { purchased: '5' })).key
  anna = await signedIn(weir, 'anna@example.org')
})
afterAll(async () => {
  server?.[Symbol.dispose]()
  await weir?.stop()
})
beforeEach(async () => {
  lifetime = 3_600
  lacking = false
  issuerPath = ''
  metadata = usual
  await anna.post('mcp-servers', { name: 'kept', url: server.url })
})

/** The user allows it: what the authorisation server sends the browser back with. */
async function allowed(client: ConsoleClient): Promise<string> {
  const { status, json } = await client.post('mcp-servers/kept/authorize')
  expect(status).toBe(200)
  const url = new URL(String(json.authorization_url))
  const query = url.searchParams
  expect([url.pathname, query.get('code_challenge_method'), query.get('client_id')]).toEqual([
    '/authorize',
    'S256',
    'client',
  ])
  const code = crypto.randomUUID()
  codes.set(code, { challenge: query.get('code_challenge')!, redirect: query.get('redirect_uri')! })
  return `code=${code}&state=${encodeURIComponent(query.get('state')!)}`
}

const callback = (client: ConsoleClient, query: string) => client.get(`mcp-servers/callback?${query}`)

/** The answer of a model that calls the tools of the server `kept`. */
async function answerWithTools(): Promise<OpenAI.Responses.Response> {
  const openai = new OpenAI({ apiKey: key, baseURL: weir.baseUrl, maxRetries: 0 })
  return (await openai.responses.create({
    model: 'sim/tools',
    input: 'Hello',
    tools: [{ type: 'mcp', server_label: 'kept', require_approval: 'never' }],
  } as never)) as OpenAI.Responses.Response
}

test('a server is authorised once and then used by its name, without a token in the request', async () => {
  expect((await anna.post('mcp-servers/kept/test')).json).toMatchObject({ ok: false })
  const query = await allowed(anna)
  expect((await anna.post('mcp-servers/kept/test')).status).toBe(400)
  const back = await callback(anna, query)
  expect([back.status, back.headers.get('location')]).toEqual([302, '/console/mcp?outcome=authorized'])
  expect((await anna.post('mcp-servers/kept/test')).json).toEqual({
    ok: true,
    tools: ['echo'],
    error: null,
    needs_authorization: false,
  })
  const { output } = await answerWithTools()
  expect(output.map(({ type }) => type)).toEqual(['mcp_list_tools', 'mcp_call', 'message'])
  const { json } = await anna.get('mcp-servers')
  expect(json.data).toMatchObject([{ name: 'kept', authorized: true }])
  for (const token of [...access, ...refresh])
    expect(JSON.stringify(json) + weir.output()).not.toContain(token)
})

test('a token that has ended is refreshed, once for calls at the same time', async () => {
  lifetime = 1
  await callback(anna, await allowed(anna))
  access.clear()
  lifetime = 3_600
  asked.length = 0
  const tried = await Promise.all([1, 2, 3].map(() => anna.post('mcp-servers/kept/test')))
  expect(tried.map(({ json }) => json.ok)).toEqual([true, true, true])
  expect(asked.filter((path) => path === '/token')).toHaveLength(1)
  access.clear()
  refresh.clear()
})

const listed = async () => ((await anna.get('mcp-servers')).json.data as { name: string }[])[0]!

test('a token that the server refuses one day is refreshed before the next call', async () => {
  lifetime = undefined
  await callback(anna, await allowed(anna))
  access.clear()
  expect((await anna.post('mcp-servers/kept/test')).json).toMatchObject({
    ok: false,
    needs_authorization: true,
  })
  expect(await listed()).toMatchObject({ authorized: true, needs_authorization: true })
  expect((await anna.post('mcp-servers/kept/test')).json).toMatchObject({ ok: true })
  expect(await listed()).toMatchObject({ authorized: true, needs_authorization: false })
})

test('a refresh that fails leaves the token out of the error and of what is printed', async () => {
  using printed = spyOn(console, 'warn').mockImplementation(() => undefined)
  lifetime = 1
  await callback(anna, await allowed(anna))
  const [token] = refresh
  refresh.clear()
  const { status, json } = await anna.post('mcp-servers/kept/test')
  expect([status, JSON.stringify(json)]).toEqual([400, expect.stringContaining('authorise it again')])
  expect(printed).toHaveBeenCalled()
  expect(JSON.stringify([json, printed.mock.calls])).not.toContain(token!)
})

test('an authorisation that is begun and left leaves the one before in use', async () => {
  await callback(anna, await allowed(anna))
  await allowed(anna)
  expect((await anna.post('mcp-servers/kept/test')).json).toMatchObject({ ok: true })
})

test('a token that is refreshed while another authorisation begins is kept, and so is that', async () => {
  lifetime = 1
  await callback(anna, await allowed(anna))
  lifetime = 3_600
  const discovered = Promise.withResolvers<void>()
  const answered = Promise.withResolvers<void>()
  hold = async () => {
    discovered.resolve()
    await answered.promise
  }
  const begun = allowed(anna)
  await discovered.promise
  hold = undefined
  expect((await anna.post('mcp-servers/kept/test')).json).toMatchObject({ ok: true })
  answered.resolve()
  const query = await begun
  expect((await anna.post('mcp-servers/kept/test')).json).toMatchObject({ ok: true })
  expect((await callback(anna, query)).headers.get('location')).toBe('/console/mcp?outcome=authorized')
})

test('what a tool lacks is asked for by the next authorisation', async () => {
  await callback(anna, await allowed(anna))
  lacking = true
  const { output } = await answerWithTools()
  expect(output[1]).toMatchObject({ type: 'mcp_call', error: expect.stringContaining('files:write') })
  expect(await listed()).toMatchObject({ authorized: true, needs_authorization: true })
  const { json } = await anna.post('mcp-servers/kept/authorize')
  expect(new URL(String(json.authorization_url)).searchParams.get('scope')).toBe('files:write')
})

test('a client of the account is used instead of a new one, and its secret is for one authorisation server', async () => {
  metadata = (origin) => ({
    ...usual(origin),
    token_endpoint_auth_methods_supported: ['client_secret_post', 'none'],
  })
  const oauth = { client_id: 'client', client_secret: 'secret-of-the-account' }
  await anna.post('mcp-servers', { name: 'kept', url: server.url, oauth })
  asked.length = 0
  secrets.length = 0
  await callback(anna, await allowed(anna))
  expect([asked.includes('/register'), secrets]).toEqual([false, ['secret-of-the-account']])
  // The server names another authorisation server now.
  issuerPath = '/other'
  const query = await allowed(anna)
  secrets.length = 0
  expect((await callback(anna, query)).status).toBe(302)
  expect([asked.includes('/register'), secrets]).toEqual([true, [null]])
})

test('people are sent back to their servers, whatever came of it', async () => {
  const inBrowser = { headers: { accept: 'text/html,application/xhtml+xml' } }
  const denied = 'mcp-servers/callback?error=access_denied&state=x'
  const back = await anna.send('GET', denied, undefined, inBrowser)
  expect([back.status, back.headers.get('location')]).toEqual([302, '/console/mcp?outcome=refused'])
  const why = 'could not be authorised: access_denied'
  const log = await eventually(
    async () => weir.output(),
    (text) => text.includes(why),
  )
  expect(log).toContain(why)
})

test('authorisation servers can read who the gateway is', async () => {
  const read = await fetch(`${weir.origin}/client-metadata.json`)
  const origin = `http://localhost:${weir.port}`
  expect(await read.json()).toMatchObject({
    client_id: `${origin}/client-metadata.json`,
    client_name: 'Weir',
    redirect_uris: [`${origin}/console/api/mcp-servers/callback`],
  })
})

test('S17 an answer that another session brings, or a second time, is refused', async () => {
  const query = await allowed(anna)
  const other = await signedIn(weir, 'anna@example.org')
  expect((await callback(other, query)).status).toBe(400)
  await accountWith(weir, 'bert@example.org', { purchased: '5' })
  const bert = await signedIn(weir, 'bert@example.org')
  expect((await callback(bert, query)).status).toBe(404)
  expect((await new ConsoleClient(weir).get(`mcp-servers/callback?${query}`)).status).toBe(401)
  expect((await callback(anna, query.replace(/state=kept\./, 'state=kept.x'))).status).toBe(400)
  expect((await callback(anna, query)).status).toBe(302)
  expect((await callback(anna, query)).status).toBe(400)
})

test('a user who does not allow it, and a code that is none', async () => {
  const query = await allowed(anna)
  const denied = await callback(anna, 'error=access_denied&state=x')
  expect([denied.status, JSON.stringify(denied.json)]).toEqual([
    400,
    expect.stringContaining('access_denied'),
  ])
  expect((await callback(anna, query.replace(/code=[^&]+/, 'code=stolen'))).status).toBe(400)
})

test.each<[string, object]>([
  ['token endpoint', { token_endpoint: 'http://169.254.169.254/token' }],
  ['registration endpoint', { registration_endpoint: 'http://127.0.0.1:1/register' }],
  ['authorisation endpoint', { authorization_endpoint: 'http://10.0.0.1/authorize' }],
])('S32 metadata that names a private address as %s is refused', async (_, more) => {
  metadata = (origin) => ({ ...usual(origin), ...more })
  const { status, json } = await anna.post('mcp-servers/kept/authorize')
  if (status === 200) {
    const query = new URL(String(json.authorization_url)).searchParams
    expect((await callback(anna, `code=c&state=${query.get('state')}`)).status).toBe(400)
  } else expect(status).toBe(400)
})
