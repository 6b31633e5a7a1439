// POST /v1/estimate: the body of a chat or of a response in, its price out; nothing is called,
// nothing charged.

import { estimate } from '../../../chat/estimate.ts'
import type { Caller } from '../../../accounts/caller.ts'
import { inbound } from '../../../protocols/openai-chat/inbound/inbound.ts'
import type { InboundRequest } from '../../../protocols/protocol.ts'
import { storedTurn } from '../../intake/large-bodies.ts'
import { kindOfCaller } from '../../intake/paid/within-limits.ts'
import { type ReadBody, readCall, refuseByHeaders } from '../../intake/read-body.ts'
import type { Call, Route } from '../../route.ts'
import type { PaidParts, ResponseParts, ServingParts } from '../../parts.ts'

export const estimateCall: Route<ServingParts> = {
  method: 'POST',
  path: '/v1/estimate',
  handle: answer,
  operation: async () => (await import('./documentation.ts')).estimate,
}

async function answer(parts: PaidParts & ResponseParts, call: Call): Promise<Response> {
  const { request, requestId } = call
  refuseByHeaders(request.headers, parts.body)
  const caller = await call.caller()
  const { json, bytes } = await readCall(parts, request, requestId, caller)
  // It costs nothing and takes as long to measure as a call: it counts as a request of its caller.
  await parts.limiter.enter(caller, requestId, kindOfCaller(caller))
  try {
    const asked = await read(parts, call, { caller, json, bytes })
    return Response.json(await estimate(parts.chat, { caller, ...asked }))
  } finally {
    parts.limiter.leave(requestId)
  }
}

/** The body by the protocol it is written in: only one of the two has an `input`, or something before it. */
async function read(
  parts: PaidParts & ResponseParts,
  { request, requestId }: Call,
  { caller, json, bytes }: ReadBody & { readonly caller: Caller },
): Promise<{ request: InboundRequest; bodyBytes: number }> {
  const ofResponses = json['input'] !== undefined || json['previous_response_id'] !== undefined
  if (!ofResponses || json['messages'] !== undefined)
    return { request: await parts.turns.run(() => inbound.parse(json)), bodyBytes: bytes }
  const { callOf } = await import('../responses/create.ts')
  // Nothing is answered, so there is nothing to keep.
  const { call, bodyBytes } = await callOf(parts, {
    caller,
    json,
    bytes,
    hooks: { now: parts.now, keep: () => false, kept: () => undefined },
    turn: storedTurn(parts, request, requestId, caller.account.id),
  })
  return { request: call.request, bodyBytes }
}
