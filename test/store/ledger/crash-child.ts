// A process that runs calls until it is killed: it prints the id of each call once its settle is durable.

import { openStore } from '../../../src/store/open.ts'
import { noUsage } from '../../../src/conversation/usage.ts'
import { holdOf, settleOf } from '../../credits/support.ts'

const [dataDir, owner] = process.argv.slice(2)
const { ledger } = await openStore(dataDir!, { clock: Date.now, serveAs: owner! })

async function runCalls(lane: number): Promise<void> {
  for (let n = 0; ; n++) {
    const call = `${owner}-${lane}-${n}`
    const leaseUntil = Date.now() + 60_000
    const held = await ledger.hold(holdOf(call, { owner: owner!, want: 1000n, least: 1000n, leaseUntil }))
    if (held.kind !== 'held') throw new Error(held.reason)
    if (n % 3 === 0) await ledger.checkpoint({ call, owner: owner!, usage: noUsage, cost: 300n, leaseUntil })
    if (n % 5 === 0) await ledger.release({ call, owner: owner!, reason: 'upstream_error', attempts: [] })
    else {
      await ledger.settle(settleOf(call, 700n, { owner: owner! }))
      process.stdout.write(`${call}\n`)
    }
  }
}

// One call is in flight whenever the kill comes.
await ledger.hold(
  holdOf(`${owner}-open`, { owner: owner!, want: 1000n, least: 1000n, leaseUntil: Date.now() + 60_000 }),
)
for (let lane = 0; lane < 20; lane++) void runCalls(lane)
