// The offers in order. Fails over only before the first byte to the client.

import type { Fault } from '../conversation/event.ts'
import type { Attempt } from '../credits/ledger.ts'
import { asGatewayError, GatewayError } from '../errors.ts'
import { UnreachableError } from '../providers/upstream.ts'
import { anotherModelMayHelp, anotherOfferMayHelp, codeOf, errorOf, transportFault } from './fault-error.ts'
import type { Candidate } from './plan.ts'

/** Thrown by an attempt whose provider failed before anything reached the client. */
export class AttemptFailed extends Error {
  readonly fault: Fault

  constructor(fault: Fault) {
    super(fault.message)
    this.name = 'AttemptFailed'
    this.fault = fault
  }
}

export interface Dispatched<Answer> {
  readonly answer: Answer
  readonly candidate: Candidate
  readonly attempts: readonly Attempt[]
}

/** Every candidate failed: what to tell the client, and what was tried. */
export class DispatchFailed extends Error {
  readonly error: GatewayError
  readonly attempts: readonly Attempt[]

  constructor(error: GatewayError, attempts: readonly Attempt[]) {
    super(error.message, { cause: error })
    this.name = 'DispatchFailed'
    this.error = error
    this.attempts = attempts
  }
}

/**
 * Tries the candidates in order, each once and at most `limit` of them, until one answers.
 * A fault of the request itself ends the search; a fault of one offer moves to the next; a prompt that is too long
 * moves to the next model. Rejects with DispatchFailed. `gone` aborts between attempts when the client has left.
 */
export async function dispatch<Answer>(
  candidates: readonly Candidate[],
  limit: number,
  gone: AbortSignal,
  attempt: (candidate: Candidate) => Promise<Answer>,
): Promise<Dispatched<Answer>> {
  const attempts: Attempt[] = []
  const faults: { fault: Fault; provider: string }[] = []
  const refusedModels = new Set<string>()

  for (const candidate of candidates) {
    if (attempts.length >= limit) break
    if (refusedModels.has(candidate.model.id)) continue
    const startedAt = performance.now()
    const note = (code: string | null) =>
      attempts.push({
        provider: candidate.provider.id,
        outcome: code === null ? 'served' : 'failed',
        code,
        upstreamId: null,
        ms: Math.round(performance.now() - startedAt),
      })
    try {
      const answer = await attempt(candidate)
      note(null)
      return { answer, candidate, attempts }
    } catch (error) {
      if (error instanceof GatewayError) {
        note(error.code)
        throw new DispatchFailed(error, attempts)
      }
      const fault = faultOf(error)
      if (fault === undefined) throw new DispatchFailed(asGatewayError(error), attempts)
      note(codeOf(fault))
      faults.push({ fault, provider: candidate.provider.id })
      if (gone.aborted || !anotherModelMayHelp(fault)) break
      if (!anotherOfferMayHelp(fault)) refusedModels.add(candidate.model.id)
    }
  }
  throw new DispatchFailed(worst(faults), attempts)
}

function faultOf(error: unknown): Fault | undefined {
  if (error instanceof AttemptFailed || error instanceof UnreachableError) return error.fault
  // What fetch and body readers throw when a connection breaks; a programming error is none of these.
  if (error instanceof DOMException || (error instanceof Error && 'code' in error)) {
    return transportFault('cut', 'the connection broke')
  }
  return undefined
}

/** What all the failures amount to: the first that is the caller's to mend, else the last; the shortest wait of all. */
function worst(faults: readonly { fault: Fault; provider: string }[]): GatewayError {
  const last = faults.at(-1)
  if (!last) return new GatewayError('no_provider_available')
  const told = faults.find(({ fault }) => !anotherOfferMayHelp(fault)) ?? last
  const waits = faults.flatMap(({ fault }) => fault.retryAfterMs ?? [])
  const fault = waits.length > 0 ? { ...told.fault, retryAfterMs: Math.min(...waits) } : told.fault
  return errorOf(fault, told.provider)
}
