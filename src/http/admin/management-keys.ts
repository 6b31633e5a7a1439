// Management keys for the admin API. Operators can list and revoke them. Creating one requires a recent proof of
// identity in the console, or the command line, so that a stolen key cannot create another; see `requirePerson`.

import { z } from 'zod'
import { keyState } from '../../accounts/account.ts'
import {
  issueManagementKey,
  issueManagementKeyOnce,
  type IssuedManagementKey,
  type ManagementKey,
  requestedKeyId,
  type WantedManagementKey,
} from '../../accounts/management-key.ts'
import { GatewayError } from '../../errors/errors.ts'
import {
  type AdminRoute,
  adminRoute,
  type ConsoleRoute,
  iso,
  isoOrNull,
  operatorRoute,
  recordAct,
} from '../console/route.ts'
import { futureTime, keyName, networkNames, requestId, requireNetworks, time } from '../console/bodies.ts'
import type { HttpParts } from '../parts.ts'
import type { ManagementKeyView } from './answers.ts'

const createBody = z.strictObject({
  name: keyName,
  id: requestId.describe(
    'An id of yours for the request: the same one again makes no second key, and is refused.',
  ),
  expires_at: time.nullable().optional(),
  networks: networkNames.nullable().optional(),
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
      const { parts, params } = asked
      const { managementKeys, now } = parts
      const key = await managementKeys.find(params['key'] ?? '')
      if (!key) throw new GatewayError('not_found')
      if (key.revokedAt === null) {
        await managementKeys.revoke(key.id, now())
        const named = { key: key.id, name: key.name }
        await recordAct(asked, 'management_key.revoke', key.account, named, null)
      }
      return managementKeyView((await managementKeys.find(key.id))!, now())
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
    const { now } = parts
    const { name, expires_at: expires, networks, id } = body
    const expiresAt = expires == null ? null : futureTime('expires_at', expires, now())
    if (networks != null) requireNetworks(networks)
    const wanted = { account: account.id, name, expiresAt, networks: networks ?? null }
    const { key, text } = await issuedFor(parts, wanted, id)
    const shown = managementKeyView(key, now())
    await recordAct({ parts, operator: account }, 'management_key.create', account.id, null, shown)
    return { ...shown, key: text }
  },
)

/** Throws `idempotency_conflict` if a request of the operator with this id has made a key. */
async function issuedFor(
  { managementKeys, now }: HttpParts,
  wanted: WantedManagementKey,
  id: string | undefined,
): Promise<IssuedManagementKey> {
  if (id === undefined) return issueManagementKey(managementKeys, wanted, now())
  const made = await issueManagementKeyOnce(managementKeys, wanted, now(), id)
  if (made) return made
  const before = (await managementKeys.find(requestedKeyId(wanted.account, id)))!
  throw new GatewayError('idempotency_conflict', {
    message: `This request has made the management key ${JSON.stringify(before.name)} before. It was shown in that answer alone: if that was lost, revoke the key and make another.`,
    param: 'id',
    metadata: { key: before.id },
  })
}

export function managementKeyView(key: ManagementKey, now: number): ManagementKeyView {
  return {
    id: key.id,
    account: key.account,
    name: key.name,
    state: keyState(key, now),
    last4: key.lastFour,
    created_at: iso(key.createdAt),
    expires_at: isoOrNull(key.expiresAt),
    revoked_at: isoOrNull(key.revokedAt),
    networks: key.networks,
  }
}
