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

/** What the key may still spend in its window, picodollars; undefined if it has no limit. */
export async function keyRoom(
  ledger: Pick<LedgerStore, 'keySpend'>,
  key: ApiKey | null,
  now: number,
): Promise<Pico | undefined> {
  const limit = keyLimitOf(key, now)
  if (!key || !limit) return undefined
  return larger(limit.limit - (await ledger.keySpend(key.id, limit.windowStart)), 0n)
}
