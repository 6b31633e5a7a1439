// The story of one call: resolve → admit → hold → dispatch → relay → settle. Read me first.

import type { DeclaredTools } from '../conversation/gateway-tools.ts'
import type { Pool } from '../credits/pool.ts'
import { joined, type Warning } from '../protocols/lowered-request.ts'
import { type Admitted, admitted } from './admission.ts'
import { fundingFor } from './billing/flash-class.ts'
import type { Hold } from './billing/hold.ts'
import type { IncomingCall } from './call.ts'
import { paidCall } from './paid-call.ts'
import type { ChatParts } from './parts.ts'
import { playRound } from './round.ts'
import { type Candidate, candidatesFor } from './routing/candidates.ts'
import { type Routed, withOwnSearch } from './routing/own-search.ts'
import { answerHeaders, jsonResponse, streamResponse } from './streaming/respond.ts'
import { completeWithTools } from './tools/complete.ts'
import { transcribed } from './transcript.ts'

/**
 * Serves one call from parsed body to settled outcome. Resolves with the client's response, whole or streaming; throws
 * or rejects with GatewayError before the first byte. The hold is settled or released exactly once in every case.
 */
export function complete(parts: ChatParts, incoming: IncomingCall): Promise<Response> {
  const received = transcribed(parts, incoming)
  const admission = admitted(parts, received, 'chat')
  // The store of this process answers at once, and nothing has to be awaited.
  return admission instanceof Promise
    ? onceAdmitted(parts, received, admission)
    : served(parts, received, admission)
}

async function onceAdmitted(
  parts: ChatParts,
  received: IncomingCall,
  admission: Promise<Admitted>,
): Promise<Response> {
  return served(parts, received, await admission)
}

function served(parts: ChatParts, received: IncomingCall, admission: Admitted): Promise<Response> {
  const { routing, n } = received.request.envelope
  const able = candidatesFor(admission.models, parts.providers, routing, turnOf(received), n)
  const routed = withOwnSearch(parts.outbounds, received, able)
  const funding = fundingFor(parts, routed.call, routed.candidates)
  return funding instanceof Promise
    ? onceFunded(parts, routed, admission, funding)
    : paid(parts, routed, admission, funding)
}

async function onceFunded(
  parts: ChatParts,
  routed: Routed<IncomingCall>,
  admission: Admitted,
  funding: Promise<readonly Pool[]>,
): Promise<Response> {
  return paid(parts, routed, admission, await funding)
}

function paid(
  parts: ChatParts,
  { call, candidates, pauses }: Routed<IncomingCall>,
  { balance, warnings }: Admitted,
  funding: readonly Pool[],
): Promise<Response> {
  const inRounds = pauses && call.inbound.pauses !== true && call.request.envelope.n === 1
  const gatewayTools = call.request.gatewayTools ?? (inRounds ? noTools : undefined)
  const payable = { candidates, balance, funding }
  return gatewayTools === undefined
    ? paidCall(parts, call, payable, (hold) => answered(parts, hold, call, candidates, warnings))
    : completeWithTools(parts, call, gatewayTools, payable, warnings)
}

async function answered(
  parts: ChatParts,
  hold: Hold,
  call: IncomingCall,
  candidates: readonly Candidate[],
  warnings: readonly Warning[],
): Promise<Response> {
  const round = { call, candidates, warnings: joined(warnings, hold.warnings) }
  const { answer, candidate } = await playRound(parts, hold, round)
  const headers = answerHeaders(call, candidate, answer.warnings)
  return answer.kind === 'stream'
    ? streamResponse(parts, call, hold, answer, headers)
    : jsonResponse(parts, call, hold, answer, headers)
}

/** For an answer that may pause, which is made in rounds too. */
const noTools: DeclaredTools = { declarations: [], maxCalls: undefined, approved: [], history: [] }

/** Calls of one session share a turn, and so the same provider key; every other call has a turn of its own. */
function turnOf({ caller, request, requestId }: IncomingCall): string {
  const { sessionId } = request.envelope
  return sessionId === undefined ? requestId : `${caller.account.id} ${sessionId}`
}
