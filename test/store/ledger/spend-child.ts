// A process that takes as many holds as the account's credit admits, and prints how many it got.

import { openStore } from '../../../src/store/open.ts'
import { usd } from '../../../src/credits/money.ts'
import { holdOf, noon } from '../../credits/support.ts'

const [dataDir, owner] = process.argv.slice(2)
const store = await openStore(dataDir!, { clock: () => noon })
let admitted = 0

async function spend(lane: number): Promise<void> {
  for (let n = 0; ; n++) {
    const result = await store.ledger.hold(holdOf(`${owner}-${lane}-${n}`, { want: usd(1), least: usd(1) }))
    if (result.kind === 'refused') return
    admitted++
  }
}

await Promise.all(Array.from({ length: 16 }, (_, lane) => spend(lane)))
await store.close()
process.stdout.write(String(admitted))
