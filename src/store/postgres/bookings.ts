// The bookings of an account in PostgreSQL, where many processes write: they are in the order of the versions that its
// wallet has had. An index has them, so that a page reads the lines of its account alone.

import { type Bookings, entryOf, type EntryRow, selectEntries, walletsOf } from '../sql/statements.ts'
import { sql } from '../sql/work.ts'

const order = {
  number: 'journal.version',
  charges: 'call.settle_chain = journal.chain AND call.settle_tx = journal.tx',
}

/** For each pool, whose lines have an index of their own, the lines that `where` says. */
const ofEachPool = (where: string) => `LIST(?1) AS wallets CROSS JOIN LATERAL (
    SELECT * FROM journal WHERE journal.account = wallets.value AND ${where}) AS journal`

const findFrom = sql<{ readonly number: bigint; readonly at: bigint }>(
  `SELECT journal.version AS number, journal.at FROM ${ofEachPool('version >= ?2 ORDER BY version LIMIT 1')}
   ORDER BY journal.version LIMIT 1`,
)
const findEntries = sql<EntryRow>(
  `${selectEntries(order, ofEachPool('version > ?2 AND version <= ?3 ORDER BY version DESC FETCH FIRST (?4) ROWS WITH TIES'))}
   ORDER BY journal.version DESC, journal.tx DESC, journal.leg DESC`,
)

export const bookingsOfPostgres: Bookings = {
  ...order,
  lines: ofEachPool('version > ?2 AND version <= ?3'),
  summedAtOnce: Number.MAX_SAFE_INTEGER,
  last: 'SELECT version FROM wallet_head WHERE wallet_head.account = wallet.account',
  from: (account, number) => findFrom.first(walletsOf(account), number),
  *step(account, top, end, wanted) {
    const entries = (yield* findEntries.all(walletsOf(account), end, top, wanted)).map(entryOf)
    // Below the last line of a pool of which not all lines came, others of that pool may be missing.
    const count = new Map<string, number>()
    for (const { pool } of entries) count.set(pool, (count.get(pool) ?? 0) + 1)
    const cutOff = entries.filter(({ pool }) => count.get(pool)! >= wanted)
    if (cutOff.length === 0) return { entries, bottom: end }
    const lowest = new Map(cutOff.map(({ pool, tx }) => [pool, tx]))
    const floor = Math.max(...lowest.values())
    return { entries: entries.filter(({ tx }) => tx >= floor), bottom: floor - 1 }
  },
}
