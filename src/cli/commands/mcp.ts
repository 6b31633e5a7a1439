// `weir mcp add | list | test | remove`: the MCP servers of an account.

import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { authorizationOf, type McpServerRecord, McpServers } from '../../accounts/mcp-server.ts'
import { sealer } from '../../accounts/account.ts'
import { reasonOf } from '../../config/config.ts'
import * as acts from '../../http/console/mcp-servers.ts'
import { type GatewayApi, gatewayServer } from '../../http/mcp/server.ts'
import type { Store } from '../../store/store.ts'
import { fetchBounded } from '../../transport/bounded-body.ts'
import { CommandFailure, type Context, type Invocation, print, table, usageFault } from '../context.ts'
import { folderHint, gatewayAddress, type GatewayAddress } from '../gateway-address.ts'
import { actingOn, withAccount } from '../with-store.ts'

/** Registers a server, or changes one. */
export async function addServer(context: Context, invocation: Invocation): Promise<void> {
  const [name = '', url = ''] = invocation.args
  const headers = await headersOf(context, invocation)
  const oauth = await oauthOf(context, invocation)
  const json = await ofAccount(context, invocation, ({ acting, account }) =>
    acts.putMcpServer(acting, account, { name, url, secrets: { headers, ...oauth } }),
  )
  print(context, { json, text: `registered ${json.name} (${json.url})` })
}

export async function listServers(context: Context, invocation: Invocation): Promise<void> {
  const records = await ofAccount(context, invocation, ({ acting, account }) =>
    acting.parts.mcpServers.list(account),
  )
  const rows = records.map(({ name, url, secrets }) => [name, url, secretNames(secrets)])
  const text = rows.length === 0 ? 'no servers' : table(['NAME', 'ADDRESS', 'IS SENT'], rows)
  print(context, { json: records.map(acts.mcpServerView), text })
}

/** Connects to a server and lists its tools; fails if it has none. */
export async function testServer(context: Context, invocation: Invocation): Promise<void> {
  const [name = ''] = invocation.args
  const { mcpOf } = await import('../../serve/gateway/tools.ts')
  const { tools, error } = await ofAccount(context, invocation, ({ account, store }) =>
    mcpOf(context.config, store, context.io.clock).probe(account, name),
  )
  print(context, {
    json: { name, ok: error === undefined, tools, error: error ?? null },
    text: tools.join('\n'),
  })
  if (error !== undefined) throw new CommandFailure(`${name}: ${error}`)
}

export async function removeServer(context: Context, invocation: Invocation): Promise<void> {
  const [name = ''] = invocation.args
  const json = await ofAccount(context, invocation, ({ acting, account }) =>
    acts.removeMcpServer(acting, account, name),
  )
  print(context, { json, text: `removed ${name}` })
}

function ofAccount<Result>(
  context: Context,
  invocation: Invocation,
  work: (of: ReturnType<typeof partsOf>) => Promise<Result>,
): Promise<Result> {
  return withAccount(context, invocation, (store, { id }) => work(partsOf(context, store, id)))
}

/** `account` is its id. */
function partsOf(context: Context, store: Store, account: string) {
  const { master_key: keys } = context.config.secrets
  const seal = keys.length === 0 ? undefined : sealer(keys)
  const mcpServers = new McpServers(store.mcpServers, seal, context.io.clock)
  return { acting: actingOn(context, store, { mcpServers }), account, store }
}

/** `--token`, read from standard input if it is `-`, and each `--header "Name: value"`. */
async function headersOf({ io }: Context, invocation: Invocation): Promise<Record<string, string>> {
  const headers: Record<string, string> = {}
  for (const written of invocation.options('header')) {
    const at = written.indexOf(':')
    if (at < 1) throw usageFault('--header takes "Name: value"')
    headers[written.slice(0, at).trim()] = written.slice(at + 1).trim()
  }
  const token = invocation.option('token')
  if (token === undefined) return headers
  const text = token === '-' ? (await io.input()).trim() : token
  if (text === '') throw usageFault('--token is empty')
  return { ...headers, Authorization: `Bearer ${text}` }
}

/** `--client-id` and `--client-secret`, which is read from standard input if it is `-`. */
async function oauthOf({ io }: Context, invocation: Invocation) {
  const id = invocation.option('clientId')
  const secret = invocation.option('clientSecret')
  if (id === undefined && secret !== undefined) throw usageFault('--client-secret needs --client-id')
  if (id === undefined) return {}
  const text = secret === '-' ? (await io.input()).trim() : secret
  if (text === '') throw usageFault('--client-secret is empty')
  return { oauth: { given: { client_id: id, ...(text !== undefined && { client_secret: text }) } } }
}

function secretNames(secrets: McpServerRecord['secrets']): string {
  const { authorized, needsAuthorization } = authorizationOf(secrets)
  const token = authorized ? ['a token by OAuth'] : []
  const lacking = needsAuthorization ? ['(to be authorised in the console)'] : []
  return [...Object.keys(secrets.headers), ...token, ...lacking].join(', ') || 'nothing'
}

// `weir mcp serve`: a running gateway's MCP server over standard input and output.

/** The largest answer of the gateway: one call's, or the list of its models. */
const mostAnswerBytes = 64 * 1024 * 1024

/** Serves until standard input ends. */
export async function serveMcp(context: Context, invocation: Invocation): Promise<void> {
  const address = gatewayAddress(context, invocation)
  const api = apiAt(address, folderHint(context.io))
  await new Promise<void>((resolve) => {
    serveStdio(() => gatewayServer(api), {
      onerror: (error) => context.io.err(`weir: ${reasonOf(error)}\n`),
    })
    process.stdin.once('end', resolve)
    process.stdin.once('close', resolve)
  })
}

/** The API of the gateway at an address. If no gateway answers there, the result is an error response. */
function apiAt({ base, key }: GatewayAddress, hint: string): GatewayApi {
  return async (path, body, signal) => {
    try {
      return await fetchBounded(
        base + path.replace(/^\/v1/, ''),
        {
          method: body === undefined ? 'GET' : 'POST',
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
          signal,
          redirect: 'manual',
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        },
        mostAnswerBytes,
      )
    } catch (error) {
      signal.throwIfAborted()
      const message = `No gateway answers at ${base} (${reasonOf(error)}): start it with weir serve, or say where it is with --url${hint}.`
      return Response.json({ error: { message } }, { status: 503 })
    }
  }
}
