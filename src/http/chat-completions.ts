// POST /v1/chat/completions

import { complete } from '../chat/complete.ts'
import { GatewayError } from '../errors.ts'
import { inbound } from '../protocols/openai-chat/inbound.ts'
import { authenticate } from './authenticate.ts'
import { readJson, refuseByHeaders } from './read-body.ts'
import type { Service } from './service.ts'

/** Serves one chat request. Rejects with GatewayError before the first byte. */
export async function chatCompletions(
  service: Service,
  request: Request,
  requestId: string,
): Promise<Response> {
  const arrivedAt = performance.now()
  refuseByHeaders(request.headers, service.body)
  const caller = authenticate(request.headers, service)
  const { json, bytes } = await readJson(request, service.body)
  const parsed = inbound.parse(json)
  if (!service.ready()) throw new GatewayError('overloaded', { message: 'The gateway is shutting down.' })
  service.keepOpen(request)
  return complete(service.gateway, {
    caller,
    inbound,
    request: parsed,
    bodyBytes: bytes,
    requestId,
    signal: request.signal,
    arrivedAt,
  })
}
