// A route: its address, who may call it, its handler, and its documentation.

import type { Caller } from '../accounts/account.ts'
import {
  asGatewayError,
  type GatewayError,
  type RefusedCredential,
  type RenderedError,
  renderError,
  retryHeaders,
} from '../errors/errors.ts'
import { wireError } from '../protocols/gemini/inbound/encode.ts'
import type { Operation } from './docs/operation.ts'
import type { HttpParts, ServingParts } from './parts.ts'

export interface RouteCall {
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
  readonly handle: (parts: Parts, call: RouteCall) => Response | Promise<Response>
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

// Turns any failure into the error response of the wire contract.

/** The response for a thrown value. Anything but a GatewayError becomes `internal_error`, its cause only logged. */
export type Refuse = (thrown: unknown, requestId: string, publicUrl: string) => Response

/** Error responses in another shape, for routes whose clients expect it. */
export function refusalIn(shape: (error: RenderedError) => object): Refuse {
  return (thrown, requestId, publicUrl) => {
    const error = asGatewayError(thrown)
    return Response.json(shape(renderError(error, requestId, publicUrl)), {
      status: error.status,
      headers: {
        'x-request-id': requestId,
        ...servedBy(error),
        ...allowHeader(error),
        ...retryHeaders(error),
      },
    })
  }
}

export const errorResponse: Refuse = refusalIn((error) => error)

/** As Google's clients read it. */
export const refuseGemini: Refuse = refusalIn(wireError)

/** The failed provider, under the names that answers use. */
function servedBy({ details }: GatewayError): Record<string, string> {
  const model = details.metadata?.['model']
  return {
    ...(details.provider === undefined ? {} : { 'x-weir-provider': details.provider }),
    ...(typeof model === 'string' && /^[\x21-\x7e]+$/.test(model) ? { 'x-weir-model': model } : {}),
  }
}

/** The methods of the path, which a 405 must name. */
function allowHeader({ code, details }: GatewayError): Record<string, string> {
  const methods = details.metadata?.['allow']
  return code === 'method_not_allowed' && Array.isArray(methods) ? { allow: methods.join(', ') } : {}
}

/** A new request id: ordered by time, so that rows of the same moment are stored together. */
export function newRequestId(): string {
  return `req_${Bun.randomUUIDv7('buffer').toHex()}`
}
