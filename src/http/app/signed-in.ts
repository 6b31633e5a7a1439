// What a signed-in account's app calls: the same wire contract under /app/v1, paid by every pool the account has.

import type { Caller } from '../../accounts/caller.ts'
import type { Session } from '../../accounts/session.ts'
import { authenticateSession } from '../intake/authenticate.ts'
import type { HttpParts } from '../parts.ts'
import { requireOwnOrigin, sessionCookie } from '../intake/site.ts'

/**
 * The caller of an app request, with today's allowance granted: it is there from the first request of the day on,
 * whether that is a call or a look at the credits. A suspended account is granted nothing. The session comes as a
 * bearer token, or as the console's cookie with a request of one of its pages; where there are both, the token counts.
 */
export async function signedIn(parts: HttpParts, request: Request): Promise<Caller> {
  const cookie = request.headers.has('authorization') ? undefined : sessionCookie(request, parts.site)
  if (cookie !== undefined) requireOwnOrigin(request, parts.site)
  const { caller, session } = await authenticateSession(request.headers, parts, cookie)
  await stillUsed(parts, session)
  await parts.freeCredit.ensure(caller.account)
  return caller
}

/** How exactly a session's last use is known: each note of it is a write. */
const seenEveryMs = 3_600_000

/** A session that lasts while it is used is used: its end moves on, at most once an hour. */
export async function stillUsed(
  { identityStore, now }: Pick<HttpParts, 'identityStore' | 'now'>,
  { id, idleMs, seenAt }: Session,
): Promise<void> {
  const at = now()
  if (idleMs === null || at - (seenAt ?? 0) < seenEveryMs) return
  await identityStore.touchSession(id, at, at + idleMs)
}
