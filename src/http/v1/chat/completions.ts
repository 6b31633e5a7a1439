// POST /v1/chat/completions and POST /v1/completions

import { inbound as chat } from '../../../protocols/openai-chat/inbound/inbound.ts'
import { inbound as textCompletions } from '../../../protocols/openai-completions/inbound.ts'
import type { Inbound } from '../../../protocols/protocol.ts'
import { readCall, refuseByHeaders } from '../../intake/read-body.ts'
import { parsedBody, serveChat } from '../../intake/paid/serve-paid.ts'
import type { Call, Route } from '../../route.ts'
import type { PaidParts, ServingParts } from '../../parts.ts'

export const createChatCompletion: Route<ServingParts> = {
  method: 'POST',
  path: '/v1/chat/completions',
  handle: (parts, call) => serve(parts, call, chat),
  operation: async () => (await import('./documentation.ts')).chat,
}

/** The older form of a chat. */
export const createCompletion: Route<ServingParts> = {
  method: 'POST',
  path: '/v1/completions',
  handle: (parts, call) => serve(parts, call, textCompletions),
  operation: async () => (await import('./documentation.ts')).completion,
}

async function serve(parts: PaidParts, call: Call, inbound: Inbound): Promise<Response> {
  const arrivedAt = performance.now()
  const { request, requestId } = call
  refuseByHeaders(request.headers, parts.body)
  const known = call.caller()
  const caller = known instanceof Promise ? await known : known
  const { json, bytes } = await readCall(parts, request, requestId, caller)
  const read = parsedBody(parts, inbound, json)
  const asked = read instanceof Promise ? await read : read
  const incoming = { inbound, request: asked, bodyBytes: bytes, arrivedAt }
  return serveChat(parts, { request, caller, json, requestId, call: incoming })
}
