// The webhooks of any account, for operators: what its owner may do in the console, and each change is an act.

import { webhookActs } from '../console/webhooks.ts'
import { accountNamed } from './accounts.ts'
import { type AdminRoute, adminRoute, recordAct } from './route.ts'

const ids: Readonly<Record<string, string>> = {
  'GET webhooks': 'listAccountWebhooks',
  'POST webhooks': 'addAccountWebhook',
  'DELETE webhooks/:id': 'removeAccountWebhook',
  'POST webhooks/:id/test': 'testAccountWebhook',
  'GET webhooks/:id/deliveries': 'listAccountWebhookDeliveries',
}

/** What is recorded of those that change something. */
const verbs: Readonly<Record<string, string>> = {
  'POST webhooks': 'add',
  'DELETE webhooks/:id': 'remove',
}

export const webhookRoutes: readonly AdminRoute[] = webhookActs.map(({ handle, ...spec }) => {
  const name = `${spec.method} ${spec.path}`
  return adminRoute<unknown>(
    { ...spec, path: `accounts/:account/${spec.path}`, id: ids[name]! },
    async (asked) => {
      const { parts, params, body } = asked
      const account = await accountNamed(asked)
      const answer = await handle({ parts, account, params, body })
      const verb = verbs[name]
      // The answer to an addition holds the secret; what was asked for does not.
      const subject = body ?? { id: params['id'] }
      if (verb !== undefined) await recordAct(asked, `webhook.${verb}`, account.id, null, subject)
      return answer
    },
  )
})
