// What the owner of an account does with it in the console, for operators and any account; each change is recorded.

import type { Account } from '../../accounts/account.ts'
import { keyActs } from '../console/keys.ts'
import { mcpServerActs } from '../console/mcp-servers.ts'
import {
  type AccountRoute,
  type AdminAsked,
  type AdminRoute,
  adminRoute,
  recordAct,
} from '../console/route.ts'
import { webhookActs } from '../console/webhooks.ts'
import { accountNamed } from './accounts.ts'

/** What is recorded of a change. Nothing secret. */
interface Recorded {
  readonly before?: (asked: AdminAsked<unknown>, account: Account) => Promise<object | null>
  readonly after: (asked: AdminAsked<unknown>, answer: object) => unknown
}

function ofOperators(routes: readonly AccountRoute[], { before, after }: Recorded): readonly AdminRoute[] {
  return routes.map(({ handle, operators: { act, ...operation }, ...spec }) =>
    adminRoute<unknown>({ ...spec, ...operation, path: `accounts/:account/${spec.path}` }, async (asked) => {
      const { parts, request, params, body } = asked
      const account = await accountNamed(asked)
      const was = (await before?.(asked, account)) ?? null
      const answer = await handle({ parts, request, params, body, account })
      if (act !== undefined) await recordAct(asked, act, account.id, was, after(asked, answer))
      return answer
    }),
  )
}

export const keyRoutes = ofOperators(keyActs, {
  before: async ({ parts, params }, account) => {
    const key = params['id'] === undefined ? undefined : await parts.accounts.findKey(params['id'])
    return key?.account === account.id ? { key: key.id, name: key.name } : null
  },
  after: ({ body }) => body ?? null,
})

export const mcpServerRoutes = ofOperators(mcpServerActs, {
  // Of the request only the name and the address are not secret; the answer holds nothing else.
  after: (_asked, answer) => answer,
})

export const webhookRoutes = ofOperators(webhookActs, {
  // The answer to adding one holds the secret, the request does not.
  after: ({ body, params }) => body ?? { id: params['id'] },
})
