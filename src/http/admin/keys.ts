// Any account's keys for operators, with the functions of the console; each change is recorded as an act.

import { keyActs } from '../console/keys.ts'
import { accountNamed } from './accounts.ts'
import { type AdminRoute, adminRoute, recordAct } from './route.ts'

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
