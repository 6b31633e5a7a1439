// What a balance can pay for. Debt is deducted from purchased credit first. An account with a credit line can also pay
// with what is left of the line.

import type { LotBalance } from './ledger/ledger.ts'
import { formatUsd, largestBalance, largestLot, parseUsd, type Pico } from './money.ts'
import type { Pool } from './pool.ts'
import { isExpired } from './wallet.ts'

type Lot = Pick<LotBalance, 'pool' | 'remaining' | 'pinned' | 'expiresAt'>

/** An account's lots and what it owes: a balance, or the wallet that the ledger decides on. */
interface Credit {
  readonly lots: readonly Lot[]
  readonly debt: Pico
  readonly creditLine: Pico
}

/** What is left in a pool at `now`, holds included and debt deducted, in picodollars. */
export function remainingIn(credit: Credit, pool: Pool, now: number): Pico {
  let remaining = 0n
  for (const lot of credit.lots) {
    if (lot.pool === pool && !isExpired(lot, now)) remaining += lot.remaining
  }
  return lessDebt(credit, pool, remaining)
}

/** Credit in these pools at `now` that may be held: unexpired, not pinned and not owed, in picodollars. */
export function freeIn(credit: Credit, funding: readonly Pool[], now: number): Pico {
  let free = 0n
  for (const pool of funding) {
    let unpinned = 0n
    for (const lot of credit.lots)
      if (lot.pool === pool && !isExpired(lot, now)) unpinned += lot.remaining - lot.pinned
    free += lessDebt(credit, pool, unpinned)
  }
  return free
}

/** What a set of pools can pay with, in picodollars; of unexpired lots alone. */
export interface PoolCredit {
  /** Free now, after debt. */
  readonly free: Pico
  /** Held by calls in flight. */
  readonly held: Pico
  /** Free if all of them returned their holds. */
  readonly freeLater: Pico
}

export function creditIn(credit: Credit, funding: readonly Pool[], now: number): PoolCredit {
  let free = 0n
  let held = 0n
  let freeLater = 0n
  for (const pool of funding) {
    let remaining = 0n
    let pinned = 0n
    for (const lot of credit.lots) {
      if (lot.pool !== pool || isExpired(lot, now)) continue
      remaining += lot.remaining
      pinned += lot.pinned
    }
    free += lessDebt(credit, pool, remaining - pinned)
    held += pinned
    freeLater += lessDebt(credit, pool, remaining)
  }
  return { free, held, freeLater }
}

function lessDebt({ debt, creditLine }: Credit, pool: Pool, amount: Pico): Pico {
  if (pool !== 'purchased') return amount
  const worth = amount + creditLine
  return worth > debt ? worth - debt : 0n
}

// Reads and writes the credit line of an account as text.

/** Reads `500`, `unlimited` (the most the ledger can hold) or `none`; undefined for anything else. */
export function parseCreditLine(text: string): Pico | undefined {
  if (text === 'unlimited') return largestBalance
  if (text === 'none') return 0n
  const amount = parseUsd(text)
  return amount !== undefined && amount >= 0n && amount <= largestLot ? amount : undefined
}

/** `500`, `unlimited`, or null for an account without a credit line. */
export function formatCreditLine(most: Pico): string | null {
  if (most === 0n) return null
  return most === largestBalance ? 'unlimited' : formatUsd(most)
}
