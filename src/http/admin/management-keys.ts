// Management keys for the admin API. Operators can list and revoke them. Creating one requires a recent proof of
// identity in the console, or the command line, so that a stolen key cannot create another; see `requirePerson`.

import { z } from 'zod'
import { GatewayError } from '../../errors/errors.ts'
import { type AdminRoute, adminRoute, type ConsoleRoute, operatorRoute } from '../console/route.ts'
import { futureTime, keyName, networkNames, requestId, requireNetworks, time } from '../console/bodies.ts'
import { createManagementKey, managementKeyView, revokeManagementKey } from './acts.ts'

const createBody = z.strictObject({
  name: keyName,
  id: requestId.describe(
    'An id of yours for the request: the same one again makes no second key, and is refused.',
  ),
  expires_at: time.nullable().optional(),
  networks: networkNames.nullable().optional(),
  scope: z
    .enum(['admin', 'scim'])
    .optional()
    .describe('`scim` for provisioning alone (`/scim/v2`); `admin` if left out.'),
})

export const managementKeyRoutes: readonly AdminRoute[] = [
  adminRoute(
    {
      method: 'GET',
      path: 'management-keys',
      id: 'listManagementKeys',
      summary: 'List the keys of the admin API',
      description: 'Of all operators. Without their text: that is shown once, when a key is made.',
    },
    async ({ parts }) => {
      const keys = await parts.managementKeys.list()
      return { data: keys.map((key) => managementKeyView(key, parts.now())) }
    },
  ),
  adminRoute(
    {
      method: 'DELETE',
      path: 'management-keys/:key',
      id: 'revokeManagementKey',
      summary: 'Revoke a key of the admin API, at once',
    },
    async (asked) => {
      const key = await asked.parts.managementKeys.find(asked.params['key'] ?? '')
      if (!key) throw new GatewayError('not_found')
      return revokeManagementKey(asked, key)
    },
  ),
]

/** In the console only. */
export const newManagementKeyRoute: ConsoleRoute = operatorRoute(
  {
    method: 'POST',
    path: 'admin/management-keys',
    summary: 'Make a key of the admin API; it is shown this once',
    status: 201,
    elevated: true,
    errors: ['idempotency_conflict'],
    body: createBody,
  },
  async ({ parts, account, body }) => {
    const { name, expires_at: expires, networks = null, scope = 'admin', id } = body
    const expiresAt = expires == null ? null : futureTime('expires_at', expires, parts.now())
    if (networks !== null) requireNetworks(networks)
    const wanted = { account: account.id, name, expiresAt, networks, scope }
    return createManagementKey({ parts, operator: account, by: 'session' }, wanted, id)
  },
)
