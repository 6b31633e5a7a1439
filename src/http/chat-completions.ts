// POST /v1/chat/completions, and the same for the app

import type { Caller } from '../accounts/caller.ts'
import { inbound } from '../protocols/openai-chat/inbound.ts'
import { authenticate } from './authenticate.ts'
import { readJson, refuseByHeaders } from './read-body.ts'
import { parsedBody, serveChat } from './serve-paid.ts'
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
  const known = identify(service, request)
  const caller = known instanceof Promise ? await known : known
  const { json, bytes } = await readJson(request, service.body)
  const call = {
    inbound,
    request: parsedBody(service, inbound, json, inbound.parse),
    bodyBytes: bytes,
    arrivedAt,
  }
  return serveChat(service, { request, caller, json, requestId, call })
}
