// Any account's keys for operators, with the functions of the console; each change is recorded as an act.

import { keyActs } from '../console/keys.ts'
import { mcpServerActs } from '../console/mcp-servers.ts'
import { webhookActs } from '../console/webhooks.ts'
import { accountNamed } from './accounts.ts'
import { type AdminRoute, adminRoute, recordAct } from '../console/route.ts'

const ids: Readonly<Record<string, string>> = {
  'GET keys': 'listAccountKeys',
  'POST keys': 'createAccountKey',
  'PATCH keys/:id': 'changeAccountKey',
  'DELETE keys/:id': 'revokeAccountKey',
  'POST keys/:id/rotate': 'rotateAccountKey',
}

/** Their answers hold the secret of an account that is another's, or make a key of it work longer or from elsewhere. */
const opening = new Set(['POST keys', 'PATCH keys/:id', 'POST keys/:id/rotate'])

export const keyRoutes: readonly AdminRoute[] = keyActs.map(({ handle, ...spec }) =>
  adminRoute<unknown>(
    {
      ...spec,
      path: `accounts/:account/${spec.path}`,
      id: ids[`${spec.method} ${spec.path}`]!,
      ...(opening.has(`${spec.method} ${spec.path}`) && { elevated: true }),
    },
    async (asked) => {
      const { method, path } = spec
      const { parts, params, request, body: given } = asked
      const account = await accountNamed(asked)
      const before = params['id'] === undefined ? undefined : await parts.accounts.findKey(params['id'])
      const answer = await handle({ parts, account, params, request, body: given })
      if (method === 'GET') return answer
      const verb = path.endsWith('rotate')
        ? 'rotate'
        : { POST: 'create', PATCH: 'change', DELETE: 'revoke' }[method]
      const state = before?.account === account.id ? { key: before.id, name: before.name } : null
      await recordAct(asked, `key.${verb}`, account.id, state, given ?? null)
      return answer
    },
  ),
)

// Any account's MCP servers for operators, with the functions of the console; each change is recorded as an act.

const mcpServerIds: Readonly<Record<string, string>> = {
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
  .filter(({ method, path }) => mcpServerIds[`${method} ${path}`] !== undefined)
  .map(({ handle, ...spec }) => {
    const name = `${spec.method} ${spec.path}`
    return adminRoute<unknown>(
      {
        ...spec,
        path: `accounts/:account/${spec.path}`,
        id: mcpServerIds[name]!,
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

// Any account's webhooks for operators, with the functions of the console; each change is recorded as an act.

const webhooksIds: Readonly<Record<string, string>> = {
  'GET webhooks': 'listAccountWebhooks',
  'POST webhooks': 'addAccountWebhook',
  'DELETE webhooks/:id': 'removeAccountWebhook',
  'POST webhooks/:id/test': 'testAccountWebhook',
  'GET webhooks/:id/deliveries': 'listAccountWebhookDeliveries',
}

/** The recorded name of each act. */
const webhooksVerbs: Readonly<Record<string, string>> = {
  'POST webhooks': 'add',
  'DELETE webhooks/:id': 'remove',
}

export const webhookRoutes: readonly AdminRoute[] = webhookActs.map(({ handle, ...spec }) => {
  const name = `${spec.method} ${spec.path}`
  return adminRoute<unknown>(
    {
      ...spec,
      path: `accounts/:account/${spec.path}`,
      id: webhooksIds[name]!,
      // The answer holds a secret of the account, and what happens to it is told to an address that the request names.
      ...(name === 'POST webhooks' && { elevated: true }),
    },
    async (asked) => {
      const { parts, params, body } = asked
      const account = await accountNamed(asked)
      const answer = await handle({ parts, account, params, body })
      const verb = webhooksVerbs[name]
      // The answer to adding one contains the secret, the request does not.
      const subject = body ?? { id: params['id'] }
      if (verb !== undefined) await recordAct(asked, `webhook.${verb}`, account.id, null, subject)
      return answer
    },
  )
})
