// Lists accounts on SQLite in short steps, so that a long list does not block calls.

import type { Database } from 'bun:sqlite'
import type { AccountCount, AccountPage, AccountQuery } from '../../../accounts/account.ts'
import { GatewayError } from '../../../errors.ts'
import { reading } from '../database/outage.ts'
import { accountOf, type AccountRow } from './rows.ts'
import { whenNeeded } from '../database/when-needed.ts'

const rowsPerStep = 1_000
const rowsCountedPerStep = 20_000

interface PlacedRow extends AccountRow {
  readonly place: bigint
  readonly deleted_at: bigint | null
}

interface CountRow {
  readonly accounts: bigint | null
  readonly suspended: bigint | null
  readonly last: bigint | null
}

export class AccountList {
  readonly #sql: () => ReturnType<typeof statements>

  constructor(database: Database) {
    this.#sql = whenNeeded(() => statements(database))
  }

  /** See `AccountStore.pageAccounts`. */
  async page({ limit, after, q }: AccountQuery): Promise<AccountPage> {
    let from = this.#placeOf(after)
    const found: ReturnType<typeof accountOf>[] = []
    for (;;) {
      const rows = reading(() => this.#sql().from.all(from, rowsPerStep))
      for (const row of rows) {
        from = row.place
        if (row.deleted_at !== null || !holds(row, q)) continue
        if (found.length === limit) return { accounts: found, next: found.at(-1)!.id }
        found.push(accountOf(row))
      }
      if (rows.length < rowsPerStep) return { accounts: found, next: null }
      await Bun.sleep(0)
    }
  }

  async count(): Promise<AccountCount> {
    let [accounts, suspended] = [0, 0]
    let from: bigint | null = 0n
    while (from !== null) {
      const after: bigint = from
      const step: CountRow = reading(() => this.#sql().countFrom.get(after, rowsCountedPerStep))!
      accounts += Number(step.accounts ?? 0n)
      suspended += Number(step.suspended ?? 0n)
      from = step.last
      await Bun.sleep(0)
    }
    return { accounts, suspended }
  }

  #placeOf(after: string | undefined): bigint {
    if (after === undefined) return 0n
    const row = reading(() => this.#sql().placeOf.get(after))
    if (row) return row.place
    const message = 'cursor takes the next_cursor of the page before.'
    throw new GatewayError('invalid_request', { message, param: 'cursor' })
  }
}

function holds({ id, email }: AccountRow, q: string | undefined): boolean {
  return q === undefined || email.includes(q) || id.includes(q)
}

/** Rowids follow the order of insertion. */
function statements(database: Database) {
  return {
    placeOf: database.prepare<{ place: bigint }, [string]>('SELECT rowid AS place FROM account WHERE id = ?'),
    from: database.prepare<PlacedRow, [bigint, number]>(
      'SELECT rowid AS place, * FROM account WHERE rowid > ? ORDER BY rowid LIMIT ?',
    ),
    countFrom: database.prepare<CountRow, [bigint, number]>(
      `SELECT sum(deleted_at IS NULL) AS accounts, sum(deleted_at IS NULL AND suspended) AS suspended,
       max(place) AS last
       FROM (SELECT rowid AS place, suspended, deleted_at FROM account WHERE rowid > ? ORDER BY rowid LIMIT ?)`,
    ),
  }
}
