// Reserves the credit for a call.

import { windowEnd } from '../../accounts/spend-window.ts'
import { freeIn } from '../../credits/balance.ts'
import { pass } from '../../credits/ledger/failpoint.ts'
import type { Balance, HoldResult, StartedHold } from '../../credits/ledger/ledger.ts'
import { formatUsd, smaller, type Pico } from '../../credits/money.ts'
import type { Pool } from '../../credits/pool.ts'
import { GatewayError } from '../../errors.ts'
import type { PaidCall } from '../call.ts'
import { leaseUntil } from '../limits.ts'
import { ownerHint } from '../owner-hint.ts'
import type { Candidate } from '../routing/candidates.ts'
import { type BillingParts, Hold } from './hold.ts'
import { keyLimitOf, keyRoom } from './key-limit.ts'
import type { Need } from './need.ts'
import { priceRecord } from './price-record.ts'
import { needFor } from './prompt-need.ts'

/**
 * Reserves credit from the pools of `funding`; the ledger decides whether it is there. Throws or rejects with
 * `insufficient_credits`, `credits_reserved`, `key_limit_exceeded` or `store_unavailable`. Resolves when the hold is
 * decided, so that a provider may be called; nothing may go to the client before `durable`.
 */
export function openHold(
  parts: BillingParts,
  call: PaidCall,
  candidates: readonly Candidate[],
  balance: Balance,
  funding: readonly Pool[],
): Promise<Hold> {
  const free = freeIn(balance, funding, parts.now())
  // Most keys have no limit, and the size of most prompts is plain enough: there is nothing to wait for.
  const need = call.caller.key?.spendLimit == null ? needFor(parts, call, candidates, free) : undefined
  return need === undefined || need instanceof Promise
    ? openLater(parts, call, candidates, free, funding, need)
    : start(parts, call, candidates[0]!, free, funding, need)
}

async function openLater(
  parts: BillingParts,
  call: PaidCall,
  candidates: readonly Candidate[],
  credit: Pico,
  funding: readonly Pool[],
  needed: Promise<Need> | undefined,
): Promise<Hold> {
  if (needed !== undefined) return start(parts, call, candidates[0]!, credit, funding, await needed)
  const room = await keyRoom(parts.ledger, call.caller.key, parts.now())
  const free = smaller(credit, room ?? credit)
  const need = await needFor(parts, call, candidates, free)
  return start(parts, call, candidates[0]!, free, funding, need)
}

function start(
  parts: BillingParts,
  call: PaidCall,
  first: Candidate,
  free: Pico,
  funding: readonly Pool[],
  need: Need,
): Promise<Hold> {
  const { caller } = call
  const { model, offer } = first
  const now = parts.now()
  parts.ledger.recordPrice(offer.price.version, model.id, priceRecord(offer.price))
  pass('hold-queued', call.requestId)
  const started = parts.ledger.startHold({
    call: call.requestId,
    account: caller.account.id,
    key: caller.key?.id ?? null,
    funding,
    want: need.want,
    least: need.least,
    keyLimit: keyLimitOf(caller.key, now),
    model: model.id,
    priceVersion: offer.price.version,
    owner: parts.owner,
    leaseUntil: leaseUntil(parts.limits, now),
  })
  return started.then((hold) => decided(parts, call, first, free, need, now, hold))
}

function decided(
  parts: BillingParts,
  call: PaidCall,
  first: Candidate,
  free: Pico,
  need: Need,
  now: number,
  { result, durable }: StartedHold,
): Hold {
  if (result.kind === 'refused') throw refusedHold(result, need, call, now)
  pass('hold-decided', call.requestId)
  const { requestId, caller, request } = call
  parts.inFlight.enter(requestId, caller.account.id)
  parts.inFlight.held(requestId, {
    model: request.envelope.model,
    key: caller.key?.id ?? null,
    channel: caller.channel,
    hold: result.amount,
  })
  return new Hold(parts, call, need, durable, result.amount, free - result.amount, first)
}

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
