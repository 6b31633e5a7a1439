// Passkeys in the console: registering, using, naming and removing them.

import type { Passkey } from '../../../accounts/identity/identity-store.ts'
import { GatewayError } from '../../../errors.ts'
import { type ConsoleRoute, iso, isoOrNull, ownRoute, publicRoute } from '../route.ts'
import { enterSession } from './session.ts'
import { usableWays } from './usable-ways.ts'
import { emptyBody, passkeyBody, provePasskeyBody, renamePasskeyBody } from '../wire.ts'
import type { PasskeyView } from '../views.ts'

export const passkeyRoutes: readonly ConsoleRoute[] = [
  ownRoute(
    {
      method: 'POST',
      path: 'passkeys/options',
      summary: 'What a browser needs to make a passkey',
      elevated: true,
      body: emptyBody,
    },
    ({ parts, account }) => parts.passkeys.creationOptions(account),
  ),
  ownRoute(
    {
      method: 'POST',
      path: 'passkeys',
      summary: 'Register the passkey that a browser made',
      status: 201,
      elevated: true,
      body: passkeyBody,
    },
    async ({ parts, account, body }) =>
      passkeyView(await parts.passkeys.register(account, body.response, body.name ?? 'passkey')),
  ),
  publicRoute(
    {
      method: 'POST',
      path: 'passkeys/challenge',
      summary: 'What a browser needs to find a passkey',
      body: emptyBody,
    },
    ({ parts, visitor }) => {
      parts.identities.allowChallenge(visitor)
      return parts.passkeys.requestOptions()
    },
  ),
  publicRoute(
    {
      method: 'POST',
      path: 'passkeys/sign-in',
      summary: 'Sign in by passkey',
      errors: ['wrong_credentials', 'account_suspended'],
      body: provePasskeyBody,
    },
    async (asked) => {
      const { parts, body, visitor } = asked
      const account = await parts.passkeys.prove(body.response)
      return enterSession(asked, await parts.identities.open(account, visitor))
    },
  ),
  ownRoute(
    { method: 'GET', path: 'passkeys', summary: 'The passkeys of the account' },
    async ({ parts, account }) => ({
      data: (await parts.identityStore.listPasskeys(account.id)).map(passkeyView),
    }),
  ),
  ownRoute(
    { method: 'PATCH', path: 'passkeys/:id', summary: 'Name a passkey', body: renamePasskeyBody },
    async ({ parts: { identityStore }, account, body, params }) => {
      const id = params['id']!
      if (!(await identityStore.renamePasskey(account.id, id, body.name))) throw new GatewayError('not_found')
      return passkeyView((await identityStore.findPasskey(id))!)
    },
  ),
  ownRoute(
    {
      method: 'DELETE',
      path: 'passkeys/:id',
      summary: 'Remove a passkey, unless it is the only way to sign in',
      elevated: true,
    },
    async ({ parts, account, params }) => {
      const id = params['id']!
      if (!(await parts.identityStore.deletePasskey(account.id, id, usableWays(parts))))
        throw new GatewayError('not_found')
      return { id, deleted: true }
    },
  ),
]

function passkeyView({ id, name, createdAt, lastUsedAt, backedUp }: Passkey): PasskeyView {
  return {
    id,
    name,
    created_at: iso(createdAt),
    last_used_at: isoOrNull(lastUsedAt),
    backed_up: backedUp,
  }
}
