// The journal's writer: transactions are numbered without gaps and every line carries the hash of the one before.

import type { Database, Statement } from 'bun:sqlite'
import type { Leg, TransactionKind } from '../../credits/wallet.ts'

export interface JournalRow {
  readonly tx: bigint
  readonly leg: bigint
  readonly kind: string
  readonly account: string
  readonly lot: string | null
  readonly amount: bigint
  readonly at: bigint
  readonly prev_hash: Uint8Array
  readonly hash: Uint8Array
}

/** The hash before the first line. */
export const genesis = new Uint8Array(32)

export type HashedFields = Pick<JournalRow, 'kind' | 'account' | 'lot' | 'amount'> & {
  readonly tx: bigint | number
  readonly leg: bigint | number
  readonly at: bigint | number
}

/**
 * SHA-256 over the hash before, in hex, and a JSON array of the fields as strings: no two different lines look the
 * same to it, and anybody can compute it again with a shell.
 */
export function hashOf(previous: Uint8Array, row: HashedFields): Uint8Array {
  const fields = [`${row.tx}`, `${row.leg}`, row.kind, row.account, row.lot, `${row.amount}`, `${row.at}`]
  const hex = Buffer.from(previous.buffer, previous.byteOffset, previous.byteLength).toString('hex')
  const hash = new Uint8Array(32)
  Bun.SHA256.hash(hex + JSON.stringify(fields), hash)
  return hash
}

export class Journal {
  readonly #insert: Statement
  readonly #last: Statement<Pick<JournalRow, 'tx' | 'hash'>, []>
  #head: { tx: number; hash: Uint8Array } | null = null

  constructor(database: Database) {
    this.#insert = database.prepare(
      'INSERT INTO journal (tx, leg, kind, account, lot, amount, at, prev_hash, hash) VALUES (?,?,?,?,?,?,?,?,?)',
    )
    this.#last = database.prepare('SELECT tx, hash FROM journal ORDER BY tx DESC, leg DESC LIMIT 1')
  }

  /** Forgets the head: another process has written, or our transaction was undone. */
  forget(): void {
    this.#head = null
  }

  /** Appends one transaction and returns its number. Its legs must sum to zero. */
  append(kind: TransactionKind, legs: readonly Leg[], at: number): number {
    const head = (this.#head ??= this.#load())
    if (legs.reduce((sum, leg) => sum + leg.amount, 0n) !== 0n)
      throw new Error(`the legs of a ${kind} do not sum to zero`)
    const tx = head.tx + 1
    for (const [leg, { account, lot, amount }] of legs.entries()) {
      const hash = hashOf(head.hash, { tx, leg, kind, account, lot, amount, at })
      this.#insert.run(tx, leg, kind, account, lot, amount, at, head.hash, hash)
      head.hash = hash
    }
    head.tx = tx
    return tx
  }

  #load(): { tx: number; hash: Uint8Array } {
    const last = this.#last.get()
    return last ? { tx: Number(last.tx), hash: last.hash } : { tx: 0, hash: genesis }
  }
}
