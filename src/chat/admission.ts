// May this caller use this model now? Pure. The order of the refusals is part of the contract.

import { mayUse, type Caller } from '../accounts/caller.ts'
import type { Model } from '../catalog/model.ts'
import type { Balance } from '../credits/ledger.ts'
import type { Pico } from '../credits/money.ts'
import type { Pool } from '../credits/pool.ts'
import type { ErrorCode } from '../errors.ts'

/** The first reason to refuse, or nothing. Order: design, "Refusals, in this order"; see admission.test.ts. */
export function refusal(caller: Caller, model: Model, balance: Balance, now: number): ErrorCode | undefined {
  if (caller.mode === 'live') {
    const opens =
      caller.channel === 'app' ? (['purchased', 'subscription'] as const) : (['purchased'] as const)
    if (model.premium && !opens.some((pool) => remainingIn(balance, pool, now) > 0n)) return 'plan_required'
    if (caller.channel === 'api' && remainingIn(balance, 'purchased', now) <= 0n)
      return 'purchased_credits_required'
  }
  if (caller.account.suspended) return 'account_suspended'
  if (!mayUse(caller, model.id)) return 'model_not_allowed'
  return undefined
}

/** What is left in a pool at `now`, holds included, in picodollars. */
export function remainingIn(balance: Balance, pool: Pool, now: number): Pico {
  return balance.lots
    .filter((lot) => lot.pool === pool && (lot.expiresAt === null || lot.expiresAt > now))
    .reduce((sum, lot) => sum + lot.remaining, 0n)
}

/** What may still be held in these pools at `now`: left, unexpired and not pinned, in picodollars. */
export function freeIn(balance: Balance, funding: readonly Pool[], now: number): Pico {
  return balance.lots
    .filter((lot) => funding.includes(lot.pool) && (lot.expiresAt === null || lot.expiresAt > now))
    .reduce((sum, lot) => sum + lot.remaining - lot.pinned, 0n)
}
