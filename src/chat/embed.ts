// Serves one embeddings request: like a chat call, but the answer is vectors.

import { Delivered } from '../conversation/delivered.ts'
import type { JsonObject } from '../conversation/request.ts'
import { fundingOf } from '../credits/pool.ts'
import { GatewayError } from '../errors.ts'
import type { Warning } from '../protocols/protocol.ts'
import { admit } from './admission.ts'
import type { EmbeddingCall } from './call.ts'
import { outcomeOf } from './outcome.ts'
import { answerPaid, paidCall } from './paid-call.ts'
import type { ChatParts } from './parts.ts'
import { candidatesFor, type Candidate } from './routing/candidates.ts'
import { sizedRouting } from './routing/prompt-tier.ts'
import { routingFor } from './routing/test-mode.ts'
import { answerHeaders, jsonResponse } from './streaming/respond.ts'
import { transcribe } from './transcript.ts'
import { type Embedded, fetchVectors } from './upstream/fetch-vectors.ts'
import type { WholeAnswer } from './upstream/fetch-whole.ts'

/**
 * Serves one request from parsed body to settled charge. Resolves with the client's response, rejects with
 * GatewayError. The hold is settled or released exactly once in every case.
 */
export async function embed(parts: ChatParts, incoming: EmbeddingCall): Promise<Response> {
  const call = transcribe(parts, incoming)
  const { models, warnings, balance } = await admit(parts, call, 'embeddings')
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
      answerHeaders(call, candidate, all),
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
