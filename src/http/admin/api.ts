// The admin API: the operators' routes for programs, with a management key. Loaded with its first request.

import { type Account, matches } from '../../accounts/account.ts'
import { requireWithin } from '../../accounts/identity/network.ts'
import { managementKeyIdOf } from '../../accounts/management-key.ts'
import { GatewayError } from '../../errors/errors.ts'
import { bodyOf, routeIn } from '../console/table.ts'
import { bearerOf } from '../intake/authenticate.ts'
import type { HttpParts } from '../parts.ts'
import type { Call } from '../route.ts'
import { adminRoutes } from './routes.ts'

const prefix = '/admin/v1/'

type Asked = Pick<Call, 'request' | 'requestId' | 'askedBy'>

/** Answers a request below `/admin/v1/`. Throws GatewayError for every refusal. */
export async function adminApi(parts: HttpParts, call: Asked): Promise<Response> {
  const { request, requestId, askedBy } = call
  // The key is checked first: without one, a client learns nothing about the routes.
  const operator = await operatorOf(parts, request)
  askedBy({ account: operator.id })
  const { route, params } = routeIn(adminRoutes, prefix, request, parts)
  const body = await bodyOf(parts, request, route)
  const answer = await route.handle({
    parts,
    request,
    requestId,
    params,
    body,
    operator,
    by: 'management_key',
  })
  // Who has revoked a key may rely on it.
  if (route.method !== 'GET') await parts.everyoneHeard()
  const response =
    answer instanceof Response ? answer : Response.json(answer, { status: route.status ?? 200 })
  if (!response.headers.has('cache-control')) response.headers.set('cache-control', 'no-store')
  return response
}

/**
 * The operator who owns the management key in `Authorization: Bearer`. Throws like `authenticate`,
 * `network_not_allowed` for a key used from another network, and `operator_required` if its account is no longer an
 * operator.
 */
export async function operatorOf(parts: HttpParts, request: Request): Promise<Account> {
  const { managementKeys, accounts, site, now } = parts
  const text = bearerOf(request.headers)
  const id = managementKeyIdOf(text)
  const key = id === undefined ? undefined : await managementKeys.find(id)
  if (!key || !matches(key, text))
    throw new GatewayError('invalid_api_key', { message: unknownKey(text), credential: {} })
  const credential = { account: key.account, key: key.id }
  if (key.revokedAt !== null && key.revokedAt <= now())
    throw new GatewayError('api_key_revoked', { credential })
  if (key.expiresAt !== null && key.expiresAt <= now())
    throw new GatewayError('api_key_expired', { credential })
  requireWithin(site.addressOf(request), key.networks, credential)
  const account = await accounts.findAccount(key.account)
  if (!account) throw new GatewayError('invalid_api_key')
  if (account.suspended) throw new GatewayError('account_suspended', { credential })
  if (account.role !== 'operator') throw new GatewayError('operator_required', { credential })
  return account
}

function unknownKey(text: string): string {
  return text.startsWith('sk-weir-') || text.startsWith('ws-weir-')
    ? 'The admin API takes a management key (weir keys create --management): API keys and sessions administer nothing.'
    : 'This is no management key that is valid here.'
}
