// Reserves the credit for a call.

import { windowEnd } from '../../accounts/spend-window.ts'
import { freeIn } from '../../credits/balance.ts'
import { pass } from '../../credits/ledger/failpoint.ts'
import type { Balance, HoldCommand, HoldResult } from '../../credits/ledger/ledger.ts'
import { formatUsd, smaller } from '../../credits/money.ts'
import type { Pool } from '../../credits/pool.ts'
import { GatewayError } from '../../errors.ts'
import type { PaidCall } from '../call.ts'
import { leaseUntil } from '../limits.ts'
import { ownerHint } from '../owner-hint.ts'
import type { Candidate } from '../routing/candidates.ts'
import { type BillingParts, Hold } from './hold.ts'
import { keyLimitOf, keyRoom } from './key-limit.ts'
import { amountsOf, type Need, withinLimits } from './need.ts'
import { priceRecord } from './price-record.ts'
import { needFor } from './prompt-need.ts'

/**
 * Reserves credit from the pools of `funding`; the ledger decides whether it is there. Rejects with
 * `insufficient_credits`, `credits_reserved`, `key_limit_exceeded` or `store_unavailable`. Resolves when the hold is
 * decided, so that a provider may be called; nothing may go to the client before `durable`.
 */
export async function openHold(
  parts: BillingParts,
  call: PaidCall,
  candidates: readonly Candidate[],
  balance: Balance,
  funding: readonly Pool[],
): Promise<Hold> {
  const { caller, requestId, request } = call
  const { model, offer } = candidates[0]!
  const inPools = freeIn(balance, funding, parts.now())
  // Most keys have no limit, so there is nothing to wait for.
  const room =
    caller.key?.spendLimit == null ? undefined : await keyRoom(parts.ledger, caller.key, parts.now())
  const free = smaller(inPools, room?.free ?? inPools)
  const needed = needFor(parts, call, candidates, free)
  const need = withinLimits(needed instanceof Promise ? await needed : needed, room?.free)
  const now = parts.now()
  parts.ledger.recordPrice(offer.price.version, model.id, priceRecord(offer.price))
  pass('hold-queued', requestId)
  const command: HoldCommand = {
    call: requestId,
    account: caller.account.id,
    key: caller.key?.id ?? null,
    funding,
    ...amountsOf(need),
    keyLimit: keyLimitOf(caller.key, now),
    model: model.id,
    priceVersion: offer.price.version,
    owner: parts.owner,
    leaseUntil: leaseUntil(parts.limits, now),
  }
  // A stream is passed on as soon as it begins; a whole answer when it is settled, and its sync can be the hold's too.
  const haste = request.envelope.stream ? 'at-once' : 'soon'
  const { result, durable } = await parts.ledger.startHold(command, haste)
  if (result.kind === 'refused') throw refusedHold(result, need, call, now)
  pass('hold-decided', requestId)
  const { amount } = result
  parts.inFlight.enter(requestId, caller.account.id)
  parts.inFlight.onHold(requestId, {
    model: request.envelope.model,
    key: caller.key?.id ?? null,
    channel: caller.channel,
    hold: amount,
  })
  return new Hold(parts, call, need, durable, { amount, free: free - amount }, candidates[0]!)
}

/** After how long to try again where calls in flight hold what is needed. */
const reservedMs = 2_000

/** The error for a hold that the ledger refused, with the amounts needed and available. */
function refusedHold(
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
      return new GatewayError('credits_reserved', { metadata, retryAfterMs: reservedMs })
    case 'key-reserved':
      return new GatewayError('credits_reserved', {
        message:
          'The limit of this key is not reached, but calls in flight have reserved what is left of it.',
        metadata,
        retryAfterMs: reservedMs,
      })
    case 'key-limit': {
      const end = call.caller.key ? windowEnd(call.caller.key.limitWindow, now) : null
      const resets_at = end === null ? null : new Date(end).toISOString()
      return new GatewayError('key_limit_exceeded', { metadata: { ...metadata, resets_at } })
    }
    default:
      return reason satisfies never
  }
}
