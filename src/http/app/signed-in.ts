// Identifies the caller of an app request.

import type { Caller } from '../../accounts/caller.ts'
import type { Session } from '../../accounts/session.ts'
import { authenticateSession } from '../intake/authenticate.ts'
import type { ServingParts } from '../parts.ts'
import { requireOwnOrigin, sessionCookie } from '../intake/site.ts'

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
