// A route of the console's API: its input, its access rule and its handler.

import type { z } from 'zod'
import type { Account, Session } from '../../accounts/account.ts'
import type { Visitor } from '../../accounts/identity/identities.ts'
import type { ErrorCode } from '../../errors/errors.ts'
import type { HttpParts } from '../parts.ts'

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE'

export interface Asked<Body> {
  readonly parts: HttpParts
  readonly request: Request
  readonly requestId: string
  /** The segments of the path that the route names with a colon. */
  readonly params: Readonly<Record<string, string>>
  readonly body: Body
  readonly visitor: Visitor
  /** Who is signed in, if anybody. */
  readonly signedIn: SignedInAccount | undefined
}

export interface SignedInAccount {
  readonly account: Account
  readonly session: Session
}

export type AskedBy<Body> = Asked<Body> & SignedInAccount

/** A plain object becomes a JSON answer with the route's status. */
export type Answer = Response | object

/** Everything a route has besides its handler. */
export interface RouteSpec<Body> {
  readonly method: Method
  /** Below `/console/api/`, such as `keys/:id`. */
  readonly path: string
  /** One line for the documentation. */
  readonly summary: string
  /** The status of a successful answer; 200 by default. */
  readonly status?: 200 | 201 | 202 | 302
  /** Its errors, besides those of every route of its kind. */
  readonly errors?: readonly ErrorCode[]
  /** Whether it requires a recent proof of identity. */
  readonly elevated?: true
  /** The schema of its body; without one it takes no body. */
  readonly body?: z.ZodType<Body>
}

export interface ConsoleRoute extends RouteSpec<unknown> {
  readonly access: 'anyone' | 'session' | 'operator'
  /** The body in `asked` has been checked; unless `access` is `anyone`, somebody is signed in. */
  readonly handle: (asked: Asked<unknown>) => Answer | Promise<Answer>
}

export function publicRoute<Body = undefined>(
  spec: RouteSpec<Body>,
  handle: (asked: Asked<Body>) => Answer | Promise<Answer>,
): ConsoleRoute {
  return { ...spec, access: 'anyone', handle: (asked) => handle(asked as Asked<Body>) }
}

/** A route for signed-in accounts, about their own data. */
export function ownRoute<Body = undefined>(
  spec: RouteSpec<Body>,
  handle: (asked: AskedBy<Body>) => Answer | Promise<Answer>,
): ConsoleRoute {
  return { ...spec, access: 'session', handle: (asked) => handle(withAccount(asked as Asked<Body>)) }
}

export function operatorRoute<Body = undefined>(
  spec: RouteSpec<Body>,
  handle: (asked: AskedBy<Body>) => Answer | Promise<Answer>,
): ConsoleRoute {
  return { ...ownRoute(spec, handle), access: 'operator' }
}

function withAccount<Body>(asked: Asked<Body>): AskedBy<Body> {
  if (!asked.signedIn) throw new Error('the route was entered without a session')
  return { ...asked, ...asked.signedIn }
}

export function iso(at: number): string {
  return new Date(at).toISOString()
}

export function isoOrNull(at: number | null): string | null {
  return at === null ? null : iso(at)
}
