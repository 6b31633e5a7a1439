// The MCP servers of any account, for operators: what its owner may do in the console, and each change is an act.

import { mcpServerActs } from '../console/mcp-servers.ts'
import { accountNamed } from './accounts.ts'
import { type AdminRoute, adminRoute, recordAct } from './route.ts'

const ids: Readonly<Record<string, string>> = {
  'GET mcp-servers': 'listAccountMcpServers',
  'POST mcp-servers': 'putAccountMcpServer',
  'POST mcp-servers/:name/test': 'testAccountMcpServer',
  'DELETE mcp-servers/:name': 'removeAccountMcpServer',
}

/** What is recorded of those that change something. */
const verbs: Readonly<Record<string, string>> = {
  'POST mcp-servers': 'put',
  'DELETE mcp-servers/:name': 'remove',
}

export const mcpServerRoutes: readonly AdminRoute[] = mcpServerActs
  .filter(({ method, path }) => ids[`${method} ${path}`] !== undefined)
  .map(({ handle, ...spec }) => {
    const name = `${spec.method} ${spec.path}`
    return adminRoute<unknown>(
      { ...spec, path: `accounts/:account/${spec.path}`, id: ids[name]! },
      async (asked) => {
        const account = await accountNamed(asked)
        const answer = await handle({ parts: asked.parts, account, params: asked.params, body: asked.body })
        const verb = verbs[name]
        // Of what was given only the name and the address are no secrets; the answer holds no more.
        if (verb !== undefined) await recordAct(asked, `mcp_server.${verb}`, account.id, null, answer)
        return answer
      },
    )
  })
