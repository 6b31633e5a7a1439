// Runs a route: the guard, the handler, and any failure as an error of the contract.

import type { Caller } from '../../accounts/caller.ts'
import { isWithin } from '../../accounts/identity/network.ts'
import type { Awaitable } from '../../awaitable.ts'
import { GatewayError } from '../../errors.ts'
import type { Call, Route } from '../route.ts'
import type { ServingParts } from '../parts.ts'
import { authenticate } from './authenticate.ts'
import { errorResponse, newRequestId } from './error-response.ts'
import { checkHeaders, checkTarget } from './header-guard.ts'

/** Runs a route. Never rejects: whatever the handler throws becomes an error in the shape of the route's clients. */
export function answered<Parts extends ServingParts>(
  parts: Parts,
  route: Route<Parts>,
  request: Request,
  params: Call['params'],
): Promise<Response> {
  return new RoutedCall(parts, route, request, params).answered()
}

/** A request on its way through its route. */
class RoutedCall<Parts extends ServingParts> implements Call {
  readonly request: Request
  readonly requestId = newRequestId()
  readonly params: Call['params']
  readonly #parts: Parts
  readonly #route: Route<Parts>

  constructor(parts: Parts, route: Route<Parts>, request: Request, params: Call['params']) {
    this.request = request
    this.params = params
    this.#parts = parts
    this.#route = route
  }

  async answered(): Promise<Response> {
    try {
      this.#check()
      const response = await this.#handled()
      if (!response.headers.has('x-request-id')) response.headers.set('x-request-id', this.requestId)
      return response
    } catch (thrown) {
      return this.#refused(thrown)
    } finally {
      this.#parts.largeBodies.leave(this.requestId)
    }
  }

  #check(): void {
    const { headers } = this.request
    if (this.#route.takesNoHost !== undefined && !headers.has('host')) return
    checkHeaders(headers, this.#parts.body.maxHeaderBytes)
    checkTarget(this.request)
  }

  #handled(): Awaitable<Response> {
    const isNext = this.#route.takesNoTurn === true || this.#parts.turns.mayRun('new')
    return isNext ? this.#route.handle(this.#parts, this) : this.#handledInTurn()
  }

  async #handledInTurn(): Promise<Response> {
    return this.#parts.turns.run(() => this.#route.handle(this.#parts, this), 'new')
  }

  #refused(thrown: unknown): Response {
    const { request, requestId } = this
    const parts = this.#parts
    if (!(thrown instanceof GatewayError) || thrown.code === 'internal_error') {
      parts.log.error('a request failed inside the gateway', { request_id: requestId, error: thrown })
    }
    if (thrown instanceof GatewayError) noteRefusal(parts, request, thrown, requestId)
    const refuse = this.#route.errors?.(request) ?? errorResponse
    return refuse(thrown, requestId, parts.publicUrl())
  }

  /** Throws `network_not_allowed` for a key used outside of its networks, and whatever `identify` throws. */
  caller(): Awaitable<Caller> {
    const { identify } = this.#route
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
