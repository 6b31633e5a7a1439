// How a call looks for its answer, and what the log says of the attempts that failed.

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

/** What looking for an answer takes. */
export interface RoutingParts {
  readonly health: Health
  readonly retryBudget: RetryBudget
  readonly limits: ChatLimits
  readonly log: Log
}

/** The search of one call among these candidates. */
export function searchFor(parts: RoutingParts, call: PaidCall, candidates: readonly Candidate[]): Search {
  const { health, retryBudget: budget, limits, log } = parts
  let n = 0
  return {
    candidates,
    limit: limits.attempts,
    health,
    account: call.caller.account.id,
    budget,
    disconnect: call.signal,
    pause,
    failed: (candidate, attempt, error) => {
      n += 1
      log.warn('an attempt failed', {
        request_id: call.requestId,
        attempt: n,
        ...triedFields(candidate),
        code: attempt.code,
        status: attempt.status,
        reason: reasonOf(attempt, error),
        ...causeOf(error),
        ms: attempt.ms,
      })
    },
  }
}

/** Which offer, by which of its provider's keys (counted from 1), at which address. */
export function triedFields({ provider, offer, key }: Candidate): LogFields {
  return {
    provider: provider.id,
    upstream_model: offer.upstream,
    key_number: provider.keys.indexOf(key) + 1,
    base_url: provider.transport === 'builtin' ? null : provider.baseUrl,
  }
}

/** The provider's or the transport's own words, for the operator alone. */
function reasonOf({ reason }: Attempt, error: unknown): string | null {
  if (error instanceof AttemptFailed || error instanceof UnreachableError)
    return bounded(error.fault.message) || reason
  return reason
}

/** What the system said of a connection; of a fault of our own everything, as it has to be found. */
function causeOf(error: unknown): LogFields {
  if (error instanceof AttemptFailed) return providerCode(error.fault.providerCode)
  if (!(error instanceof UnreachableError)) return { error }
  const { cause } = error
  return {
    ...providerCode(error.fault.providerCode),
    ...(cause instanceof Error ? { cause: bounded(cause.message) } : {}),
  }
}

function providerCode(code: string | undefined): LogFields {
  return code === undefined ? {} : { provider_code: code.slice(0, 100) }
}

const longestReason = 500

/** Cut between words: half a secret would not be recognised as one, and so not be redacted. */
export function bounded(text: string): string {
  if (text.length <= longestReason) return text
  const end = text.lastIndexOf(' ', longestReason)
  return `${text.slice(0, Math.max(end, 0))} …`
}
