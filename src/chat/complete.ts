// The story of one call: resolve → admit → hold → dispatch → relay → settle. Read me first.

import { Delivered } from '../conversation/delivered.ts'
import type { DeclaredTools } from '../conversation/gateway-tools.ts'
import type { JsonObject } from '../conversation/request.ts'
import { fundingOf } from '../credits/pool.ts'
import { GatewayError } from '../errors/errors.ts'
import { forgetSource } from '../json/scan.ts'
import { decisionBody, usageOf as usageOfDecision } from '../protocols/decisions/decisions.ts'
import { joinWarnings, type Warning } from '../protocols/lowering.ts'
import { admit, routingFor, sizedRouting } from './admission.ts'
import { fundingFor } from './billing/need.ts'
import {
  type DecisionCall,
  type EmbeddingCall,
  type FinalFigures,
  type IncomingCall,
  outcomeOf,
  transcribe,
} from './call.ts'
import { guardedCall, guardedDecision, guardedEmbedding, guardWarnings } from './guarding.ts'
import { answerPaid, type ChatParts, paidCall, playRound } from './paid-call.ts'
import { type Candidate, candidatesFor } from './routing/candidates.ts'
import { withRouteDefaults } from './routing/route.ts'
import { withOwnSearch } from './routing/search.ts'
import { continuedStream } from './streaming/continued-stream.ts'
import { answerHeaders, guardedWhole, jsonResponse, streamResponse } from './streaming/respond.ts'
import { completeWithTools } from './tools/complete.ts'
import { type Embedded, fetchDecision, fetchVectors, type WholeAnswer } from './upstream/fetch.ts'
import { withThoughts } from './upstream/thoughts.ts'

/**
 * Serves one call from parsed body to settled outcome. Resolves with the client's response, whole or streaming;
 * rejects with GatewayError before the first byte. The hold is settled or released exactly once in every case.
 */
export async function complete(parts: ChatParts, incoming: IncomingCall): Promise<Response> {
  let call = transcribe(parts, incoming)
  const { models, warnings: known, balance, route } = await admit(parts, call, 'chat')
  if (route !== undefined) call = { ...withRouteDefaults(call, route), route }
  if (parts.guards !== undefined) call = await guardedCall(parts, call)
  const warnings = call.guard === undefined ? known : joinWarnings(known, guardWarnings(call))
  const { n } = call.request.envelope
  const asked = routingFor(call.caller, call.request.envelope.routing)
  const routing = await sizedRouting(parts, call, models, asked)
  const able = candidatesFor(models, parts.providers, routing, rotationOf(call), n)
  const searching = withOwnSearch(parts.outbounds, call, able)
  const { candidates, pauses } = searching
  call = withThoughts(parts.thoughts, searching.call, candidates)
  const funding = await fundingFor(parts, call, candidates)
  const inRounds = pauses && call.inbound.pauses !== true && n === 1
  const gatewayTools = call.request.gatewayTools ?? (inRounds ? noTools : undefined)
  if (gatewayTools !== undefined) {
    const payable = { candidates, balance, funding }
    const isAsked = call.request.envelope.cacheMs !== undefined && !route?.defaults.cache
    const all = isAsked ? [...warnings, keepsNone] : warnings
    return completeWithTools(parts, call, gatewayTools, payable, all)
  }
  const cacheMs = cacheMsOf(call)
  if (cacheMs !== undefined && call.caller.mode !== 'test')
    call = { ...call, cache: parts.answerCache.forCall(call.caller.account.id, call.requestId, cacheMs) }
  return paidCall(parts, call, { candidates, balance, funding }, async (hold) => {
    const continues = mayContinue(call, candidates)
    const isGuarded = call.guard?.has('response') === true
    if (continues || (isGuarded && call.request.envelope.stream))
      return continuedStream(parts, call, hold, { candidates, warnings, continues })
    const emit = isGuarded ? () => undefined : undefined
    const { answer, candidate } = await playRound(parts, hold, {
      call,
      candidates,
      warnings,
      ...(emit && { emit }),
    })
    // Nobody is asked again.
    forgetSource(call.request.body)
    const headers = answerHeaders(call, candidate, answer.warnings, hold.attempts)
    if (answer.kind === 'stream') return streamResponse(parts, call, hold, answer, headers)
    const served = isGuarded ? await guardedWhole(parts, call, hold, candidate, answer) : answer
    return jsonResponse(parts, call, hold, served, headers)
  })
}

/** Whether the stream of a call is gone on with if it breaks off: its caller says so, and somebody else is there. */
function mayContinue({ request, route }: IncomingCall, candidates: readonly Candidate[]): boolean {
  const { stream, n, routing, searches } = request.envelope
  if (!(route?.continues ?? routing.continues) || !stream || n !== 1 || searches !== undefined) return false
  return candidates.some(({ offer }) => offer !== candidates[0]!.offer)
}

/** How old an answer may be that is given again: as the request says, or its route, or its key. */
function cacheMsOf({ request, caller }: IncomingCall): number | undefined {
  const ofKey = caller.key?.cacheTtl
  return request.envelope.cacheMs ?? (ofKey == null ? undefined : ofKey * 1_000)
}

/** What the tools of the gateway find may be another thing tomorrow. */
const keepsNone: Warning = {
  param: 'cache',
  message: "An answer that the gateway's own tools take part in is not kept; dropped.",
}

/** For an answer that may pause, which is made in rounds too. */
const noTools: DeclaredTools = { declarations: [], maxCalls: undefined, approved: [], history: [] }

/** Calls of one session share a rotation, and so the provider's key; every other call has its own. */
function rotationOf({ caller, request, requestId }: IncomingCall): string {
  const { sessionId } = request.envelope
  return sessionId === undefined ? requestId : `${caller.account.id} ${sessionId}`
}

// Serves one embeddings request: like a chat call, but the answer is vectors.

/**
 * Serves one request from parsed body to settled charge. Resolves with the client's response, rejects with
 * GatewayError. The hold is settled or released exactly once in every case.
 */
export async function embed(parts: ChatParts, incoming: EmbeddingCall): Promise<Response> {
  const { models, warnings, balance, route } = await admit(parts, incoming, 'embeddings')
  // Vectors have no conversation to stay with.
  const own = { ...transcribe(parts, incoming), route: route && { ...route, session: undefined } }
  const call = parts.guards === undefined ? own : await guardedEmbedding(parts, own)
  const asked = routingFor(call.caller, call.request.envelope.routing)
  const routing = await sizedRouting(parts, call, models, asked)
  const candidates = embedding(parts, candidatesFor(models, parts.providers, routing, call.requestId, 1))
  // The daily allowance pays for chat models only.
  const funding = fundingOf(call.caller.channel, false)
  return paidCall(parts, call, { candidates, balance, funding }, async (hold) => {
    const { answer, candidate } = await answerPaid(parts, call, hold, candidates, (candidate) =>
      fetchVectors(parts, call, candidate),
    )
    const all = [...warnings, ...answer.warnings]
    return jsonResponse(
      parts,
      call,
      hold,
      wholeOf(call, candidate, answer.answer, all),
      answerHeaders(call, candidate, all, hold.attempts),
    )
  })
}

/** The candidates whose protocol has embeddings. Throws `no_provider_available` if there are none. */
function embedding(
  { outbounds }: Pick<ChatParts, 'outbounds'>,
  candidates: readonly Candidate[],
): readonly Candidate[] {
  const able = candidates.filter(({ provider }) => outbounds[provider.protocol].embeddings !== undefined)
  if (able.length > 0) return able
  throw new GatewayError('no_provider_available', {
    message: 'The protocols that the providers of this model are spoken to in have no embeddings.',
    lasting: true,
    metadata: { providers: [...new Set(candidates.map(({ provider }) => provider.id))] },
  })
}

/** The vectors as a whole answer. */
function wholeOf(
  call: EmbeddingCall,
  { model }: Candidate,
  { vectors, usage, id }: Embedded['answer'],
  warnings: readonly Warning[],
): Pick<WholeAnswer, 'outcome' | 'body'> {
  const extra: JsonObject = call.caller.mode === 'test' ? { mode: 'test' } : {}
  return {
    outcome: outcomeOf({ usage, delivered: new Delivered(), finishReason: undefined, upstreamId: id }),
    body: (figures) => call.body(vectors, figures.usage, figures.bill, { model: model.id, warnings, extra }),
  }
}

// Serves one request for decisions: like a chat call, but nothing is generated.

/**
 * Serves one request from parsed body to settled charge. Resolves with the client's response, rejects with
 * GatewayError. The hold is settled or released exactly once in every case.
 */
export async function decide(parts: ChatParts, incoming: DecisionCall): Promise<Response> {
  const { models, warnings, balance, route } = await admit(parts, incoming, 'chat')
  const own = { ...transcribe(parts, incoming), route: route && { ...route, session: undefined } }
  const call = parts.guards === undefined ? own : await guardedDecision(parts, own)
  const asked = routingFor(call.caller, call.request.envelope.routing)
  const routing = await sizedRouting(parts, call, models, asked)
  const candidates = candidatesFor(models, parts.providers, routing, call.requestId, 1).filter(
    ({ provider }) => provider.decisions === true,
  )
  if (candidates.length === 0)
    throw new GatewayError('no_provider_available', {
      message: 'No provider of this model is known to answer decisions.',
      lasting: true,
    })
  const funding = fundingOf(call.caller.channel, false)
  return paidCall(parts, call, { candidates, balance, funding }, async (hold) => {
    const { answer, candidate } = await answerPaid(parts, call, hold, candidates, (candidate) =>
      fetchDecision(parts, call, candidate),
    )
    const extra: JsonObject = call.caller.mode === 'test' ? { mode: 'test' } : {}
    const served = {
      outcome: outcomeOf({
        usage: usageOfDecision(answer),
        delivered: new Delivered(),
        finishReason: undefined,
        upstreamId: undefined,
      }),
      body: (figures: FinalFigures) =>
        decisionBody(answer, figures.usage, figures.bill, { model: candidate.model.id, warnings, extra }),
    }
    return jsonResponse(parts, call, hold, served, answerHeaders(call, candidate, warnings, hold.attempts))
  })
}
