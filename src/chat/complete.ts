// The story of one call: resolve → admit → hold → dispatch → relay → settle. Read me first.

import type { DeclaredTools } from '../conversation/gateway-tools.ts'
import { admit } from './admission.ts'
import { fundingFor } from './billing/flash-class.ts'
import type { IncomingCall } from './call.ts'
import { paidCall } from './paid-call.ts'
import type { ChatParts } from './parts.ts'
import { playRound } from './round.ts'
import { candidatesFor } from './routing/candidates.ts'
import { withOwnSearch } from './routing/own-search.ts'
import { sizedRouting } from './routing/prompt-tier.ts'
import { routingFor } from './routing/test-mode.ts'
import { answerHeaders, jsonResponse, streamResponse } from './streaming/respond.ts'
import { completeWithTools } from './tools/complete.ts'
import { transcribe } from './transcript.ts'
import { withThoughts } from './upstream/thoughts.ts'

/**
 * Serves one call from parsed body to settled outcome. Resolves with the client's response, whole or streaming;
 * rejects with GatewayError before the first byte. The hold is settled or released exactly once in every case.
 */
export async function complete(parts: ChatParts, incoming: IncomingCall): Promise<Response> {
  const received = transcribe(parts, incoming)
  const admission = admit(parts, received, 'chat')
  const { models, warnings, balance } = admission instanceof Promise ? await admission : admission
  const { n } = received.request.envelope
  const asked = routingFor(received.caller, received.request.envelope.routing)
  const sized = sizedRouting(parts, received, models, asked)
  const routing = sized instanceof Promise ? await sized : sized
  const able = candidatesFor(models, parts.providers, routing, turnOf(incoming), n)
  const { call: routed, candidates, pauses } = withOwnSearch(parts.outbounds, received, able)
  const call = withThoughts(parts.thoughts, routed, candidates)
  const pools = fundingFor(parts, call, candidates)
  const funding = pools instanceof Promise ? await pools : pools
  const inRounds = pauses && incoming.inbound.pauses !== true && n === 1
  const gatewayTools = call.request.gatewayTools ?? (inRounds ? noTools : undefined)
  if (gatewayTools !== undefined) {
    const payable = { candidates, balance, funding }
    return completeWithTools(parts, call, gatewayTools, payable, warnings)
  }
  return paidCall(parts, call, { candidates, balance, funding }, async (hold) => {
    const { answer, candidate } = await playRound(parts, hold, { call, candidates, warnings })
    const headers = answerHeaders(call, candidate, answer.warnings)
    return answer.kind === 'stream'
      ? streamResponse(parts, call, hold, answer, headers)
      : jsonResponse(parts, call, hold, answer, headers)
  })
}

/** For an answer that may pause, which is made in rounds too. */
const noTools: DeclaredTools = { declarations: [], maxCalls: undefined, approved: [], history: [] }

/** Calls of one session share a turn, and so the same provider key; every other call has a turn of its own. */
function turnOf({ caller, request, requestId }: IncomingCall): string {
  const { sessionId } = request.envelope
  return sessionId === undefined ? requestId : `${caller.account.id} ${sessionId}`
}
