// The story of one request for embeddings: the life of a chat call, with vectors in place of an answer.

import { asGatewayError, GatewayError } from '../errors.ts'
import {
  type EmbeddingAnswer,
  type EmbeddingRequest,
  type EmbeddingOutbound,
  defaultEmbeddingQuirks,
} from '../protocols/embeddings/embeddings.ts'
import type { AnswerContext, Bill, Target, Warning } from '../protocols/protocol.ts'
import { Delivered } from '../conversation/delivered.ts'
import type { JsonObject } from '../conversation/request.ts'
import type { Usage } from '../conversation/usage.ts'
import { fundingOf } from '../credits/pool.ts'
import { boundedText, parsedAnswer, readWhole } from './upstream/answer-body.ts'
import { refuseFailure, UpstreamRequest } from './upstream/upstream-request.ts'
import { Booking } from './billing/booking.ts'
import { admitted } from './admission.ts'
import { deadlinesOf } from './upstream/deadlines.ts'
import { disconnectPolicy } from './streaming/disconnect.ts'
import { AttemptFailed, transportFault } from './routing/fault-error.ts'
import { dispatch, DispatchFailed } from './routing/dispatch.ts'
import type { Gateway } from './gateway.ts'
import type { PaidCall } from './call.ts'
import { candidatesFor, type Candidate } from './routing/candidates.ts'
import { quirksFor } from './upstream/quirks.ts'
import type { Outcome, FinalFigures } from './outcome.ts'
import { answerHeaders, jsonResponse } from './streaming/respond.ts'
import { searchFor } from './routing/search.ts'
import { transcribed } from './transcript.ts'

export interface EmbeddingCall extends PaidCall {
  readonly embedding: EmbeddingRequest
  /** The client's body, once the charge is known. */
  readonly body: (
    vectors: readonly (readonly number[])[],
    usage: Usage,
    bill: Bill,
    context: Pick<AnswerContext, 'model' | 'warnings' | 'extra'>,
  ) => JsonObject
}

type Vectors = Extract<EmbeddingAnswer, { kind: 'vectors' }>

interface Embedded {
  readonly answer: Vectors
  readonly warnings: readonly Warning[]
}

/** The most bytes a provider may write for one vector: 4,096 numbers in full. */
const vectorBytes = 98_304

/**
 * Serves one request from parsed body to settled charge. Resolves with the client's response, rejects with
 * GatewayError. However it ends, its hold is settled or released exactly once.
 */
export async function embed(gateway: Gateway, incoming: EmbeddingCall): Promise<Response> {
  const call = transcribed(gateway, incoming)
  const { models, warnings, balance } = await admitted(gateway, call, 'embeddings')
  const candidates = embedding(
    gateway,
    candidatesFor(models, gateway.providers, call.request.envelope.routing, call.requestId, 1),
  )
  // The daily allowance is for chat models.
  const funding = fundingOf(call.caller.channel, false)
  const booking = await Booking.open(gateway, call, candidates, balance, funding)
  try {
    const served = await dispatch<Embedded>(searchFor(gateway, call, candidates), (candidate) =>
      fetchVectors(gateway, call, candidate),
    )
    booking.servedBy(served.candidate, served.attempts)
    const told = [...warnings, ...served.answer.warnings]
    return await settled(call, booking, served.candidate, { ...served.answer, warnings: told })
  } catch (error) {
    const failed = error instanceof DispatchFailed ? error : new DispatchFailed(asGatewayError(error), [])
    await booking.release(failed.error, failed.attempts)
    throw failed.error
  }
}

/** Those whose providers' protocols have embeddings. Throws `no_provider_available` for none. */
function embedding(gateway: Gateway, candidates: readonly Candidate[]): readonly Candidate[] {
  const able = candidates.filter(
    ({ provider }) => gateway.outbounds[provider.protocol].embeddings !== undefined,
  )
  if (able.length > 0) return able
  throw new GatewayError('no_provider_available', {
    message: 'The protocols that the providers of this model are spoken to in have no embeddings.',
    lasting: true,
    metadata: { providers: [...new Set(candidates.map(({ provider }) => provider.id))] },
  })
}

async function settled(
  call: EmbeddingCall,
  booking: Booking,
  candidate: Candidate,
  { answer, warnings }: Embedded,
): Promise<Response> {
  const outcome: Outcome = {
    ending: 'finished',
    fault: undefined,
    usage: answer.usage,
    delivered: new Delivered(),
    finishReason: undefined,
    upstreamId: answer.id,
    stoppedBy: undefined,
  }
  const extra: JsonObject = call.caller.mode === 'test' ? { mode: 'test' } : {}
  const body = ({ usage, bill }: FinalFigures) =>
    call.body(answer.vectors, usage, bill, { model: candidate.model.id, warnings, extra })
  return jsonResponse(call, booking, { outcome, body }, answerHeaders(call, candidate, warnings))
}

/** One attempt at one offer. Rejects with AttemptFailed or UnreachableError while another offer can take over. */
async function fetchVectors(gateway: Gateway, call: EmbeddingCall, candidate: Candidate): Promise<Embedded> {
  const { provider, model, offer } = candidate
  const outbound = gateway.outbounds[provider.protocol]
  const embedder = outbound.embeddings
  if (!embedder)
    throw new GatewayError('no_provider_available', {
      lasting: true,
      metadata: { protocol: provider.protocol },
    })
  const lowered = loweredFor(call, candidate, embedder)
  const limits = deadlinesOf(gateway.limits, provider)
  const patience = { firstMs: limits.firstByteMs, totalMs: limits.totalMs }
  const request = new UpstreamRequest(gateway, call, patience, disconnectPolicy(call, provider.onDisconnect))
  // For reading errors, which have one shape whatever was asked.
  const target: Target = {
    model: offer.upstream,
    provider: provider.id,
    quirks: quirksFor(outbound, provider),
    maxOutputTokens: model.maxOutputTokens,
    reasoning: false,
    rememberedSignature: () => undefined,
  }
  const wanted = call.embedding.inputs.length
  try {
    const sent = { ...lowered, body: JSON.stringify(lowered.body) }
    const response = await request.send(candidate, sent, limits.connectMs)
    if (!response.ok) await refuseFailure(response, { outbound, target }, request)
    // Many vectors are more than any answer of a chat, and as many are expected as were asked for.
    const most = Math.max(limits.answerBytes, wanted * vectorBytes)
    const { turns } = gateway
    const text = await boundedText(response, most, () => request.extend(limits.gapMs), turns)
    request.read()
    const parsed = await turns.run(() => parsedAnswer(response, text, Number.POSITIVE_INFINITY))
    const answer = await turns.run(() => readWhole(() => embedder.read(parsed)))
    if (answer.kind === 'fault') throw new AttemptFailed(answer.fault)
    const got = answer.vectors.length
    if (got !== wanted)
      throw new AttemptFailed(transportFault('broken', `${got} vectors came for ${wanted} inputs`))
    return { answer, warnings: lowered.warnings }
  } catch (error) {
    throw request.verdict(error)
  } finally {
    request.end()
  }
}

function loweredFor(call: EmbeddingCall, { provider, offer }: Candidate, embedder: EmbeddingOutbound) {
  const quirks = { ...defaultEmbeddingQuirks, ...provider.embeddings }
  const lowered = embedder.lower(call.embedding, { model: offer.upstream, quirks })
  const [dropped] = lowered.warnings
  if (dropped && call.request.envelope.strict)
    throw new GatewayError('unsupported_parameter', { message: dropped.message, param: dropped.param })
  return lowered
}
