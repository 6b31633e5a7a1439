// A ledger at work for a recorder of its system calls: it prints the id of each call once its settle is durable.

import { writeSync } from 'node:fs'
import { join } from 'node:path'
import { openDatabase } from '../../src/store/sqlite/database/connection.ts'
import { defaultGroupLimits } from '../../src/store/commit-queue.ts'
import { SqliteLedger } from '../../src/store/sqlite/ledger/ledger-store.ts'
import { noUsage } from '../../src/conversation/usage.ts'
import { grantOf, holdOf, noon, settleOf } from '../credits/support.ts'
import { UsageDays } from '../../src/store/sqlite/calls/usage-days.ts'

const [dataDir, synchronous, calls] = process.argv.slice(2) as [string, string, string]
const database = openDatabase(dataDir, noon)
database.run(`PRAGMA synchronous = ${synchronous}`)
// Checkpoints move pages from the log to the file: let there be many.
database.run('PRAGMA wal_autocheckpoint = 40')
const ledger = new SqliteLedger({
  database,
  path: join(dataDir, 'weir.db'),
  time: { clock: () => noon, backMs: 0, stepped: () => undefined },
  limits: defaultGroupLimits,
  usage: new UsageDays(database),
  bufferedRows: [],
  isDead: () => false,
  committed: () => undefined,
})
await ledger.grant(grantOf('g', 10n ** 15n))

let next = 0
async function lane(): Promise<void> {
  while (next < Number(calls)) {
    const call = `call-${next++}`
    await ledger.hold(holdOf(call, { want: 1000n, least: 1000n }))
    if (next % 3 === 0)
      await ledger.checkpoint({ call, owner: 'here', usage: noUsage, cost: 1n, leaseUntil: noon })
    await ledger.settle(settleOf(call, 700n))
    writeSync(1, `${call}\n`)
  }
}
await Promise.all([lane(), lane(), lane()])
// As a power cut leaves it: nothing is closed, nothing is tidied up.
process.kill(process.pid, 'SIGKILL')
