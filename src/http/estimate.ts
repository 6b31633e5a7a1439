// POST /v1/estimate, and the same for the app: a chat body in, its price out; nothing is called, nothing charged.

import { estimate } from '../chat/estimate.ts'
import { inbound } from '../protocols/openai-chat/inbound.ts'
import { byKey, type Identify } from './chat-completions.ts'
import { readJson, refuseByHeaders } from './read-body.ts'
import type { Service } from './service.ts'

export async function estimateCall(
  service: Service,
  request: Request,
  requestId: string,
  identify: Identify = byKey,
): Promise<Response> {
  refuseByHeaders(request.headers, service.body)
  const caller = await identify(service, request)
  const { json, bytes } = await readJson(request, service.body)
  const answer = await estimate(service.gateway, { caller, request: inbound.parse(json), bodyBytes: bytes })
  return Response.json(answer, { headers: { 'x-request-id': requestId } })
}
