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
    return bounded(error.fault.message) || reason
  return reason
}

/** The system error of a connection; for faults of our own the whole error, so that it can be found. */
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

/** Cuts between words: half a secret would not be recognised and redacted. */
export function bounded(text: string): string {
  if (text.length <= longestReason) return text
  const end = text.lastIndexOf(' ', longestReason)
  return `${text.slice(0, Math.max(end, 0))} …`
}
