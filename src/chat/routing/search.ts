// Looks for a provider for a call, and logs the attempts that failed.

import type { Attempt } from '../../credits/ledger/ledger.ts'
import type { Log, LogFields } from '../../observe/log.ts'
import { UnreachableError } from '../../providers/upstream.ts'
import { AttemptFailed } from './fault-error.ts'
import { pause, type Search } from './dispatch.ts'
import type { ChatLimits } from '../limits.ts'
import type { Health } from './health.ts'
import type { RetryBudget } from './retry-budget.ts'
import type { PaidCall } from '../call.ts'
import type { Candidate } from './candidates.ts'

export interface RoutingParts {
  readonly health: Health
  readonly retryBudget: RetryBudget
  readonly limits: ChatLimits
  readonly log: Log
}

/** The search of one call, on whose hold the provider is recorded that has answered. */
export class CallSearch implements Search {
  readonly candidates: readonly Candidate[]
  readonly limit: number
  readonly health: Health
  readonly account: string
  readonly budget: RetryBudget
  readonly disconnect: AbortSignal
  readonly pause = pause
  readonly #requestId: string
  readonly #log: Log
  readonly #hold: Served
  #failures = 0

  constructor(parts: RoutingParts, call: PaidCall, hold: Served, candidates: readonly Candidate[]) {
    this.candidates = candidates
    this.limit = parts.limits.attempts
    this.health = parts.health
    this.account = call.caller.account.id
    this.budget = parts.retryBudget
    this.disconnect = call.signal
    this.#requestId = call.requestId
    this.#log = parts.log
    this.#hold = hold
  }

  onFailed(candidate: Candidate, attempt: Attempt, error: unknown): void {
    this.#failures += 1
    this.#log.warn('an attempt failed', {
      request_id: this.#requestId,
      attempt: this.#failures,
      ...triedFields(candidate),
      code: attempt.code,
      status: attempt.status,
      reason: reasonOf(attempt, error),
      ...causeOf(error),
      ms: attempt.ms,
    })
  }

  onServed(candidate: Candidate, attempts: readonly Attempt[]): void {
    this.#hold.servedBy(candidate, attempts)
  }
}

/** What is told who has answered. */
interface Served {
  servedBy(candidate: Candidate, attempts: readonly Attempt[]): void
}

/** Log fields: the offer, the index of the provider's key (from 1), the address. */
export function triedFields({ provider, offer, key }: Candidate): LogFields {
  return {
    provider: provider.id,
    upstream_model: offer.upstream,
    key_number: provider.keys.indexOf(key) + 1,
    base_url: provider.transport === 'builtin' ? null : provider.baseUrl,
  }
}

/** The provider's or transport's own message, for the operator only. */
function reasonOf({ reason }: Attempt, error: unknown): string | null {
  if (error instanceof AttemptFailed || error instanceof UnreachableError)
    return boundQuery(error.fault.message) || reason
  return reason
}

/** The system error of a connection; for faults of our own the whole error, so that it can be found. */
function causeOf(error: unknown): LogFields {
  if (error instanceof AttemptFailed) return providerCode(error.fault.providerCode)
  if (!(error instanceof UnreachableError)) return { error }
  const { cause } = error
  return {
    ...providerCode(error.fault.providerCode),
    ...(cause instanceof Error ? { cause: boundQuery(cause.message) } : {}),
  }
}

function providerCode(code: string | undefined): LogFields {
  return code === undefined ? {} : { provider_code: code.slice(0, 100) }
}

const longestReason = 500

/** Cuts between words: half a secret would not be recognised and redacted. */
export function boundQuery(text: string): string {
  if (text.length <= longestReason) return text
  const end = text.lastIndexOf(' ', longestReason)
  return `${text.slice(0, Math.max(end, 0))} …`
}
