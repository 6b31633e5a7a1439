// The spending limit of a key, for the ledger and for a single call.

import type { ApiKey } from '../../accounts/api-key.ts'
import { windowStart } from '../../accounts/spend-window.ts'
import type { KeyLimit, LedgerStore } from '../../credits/ledger/ledger.ts'
import { larger, type Pico } from '../../credits/money.ts'

/** The limit in the window that contains `now`; null if the key has none. */
export function keyLimitOf(key: ApiKey | null, now: number): KeyLimit | null {
  if (!key || key.spendLimit === null) return null
  return { limit: key.spendLimit, windowStart: windowStart(key.limitWindow, now) }
}

/** What the limit of a key leaves, picodollars. */
export interface KeyRoom {
  /** What a call may hold now. */
  readonly free: Pico
  /** What could be held if all calls in flight returned their holds. */
  readonly freeLater: Pico
}

/** What the key may still spend in its window; undefined if it has no limit. */
export async function keyRoom(
  ledger: Pick<LedgerStore, 'keySpend'>,
  key: ApiKey | null,
  now: number,
): Promise<KeyRoom | undefined> {
  const limit = keyLimitOf(key, now)
  if (!key || !limit) return undefined
  const { spent, held } = await ledger.keySpend(key.id, limit.windowStart)
  const freeLater = larger(limit.limit - spent, 0n)
  return { free: larger(freeLater - held, 0n), freeLater }
}
