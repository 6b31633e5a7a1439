// What a balance can pay for. A debt comes first: purchased credit that it stands against pays for nothing else.

import type { Balance, LotBalance } from './ledger.ts'
import type { Pico } from './money.ts'
import type { Pool } from './pool.ts'

/** What is left in a pool at `now`, holds included and debt deducted, in picodollars. */
export function remainingIn(balance: Balance, pool: Pool, now: number): Pico {
  return lessDebt(
    balance,
    pool,
    sumIn(balance, pool, now, (lot) => lot.remaining),
  )
}

/** What may still be held in these pools at `now`: left, unexpired, not pinned and not owed, in picodollars. */
export function freeIn(balance: Balance, funding: readonly Pool[], now: number): Pico {
  let free = 0n
  for (const pool of funding) {
    free += lessDebt(
      balance,
      pool,
      sumIn(balance, pool, now, (lot) => lot.remaining - lot.pinned),
    )
  }
  return free
}

function sumIn(balance: Balance, pool: Pool, now: number, part: (lot: LotBalance) => Pico): Pico {
  let sum = 0n
  for (const lot of balance.lots) {
    if (lot.pool === pool && (lot.expiresAt === null || lot.expiresAt > now)) sum += part(lot)
  }
  return sum
}

function lessDebt({ debt }: Balance, pool: Pool, amount: Pico): Pico {
  if (pool !== 'purchased') return amount
  return amount > debt ? amount - debt : 0n
}
