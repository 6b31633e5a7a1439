// The MCP servers of an account: register, test, remove. Headers and tokens are never shown again.

import { z } from 'zod'
import { authorizationOf, type McpServerRecord, type McpServers } from '../../accounts/mcp-server.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { HttpParts } from '../parts.ts'
import { type Site, sitePath } from '../intake/caller.ts'
import { clientMetadataUrl, mcpCallback } from '../mcp/mcp.ts'
import {
  type AccountRoute,
  accountRoute,
  type Acting,
  type ConsoleRoute,
  type SignedInAsked,
  iso,
  ofOwner,
  ownRoute,
  recordAct,
} from './route.ts'
import type { McpProbeView, McpServerView } from './answers.ts'

const putBody = z.strictObject({
  name: z.string(),
  url: z.string(),
  token: z.string().min(1).max(8_192).optional(),
  headers: z.record(z.string(), z.string()).optional(),
  /** A client that the account has registered with the authorisation server itself. */
  oauth: z
    .strictObject({
      client_id: z.string().min(1).max(2_048),
      client_secret: z.string().min(1).max(8_192).optional(),
    })
    .optional(),
})

export const mcpServerActs: readonly AccountRoute[] = [
  accountRoute(
    'GET mcp-servers',
    {
      operators: { id: 'listAccountMcpServers' },
      summary: 'The MCP servers that the account has registered',
    },
    async ({ parts, account }) => ({ data: (await parts.mcpServers.list(account.id)).map(mcpServerView) }),
  ),
  accountRoute(
    'POST mcp-servers',
    {
      // Calls of the account go to the address that the request names.
      operators: { id: 'putAccountMcpServer', elevated: true },
      summary: 'Register an MCP server, or change one; its token and headers are kept encrypted',
      status: 201,
      errors: ['unsupported_parameter'],
      body: putBody,
    },
    (asked) => {
      const { name, url, token, headers = {}, oauth } = asked.body
      const given = Object.keys(headers).some((header) => header.toLowerCase() === 'authorization')
      if (given && token !== undefined) {
        throw new GatewayError('invalid_request', {
          message: 'The token is there twice: as token and among the headers.',
          param: 'token',
        })
      }
      const all = token === undefined ? headers : { ...headers, authorization: `Bearer ${token}` }
      const secrets = { headers: all, ...(oauth && { oauth: { given: oauth } }) }
      return putMcpServer(asked, asked.account.id, { name, url, secrets })
    },
  ),
  accountRoute(
    'POST mcp-servers/:name/test',
    {
      operators: { id: 'testAccountMcpServer' },
      summary: 'Connect to a registered MCP server and list its tools',
      errors: ['url_not_allowed'],
    },
    async ({ parts, account, params }): Promise<McpProbeView> => {
      const { tools, error, needsAuthorization } = await parts.probeMcp(account.id, params['name']!)
      return { ok: error === undefined, tools, error: error ?? null, needs_authorization: needsAuthorization }
    },
  ),
  accountRoute(
    'DELETE mcp-servers/:name',
    { operators: { id: 'removeAccountMcpServer' }, summary: 'Forget an MCP server and its secrets' },
    (asked) => removeMcpServer(asked, asked.account.id, asked.params['name']!),
  ),
]

export const mcpServerRoutes: readonly ConsoleRoute[] = [
  ...mcpServerActs.map(ofOwner),
  ownRoute(
    'POST mcp-servers/:name/authorize',
    {
      summary: 'Begin to authorise a registered MCP server by OAuth; the browser goes to `authorization_url`',
      errors: ['url_not_allowed', 'unsupported_parameter'],
    },
    async ({ parts, account, session, params }) => ({
      authorization_url: await parts.mcpAuthorization.begin({
        account: account.id,
        name: params['name']!,
        session: session.id,
        redirectUrl: `${parts.site.url()}/console/api/${mcpCallback}`,
        clientMetadataUrl: clientMetadataUrl(parts.site),
      }),
    }),
  ),
  ownRoute(
    `GET ${mcpCallback}`,
    {
      summary: 'Where the browser comes back to with the answer of the authorisation server',
      status: 302,
      errors: ['url_not_allowed', 'unsupported_parameter'],
    },
    async (asked) => {
      try {
        await authorizeServer(asked)
        return toServersPage(asked.parts.site, 'authorized')
      } catch (error) {
        // A person is looking at this in a browser: JSON would not help them.
        if (!(asked.request.headers.get('accept') ?? '').includes('text/html')) throw error
        const { parts, requestId } = asked
        parts.log.info('an MCP server could not be authorised', { request_id: requestId, error })
        return toServersPage(asked.parts.site, 'refused')
      }
    },
  ),
]

async function authorizeServer({
  parts,
  account,
  session,
  request,
}: SignedInAsked<undefined>): Promise<void> {
  const query = new URL(request.url).searchParams
  const [state, code, iss] = [query.get('state'), query.get('code'), query.get('iss')]
  if (state === null || code === null) {
    // The server's own message is not trusted; its error code is enough.
    const error = /^\w{1,64}$/.exec(query.get('error') ?? '')?.[0] ?? 'no code came back'
    throw new GatewayError('invalid_request', {
      message: `The MCP server could not be authorised: ${error}.`,
      param: 'code',
    })
  }
  await parts.mcpAuthorization.end({
    account: account.id,
    session: session.id,
    state,
    code,
    ...(iss === null ? {} : { iss }),
  })
}

function toServersPage(site: Pick<Site, 'url'>, outcome: 'authorized' | 'refused'): Response {
  const location = `${sitePath(site.url())}/console/mcp?outcome=${outcome}`
  return new Response(null, { status: 302, headers: { location } })
}

// What changes a registration: for the routes, and for the commands.

type McpServerActing = Acting<Pick<HttpParts, 'mcpServers'>>

/** Registers a server, or changes one. Throws what `McpServers.put` throws. */
export async function putMcpServer(
  acting: McpServerActing,
  account: string,
  wanted: Parameters<McpServers['put']>[1],
): Promise<McpServerView> {
  const view = mcpServerView(await acting.parts.mcpServers.put(account, wanted))
  // Of a header it holds the name alone.
  await recordAct(acting, 'mcp_server.put', account, null, view)
  return view
}

/** Forgets a server and its secrets. Throws `not_found`. */
export async function removeMcpServer(acting: McpServerActing, account: string, name: string) {
  if (!(await acting.parts.mcpServers.remove(account, name)))
    throw new GatewayError('not_found', { message: 'The account has no such MCP server.' })
  await recordAct(acting, 'mcp_server.remove', account, null, { name })
  return { name, removed: true as const }
}

export function mcpServerView({ name, url, secrets, createdAt, changedAt }: McpServerRecord): McpServerView {
  const { authorized, needsAuthorization } = authorizationOf(secrets)
  return {
    name,
    url,
    headers: Object.keys(secrets.headers),
    authorized,
    needs_authorization: needsAuthorization,
    created_at: iso(createdAt),
    changed_at: iso(changedAt),
  }
}
