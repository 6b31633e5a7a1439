// Any account's webhooks for operators, with the functions of the console; each change is recorded as an act.

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

/** The recorded name of each act. */
const verbs: Readonly<Record<string, string>> = {
  'POST webhooks': 'add',
  'DELETE webhooks/:id': 'remove',
}

export const webhookRoutes: readonly AdminRoute[] = webhookActs.map(({ handle, ...spec }) => {
  const name = `${spec.method} ${spec.path}`
  return adminRoute<unknown>(
    {
      ...spec,
      path: `accounts/:account/${spec.path}`,
      id: ids[name]!,
      // The answer holds a secret of the account, and what happens to it is told to an address that the request names.
      ...(name === 'POST webhooks' && { elevated: true }),
    },
    async (asked) => {
      const { parts, params, body } = asked
      const account = await accountNamed(asked)
      const answer = await handle({ parts, account, params, body })
      const verb = verbs[name]
      // The answer to adding one contains the secret, the request does not.
      const subject = body ?? { id: params['id'] }
      if (verb !== undefined) await recordAct(asked, `webhook.${verb}`, account.id, null, subject)
      return answer
    },
  )
})
