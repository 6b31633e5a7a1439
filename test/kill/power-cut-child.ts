// A ledger at work for a recorder of its system calls: it prints what it acknowledges, the moment it does.

import { writeSync } from 'node:fs'
import { join } from 'node:path'
import { openDatabase } from '../../src/store/sqlite/database/sqlite.ts'
import { defaultGroupLimits, LogSync } from '../../src/store/commits/durability.ts'
import { SqliteLedger } from '../../src/store/sqlite/ledger/ledger-store.ts'
import { noUsage } from '../../src/conversation/usage.ts'
import { grantOf, holdOf, noon, settleOf } from '../credits/support.ts'
import { UsageDays } from '../../src/store/sqlite/ledger/calls.ts'
import type { Acknowledged, CommitOrder } from './power-cut.ts'

const [dataDir, order, calls, lanes] = process.argv.slice(2) as [string, CommitOrder, string, string]
const say = (what: Acknowledged['what'], id: string) => writeSync(1, `${what} ${id}\n`)
const database = openDatabase(dataDir, noon)
const path = join(dataDir, 'weir.db')
if (order === 'never synced') database.run('PRAGMA synchronous = NORMAL')
const log = order === 'answered after the sync' ? new LogSync(path) : undefined
// Answers do not wait for the sync that is under way: the mistake that the trial has to find.
const hasty = { sync: () => (new LogSync(path).sync().catch(() => undefined), Promise.resolve()) }
// Checkpoints move pages from the log to the file, and the log begins again: let there be many.
database.run('PRAGMA wal_autocheckpoint = 40')
const ledger = new SqliteLedger({
  database,
  path,
  time: { clock: () => noon, backMs: 0, stepped: () => undefined },
  limits: defaultGroupLimits,
  usage: new UsageDays(database),
  bufferedRows: [],
  isDead: () => false,
  isRunning: () => false,
  committed: ({ tx, hash }) => say('anchored', `${tx}:${hash.toHex()}`),
  log: order === 'answered before the sync' ? hasty : log,
})
await ledger.grant(grantOf('g', 10n ** 15n))

let next = 0
async function lane(): Promise<void> {
  while (next < Number(calls)) {
    const call = `call-${next++}`
    const haste = next % 5 < 3 ? 'soon' : 'at-once'
    const { durable } = await ledger.startHold(holdOf(call, { want: 1000n, least: 1000n }), haste)
    const held = durable.then(() => say('held', call))
    if (next % 3 === 0)
      await ledger.checkpoint({ call, owner: 'here', usage: noUsage, cost: 1n, leaseUntil: noon })
    // Some ends come while their hold is still on its way to the disk.
    if (next % 2 === 0) await held
    await ledger.settle(settleOf(call, 700n))
    say('settled', call)
    // What others write through the same connection is durable when it is written.
    if (next % 7 === 0) {
      database.run(`INSERT INTO server (owner, started_at) VALUES ('${call}', 0)`)
      say('written', call)
    }
  }
}
await Promise.all(Array.from({ length: Number(lanes) }, lane))
// As a power cut leaves it: nothing is closed, nothing is tidied up.
process.kill(process.pid, 'SIGKILL')
