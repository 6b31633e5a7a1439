// What one candidate is sent, and what is needed to read its answer.

import { GatewayError } from '../../errors.ts'
import type { AnswerContext, Outbound, Target, Warning } from '../../protocols/protocol.ts'
import type { Booking } from '../billing/booking.ts'
import type { IncomingCall } from '../call.ts'
import type { Gateway } from '../gateway.ts'
import type { Candidate } from '../routing/candidates.ts'
import { loweredFor, type Lowered } from './lower.ts'
import { quirksFor } from './quirks.ts'

export interface Prepared {
  readonly outbound: Outbound
  readonly target: Target
  readonly lowered: Lowered
  readonly warnings: readonly Warning[]
}

/** Lowers the call for a candidate. Rejects with `unsupported_parameter` for what a strict call must not lose. */
export async function prepare(
  gateway: Gateway,
  call: IncomingCall,
  booking: Booking,
  candidate: Candidate,
  told: readonly Warning[],
): Promise<Prepared> {
  const { provider, model, offer } = candidate
  const outbound = gateway.outbounds[provider.protocol]
  const target: Target = {
    model: offer.upstream,
    provider: provider.id,
    quirks: quirksFor(outbound, provider),
    maxOutputTokens: model.maxOutputTokens,
    reasoning: model.reasoning,
    efforts: offer.efforts,
    rememberedSignature: (id) => gateway.signatures.recall(id),
  }
  const lowered = await loweredFor(gateway, call, candidate, outbound, target, booking.outputBound(candidate))
  const [dropped] = lowered.warnings
  if (dropped && call.request.envelope.strict) {
    throw new GatewayError('unsupported_parameter', { message: dropped.message, param: dropped.param })
  }
  // Of another candidate other things may be true: its warnings are its own.
  const answered = lowered.toolNames ? { ...target, toolNames: lowered.toolNames } : target
  return { outbound, target: answered, lowered, warnings: [...told, ...lowered.warnings] }
}

/** What stays the same over all frames of the answer. */
export function contextOf(
  gateway: Gateway,
  call: IncomingCall,
  { model }: Candidate,
  warnings: readonly Warning[],
): AnswerContext {
  return {
    id: call.requestId,
    model: model.id,
    created: Math.floor(gateway.now() / 1000),
    includeUsage: call.request.envelope.includeUsage,
    warnings,
    extra: call.caller.mode === 'test' ? { mode: 'test' } : {},
  }
}
