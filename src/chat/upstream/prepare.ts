// The request for one candidate, and what is needed to read its answer.

import { andThen, type Awaitable } from '../../awaitable.ts'
import { GatewayError } from '../../errors.ts'
import type { Log } from '../../observe/log.ts'
import type { Memory } from '../../observe/memory.ts'
import { joinWarnings } from '../../protocols/lowered-request.ts'
import type { AnswerContext, Outbound, ProtocolId, Target, Warning } from '../../protocols/protocol.ts'
import type { Hold } from '../billing/hold.ts'
import type { IncomingCall, Round } from '../call.ts'
import type { ChatLimits } from '../limits.ts'
import type { Candidate } from '../routing/candidates.ts'
import type { Upstream } from '../../providers/upstream.ts'
import type { Watchdog } from '../streaming/watchdog.ts'
import type { Arrivals } from './arrivals.ts'
import type { ConnectionLimit } from './connection-limit.ts'
import { loweredFor, type LoweringParts, type ProviderRequest } from './lower.ts'
import { quirksFor } from './quirks.ts'
import { type SignatureMemory, withSignatures } from './signatures.ts'
import { ownerOf, type Thoughts } from './thoughts.ts'

/** What requests to providers take. */
export interface UpstreamParts extends LoweringParts {
  readonly outbounds: Readonly<Record<ProtocolId, Outbound>>
  readonly signatures: SignatureMemory
  readonly thoughts: Pick<Thoughts, 'isEmpty' | 'keep' | 'of'>
  readonly limits: ChatLimits
  readonly watchdog: Watchdog
  readonly connections: ConnectionLimit
  /** The memory of this process. */
  readonly memory: Pick<Memory, 'makeRoom'>
  /** Answers that have arrived but are not processed yet. */
  readonly arrivals: Arrivals
  readonly upstream: Pick<Upstream, 'send'>
  /** Aborts when a shutdown waits no longer: running answers end with an error and are settled. */
  readonly stopping: AbortSignal
  /** Removes this process's secrets from a provider's text, which may quote the key it was sent. */
  readonly redact: (text: string) => string
  readonly log: Log
  /** Milliseconds since 1970. */
  readonly now: () => number
}

export interface Prepared {
  readonly outbound: Outbound
  readonly target: Target
  readonly lowered: ProviderRequest
  readonly warnings: readonly Warning[]
}

/** Lowers the call for a candidate. Throws, or rejects with, `unsupported_parameter` if a strict call would lose something. */
export function prepare(
  parts: UpstreamParts,
  hold: Pick<Hold, 'outputBound' | 'warningsFor'>,
  candidate: Candidate,
  { call, warnings: before, emit }: Round,
): Awaitable<Prepared> {
  const { provider, model, offer } = candidate
  const outbound = parts.outbounds[provider.protocol]
  const answer = emit === undefined ? 'passes' : 'translated'
  const bound = hold.outputBound(candidate)
  const warnings = joinWarnings(before, hold.warningsFor(candidate))
  const prepared = withSignatures(parts.signatures, ownerOf(call, candidate), (rememberedSignature) => {
    const target: Target = {
      model: offer.upstream,
      provider: provider.id,
      quirks: quirksFor(outbound, provider),
      maxOutputTokens: model.maxOutputTokens,
      reasoning: model.reasoning,
      efforts: offer.efforts,
      rememberedSignature,
    }
    const lowered = loweredFor(parts, call, candidate, outbound, target, bound, answer)
    return lowered instanceof Promise
      ? preparedLater(outbound, target, lowered, warnings)
      : preparedOf(outbound, target, lowered, warnings)
  })
  return call.request.envelope.strict ? andThen(prepared, strictly) : prepared
}

async function preparedLater(
  outbound: Outbound,
  target: Target,
  lowered: Promise<ProviderRequest>,
  before: readonly Warning[],
): Promise<Prepared> {
  return preparedOf(outbound, target, await lowered, before)
}

function preparedOf(
  outbound: Outbound,
  target: Target,
  lowered: ProviderRequest,
  before: readonly Warning[],
): Prepared {
  const { toolNames } = lowered
  return {
    outbound,
    target: toolNames ? { ...target, toolNames } : target,
    lowered,
    // Warnings differ between candidates.
    warnings: joinWarnings(before, lowered.warnings),
  }
}

function strictly(prepared: Prepared): Prepared {
  const [dropped] = prepared.lowered.warnings
  if (!dropped) return prepared
  throw new GatewayError('unsupported_parameter', { message: dropped.message, param: dropped.param })
}

/** What is the same for all frames of the answer. */
export function contextOf(
  { now }: Pick<UpstreamParts, 'now'>,
  call: IncomingCall,
  { model }: Candidate,
  warnings: readonly Warning[],
): AnswerContext {
  const { includeUsage, sealsThoughts } = call.request.envelope
  return {
    id: call.requestId,
    model: model.id,
    created: Math.floor(now() / 1000),
    includeUsage,
    ...(sealsThoughts && { sealsThoughts }),
    warnings,
    extra: call.caller.mode === 'test' ? { mode: 'test' } : {},
  }
}
