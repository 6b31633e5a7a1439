// Runs a route: the guard, the handler, and any failure as an error of the contract.

import type { Caller } from '../../accounts/account.ts'
import { requireWithin } from '../../accounts/identity/network.ts'
import { andThen, type Awaitable } from '../../async/async.ts'
import { GatewayError, type RefusedCredential } from '../../errors/errors.ts'
import type { ServingParts } from '../parts.ts'
import type { Call, Identify, Route } from '../route.ts'
import { authenticate } from './authenticate.ts'
import { errorResponse, newRequestId } from './error-response.ts'
import { credentialOf, noteRefusal } from './note-refusal.ts'

/** Runs a route. Never rejects: whatever the handler throws becomes an error in the shape of the route's clients. */
export async function answerRoute<Parts extends ServingParts>(
  parts: Parts,
  route: Route<Parts>,
  request: Request,
  params: Call['params'],
): Promise<Response> {
  const requestId = newRequestId()
  const arrivedAt = performance.now()
  const { identify } = route
  let known: RefusedCredential | undefined
  const askedBy = (who: RefusedCredential) => {
    known = who
  }
  const caller = () =>
    andThen(callerOf(parts, request, identify), (identified) => {
      askedBy(credentialOf(identified))
      return identified
    })
  const call: Call = { request, requestId, params, caller, askedBy }
  try {
    if (route.takesNoHost === undefined || request.headers.has('host')) {
      checkHeaders(request.headers, parts.body.maxHeaderBytes)
      checkTarget(request)
    }
    const handle = () => route.handle(parts, call)
    const response = await (route.skipsScheduler ? handle() : parts.scheduler.run(handle, 'new'))
    if (!response.headers.has('x-request-id')) response.headers.set('x-request-id', requestId)
    return response
  } catch (thrown) {
    logOwnFault(parts, thrown, requestId)
    // A process that is not ready refuses nobody.
    if (thrown instanceof GatewayError && route.skipsScheduler !== true)
      noteRefusal(parts, { request, requestId, arrivedAt, known, identify: caller }, thrown)
    const refuse = route.errors?.(request) ?? errorResponse
    return refuse(thrown, requestId, parts.publicUrl())
  } finally {
    parts.largeBodies.leave(requestId)
  }
}

/** Logs what is a fault of the gateway itself, which its client is told nothing of. */
export function logOwnFault({ log }: Pick<ServingParts, 'log'>, thrown: unknown, requestId: string): void {
  if (thrown instanceof GatewayError && thrown.code !== 'internal_error') return
  log.error('a request failed inside the gateway', { request_id: requestId, error: thrown })
}

/** Throws `network_not_allowed` for a key used outside of its networks, and whatever `identify` throws. */
function callerOf(parts: ServingParts, request: Request, identify: Identify | undefined): Awaitable<Caller> {
  const identified = identify === undefined ? authenticate(request.headers, parts) : identify(parts, request)
  return andThen(identified, (caller) => {
    const { key } = caller
    if (key && key.networks !== null)
      requireWithin(parts.site.addressOf(request), key.networks, credentialOf(caller))
    return caller
  })
}

/** A handler that answers its caller with JSON. */
export function asCaller<Parts>(
  describe: (parts: Parts, caller: Caller, call: Call) => object | Promise<object>,
): Route<Parts>['handle'] {
  return async (parts, call) => Response.json(await describe(parts, await call.caller(), call))
}

// Checks headers before anything reads them: a malformed Host breaks URL parsing and misleads path-based guards.

const plainHost = /^(\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9_.-]{0,252}))(:\d{1,5})?$/i

/**
 * Throws `invalid_request` for a target that is not an address of this gateway, so that handlers can parse
 * `request.url`. CONNECT asks for a tunnel, which only a proxy provides.
 */
function checkTarget({ method, url }: Pick<Request, 'method' | 'url'>): void {
  if (method === 'CONNECT' || !URL.canParse(url)) {
    throw new GatewayError('invalid_request', { message: 'The target of the request is malformed.' })
  }
}

/** A name, a colon, a space and a line end. */
const bytesPerHeader = 4

/**
 * Throws `invalid_request` unless there is exactly one Host header, a plain host with or without port, and at most one
 * Content-Length (the runtime accepts equal ones, but a proxy in front may have read another), and `headers_too_large`
 * if all headers together exceed `maxBytes`.
 */
export function checkHeaders(headers: Headers, maxBytes: number): void {
  const host = headers.get('host')
  // The pattern rejects paths and users. A name such as 1.2.3.999 looks plain, but no parser accepts it as a host.
  if (host === null || !plainHost.test(host) || !URL.canParse(`http://${host}/`)) {
    throw new GatewayError('invalid_request', { message: 'The Host header is missing or malformed.' })
  }
  const length = headers.get('content-length')
  if (length !== null && !/^\d{1,15}$/.test(length)) {
    throw new GatewayError('invalid_request', { message: 'The Content-Length header is malformed.' })
  }
  let size = 0
  const all: Readonly<Record<string, string>> = headers.toJSON()
  for (const name in all) size += name.length + all[name]!.length + bytesPerHeader
  if (size > maxBytes) throw new GatewayError('headers_too_large', { metadata: { limit_bytes: maxBytes } })
}
