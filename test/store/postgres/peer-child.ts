// A process of its own that opens calls and waits. A word on its standard input has it settle them.

import { usd } from '../../../src/credits/money.ts'
import { openOnPostgres } from '../../../src/store/postgres/open.ts'
import { holdOf, noon, settleOf } from '../../credits/support.ts'

const [, , url = '', owner = ''] = process.argv
const store = await openOnPostgres(url, {
  clock: () => noon,
  owner,
  isRunning: () => true,
  lost: (error) => {
    console.log(`lost: ${(error as Error).constructor.name}`)
    process.exit(1)
  },
  // Its heart stands still, as that of a process that was stopped does.
  peers: { beatMs: 3_600_000 },
})
const { ledger } = store
const { usage } = settleOf('', 0n)
for (const call of ['delivered', 'silent']) await ledger.hold(holdOf(call, { owner }))
await ledger.checkpoint({ call: 'delivered', owner, usage, cost: usd('0.3'), leaseUntil: noon + 1 })
console.log('open')
for await (const _ of console) {
  for (const call of ['delivered', 'silent']) {
    const settled = await ledger.settle(settleOf(call, usd(1), { owner }))
    console.log(settled.kind)
  }
}
