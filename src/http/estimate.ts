// POST /v1/estimate: a chat body in, its price out; nothing is called, nothing charged.

import { estimate } from '../chat/estimate.ts'
import { inbound } from '../protocols/openai-chat/inbound.ts'
import { authenticate } from './authenticate.ts'
import { readJson, refuseByHeaders } from './read-body.ts'
import type { Service } from './service.ts'

export async function estimateCall(service: Service, request: Request, requestId: string): Promise<Response> {
  refuseByHeaders(request.headers, service.body)
  const caller = authenticate(request.headers, service)
  const { json, bytes } = await readJson(request, service.body)
  const answer = await estimate(service.gateway, { caller, request: inbound.parse(json), bodyBytes: bytes })
  return Response.json(answer, { headers: { 'x-request-id': requestId } })
}
