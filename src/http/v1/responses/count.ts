// POST /v1/responses/input_tokens

import { countTokens } from '../../../chat/counting/count-tokens.ts'
import { storedTurn } from '../../intake/large-bodies.ts'
import { kindOfCaller, withinLimits } from '../../intake/paid/within-limits.ts'
import { refusedLater } from '../../intake/note-refusal.ts'
import { readCall, refuseByHeaders } from '../../intake/read-body.ts'
import type { Call } from '../../route.ts'
import type { PaidParts, ResponseParts } from '../../parts.ts'
import { callOf } from './create.ts'

/**
 * Counts the tokens of a request, with the conversation that it continues, without sending it anywhere. Counts as a
 * request of its caller, and costs nothing. Rejects with GatewayError as the response itself would.
 */
export async function countInputTokens(parts: PaidParts & ResponseParts, asked: Call): Promise<Response> {
  const { request, requestId } = asked
  refuseByHeaders(request.headers, parts.body)
  const caller = await asked.caller()
  const { json, bytes } = await readCall(parts, request, requestId, caller)
  const { call } = await callOf(parts, {
    caller,
    json,
    bytes,
    // Nothing is answered, so there is nothing to keep.
    hooks: { now: parts.now, keep: () => false, kept: () => undefined },
    turn: storedTurn(parts, request, requestId, caller.account.id),
  })
  const { envelope, promptParts } = call.request
  const countNow = async () => {
    const input_tokens = await countTokens(parts.chat, caller, envelope.model, promptParts)
    // No call holds the request's place among those in flight: it ends here.
    parts.limiter.leave(requestId)
    const headers = { 'x-request-id': requestId }
    return Response.json({ object: 'response.input_tokens', input_tokens }, { headers })
  }
  return withinLimits(
    parts,
    { caller, requestId, kind: kindOfCaller(caller) },
    countNow,
    refusedLater(parts, asked, caller),
  )
}
