// Warns the operator when the provider's bill may differ from the charge.

import { completionTokens, promptTokens, type Usage } from '../../conversation/usage.ts'
import type { SettleResult } from '../../credits/ledger/ledger.ts'
import { formatUsd } from '../../credits/money.ts'
import type { Log, LogFields } from '../../observe/log.ts'
import type { PaidCall } from '../call.ts'
import type { Candidate } from '../routing/candidates.ts'
import type { Charge } from './charge.ts'

type Call = Pick<PaidCall, 'requestId'>

function servedBy({ requestId }: Call, { provider, model }: Candidate): LogFields {
  return { request_id: requestId, provider: provider.id, model: model.id }
}

/** The provider's bill may exceed the charge because a rate is missing: names the rate to add. */
export function warnOfUnpriced(log: Log, call: Call, candidate: Candidate, { cost }: Charge): void {
  if (cost.unpriced.length === 0) return
  log.warn('charged at the standard rate: the catalog has no rate for what was served', {
    ...servedBy(call, candidate),
    unpriced: cost.unpriced.join(', '),
  })
}

/** Logs what the provider bills but the caller does not pay, or pays beyond the limit of its key. */
export function warnOfUnpaid(log: Log, call: Call, candidate: Candidate, result: SettleResult): void {
  if (result.kind !== 'settled' || (result.absorbed === 0n && !result.overLimit)) return
  log.warn('a provider billed more than was held for the call', {
    ...servedBy(call, candidate),
    absorbed_usd: formatUsd(result.absorbed),
    over_limit: result.overLimit,
  })
}

/** The provider has counted an answer as it cannot have been, or reports a cost that cannot be. */
export function warnOfUncounted(
  log: Log,
  call: Call,
  candidate: Candidate,
  usage: Usage | undefined,
  credible: Usage | undefined,
): void {
  if (usage === undefined || credible === undefined) return
  if (usage.reportedCost !== undefined && credible.reportedCost === undefined)
    log.warn('a provider reports a cost that its model cannot come to: the catalog price is charged', {
      ...servedBy(call, candidate),
      reported_usd: usage.reportedCost,
    })
  const doubted = doubtedIn(usage, credible)
  if (doubted.length === 0) return
  log.warn('a provider has not counted a call as it can have been: it is estimated', {
    ...servedBy(call, candidate),
    uncounted: doubted.join(', '),
    prompt_tokens: promptTokens(usage),
    completion_tokens: completionTokens(usage),
    ...usage.toolCalls,
  })
}

/** What of a count is not charged as it was reported. */
function doubtedIn(usage: Usage, credible: Usage): readonly string[] {
  const doubted: string[] = [...(credible.uncounted ?? [])]
  if (usage.toolCalls !== credible.toolCalls) doubted.push(...Object.keys(usage.toolCalls))
  if (usage.billed !== credible.billed) doubted.push('billed')
  return doubted
}
