// An account's statement in pages, the newest first. The journal is in the order of its transactions and no other, so a
// page reads it backwards in short steps, and ends where it has read enough, found or not.

import type { Database, Statement } from 'bun:sqlite'
import type { StatementEntry, StatementPage, StatementReader } from '../../../credits/ledger/statements.ts'
import { pools, type Pool } from '../../../credits/pool.ts'
import type { TransactionKind } from '../../../credits/wallet.ts'
import { reading } from '../database/outage.ts'

/** About 3,000 entries, 3 ms: others have their turn between steps. */
const transactionsPerStep = 1_000
const stepsPerPage = 40

interface Row {
  readonly tx: bigint
  readonly at: bigint
  readonly kind: TransactionKind
  /** `wallet:<account>:<pool>` */
  readonly wallet: string
  readonly lot: string | null
  readonly amount: bigint
  readonly call: string | null
  readonly model: string | null
  readonly source: string | null
}

export class SqliteStatements implements StatementReader {
  readonly #head: Statement<{ tx: bigint | null }, []>
  readonly #step: Statement<Row, (string | number)[]>

  constructor(database: Database) {
    this.#head = database.prepare('SELECT max(tx) AS tx FROM journal')
    this.#step = database.prepare(
      `SELECT journal.tx, journal.at, journal.kind, journal.account AS wallet, journal.lot, journal.amount,
         call.id AS call, call.model,
         iif(journal.kind IN ('grant', 'adjust') AND journal.amount > 0, lot.source, NULL) AS source
       FROM journal LEFT JOIN call ON call.settle_tx = journal.tx LEFT JOIN lot ON lot.id = journal.lot
       WHERE journal.tx > ? AND journal.tx <= ? AND journal.account IN (${pools.map(() => '?').join(', ')})
       ORDER BY journal.tx DESC, journal.leg DESC`,
    )
  }

  async page(account: string, limit: number, before?: number): Promise<StatementPage> {
    const wallets = pools.map((pool) => `wallet:${account}:${pool}`)
    const entries: StatementEntry[] = []
    let top = (before ?? Number(reading(() => this.#head.get())?.tx ?? 0n) + 1) - 1
    for (let step = 0; step < stepsPerPage && top > 0 && entries.length < limit; step++) {
      if (step > 0) await new Promise((resolve) => setImmediate(resolve))
      const bottom = Math.max(0, top - transactionsPerStep)
      const rows = reading(() => this.#step.all(bottom, top, ...wallets))
      entries.push(...rows.map(entryOf))
      top = bottom
    }
    if (entries.length <= limit) return { entries, next: top > 0 ? top + 1 : null }
    return cut(entries, limit)
  }
}

/** A page ends between two transactions, whatever its limit: one may have several lines. */
function cut(entries: readonly StatementEntry[], limit: number): StatementPage {
  const last = entries[limit - 1]!.tx
  const rest = entries.findIndex(({ tx }) => tx < last)
  if (rest < 0) return { entries, next: last }
  return { entries: entries.slice(0, rest), next: last }
}

function entryOf({ tx, at, wallet, ...row }: Row): StatementEntry {
  const pool = wallet.slice(wallet.lastIndexOf(':') + 1) as Pool
  return { ...row, tx: Number(tx), at: Number(at), pool }
}
