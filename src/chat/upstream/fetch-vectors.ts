// The vectors of one candidate.

import {
  type EmbeddingAnswer,
  type EmbeddingOutbound,
  defaultEmbeddingQuirks,
} from '../../protocols/embeddings/embeddings.ts'
import { GatewayError } from '../../errors.ts'
import { noNames } from '../../json/exact.ts'
import type { Target, Warning } from '../../protocols/protocol.ts'
import type { EmbeddingCall } from '../call.ts'
import type { Candidate } from '../routing/candidates.ts'
import { AttemptFailed, transportFault } from '../routing/fault-error.ts'
import { disconnectPolicy } from '../streaming/disconnect.ts'
import { boundedText, parsedAnswer, readWhole } from './answer-body.ts'
import { deadlinesOf } from './deadlines.ts'
import type { UpstreamParts } from './prepare.ts'
import { quirksFor } from './quirks.ts'
import { refuseFailure, UpstreamRequest } from './upstream-request.ts'

export interface Embedded {
  readonly answer: Extract<EmbeddingAnswer, { kind: 'vectors' }>
  readonly warnings: readonly Warning[]
}

/** The longest JSON of one vector, bytes: 4,096 numbers in full. */
const vectorBytes = 98_304

/** Rejects with AttemptFailed or UnreachableError while another offer can take over. */
export async function fetchVectors(
  parts: UpstreamParts,
  call: EmbeddingCall,
  candidate: Candidate,
): Promise<Embedded> {
  const { provider, model, offer } = candidate
  const outbound = parts.outbounds[provider.protocol]
  const embedder = outbound.embeddings
  if (!embedder)
    throw new GatewayError('no_provider_available', {
      lasting: true,
      metadata: { protocol: provider.protocol },
    })
  const lowered = loweredFor(call, candidate, embedder)
  const limits = deadlinesOf(parts.limits, provider)
  const patience = { firstMs: limits.firstByteMs, totalMs: limits.totalMs }
  const request = new UpstreamRequest(
    parts,
    call,
    candidate,
    patience,
    disconnectPolicy(call, provider.onDisconnect),
  )
  // Used for reading errors, which have the same shape for every request.
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
    const { turns } = parts
    const sent = { ...lowered, body: await turns.text(lowered.body) }
    const response = await request.send(candidate, sent, limits.connectMs)
    request.onResponse(response)
    if (!response.ok) await refuseFailure(response, { outbound, target }, request)
    // Vectors can be larger than any chat answer; as many are expected as were requested.
    const most = Math.max(limits.answerBytes, wanted * vectorBytes)
    const text = await boundedText(response, most, request, limits.gapMs, turns)
    request.read()
    const parsed = await parsedAnswer(response, text, turns, Number.POSITIVE_INFINITY, noNames)
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
