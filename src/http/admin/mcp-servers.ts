// Any account's MCP servers for operators, with the functions of the console; each change is recorded as an act.

import { mcpServerActs } from '../console/mcp-servers.ts'
import { accountNamed } from './accounts.ts'
import { type AdminRoute, adminRoute, recordAct } from './route.ts'

const ids: Readonly<Record<string, string>> = {
  'GET mcp-servers': 'listAccountMcpServers',
  'POST mcp-servers': 'putAccountMcpServer',
  'POST mcp-servers/:name/test': 'testAccountMcpServer',
  'DELETE mcp-servers/:name': 'removeAccountMcpServer',
}

/** The recorded name of each act. */
const verbs: Readonly<Record<string, string>> = {
  'POST mcp-servers': 'put',
  'DELETE mcp-servers/:name': 'remove',
}

export const mcpServerRoutes: readonly AdminRoute[] = mcpServerActs
  .filter(({ method, path }) => ids[`${method} ${path}`] !== undefined)
  .map(({ handle, ...spec }) => {
    const name = `${spec.method} ${spec.path}`
    return adminRoute<unknown>(
      {
        ...spec,
        path: `accounts/:account/${spec.path}`,
        id: ids[name]!,
        // Calls of the account go to the address that the request names.
        ...(name === 'POST mcp-servers' && { elevated: true }),
      },
      async (asked) => {
        const account = await accountNamed(asked)
        const answer = await handle({ parts: asked.parts, account, params: asked.params, body: asked.body })
        const verb = verbs[name]
        // Only the name and the address in the request are not secret; the answer contains nothing else.
        if (verb !== undefined) await recordAct(asked, `mcp_server.${verb}`, account.id, null, answer)
        return answer
      },
    )
  })
