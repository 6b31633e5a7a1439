// One of several processes on one database. `spend`: takes holds until it has tried so often, and prints how many it
// got. `budget`: the same of the calls of a person in one of two groups that stand in a third. `share`: the same of calls that set no limit, and prints the picodollars that they were told to be held. `work`: runs whole calls, top-ups and refunds for so many milliseconds, and prints how many commands it gave.

import { usd } from '../../src/credits/money.ts'
import { noUsage } from '../../src/conversation/usage.ts'
import type { GroupCall } from '../../src/credits/ledger/ledger.ts'
import { nested, openAt } from './contention.ts'
import { grantOf, holdOf, settleOf } from '../credits/support.ts'
import { seeded } from './random.ts'

const [address, name, what, amount] = process.argv.slice(2) as [
  string,
  string,
  'spend' | 'budget' | 'share' | 'work',
  string,
]
const lanes = 16
const store = await openAt(address, name)
const { ledger } = store

/** Four people, two in each of two groups: what they may spend themselves, in their group, and all together. */
function inGroup(): GroupCall {
  const person = `${name}-person`
  const group = Number(name.slice(1)) < 2 ? 'grp_left' : 'grp_right'
  const always = { windowStart: 0, windowEnd: null }
  const budgets = [
    { scope: `${group}/${person}`, limit: usd(nested.person), ...always },
    { scope: group, limit: usd(nested.group), ...always },
    { scope: 'grp_all', limit: usd(nested.all), ...always },
  ]
  return { group, person, budgets }
}

async function spend(tries: number, group: GroupCall | null = null): Promise<number> {
  let tried = 0
  let admitted = 0
  const leaseUntil = Date.now() + 3_600_000
  const random = seeded(Number(name.slice(1)))
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      while (tried < tries) {
        const asked = { owner: name, want: usd(1), least: usd(1), leaseUntil, inGroup: group }
        const command = holdOf(`${name}-${tried++}`, asked)
        if ((await ledger.hold(command)).kind !== 'held') continue
        admitted++
        // Of a group some are spent, and some are given back, by way of another budget's calls.
        if (group === null) continue
        if (random.oneIn(3)) await ledger.settle(settleOf(command.call, usd(1), { owner: name }))
        else if (random.oneIn(5)) {
          await ledger.release({ call: command.call, owner: name, reason: 'upstream_error', attempts: [] })
          admitted--
        }
      }
    }),
  )
  return admitted
}

async function share(tries: number): Promise<number> {
  let tried = 0
  let told = 0n
  const leaseUntil = Date.now() + 3_600_000
  const random = seeded(Number(name.slice(1)))
  const keyLimit = { limit: usd(400), windowStart: 0 }
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      while (tried < tries) {
        const call = `${name}-${tried++}`
        const amounts = { least: usd('0.01'), want: usd('0.5'), most: usd(40) }
        const held = await ledger.hold(holdOf(call, { owner: name, leaseUntil, keyLimit, ...amounts }))
        if (held.kind === 'refused') continue
        // Some grow by their share, and some give all of it back.
        const more = { least: 0n, want: 0n, most: usd(20) }
        const grown = random.oneIn(3) ? await ledger.extend({ call, owner: name, ...more }) : 0n
        if (random.oneIn(5))
          await ledger.release({ call, owner: name, reason: 'upstream_error', attempts: [] })
        else told += held.amount + grown
      }
    }),
  )
  return Number(told)
}

async function work(ms: number): Promise<number> {
  const random = seeded(Number(name.slice(1)))
  const until = performance.now() + ms
  let commands = 0
  const cents = () => BigInt(1 + random.below(100)) * 10_000_000_000n
  const lane = async (number: number) => {
    for (let n = 0; performance.now() < until; n++) {
      const call = `${name}-${number}-${n}`
      const account = random.pick(['anna', 'berta', 'carla'])
      const leaseUntil = Date.now() + 3_600_000
      commands += 3
      if (random.oneIn(6)) {
        const { lot } = await ledger.grant(
          grantOf(`payment:test:${call}`, cents(), { account, from: 'cash:test' }),
        )
        if (random.oneIn(3)) await ledger.refund({ id: `refund-${call}`, account, lot, amount: 1n })
      }
      const held = await ledger.hold(
        holdOf(call, { account, owner: name, want: cents(), least: 1n, leaseUntil }),
      )
      if (held.kind === 'refused') continue
      if (random.oneIn(3))
        await ledger.checkpoint({ call, owner: name, usage: noUsage, cost: 1n, leaseUntil })
      if (random.oneIn(4)) await ledger.release({ call, owner: name, reason: 'upstream_error', attempts: [] })
      else
        await ledger.settle(
          settleOf(call, random.oneIn(5) ? held.amount * 2n : held.amount / 2n, { owner: name }),
        )
    }
  }
  await Promise.all(Array.from({ length: lanes }, (_, number) => lane(number)))
  return commands
}

const budget = (tries: number) => spend(tries, inGroup())
const done = await { spend, budget, share, work }[what](Number(amount))
await store.close()
process.stdout.write(String(done))
