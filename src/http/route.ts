// What a route is: where it is found, who may call it, what it does, and where its documentation is.

import type { Caller } from '../accounts/caller.ts'
import type { Operation } from './docs/operation.ts'
import type { Refuse } from './intake/error-response.ts'
import type { HttpParts } from './parts.ts'

/** A request on its way through a route. */
export interface Call {
  readonly request: Request
  readonly requestId: string
  /** The parts of the path that the route leaves open: `id` for `:id`, `*` for the rest. */
  readonly params: Readonly<Record<string, string>>
  /** Who calls, by the route's `identify`. Throws or rejects with GatewayError where nobody is identified. */
  readonly caller: () => Caller | Promise<Caller>
}

export type Identify = (parts: HttpParts, request: Request) => Caller | Promise<Caller>

/** `Parts` is what the handler needs of the service. */
export interface Route<Parts = HttpParts> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'ALL'
  /** `:name` stands for one segment, `*` for the rest. */
  readonly path: string
  /** Throws or rejects with GatewayError before the first byte. */
  readonly handle: (parts: Parts, call: Call) => Response | Promise<Response>
  /** By API key unless it says otherwise. */
  readonly identify?: Identify
  /** The shape of errors that the clients of this route know; the contract's own unless it says otherwise. */
  readonly errors?: (request: Request) => Refuse
  /** Load balancers ask by HTTP/1.0, without a Host. */
  readonly takesNoHost?: true
  /** Answered at once, however many requests wait: a probe that waits with them would have a busy process restarted. */
  readonly takesNoTurn?: true
  /** Loaded with the first reader of the documentation; absent for pages. */
  readonly operation?: () => Promise<Operation>
}
