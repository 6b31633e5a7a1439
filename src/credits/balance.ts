// What a balance can pay for. Debt is deducted from purchased credit first. An account with a credit line can also pay
// with what is left of the line.

import type { LotBalance } from './ledger/ledger.ts'
import type { Pico } from './money.ts'
import type { Pool } from './pool.ts'

type Lot = Pick<LotBalance, 'pool' | 'remaining' | 'pinned' | 'expiresAt'>

/** An account's lots and what it owes: a balance, or the wallet that the ledger decides on. */
interface Credit {
  readonly lots: readonly Lot[]
  readonly debt: Pico
  readonly creditLine: Pico
}

/** What is left in a pool at `now`, holds included and debt deducted, in picodollars. */
export function remainingIn(credit: Credit, pool: Pool, now: number): Pico {
  return lessDebt(credit, pool, sumIn(credit, pool, now, remaining))
}

/** Credit in these pools at `now` that may be held: unexpired, not pinned and not owed, in picodollars. */
export function freeIn(credit: Credit, funding: readonly Pool[], now: number): Pico {
  let free = 0n
  for (const pool of funding) {
    free += lessDebt(credit, pool, sumIn(credit, pool, now, unpinned))
  }
  return free
}

/** Unexpired credit in these pools that calls in flight hold, in picodollars. */
export function pinnedIn(credit: Credit, funding: readonly Pool[], now: number): Pico {
  let pinned = 0n
  for (const pool of funding) pinned += sumIn(credit, pool, now, (lot) => lot.pinned)
  return pinned
}

function remaining(lot: Lot): Pico {
  return lot.remaining
}

function unpinned(lot: Lot): Pico {
  return lot.remaining - lot.pinned
}

function sumIn(credit: Credit, pool: Pool, now: number, part: (lot: Lot) => Pico): Pico {
  let sum = 0n
  for (const lot of credit.lots) {
    if (lot.pool === pool && (lot.expiresAt === null || lot.expiresAt > now)) sum += part(lot)
  }
  return sum
}

function lessDebt({ debt, creditLine }: Credit, pool: Pool, amount: Pico): Pico {
  if (pool !== 'purchased') return amount
  const worth = amount + creditLine
  return worth > debt ? worth - debt : 0n
}
