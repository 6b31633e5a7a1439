// The bookings of an account in SQLite: the journal is ordered by transaction only, whoever's it is, so that a page of a
// statement reads it backwards in short steps and ends when it has read enough, even if it found nothing.

import { type Bookings, entryOf, type EntryRow, selectEntries, walletsOf } from '../../sql/statements.ts'
import { sql } from '../../sql/work.ts'

/** About 3,000 entries or 3 ms: other work runs between steps. */
const transactionsPerStep = 1_000
/** About 4 ms, in the thread. */
const transactionsSummedAtOnce = 10_000

const order = { number: 'journal.tx', charges: 'call.settle_tx = journal.tx' }

const findTime = sql<{ readonly number: bigint; readonly at: bigint }>(
  'SELECT tx AS number, at FROM journal WHERE tx = ? LIMIT 1',
)
const findEntries = sql<EntryRow>(
  `${selectEntries(order)} WHERE journal.tx > ? AND journal.tx <= ? AND journal.account IN LIST(?)
   ORDER BY journal.tx DESC, journal.leg DESC`,
)

export const bookingsOfSqlite: Bookings = {
  ...order,
  last: 'SELECT max(tx) FROM journal',
  from: (_account, number) => findTime.first(number),
  *step(account, top, end) {
    const bottom = Math.max(end, top - transactionsPerStep)
    const rows = yield* findEntries.all(bottom, top, walletsOf(account))
    return { entries: rows.map(entryOf), bottom }
  },
  lines: 'journal WHERE journal.tx > ?2 AND journal.tx <= ?3 AND journal.account IN LIST(?1)',
  summedAtOnce: transactionsSummedAtOnce,
}
