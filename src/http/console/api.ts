// The tables of closed routes, and how they are served: the console's pages call one by a session, programs of operators
// the other by a management key. Loaded with the first request.

import { type Account, matches, sessionIdOf } from '../../accounts/account.ts'
import { isElevated } from '../../accounts/identity/identities.ts'
import { networkOf, requireWithin } from '../../accounts/identity/sign-in-limits.ts'
import { managementKeyIdOf, type ManagementScope } from '../../accounts/key-leaks.ts'
import { GatewayError } from '../../errors/errors.ts'
import { safeParsed } from '../../protocols/request/fields.ts'
import {
  accountKeyRoutes,
  accountMcpServerRoutes,
  accountRoutes,
  accountWebhookRoutes,
} from '../admin/accounts.ts'
import { configurationRoutes } from '../admin/configuration.ts'
import { groupRoutes, ownGroupRoutes } from '../admin/groups.ts'
import { insightRoutes } from '../admin/insight.ts'
import { supportRoutes } from '../admin/support.ts'
import { managementKeyRoutes, newManagementKeyRoute } from '../admin/acts.ts'
import { findRoute, type RouteCall, stillUsed } from '../route.ts'
import { bearerOf, requireOwnOrigin, sessionCookie } from '../intake/caller.ts'
import { readJson, refuseByHeaders } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import { paymentRoutes } from '../payments/admin.ts'
import { adminStatementRoutes, groupStatementRoutes, statementRoutes } from '../payments/statements.ts'
import { adminPlanRoutes, planRoutes } from '../payments/plans.ts'
import { topUpRoutes, voucherRoutes } from '../payments/top-ups.ts'
import { conversationRoutes, conversationSearchRoute, promptRoutes, shareRoutes } from './conversations.ts'
import { creditRoutes } from './credits.ts'
import { keyRoutes } from './keys.ts'
import { liveRoutes, requestRoutes } from './requests.ts'
import { mcpServerRoutes } from './mcp-servers.ts'
import { connectRoutes, modelRoutes } from './models.ts'
import {
  type AdminRoute,
  type RouteAnswer,
  type ConsoleRoute,
  operatorRoute,
  type RouteSpec,
  type SignedInAccount,
} from './route.ts'
import { oidcRoutes, passkeyRoutes, sessionRoutes } from './sign-in.ts'
import { webhookRoutes } from './webhooks.ts'
import { emptyBody } from './bodies.ts'

/** Under `/admin/v1/`. */
export const adminRoutes: readonly AdminRoute[] = [
  ...insightRoutes,
  ...supportRoutes,
  ...configurationRoutes,
  ...accountRoutes,
  ...accountKeyRoutes,
  ...groupRoutes,
  ...managementKeyRoutes,
  ...accountMcpServerRoutes,
  ...paymentRoutes,
  ...adminPlanRoutes,
  ...adminStatementRoutes,
  ...groupStatementRoutes,
  ...accountWebhookRoutes,
]

/** Under `/console/api/`. */
export const consoleRoutes: readonly ConsoleRoute[] = [
  ...sessionRoutes,
  ...passkeyRoutes,
  ...oidcRoutes,
  ...keyRoutes,
  ...ownGroupRoutes,
  ...mcpServerRoutes,
  ...creditRoutes,
  ...topUpRoutes,
  ...planRoutes,
  ...statementRoutes,
  ...voucherRoutes,
  ...requestRoutes,
  ...modelRoutes,
  ...liveRoutes,
  ...conversationRoutes,
  conversationSearchRoute,
  ...shareRoutes,
  ...promptRoutes,
  ...connectRoutes,
  ...webhookRoutes,
  // An operator who is signed in has the whole admin API here.
  ...adminRoutes.map(({ handle, method, path, ...spec }) =>
    operatorRoute(`${method} admin/${path}`, spec, (asked) =>
      handle({ ...asked, operator: asked.account, by: 'session' }),
    ),
  ),
  newManagementKeyRoute,
]

type Asking = Pick<RouteCall, 'request' | 'requestId' | 'askedBy'>

/** Answers a request below `/console/api/`. Throws GatewayError for every refusal. */
export async function consoleApi(
  parts: HttpParts,
  { request, requestId, askedBy }: Asking,
): Promise<Response> {
  const { route, params } = findRoute(consoleRoutes, request, parts.publicUrl(), '/console/api/')
  requireOwnOrigin(request, parts.site)
  const signedIn = await signedInOf(parts, request)
  if (signedIn) askedBy({ account: signedIn.account.id })
  admit(route, signedIn, parts.now())
  const visitor = {
    network: networkOf(parts.site.addressOf(request)),
    userAgent: request.headers.get('user-agent'),
  }
  return answer(parts, request, route, (body) =>
    route.handle({ parts, request, requestId, params, body, visitor, signedIn }),
  )
}

/** Answers a request below `/admin/v1/`. Throws GatewayError for every refusal. */
export async function adminApi(parts: HttpParts, { request, requestId, askedBy }: Asking): Promise<Response> {
  // The key is checked first: without one, a client learns nothing about the routes.
  const operator = await operatorOf(parts, request)
  askedBy({ account: operator.id })
  const { route, params } = findRoute(adminRoutes, request, parts.publicUrl(), '/admin/v1/')
  return answer(parts, request, route, (body) =>
    route.handle({ parts, request, requestId, params, body, operator, by: 'management_key' }),
  )
}

async function answer(
  parts: HttpParts,
  request: Request,
  route: RouteSpec<unknown>,
  handle: (body: unknown) => RouteAnswer | Promise<RouteAnswer>,
): Promise<Response> {
  const answered = await handle(await bodyOf(parts, request, route))
  const response =
    answered instanceof Response ? answered : Response.json(answered, { status: route.status ?? 200 })
  // Every answer is about one account, and some of it is shown once.
  if (!response.headers.has('cache-control')) response.headers.set('cache-control', 'no-store')
  return response
}

// Who asks.

/** The account of the session cookie; undefined without a cookie or if the session has ended. */
async function signedInOf(parts: HttpParts, request: Request): Promise<SignedInAccount | undefined> {
  const { accounts, now, site } = parts
  const text = sessionCookie(request, site)
  const id = text === undefined ? undefined : sessionIdOf(text)
  const session = id === undefined ? undefined : await accounts.findSession(id)
  if (!session || !matches(session, text!)) return undefined
  const over = session.revokedAt !== null || session.expiresAt <= now()
  const account = over ? undefined : await accounts.findAccount(session.account)
  if (!account || account.suspended) return undefined
  await stillUsed(parts, session)
  return { account, session }
}

function admit(route: ConsoleRoute, signedIn: SignedInAccount | undefined, now: number): void {
  if (route.access === 'anyone') return
  if (!signedIn) throw new GatewayError('not_signed_in')
  if (route.access === 'operator' && signedIn.account.role !== 'operator')
    throw new GatewayError('operator_required')
  if (route.elevated && !isElevated(signedIn.session, now)) throw new GatewayError('elevation_required')
}

/**
 * The operator who owns the management key in `Authorization: Bearer`. Throws like `authenticate`,
 * `network_not_allowed` for a key used from another network, and `operator_required` if its account is no longer an
 * operator.
 */
export async function operatorOf(
  parts: HttpParts,
  request: Request,
  scope: ManagementScope = 'admin',
): Promise<Account> {
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
  if (key.scope !== scope) {
    const message =
      scope === 'admin'
        ? 'This management key is for provisioning (SCIM) alone.'
        : 'Provisioning takes a management key of its own scope (weir keys create --management --scope scim).'
    throw new GatewayError('operator_required', { message, credential })
  }
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

// The body.

/** Enough for every body of these tables that names no bound of its own. */
const maxBodyBytes = 65_536

/** The body, checked by the route's closed schema. Throws `invalid_request` with the field's name. */
async function bodyOf(parts: HttpParts, request: Request, route: RouteSpec<unknown>): Promise<unknown> {
  const { headers, method } = request
  const { body: limits, scheduler } = parts
  if (method === 'GET' || method === 'HEAD') return undefined
  const isEmpty = Number(headers.get('content-length') ?? 0) === 0 && !headers.has('transfer-encoding')
  if (!route.body && isEmpty) return undefined
  const most = Math.min(limits.maxBodyBytes, route.maxBodyBytes ?? maxBodyBytes)
  const small = { ...limits, maxBodyBytes: most }
  refuseByHeaders(headers, small)
  // Forms of other pages can send text/plain without a preflight, but not JSON.
  if (!/^application\/json\s*(;|$)/i.test(headers.get('content-type') ?? ''))
    throw new GatewayError('unsupported_media_type')
  const { json } = await readJson(request, { body: small, scheduler })
  const { success, data, error } = safeParsed(route.body ?? emptyBody, json)
  if (success) return data
  const [issue] = error.issues
  const keys = issue?.code === 'unrecognized_keys' ? issue.keys.slice(0, 1) : []
  const param = [...(issue?.path ?? []), ...keys].map(String).join('.').slice(0, 256)
  const message =
    keys.length > 0
      ? `There is no field ${param} here.`
      : `${param || 'The body'}: ${issue?.message ?? 'is invalid'}`
  throw new GatewayError('invalid_request', { message, ...(param === '' ? {} : { param }) })
}
