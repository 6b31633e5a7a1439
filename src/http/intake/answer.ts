// Runs a route: the guard, the handler, and any failure as an error of the contract.

import type { Caller } from '../../accounts/caller.ts'
import { isWithin } from '../../accounts/identity/network.ts'
import type { Awaitable } from '../../awaitable.ts'
import { GatewayError } from '../../errors.ts'
import type { Call, Identify, Route } from '../route.ts'
import type { ServingParts } from '../parts.ts'
import { authenticate } from './authenticate.ts'
import { errorResponse, newRequestId } from './error-response.ts'
import { checkHeaders, checkTarget } from './header-guard.ts'

/** Runs a route. Never rejects: whatever the handler throws becomes an error in the shape of the route's clients. */
export async function answered<Parts extends ServingParts>(
  parts: Parts,
  route: Route<Parts>,
  request: Request,
  params: Call['params'],
): Promise<Response> {
  const requestId = newRequestId()
  try {
    if (route.takesNoHost === undefined || request.headers.has('host')) {
      checkHeaders(request.headers, parts.body.maxHeaderBytes)
      checkTarget(request)
    }
    const call = new RoutedCall(parts, route, request, requestId, params)
    const isNext = route.takesNoTurn === true || parts.turns.mayRun('new')
    const response = await (isNext ? route.handle(parts, call) : handledInTurn(parts, route, call))
    if (!response.headers.has('x-request-id')) response.headers.set('x-request-id', requestId)
    return response
  } catch (thrown) {
    if (!(thrown instanceof GatewayError) || thrown.code === 'internal_error') {
      parts.log.error('a request failed inside the gateway', { request_id: requestId, error: thrown })
    }
    if (thrown instanceof GatewayError) noteRefusal(parts, request, thrown, requestId)
    const refuse = route.errors?.(request) ?? errorResponse
    return refuse(thrown, requestId, parts.publicUrl())
  } finally {
    parts.largeBodies.leave(requestId)
  }
}

async function handledInTurn<Parts extends ServingParts>(
  parts: Parts,
  route: Route<Parts>,
  call: Call,
): Promise<Response> {
  return parts.turns.run(() => route.handle(parts, call), 'new')
}

/** A request on its way through its route. */
class RoutedCall implements Call {
  readonly request: Request
  readonly requestId: string
  readonly params: Call['params']
  readonly #parts: ServingParts
  readonly #identify: Identify | undefined

  constructor(
    parts: ServingParts,
    { identify }: Pick<Route, 'identify'>,
    request: Request,
    requestId: string,
    params: Call['params'],
  ) {
    this.request = request
    this.requestId = requestId
    this.params = params
    this.#parts = parts
    this.#identify = identify
  }

  /** Throws `network_not_allowed` for a key used outside of its networks, and whatever `identify` throws. */
  caller(): Awaitable<Caller> {
    const identify = this.#identify
    const caller =
      identify === undefined
        ? authenticate(this.request.headers, this.#parts)
        : identify(this.#parts, this.request)
    return caller instanceof Promise ? this.#identified(caller) : this.#inItsNetworks(caller)
  }

  async #identified(caller: Promise<Caller>): Promise<Caller> {
    return this.#inItsNetworks(await caller)
  }

  #inItsNetworks(caller: Caller): Caller {
    const networks = caller.key?.networks
    if (networks && !isWithin(this.#parts.site.addressOf(this.request), networks))
      throw new GatewayError('network_not_allowed')
    return caller
  }
}

/** A handler that answers its caller with JSON. */
export function asCaller<Parts>(
  describe: (parts: Parts, caller: Caller, call: Call) => object | Promise<object>,
): Route<Parts>['handle'] {
  return async (parts, call) => Response.json(await describe(parts, await call.caller(), call))
}

/** Every error has a request id that can be found in the log, even if the request never became a call. */
function noteRefusal(
  { calls }: ServingParts,
  request: Request,
  error: GatewayError,
  requestId: string,
): void {
  const { code, status, details } = error
  const path = URL.parse(request.url)?.pathname.slice(0, 200)
  const fields = { request_id: requestId, method: request.method, path, status, code, param: details.param }
  calls.turnedAway(fields, error)
}
