// A route of the console's API: what it takes, who may call it, and what it answers.

import type { z } from 'zod'
import type { ErrorCode } from '../../errors.ts'
import type { Account } from '../../accounts/account.ts'
import type { Visitor } from '../../accounts/identity/identities.ts'
import type { Session } from '../../accounts/session.ts'
import type { HttpParts } from '../parts.ts'

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE'

/** What every handler is given. */
export interface Asked<Body> {
  readonly parts: HttpParts
  readonly request: Request
  readonly requestId: string
  /** The segments of the path that the route names with a colon. */
  readonly params: Readonly<Record<string, string>>
  readonly body: Body
  readonly visitor: Visitor
  /** Who is signed in, if anybody is. */
  readonly signedIn: SignedInAccount | undefined
}

export interface SignedInAccount {
  readonly account: Account
  readonly session: Session
}

export type AskedBy<Body> = Asked<Body> & SignedInAccount

/** A plain object is a JSON answer with the route's status. */
export type Answer = Response | object

/** What a route has beside its handler. */
export interface RouteSpec<Body> {
  readonly method: Method
  /** Below `/console/api/`, such as `keys/:id`. */
  readonly path: string
  /** One line for the documentation. */
  readonly summary: string
  /** Of its answer where all is well; 200 when left out. */
  readonly status?: 200 | 201 | 202 | 302
  /** What it may be refused with beside what any route of its kind may be. */
  readonly errors?: readonly ErrorCode[]
  /** Whether the proof of identity must be fresh. */
  readonly elevated?: true
  /** The body it takes; without one it takes none. */
  readonly body?: z.ZodType<Body>
}

export interface ConsoleRoute extends RouteSpec<unknown> {
  readonly access: 'anyone' | 'session' | 'operator'
  /** `asked` has its body checked; where `access` is not `anyone`, somebody is signed in. */
  readonly handle: (asked: Asked<unknown>) => Answer | Promise<Answer>
}

/** A route for everybody. */
export function publicRoute<Body = undefined>(
  spec: RouteSpec<Body>,
  handle: (asked: Asked<Body>) => Answer | Promise<Answer>,
): ConsoleRoute {
  return { ...spec, access: 'anyone', handle: (asked) => handle(asked as Asked<Body>) }
}

/** A route for whoever is signed in, about what is its own. */
export function ownRoute<Body = undefined>(
  spec: RouteSpec<Body>,
  handle: (asked: AskedBy<Body>) => Answer | Promise<Answer>,
): ConsoleRoute {
  return { ...spec, access: 'session', handle: (asked) => handle(withAccount(asked as Asked<Body>)) }
}

/** A route for operators. */
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

/** A moment as ISO text. */
export function iso(at: number): string {
  return new Date(at).toISOString()
}

export function isoOrNull(at: number | null): string | null {
  return at === null ? null : iso(at)
}
