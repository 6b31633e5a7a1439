// What an account should be told about its credit before it runs out. Pure.

import { remainingIn } from '../credits/balance.ts'
import type { Balance } from '../credits/ledger/ledger.ts'
import type { Pico } from '../credits/money.ts'

export interface Thresholds {
  /** Purchased credit below this is low, what calls in flight hold included; 0 disables the notice. */
  readonly lowBalance: Pico
  /** A lot that ends within this time is expiring; 0 disables the notice. */
  readonly expiringMs: number
}

export type Notice =
  | { readonly kind: 'balance_low'; readonly available: Pico; readonly threshold: Pico }
  | {
      readonly kind: 'lot_expiring'
      readonly lot: string
      readonly remaining: Pico
      readonly expiresAt: number
    }

/**
 * The notices of an account at `at`. Only for purchased credit, because other pools renew themselves. An account that
 * has never bought any (`purchased`: total bought so far) is not told that it is low.
 */
export function noticesOf(
  balance: Balance,
  purchased: Pico,
  at: number,
  limits: Thresholds,
): readonly Notice[] {
  // What is held is not spent: most of it comes back.
  const available = remainingIn(balance, 'purchased', at)
  const isLow = purchased > 0n && available < limits.lowBalance
  const low: Notice[] = isLow ? [{ kind: 'balance_low', available, threshold: limits.lowBalance }] : []
  const expiring = balance.lots.flatMap(({ id, pool, remaining, expiresAt }): Notice[] => {
    const ends = expiresAt !== null && expiresAt > at && expiresAt - at <= limits.expiringMs
    if (!ends || pool !== 'purchased' || remaining <= 0n) return []
    return [{ kind: 'lot_expiring', lot: id, remaining, expiresAt }]
  })
  return [...low, ...expiring]
}
