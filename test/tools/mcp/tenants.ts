// Many accounts at once, each with calls of an MCP server of its own token: what each is given belongs to it, or the
// count of foreign answers says how often it did not.

import { issueKey, unlimited } from '../../../src/accounts/account.ts'
import { usd } from '../../../src/credits/money.ts'
import { openStore } from '../../../src/store/open.ts'
import { grantOf } from '../../credits/support.ts'
import { anySchema, mcpServer, text } from '../../support/mcp-server.ts'
import { startObedientProvider } from '../../support/obedient-provider.ts'
import { startWeir } from '../../support/run-weir.ts'
import { tempDir } from '../../support/tmp.ts'

/** Calls of tools in one request; several requests of an account run at once. */
const perRequest = 10
/** Requests at once. */
const atOnce = 100

export interface Mixed {
  /** Calls whose results came back. */
  readonly answered: number
  /** Results, or tokens at the server, that belong to another account. */
  readonly foreign: number
  readonly ms: number
}

export async function tenantsAtOnce(accounts: number, callsEach: number): Promise<Mixed> {
  let foreign = 0
  using server = mcpServer({
    tools: [{ name: 'echo', inputSchema: anySchema }],
    call: async (_, { nonce }, { headers }) => {
      await Bun.sleep(Math.random() * 20)
      const [owner] = String(nonce).split('/')
      if (headers.get('authorization') !== `Bearer ${owner}`) foreign++
      return text(`<${String(nonce)}>`)
    },
  })
  const provider = startObedientProvider()
  using home = tempDir('weir-tenants-')
  const dataDir = home.join('data')
  const keys = await openAccounts(dataDir, accounts)
  // In a process of its own: the requests of this one have to wait for each other.
  await using weir = await startWeir({
    dataDir,
    config: `
local_servers: { discover: false }
egress: { allow_hosts: ['${server.host}'] }
limits: { tool_calls: ${perRequest}, requests_in_flight: 10000, requests_in_flight_per_account: 100 }
providers: { obedient: { protocol: openai-chat, base_url: '${provider.url}', api_key: key } }
models: [{ id: obedient/m, price: free, context_length: 100000, max_output_tokens: 1000 }]
`,
  })
  const began = performance.now()
  let answered = 0
  const requests = keys.flatMap((key, number) =>
    Array.from({ length: callsEach / perRequest }, (_, request) => ({
      key,
      owner: `tenant${number}`,
      request,
    })),
  )
  const ask = async ({ key, owner, request }: (typeof requests)[number]) => {
    const nonces = Array.from({ length: perRequest }, (_, call) => `${owner}/${request}/${call}`)
    const response = await fetch(`${weir.baseUrl}/responses`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'obedient/m',
        input: JSON.stringify({ call: nonces.map((nonce) => ['echo', { nonce }]) }),
        tools: [
          {
            type: 'mcp',
            server_label: 'srv',
            server_url: server.url,
            authorization: owner,
            require_approval: 'never',
          },
        ],
      }),
    })
    const body = await response.text()
    if (response.status !== 200) throw new Error(`${response.status} ${body}`)
    const { output } = JSON.parse(body) as { output: { type: string; output?: string }[] }
    const given = output.filter(({ type }) => type === 'mcp_call').map((item) => item.output)
    answered += given.length
    const own = new Set(nonces.map((nonce) => `<${nonce}>`))
    foreign += given.filter((each) => each === undefined || !own.has(each)).length
    foreign += [...body.matchAll(/<(tenant\d+)\//g)].filter(([, name]) => name !== owner).length
  }
  const worker = async () => {
    for (let next = requests.shift(); next; next = requests.shift()) await ask(next)
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  await provider.stop()
  return { answered, foreign, ms: Math.round(performance.now() - began) }
}

async function openAccounts(dataDir: string, count: number): Promise<string[]> {
  const store = await openStore(dataDir, { clock: Date.now })
  const keys: string[] = []
  for (let number = 0; number < count; number++) {
    const { id: account } = await store.accounts.createAccount(`tenant${number}@example.org`)
    await store.ledger.grant(grantOf(`grant ${number}`, usd(1), { account }))
    const rights = { account, name: 'key', mode: 'live', group: null, sees: 'own', ...unlimited } as const
    keys.push((await issueKey(store.accounts, rights, Date.now())).text)
  }
  await store.close()
  return keys
}
