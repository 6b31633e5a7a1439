// The monthly statement of an account: opening balance, changes by day and kind, closing balance and debt.

import type { Pico } from '../money.ts'
import type { Pool } from '../pool.ts'
import type { TransactionKind } from '../wallet.ts'
import type { Standing, StatementEntry } from './statements.ts'

export interface Month {
  /** As `2026-11`. */
  readonly name: string
  /** Milliseconds since 1970, UTC; `to` is the first moment after it. */
  readonly from: number
  readonly to: number
}

/** The UTC month with this name, such as `2026-11`; undefined if it is not one. */
export function monthNamed(name: string): Month | undefined {
  if (!/^\d{4}-(0[1-9]|1[0-2])$/.test(name)) return undefined
  const from = Date.parse(`${name}-01`)
  const begins = new Date(from)
  return { name, from, to: Date.UTC(begins.getUTCFullYear(), begins.getUTCMonth() + 1) }
}

/** The sum of some entries: credit added or removed, debt made or repaid. */
export interface Movement extends Standing {
  readonly entries: number
}

export interface MovementOfKind extends Movement {
  readonly kind: TransactionKind
}

export interface MovementOfDay extends MovementOfKind {
  /** As `2026-11-30`, UTC. */
  readonly day: string
  readonly pool: Pool
}

export const nothing: Standing = { credit: 0n, owed: 0n }

export function plus(a: Standing, b: Standing): Standing {
  return { credit: a.credit + b.credit, owed: a.owed + b.owed }
}

/** The change of an entry. One without a lot is debt, which grows when the entry is negative. */
export function changeOf({ lot, amount }: Pick<StatementEntry, 'lot' | 'amount'>): Standing {
  return lot === null ? { credit: 0n, owed: -amount } : { credit: amount, owed: 0n }
}

/** Credit minus debt. */
export function netOf({ credit, owed }: Standing): Pico {
  return credit - owed
}

/** Sums entries in any order. */
export class MonthlySums {
  readonly #days = new Map<string, MovementOfDay>()

  add(entry: StatementEntry): void {
    const day = new Date(entry.at).toISOString().slice(0, 10)
    const { kind, pool } = entry
    const key = `${day} ${kind} ${pool}`
    const before = this.#days.get(key)
    const sum = plus(before ?? nothing, changeOf(entry))
    this.#days.set(key, { day, kind, pool, ...sum, entries: (before?.entries ?? 0) + 1 })
  }

  /** By day, kind and pool, in order of time. */
  get days(): readonly MovementOfDay[] {
    return [...this.#days].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, movement]) => movement)
  }

  get kinds(): readonly MovementOfKind[] {
    const kinds = new Map<TransactionKind, MovementOfKind>()
    for (const { kind, entries, ...change } of this.days) {
      const before = kinds.get(kind)
      const sum = plus(before ?? nothing, change)
      kinds.set(kind, { kind, ...sum, entries: (before?.entries ?? 0) + entries })
    }
    return [...kinds.values()]
  }
}
