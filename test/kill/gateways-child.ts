// A gateway's ledger at work beside others on one database: it prints what it acknowledges, the moment it does.

import { writeSync } from 'node:fs'
import { noUsage } from '../../src/conversation/usage.ts'
import { openOnPostgres } from '../../src/store/postgres/open.ts'
import { holdOf, settleOf } from '../credits/support.ts'

const [, , url = '', owner = '', accounts = '1', lanes = '1', pauseMs = '0'] = process.argv
const say = (...words: readonly (string | bigint)[]) => {
  try {
    writeSync(1, `${words.join(' ')}\n`)
  } catch {
    // Nobody reads it any more.
    process.exit(1)
  }
}
const { ledger } = await openOnPostgres(url, {
  clock: Date.now,
  owner,
  isRunning: () => true,
  lost: (error) => {
    say('lost', (error as Error).constructor.name)
    process.exit(1)
  },
})
say('ready')

const usage = { ...noUsage, output: 3 }
async function runLane(lane: number): Promise<void> {
  for (let n = 0; ; n++) {
    const call = `${owner}.${lane}.${n}`
    const account = `account ${(lane + n) % Number(accounts)}`
    const leaseUntil = Date.now() + 3_600_000
    try {
      const held = await ledger.hold(
        holdOf(call, { owner, account, want: 1_000n, least: 1_000n, leaseUntil }),
      )
      say(held.kind, call)
      if (held.kind !== 'held') continue
      if (n % 3 === 0) await ledger.checkpoint({ call, owner, usage, cost: 300n, leaseUntil })
      const { kind } = await ledger.settle(settleOf(call, 700n, { owner }))
      say(kind, call)
      if (Number(pauseMs) > 0) await Bun.sleep(Number(pauseMs))
    } catch (error) {
      // It is told to come again; whether the end of the call will be booked it does not know.
      if (!(error instanceof Error && 'code' in error)) throw error
      say('failed', call, String(error.code))
      await Bun.sleep(20)
    }
  }
}
for (let lane = 0; lane < Number(lanes); lane++) void runLane(lane)
// What every gateway does now and then: whoever leads ends the calls of the dead.
setInterval(() => void ledger.recover(Date.now()).catch(() => undefined), 500)
