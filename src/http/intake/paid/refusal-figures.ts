// Records the credit at the moment of a refusal for lack of it, which cannot be reconstructed later.

import type { Caller } from '../../../accounts/caller.ts'
import { keyRoom } from '../../../chat/billing/key-limit.ts'
import { freeIn, remainingIn } from '../../../credits/balance.ts'
import type { LedgerStore } from '../../../credits/ledger/ledger.ts'
import { formatUsd } from '../../../credits/money.ts'
import { fundingOf, pools } from '../../../credits/pool.ts'
import type { ErrorCode } from '../../../errors.ts'

const wantOfCredit: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'plan_required',
  'purchased_credits_required',
  'insufficient_credits',
  'credits_reserved',
  'key_limit_exceeded',
])

/** Whether a refusal depends on the available credit. */
export function isWantOfCredit(code: ErrorCode): boolean {
  return wantOfCredit.has(code)
}

/**
 * The pools of the account, each with what was left, what was free and whether calls of this kind spend it, and what
 * the key's own limit left. `now` in milliseconds since 1970.
 */
export async function creditFigures(
  ledger: Pick<LedgerStore, 'balance' | 'keySpend'>,
  { account, channel, key }: Caller,
  now: number,
): Promise<Readonly<Record<string, unknown>>> {
  const balance = await ledger.balance(account.id)
  const counted = fundingOf(channel, true)
  const room = await keyRoom(ledger, key, now)
  return {
    pools: pools.map((type) => ({
      type,
      remaining: formatUsd(remainingIn(balance, type, now)),
      free: formatUsd(freeIn(balance, [type], now)),
      counted: counted.includes(type),
    })),
    ...(room === undefined ? {} : { key_limit_left: formatUsd(room.free) }),
  }
}
