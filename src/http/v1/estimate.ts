// POST /v1/estimate, and the same for the app: the body of a chat or of a response in, its price out; nothing is called,
// nothing charged.

import { estimate } from '../../chat/estimate.ts'
import type { Caller } from '../../accounts/caller.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { inbound } from '../../protocols/openai-chat/inbound/inbound.ts'
import type { InboundRequest } from '../../protocols/protocol.ts'
import { byKey, type Identify } from './chat-completions.ts'
import { readJson, refuseByHeaders } from '../intake/read-body.ts'
import type { Service } from '../service.ts'

export async function estimateCall(
  service: Service,
  request: Request,
  requestId: string,
  identify: Identify = byKey,
): Promise<Response> {
  refuseByHeaders(request.headers, service.body)
  const caller = await identify(service, request)
  const { json, bytes } = await readJson(request, service)
  const answer = await estimate(service.gateway, {
    caller,
    ...(await read(service, caller, json, bytes)),
  })
  return Response.json(answer, { headers: { 'x-request-id': requestId } })
}

/** The body by the protocol it is written in: only one of the two has an `input`, or something before it. */
async function read(
  service: Service,
  caller: Caller,
  json: JsonObject,
  bytes: number,
): Promise<{ request: InboundRequest; bodyBytes: number }> {
  const ofResponses = json['input'] !== undefined || json['previous_response_id'] !== undefined
  if (!ofResponses || json['messages'] !== undefined)
    return { request: inbound.parse(json), bodyBytes: bytes }
  const { callOf } = await import('./responses.ts')
  // Nothing is answered, so there is nothing to keep.
  const { call, bodyBytes } = await callOf(service, caller, json, bytes, {
    now: service.now,
    keep: () => false,
  })
  return { request: call.request, bodyBytes }
}
