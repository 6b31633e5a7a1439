// A route for operators, served in the console under /console/api/admin and for programs under /admin/v1.

import type { z } from 'zod'
import type { Account } from '../../accounts/account.ts'
import type { Answer, RouteSpec } from '../console/route.ts'
import type { HttpParts } from '../parts.ts'

export interface AdminAsked<Body> {
  readonly parts: HttpParts
  readonly request: Request
  readonly requestId: string
  readonly params: Readonly<Record<string, string>>
  readonly body: Body
  readonly operator: Account
}

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

export async function recordAct(
  { parts, operator }: Pick<AdminAsked<unknown>, 'parts' | 'operator'>,
  what: string,
  subject: string,
  before: unknown,
  after: unknown,
): Promise<void> {
  await parts.acts.record({ at: parts.now(), operator: operator.id, what, subject, before, after })
}
