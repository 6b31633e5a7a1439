// What a signed-in account's app calls: the same wire contract under /app/v1, paid by every pool the account has.

import type { Caller } from '../../accounts/caller.ts'
import { authenticateSession } from '../intake/authenticate.ts'
import type { Service } from '../service.ts'

/**
 * The caller of an app request, with today's allowance granted: it is there from the first request of the day on,
 * whether that is a call or a look at the credits. A suspended account is granted nothing.
 */
export async function signedIn(service: Service, request: Request): Promise<Caller> {
  const caller = await authenticateSession(request.headers, service)
  if (!caller.account.suspended) await service.allowances.ensure(caller.account.id)
  return caller
}
