// How much accounts may owe, and what their calls have spent of loans.

import type { Database, Statement } from 'bun:sqlite'
import type { Pico } from '../../../credits/money.ts'
import type { GroupWrites } from '../../ledger-core.ts'

type LineWrites = GroupWrites['lines']

export class CreditLines implements LineWrites {
  readonly #put: Statement
  readonly #spent: Statement

  constructor(database: Database) {
    this.#put = database.prepare(
      `INSERT INTO credit_line (account, most, at) VALUES (?,?,?)
       ON CONFLICT (account) DO UPDATE SET most = excluded.most, at = excluded.at`,
    )
    this.#spent = database.prepare('UPDATE credit_line SET spent = spent + ? WHERE account = ?')
  }

  put(account: string, most: Pico, now: number): void {
    this.#put.run(account, most, now)
  }

  onSpent(account: string, amount: Pico): void {
    this.#spent.run(amount, account)
  }
}
