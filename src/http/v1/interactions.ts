// /v1beta/interactions: Gemini's Interactions, over what is stored of responses.

import type { Caller } from '../../accounts/account.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { encodeFrame } from '../../protocols/framing/sse.ts'
import {
  asInteraction,
  framesOf,
  interactionOf,
  responseIdOf,
  responsesBody,
} from '../../protocols/interactions/inbound.ts'
import { unsupportedParam } from '../../protocols/request/fields.ts'
import type { HttpParts, ServingParts } from '../parts.ts'
import type { Refuse, RouteCall } from '../route.ts'
import { createResponse, deleteResponse, storedOf, type StoredResponses } from './responses.ts'

/** Serves one interaction. Rejects with GatewayError before the first byte. */
export function createInteraction(parts: ServingParts, asked: RouteCall, refuse: Refuse): Promise<Response> {
  return createResponse(parts, asked, {
    body: (json, bytes) => ({ json: responsesBody(json), bytes }),
    inbound: asInteraction,
    refuse,
  })
}

/**
 * A stored interaction, whole or with `stream=true` as its events. Throws `not_found`, and `unsupported_parameter` for
 * `last_event_id`: a stored text is given in one piece.
 */
export async function showInteraction(
  parts: StoredResponses,
  caller: Caller,
  asked: RouteCall,
): Promise<Response> {
  const { searchParams } = new URL(asked.request.url)
  if (searchParams.get('last_event_id') !== null)
    throw unsupportedParam('last_event_id', 'a stored interaction is given from its beginning.')
  const { answer } = await storedOf(parts, caller, withResponseId(asked))
  const headers = { 'x-request-id': asked.requestId }
  if (searchParams.get('stream') !== 'true') return Response.json(interactionOf(answer), { headers })
  return new Response(framesOf(answer).map(encodeFrame).join(''), {
    headers: { ...headers, 'content-type': 'text/event-stream; charset=utf-8' },
  })
}

/** Resolves with Google's empty answer when it is gone from the disk. Rejects with `not_found`. */
export async function deleteInteraction(
  parts: HttpParts,
  caller: Caller,
  asked: RouteCall,
): Promise<JsonObject> {
  await deleteResponse(parts, caller, responseIdOf(asked.params['id']!))
  return {}
}

function withResponseId(asked: RouteCall): RouteCall {
  return { ...asked, params: { ...asked.params, id: responseIdOf(asked.params['id']!) } }
}
