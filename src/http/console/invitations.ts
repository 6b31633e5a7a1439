// Who gets in without a password: the links that operators hand out, and the accounts they open for others.

import { invitedAccount } from '../../accounts/identity/identities.ts'
import { GatewayError } from '../../errors.ts'
import { type ConsoleRoute, iso, operatorRoute } from './route.ts'
import { emptyBody, inviteBody, type LinkView } from './wire.ts'

export const invitationRoutes: readonly ConsoleRoute[] = [
  operatorRoute(
    {
      method: 'POST',
      path: 'admin/invitations',
      summary: 'Open an account for somebody, with the link to sign in to it for the first time',
      status: 201,
      elevated: true,
      body: inviteBody,
    },
    async ({ service, account: operator, body }) => {
      const { accounts, acts, identities, now } = service
      const account = await invitedAccount(accounts, body.email, body.role ?? 'user')
      const after = { email: account.email, role: account.role }
      const act = { at: now(), operator: operator.id, what: 'account.invite', subject: account.id }
      await acts.record({ ...act, before: null, after })
      const { url, expiresAt } = await identities.linkFor('invitation', account)
      return { url, expires_at: iso(expiresAt) } satisfies LinkView
    },
  ),
  operatorRoute(
    {
      method: 'POST',
      path: 'admin/accounts/:id/link',
      summary: 'A link that signs in to an account, once and soon',
      status: 201,
      elevated: true,
      body: emptyBody,
    },
    async ({ service, account: operator, params }) => {
      const { accounts, acts, identities, now } = service
      const account = await accounts.findAccount(params['id']!)
      if (!account || account.id !== params['id']) throw new GatewayError('not_found')
      const act = { at: now(), operator: operator.id, what: 'account.link', subject: account.id }
      await acts.record({ ...act, before: null, after: null })
      const { url, expiresAt } = await identities.linkFor('link', account)
      return { url, expires_at: iso(expiresAt) } satisfies LinkView
    },
  ),
]
