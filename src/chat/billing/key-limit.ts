// A key's spend limit, as the ledger and a single call see it.

import type { ApiKey } from '../../accounts/api-key.ts'
import { windowStart } from '../../accounts/spend-window.ts'
import type { KeyLimit, LedgerStore } from '../../credits/ledger/ledger.ts'
import { larger, type Pico } from '../../credits/money.ts'

/** The limit in the window that is open at `now`; null for a key without one. */
export function keyLimitOf(key: ApiKey | null, now: number): KeyLimit | null {
  if (!key || key.spendLimit === null) return null
  return { limit: key.spendLimit, windowStart: windowStart(key.limitWindow, now) }
}

/** What the key may still spend in its window, picodollars; undefined where it has no limit. */
export async function keyRoom(
  ledger: Pick<LedgerStore, 'keySpend'>,
  key: ApiKey | null,
  now: number,
): Promise<Pico | undefined> {
  const limit = keyLimitOf(key, now)
  if (!key || !limit) return undefined
  return larger(limit.limit - (await ledger.keySpend(key.id, limit.windowStart)), 0n)
}
