// Runs a route: the guard, the handler, and any failure as an error of the contract.

import type { Caller } from '../../accounts/caller.ts'
import { requireWithin } from '../../accounts/identity/network.ts'
import { andThen, type Awaitable } from '../../awaitable.ts'
import { GatewayError, type RefusedCredential } from '../../errors.ts'
import type { Call, Identify, Route } from '../route.ts'
import type { ServingParts } from '../parts.ts'
import { authenticate } from './authenticate.ts'
import { errorResponse, newRequestId } from './error-response.ts'
import { checkHeaders, checkTarget } from './header-guard.ts'
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
    const response = await (route.takesNoTurn ? handle() : parts.turns.run(handle, 'new'))
    if (!response.headers.has('x-request-id')) response.headers.set('x-request-id', requestId)
    return response
  } catch (thrown) {
    logOwnFault(parts, thrown, requestId)
    // A process that is not ready refuses nobody.
    if (thrown instanceof GatewayError && route.takesNoTurn !== true)
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
