// A route for operators, served in the console under /console/api/admin and for programs under /admin/v1.

import type { z } from 'zod'
import type { Account } from '../../accounts/account.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { Answer, RouteSpec } from '../console/route.ts'
import type { HttpParts } from '../parts.ts'

export interface AdminAsked<Body> {
  readonly parts: HttpParts
  readonly request: Request
  readonly requestId: string
  readonly params: Readonly<Record<string, string>>
  readonly body: Body
  readonly operator: Account
  /** What the operator is known by: a key may be held by anybody. */
  readonly by: 'session' | 'management_key'
}

/**
 * `elevated` where the route makes or opens a way in, hands out a secret, or gives credit: a session that was left open,
 * or stolen, must not turn into access that outlives it. test/journeys/console/admin.test.ts lists the routes without it.
 */
interface AdminSpec<Body> extends RouteSpec<Body> {
  /** The operation's id in the documentation. */
  readonly id: string
  readonly description?: string
  /** The query parameters, for the documentation; the handler reads them. */
  readonly query?: z.ZodObject
}

export interface AdminRoute extends AdminSpec<unknown> {
  readonly handle: (asked: AdminAsked<unknown>) => Answer | Promise<Answer>
}

export function adminRoute<Body = undefined>(
  spec: AdminSpec<Body>,
  handle: (asked: AdminAsked<Body>) => Answer | Promise<Answer>,
): AdminRoute {
  return { ...spec, handle: (asked) => handle(asked as AdminAsked<Body>) }
}

/**
 * Throws `elevation_required` for a management key, which gives nobody the access of an operator: whoever has stolen
 * one would keep that when the key is revoked, has expired or is bound to a network.
 */
export function requirePerson({ by }: Pick<AdminAsked<unknown>, 'by'>): void {
  if (by === 'session') return
  const message = 'Operators are made, unmade and given links in the console or by a command (weir accounts).'
  throw new GatewayError('elevation_required', { message })
}

export async function recordAct(
  { parts, operator }: Pick<AdminAsked<unknown>, 'parts' | 'operator'>,
  what: string,
  subject: string,
  before: unknown,
  after: unknown,
): Promise<void> {
  await parts.acts.record({ at: parts.now(), operator: operator.id, what, subject, before, after })
}
