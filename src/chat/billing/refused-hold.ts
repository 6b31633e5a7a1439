import { windowEnd } from '../../accounts/spend-window.ts'
import type { HoldResult } from '../../credits/ledger/ledger.ts'
import { formatUsd } from '../../credits/money.ts'
import { GatewayError } from '../../errors.ts'
import { ownerHint } from '../owner-hint.ts'
import type { PaidCall } from '../call.ts'
import type { Need } from './need.ts'

/** The error for a hold that the ledger refused, with the amounts needed and available. */
export function refusedHold(
  result: Extract<HoldResult, { kind: 'refused' }>,
  need: Need,
  call: PaidCall,
  now: number,
): GatewayError {
  const { available, held, reason } = result
  const { model } = call.request.envelope
  const metadata = {
    model,
    available: formatUsd(available),
    held: formatUsd(held),
    estimate: formatUsd(need.least),
  }
  switch (reason) {
    case 'insufficient':
      return new GatewayError('insufficient_credits', {
        ...ownerHint('insufficient_credits', call.caller.account),
        metadata,
      })
    case 'reserved':
      return new GatewayError('credits_reserved', { metadata, retryAfterMs: 2_000 })
    case 'key-limit': {
      const end = call.caller.key ? windowEnd(call.caller.key.limitWindow, now) : null
      const resets_at = end === null ? null : new Date(end).toISOString()
      return new GatewayError('key_limit_exceeded', { metadata: { ...metadata, resets_at } })
    }
    default:
      return reason satisfies never
  }
}
