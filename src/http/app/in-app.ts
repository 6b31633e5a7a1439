// Routes for the app of a signed-in account: the wire contract of /v1 under /app/v1, paid from all of its pools.

import type { Caller, Session } from '../../accounts/account.ts'
import type { Operation } from '../docs/operation.ts'
import { authenticateSession } from '../intake/authenticate.ts'
import { requireOwnOrigin, sessionCookie } from '../intake/site.ts'
import type { ServingParts } from '../parts.ts'
import type { Route } from '../route.ts'

/** The route under /app/v1: the same handler and contract, identified by a session. */
export function inApp<Parts>(route: Route<Parts>): Route<Parts> {
  const { operation } = route
  return {
    ...route,
    path: `/app${route.path}`,
    identify: signedIn,
    ...(operation === undefined ? {} : { operation: async () => ofApp(await operation(), route.path) }),
  }
}

/** The same for a route that is public under /v1: in the app it requires a session. */
export function inAppOnly<Parts>(route: Route<Parts>): Route<Parts> {
  return inApp({
    ...route,
    handle: async (parts, call) => {
      await call.caller()
      return route.handle(parts, call)
    },
  })
}

async function ofApp(operation: Operation, path: string): Promise<Operation> {
  const { ofCaller, ofKeyedCall } = await import('../docs/openapi-errors.ts')
  const ofKeys: ReadonlySet<string> = new Set(ofKeyedCall)
  const shown = operation.path ?? path
  return {
    ...operation,
    id: `${operation.id}InApp`,
    ...(operation.path === undefined ? {} : { path: `/app${operation.path}` }),
    tag: 'App',
    summary: `${operation.summary}, from the app`,
    description: `As \`${shown}\`, for the account of the session.`,
    security: 'session',
    errors: [...operation.errors.filter((code) => !ofKeys.has(code)), ...ofCaller],
  }
}

// Identifies the caller of an app request.

/**
 * The caller of an app request. Grants today's allowance, so that it is there from the day's first request on, unless
 * the account is suspended. The session token comes as a bearer token, or as the console's cookie with a request of
 * its own pages; the bearer token takes precedence.
 */
export async function signedIn(parts: ServingParts, request: Request): Promise<Caller> {
  const cookie = request.headers.has('authorization') ? undefined : sessionCookie(request, parts.site)
  if (cookie !== undefined) requireOwnOrigin(request, parts.site)
  const { caller, session } = await authenticateSession(request.headers, parts, cookie)
  await stillUsed(parts, session)
  await parts.freeCredit.ensure(caller.account)
  return caller
}

/** The last use of a session is stored with this precision, milliseconds, because each update is a write. */
const seenEveryMs = 3_600_000

/** Extends a session that ends when idle, at most once an hour. */
export async function stillUsed(
  { identityStore, now }: Pick<ServingParts, 'identityStore' | 'now'>,
  { id, idleMs, seenAt }: Session,
): Promise<void> {
  const at = now()
  if (idleMs === null || at - (seenAt ?? 0) < seenEveryMs) return
  await identityStore.touchSession(id, at, at + idleMs)
}
