// Free purchased credit repays debt before it pays for anything else. Pure, like decide.ts.

import { smaller, type Pico } from './money.ts'
import {
  addLot,
  type Change,
  freeOf,
  type Leg,
  loanPrefix,
  type Lot,
  type LotChange,
  type Wallet,
} from './wallet.ts'

/**
 * The change plus the repayment of debt from the purchased credit that it leaves free, in order of consumption. Credit
 * of other pools was never paid for and repays nothing.
 */
export function withRepayment(wallet: Wallet, change: Change, now: number): Change {
  let debt = wallet.debt + change.debt
  if (debt === 0n) return change
  const credit = `wallet:${wallet.account}:purchased`
  const lots = [...change.lots]
  let byNewLot = 0n
  let repaid = 0n
  const legs: Leg[] = []
  for (const lot of purchasedAfter(wallet, change)) {
    const part = smaller(debt, freeOf(lot, now))
    if (part <= 0n) continue
    debt -= part
    repaid += part
    legs.push({ account: credit, lot: lot.id, amount: -part }, { account: credit, lot: null, amount: part })
    if (change.newLot?.id === lot.id) byNewLot = part
    else takeFrom(lots, lot.id, part)
  }
  if (repaid === 0n) return change
  const newLot = change.newLot && {
    ...change.newLot,
    remaining: change.newLot.remaining - byNewLot,
    refunded: byNewLot,
  }
  return { ...change, lots, newLot, debt: change.debt - repaid, repayment: legs }
}

/** The purchased lots as the change leaves them, in the order of consumption. */
function purchasedAfter(wallet: Wallet, change: Change): Lot[] {
  const lots: Lot[] = []
  for (const lot of wallet.lots) {
    if (lot.pool !== 'purchased') continue
    const { remaining = 0n, pinned = 0n } = change.lots.find((delta) => delta.lot === lot.id) ?? {}
    lots.push({ ...lot, remaining: lot.remaining + remaining, pinned: lot.pinned + pinned })
  }
  if (change.newLot?.pool === 'purchased') addLot(lots, change.newLot)
  // Loans are returned before purchased credit.
  return lots.toSorted((a, b) => Number(isLoan(b)) - Number(isLoan(a)))
}

function isLoan({ id }: Lot): boolean {
  return id.startsWith(loanPrefix)
}

function takeFrom(lots: LotChange[], lot: string, part: Pico): void {
  const at = lots.findIndex((delta) => delta.lot === lot)
  const before = lots[at]
  if (before) lots[at] = { ...before, remaining: before.remaining - part, refunded: before.refunded + part }
  else lots.push({ lot, remaining: -part, pinned: 0n, expired: 0n, refunded: part })
}
