// The console's API: finds the route, checks access and body, and answers. Loaded with its first request.

import { matches, sessionIdOf } from '../../accounts/account.ts'
import { isElevated } from '../../accounts/identity/identities.ts'
import { networkOf } from '../../accounts/identity/network.ts'
import { GatewayError } from '../../errors/errors.ts'
import { stillUsed } from '../app/in-app.ts'
import { requireOwnOrigin, sessionCookie } from '../intake/site.ts'
import type { HttpParts } from '../parts.ts'
import type { Call } from '../route.ts'
import type { ConsoleRoute, SignedInAccount } from './route.ts'
import { routes } from './routes.ts'
import { bodyOf, routeIn } from './table.ts'

const prefix = '/console/api/'

/** Answers a request below `/console/api/`. Throws GatewayError for every refusal. */
export async function consoleApi(
  parts: HttpParts,
  { request, requestId, askedBy }: Pick<Call, 'request' | 'requestId' | 'askedBy'>,
): Promise<Response> {
  const { route, params } = routeIn(routes, prefix, request, parts)
  requireOwnOrigin(request, parts.site)
  const signedIn = await signedInOf(parts, request)
  if (signedIn) askedBy({ account: signedIn.account.id })
  admit(route, signedIn, parts.now())
  const visitor = {
    network: networkOf(parts.site.addressOf(request)),
    userAgent: request.headers.get('user-agent'),
  }
  const body = await bodyOf(parts, request, route)
  const answer = await route.handle({ parts, request, requestId, params, body, visitor, signedIn })
  // Who has revoked a key may rely on it.
  if (route.method !== 'GET') await parts.everyoneHeard()
  const response =
    answer instanceof Response ? answer : Response.json(answer, { status: route.status ?? 200 })
  // Every answer is about one account, and some of it is shown once.
  if (!response.headers.has('cache-control')) response.headers.set('cache-control', 'no-store')
  return response
}

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
