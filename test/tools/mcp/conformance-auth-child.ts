// Weir as the client of the authorisation scenarios of the conformance suite: the server of the last argument is
// registered by an account, authorised as its owner would do it in a browser, and used in calls by its name.

import { accountWith } from '../../support/call-gateway.ts'
import { ConsoleClient } from '../../support/console-client.ts'
import { serveWeir } from '../../support/serve-weir.ts'

const url = process.argv.at(-1)!
const publicUrl = 'https://conformance-test.local'
const given = JSON.parse(process.env['MCP_CONFORMANCE_CONTEXT'] ?? '{}') as {
  client_id?: string
  client_secret?: string
}
const isRegistered = given.client_id !== undefined

const weir = await serveWeir({
  config: `
local_servers: { discover: false }
server: { public_url: '${publicUrl}' }
secrets: { master_key: master-key-0123456789-abcdefghijklm }
egress: { allow_hosts: ['localhost', '127.0.0.1'] }
`,
})
const { key } = await accountWith(weir, 'anna@example.org', { purchased: '5' })
const anna = new ConsoleClient(weir)
const { stdout } = await weir.command('accounts', 'link', '--account', 'anna@example.org', '--json')
const link = new URL((JSON.parse(stdout) as { url: string }).url)
const post = (path: string, body: unknown = {}) => anna.post(path, body, { origin: publicUrl })
await ok(post('link', { token: link.hash.slice(1) }))

const { name } = await ok(
  post('mcp-servers', {
    name: 'srv',
    url,
    ...(isRegistered && { oauth: { client_id: given.client_id, client_secret: given.client_secret } }),
  }),
)

/** The browser goes to the authorisation server and comes back; that server asks nobody. */
async function authorize(): Promise<void> {
  const { authorization_url } = await ok(post(`mcp-servers/${String(name)}/authorize`))
  const sent = await fetch(String(authorization_url), { redirect: 'manual' })
  const back = new URL(sent.headers.get('location')!)
  const { status } = await anna.get(`mcp-servers/callback${back.search}`)
  if (status !== 302) throw new Error(`the answer of the authorisation server is refused with ${status}`)
}

async function call(): Promise<void> {
  const response = await fetch(`${weir.baseUrl}/responses`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'sim/tools',
      input: 'Hello',
      tools: [{ type: 'mcp', server_label: 'srv', require_approval: 'never' }],
    }),
  })
  process.stderr.write(`${await response.text()}\n`)
}

async function needsAuthorization(): Promise<boolean> {
  const { data } = (await anna.get('mcp-servers')).json as { data: { needs_authorization: boolean }[] }
  return data[0]!.needs_authorization
}

await authorize()
await call()
// A call may have found that it takes more than was allowed; a person is asked once more, and no more often.
if (await needsAuthorization()) {
  await authorize()
  await call()
}
await weir.stop()
process.exit(0)

async function ok(asked: ReturnType<ConsoleClient['post']>): Promise<Readonly<Record<string, unknown>>> {
  const { status, json } = await asked
  if (status >= 300) throw new Error(JSON.stringify(json))
  return json
}
