// A route: its address, who may call it, its handler, and its documentation.

import type { Caller } from '../accounts/account.ts'
import type { RefusedCredential } from '../errors/errors.ts'
import type { Operation } from './docs/operation.ts'
import type { Refuse } from './intake/error-response.ts'
import type { HttpParts, ServingParts } from './parts.ts'

export interface Call {
  readonly request: Request
  readonly requestId: string
  /** The path parameters: `id` for `:id`, `*` for the rest. */
  readonly params: Readonly<Record<string, string>>
  /** The caller, by the route's `identify`. Throws or rejects with GatewayError if nobody is identified. */
  caller(): Caller | Promise<Caller>
  /** Takes note of who asks, for the request log, where the route has a way of its own to identify them. */
  askedBy(who: RefusedCredential): void
}

export type Identify = (parts: ServingParts, request: Request) => Caller | Promise<Caller>

/** `Parts` is what the handler depends on. */
export interface Route<Parts = HttpParts> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'ALL'
  /** `:name` stands for one segment, `*` for the rest. */
  readonly path: string
  /** Throws or rejects with GatewayError before the first byte. */
  readonly handle: (parts: Parts, call: Call) => Response | Promise<Response>
  /** By API key by default. */
  readonly identify?: Identify
  /** The shape of errors for the clients of this route; the contract's own by default. */
  readonly errors?: (request: Request) => Refuse
  /** Load balancers probe by HTTP/1.0, without a Host. */
  readonly takesNoHost?: true
  /** Answered at once, however many requests wait; otherwise a busy process would fail its probe and be restarted. */
  readonly skipsScheduler?: true
  /** Loaded with the first reader of the documentation; absent for pages. */
  readonly operation?: () => Promise<Operation>
}
