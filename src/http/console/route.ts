// A closed route, of the console's pages or of operators: its input, who may call it, and its handler.

import type { z } from 'zod'
import type { Account, Session } from '../../accounts/account.ts'
import type { Visitor } from '../../accounts/identity/identities.ts'
import { type ErrorCode, GatewayError } from '../../errors/errors.ts'
import type { HttpParts } from '../parts.ts'

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE'

/** A plain object becomes a JSON answer with the route's status. */
export type RouteAnswer = Response | object

interface Addressed {
  readonly method: Method
  /** Below the address of its table. */
  readonly path: string
}

/** A method, and a path below the address of its table, such as `GET keys/:id`; `:name` stands for one segment. */
export type RouteAddress = `${Method} ${string}`

function splitAddress(address: RouteAddress): Addressed {
  const [method, path] = address.split(' ') as [Method, string]
  return { method, path }
}

/** Everything a route has besides its address and its handler. */
export interface RouteSpec<Body> {
  /** One line for the documentation. */
  readonly summary: string
  /** The status of a successful answer; 200 by default. */
  readonly status?: 200 | 201 | 202 | 302
  /** Its errors, besides those of every route of its kind. */
  readonly errors?: readonly ErrorCode[]
  /** Whether a session needs a recent proof of identity. */
  readonly elevated?: true
  /** The schema of its body; without one it takes no body. */
  readonly body?: z.ZodType<Body>
  /** Of its body; 64 KiB by default. */
  readonly maxBodyBytes?: number
}

// Routes of the console's pages, under `/console/api/`.

export interface ConsoleAsked<Body> {
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

export type SignedInAsked<Body> = ConsoleAsked<Body> & SignedInAccount

export interface ConsoleRoute extends RouteSpec<unknown>, Addressed {
  readonly access: 'anyone' | 'session' | 'operator'
  /** The body in `asked` has been checked; unless `access` is `anyone`, somebody is signed in. */
  readonly handle: (asked: ConsoleAsked<unknown>) => RouteAnswer | Promise<RouteAnswer>
}

export function publicRoute<Body = undefined>(
  address: RouteAddress,
  spec: RouteSpec<Body>,
  handle: (asked: ConsoleAsked<Body>) => RouteAnswer | Promise<RouteAnswer>,
): ConsoleRoute {
  return {
    ...splitAddress(address),
    ...spec,
    access: 'anyone',
    handle: (asked) => handle(asked as ConsoleAsked<Body>),
  }
}

/** A route for signed-in accounts, about their own data. */
export function ownRoute<Body = undefined>(
  address: RouteAddress,
  spec: RouteSpec<Body>,
  handle: (asked: SignedInAsked<Body>) => RouteAnswer | Promise<RouteAnswer>,
): ConsoleRoute {
  return {
    ...splitAddress(address),
    ...spec,
    access: 'session',
    handle: (asked) => handle(withAccount(asked as ConsoleAsked<Body>)),
  }
}

export function operatorRoute<Body = undefined>(
  address: RouteAddress,
  spec: RouteSpec<Body>,
  handle: (asked: SignedInAsked<Body>) => RouteAnswer | Promise<RouteAnswer>,
): ConsoleRoute {
  return { ...ownRoute(address, spec, handle), access: 'operator' }
}

function withAccount<Body>(asked: ConsoleAsked<Body>): SignedInAsked<Body> {
  if (!asked.signedIn) throw new Error('the route was entered without a session')
  return { ...asked, ...asked.signedIn }
}

// Routes of operators: for programs under `/admin/v1/`, and in the console under `/console/api/admin/`.

export interface AdminAsked<Body> extends Pick<
  ConsoleAsked<Body>,
  'parts' | 'request' | 'requestId' | 'params' | 'body'
> {
  readonly operator: Account
  readonly by: 'session' | 'management_key'
}

/**
 * Who changes what: an operator by a route or by a command, as the log names them (the id of an account, or `cli:` and a
 * user of the system). null for owners: what they do with their own account is not logged.
 */
export interface Acting<Parts> {
  readonly parts: Parts & Pick<HttpParts, 'acts' | 'now'>
  readonly operator: Pick<Account, 'id'> | null
}

export interface OperatorActing<Parts> extends Acting<Parts> {
  readonly operator: Pick<Account, 'id'>
  /** What the operator is known by: a key may be held by anybody. */
  readonly by: 'session' | 'management_key' | 'command'
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

export interface AdminRoute extends AdminSpec<unknown>, Addressed {
  readonly handle: (asked: AdminAsked<unknown>) => RouteAnswer | Promise<RouteAnswer>
}

export function adminRoute<Body = undefined>(
  address: RouteAddress,
  spec: AdminSpec<Body>,
  handle: (asked: AdminAsked<Body>) => RouteAnswer | Promise<RouteAnswer>,
): AdminRoute {
  return { ...splitAddress(address), ...spec, handle: (asked) => handle(asked as AdminAsked<Body>) }
}

/**
 * Throws `elevation_required` for a management key, which gives nobody the access of an operator: whoever has stolen
 * one would keep that when the key is revoked, has expired or is bound to a network.
 */
export function requirePerson({ by }: Pick<OperatorActing<unknown>, 'by'>): void {
  if (by !== 'management_key') return
  const message = 'Operators are made, unmade and given links in the console or by a command (weir accounts).'
  throw new GatewayError('elevation_required', { message })
}

/** Logs an act of an operator on `subject`, with the state before and after. Nothing secret. */
export async function recordAct(
  { parts, operator }: Acting<unknown>,
  what: string,
  subject: string,
  before: unknown,
  after: unknown,
): Promise<void> {
  if (operator === null) return
  await parts.acts.record({ at: parts.now(), operator: operator.id, what, subject, before, after })
}

// What the owner of an account does with it in the console, and an operator with any account.

export interface AccountAsked<Body> extends Pick<
  ConsoleAsked<Body>,
  'parts' | 'request' | 'params' | 'body'
> {
  /** Whose it is. */
  readonly account: Account
  /** Who acts for the account; null for its owner. */
  readonly operator: Account | null
}

interface AccountSpec<Body> extends RouteSpec<Body>, Pick<AdminSpec<Body>, 'query'> {
  /** As a route of operators. */
  readonly operators: Pick<AdminSpec<Body>, 'id' | 'elevated'>
}

export interface AccountRoute extends AccountSpec<unknown>, Addressed {
  readonly handle: (asked: AccountAsked<unknown>) => object | Promise<object>
}

export function accountRoute<Body = undefined>(
  address: RouteAddress,
  spec: AccountSpec<Body>,
  handle: (asked: AccountAsked<Body>) => object | Promise<object>,
): AccountRoute {
  return { ...splitAddress(address), ...spec, handle: (asked) => handle(asked as AccountAsked<Body>) }
}

/** The route of the owner. */
export function ofOwner({ method, path, handle, operators: _, ...spec }: AccountRoute): ConsoleRoute {
  return ownRoute(`${method} ${path}`, spec, (asked) => handle({ ...asked, operator: null }))
}

export function iso(at: number): string {
  return new Date(at).toISOString()
}

export function isoOrNull(at: number | null): string | null {
  return at === null ? null : iso(at)
}
