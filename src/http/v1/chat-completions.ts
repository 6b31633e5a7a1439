// POST /v1/chat/completions, the same for the app, and POST /v1/completions

import type { Caller } from '../../accounts/caller.ts'
import { inbound as chat } from '../../protocols/openai-chat/inbound/inbound.ts'
import { inbound as textCompletions } from '../../protocols/openai-completions/inbound.ts'
import type { Inbound } from '../../protocols/protocol.ts'
import { authenticate } from '../intake/authenticate.ts'
import { readJson, refuseByHeaders } from '../intake/read-body.ts'
import { parsedBody, serveChat } from '../intake/serve-paid.ts'
import type { Service } from '../service.ts'

/** Tells who calls: by API key, or from the app. */
export type Identify = (service: Service, request: Request) => Caller | Promise<Caller>

export const byKey: Identify = (service, request) => authenticate(request.headers, service)

/** Serves one chat request. Rejects with GatewayError before the first byte. */
export function chatCompletions(
  service: Service,
  request: Request,
  requestId: string,
  identify: Identify = byKey,
): Promise<Response> {
  return serve(service, request, requestId, identify, chat)
}

/** Serves one legacy text completion. Rejects as `chatCompletions` does. */
export function createCompletion(service: Service, request: Request, requestId: string): Promise<Response> {
  return serve(service, request, requestId, byKey, textCompletions)
}

async function serve(
  service: Service,
  request: Request,
  requestId: string,
  identify: Identify,
  inbound: Inbound,
): Promise<Response> {
  const arrivedAt = performance.now()
  refuseByHeaders(request.headers, service.body)
  const known = identify(service, request)
  const caller = known instanceof Promise ? await known : known
  const { json, bytes } = await readJson(request, service)
  const call = {
    inbound,
    request: await service.turns.run(() => parsedBody(service, inbound, json, inbound.parse)),
    bodyBytes: bytes,
    arrivedAt,
  }
  return serveChat(service, { request, caller, json, requestId, call })
}
