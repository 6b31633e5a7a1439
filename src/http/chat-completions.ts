// POST /v1/chat/completions, and the same for the app

import type { Caller } from '../accounts/caller.ts'
import { complete } from '../chat/complete.ts'
import { shuttingDown } from '../chat/fault-error.ts'
import type { IncomingCall } from '../chat/gateway.ts'
import { GatewayError } from '../errors.ts'
import { inbound } from '../protocols/openai-chat/inbound.ts'
import { authenticate } from './authenticate.ts'
import { errorResponse } from './error-response.ts'
import { idempotent } from './idempotency.ts'
import { readJson, refuseByHeaders } from './read-body.ts'
import type { Service } from './service.ts'

/** Tells who calls: by API key, or from the app. */
export type Identify = (service: Service, request: Request) => Caller | Promise<Caller>

export const byKey: Identify = (service, request) => authenticate(request.headers, service)

/** Serves one chat request. Rejects with GatewayError before the first byte. */
export async function chatCompletions(
  service: Service,
  request: Request,
  requestId: string,
  identify: Identify = byKey,
): Promise<Response> {
  const arrivedAt = performance.now()
  refuseByHeaders(request.headers, service.body)
  const caller = await identify(service, request)
  const { json, bytes } = await readJson(request, service.body)
  const parsed = inbound.parse(json)
  if (!service.ready()) throw shuttingDown()
  service.keepOpen(request)
  return idempotent(service, { request, caller, json, requestId }, (signal) =>
    limited(service, caller, requestId, {
      caller,
      inbound,
      request: parsed,
      bodyBytes: bytes,
      requestId,
      signal,
      arrivedAt,
    }),
  )
}

/** The call within the limits of its caller, told in the headers of every answer, a refusal by the limits included. */
async function limited(
  { limiter, gateway }: Service,
  caller: Caller,
  requestId: string,
  call: IncomingCall,
): Promise<Response> {
  let response: Response
  try {
    limiter.enter(caller, requestId)
    response = await complete(gateway, call)
  } catch (error) {
    limiter.leave(requestId)
    if (!(error instanceof GatewayError) || error.code !== 'rate_limit_exceeded') throw error
    response = errorResponse(error, requestId)
  }
  for (const [name, value] of Object.entries(limiter.headers(caller))) response.headers.set(name, value)
  return response
}
