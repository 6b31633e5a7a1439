// Processes that get in each other's way: mostly each has accounts and budgets of its own, so that it decides from memory,
// and now and then it is another one's turn. Whatever the order, nothing is overspent and the books are whole.

import { expect, test } from 'bun:test'
import type { Budget, HoldCommand } from '../../../src/credits/ledger/ledger.ts'
import { usd } from '../../../src/credits/money.ts'
import { defaultGroupLimits } from '../../../src/store/commits/durability.ts'
import { PostgresLedger } from '../../../src/store/postgres/ledger.ts'
import { extensionOf, grantOf, holdOf, noon, settleOf } from '../../credits/support.ts'
import { describeOnPostgres, freshDatabase } from '../../support/postgres.ts'

const processes = 3
const lanes = 4
const rounds = 24
/** Every how many rounds a lane uses the account of another process, or its budget. */
const foreignEvery = 5

const limit = usd(4)
const credit = usd(6)
const keyLimit = { limit: usd(5), windowStart: 0 }
const accountOf = (process: number, lane: number) => `account ${process % processes}.${lane}`
const budgetOf = (account: string): Budget => ({
  scope: `of ${account}`,
  limit,
  windowStart: 0,
  windowEnd: null,
})

async function spend(ledgers: readonly PostgresLedger[], process: number, lane: number): Promise<string[]> {
  const ledger = ledgers[process]!
  const kinds: string[] = []
  for (let round = 0; round < rounds; round++) {
    const call = `c${process}.${lane}.${round}`
    const away = round % foreignEvery
    const account = accountOf(process + (away === 3 ? 1 : 0), lane)
    const budget = budgetOf(accountOf(process + (away === 4 ? 2 : 0), lane))
    const inGroup = { group: 'team', person: account, budgets: [budget] }
    const of: Partial<HoldCommand> = { account, key: `key of ${account}`, keyLimit, inGroup }
    const { kind } = await ledger.hold(holdOf(call, { ...of, want: usd('0.5'), least: usd('0.5') }))
    kinds.push(kind)
    if (kind !== 'held') continue
    await ledger.extend(extensionOf(call, usd('0.1')))
    // Another process may end it: an operator who stops a call asks whichever gateway answers.
    const end = ledgers[(process + (round % 8 === 7 ? 1 : 0)) % processes]!
    if (round % 2) await end.release({ call, owner: 'here', reason: 'unreachable', attempts: [] })
    else await end.settle(settleOf(call, usd('0.4')))
  }
  return kinds
}

describeOnPostgres('several processes on one ledger', () => {
  test('overspend nothing together, and leave books that prove themselves', async () => {
    const url = await freshDatabase('contention')
    const open = (n: number) =>
      PostgresLedger.open({
        server: url,
        owner: `process ${n}`,
        time: { clock: () => noon, backMs: 60_000, stepped: () => undefined },
        limits: defaultGroupLimits,
        deadlineMs: 5_000,
        isDead: () => false,
        isRunning: () => true,
      })
    const ledgers = await Promise.all(Array.from({ length: processes }, (_, n) => open(n)))
    const places = ledgers.flatMap((_, process) =>
      Array.from({ length: lanes }, (_each, lane) => [process, lane] as const),
    )
    for (const [process, lane] of places) {
      const account = accountOf(process, lane)
      await ledgers[process]!.grant(grantOf(account, credit, { account }))
    }
    const kinds = await Promise.all(places.map(([process, lane]) => spend(ledgers, process, lane)))
    expect(new Set(kinds.flat())).toEqual(new Set(['held', 'refused']))

    const [first] = ledgers
    expect((await first!.audit()).checks.filter(({ ok }) => !ok)).toEqual([])
    for (const [process, lane] of places) {
      const account = accountOf(process, lane)
      const [ofBudget] = await first!.budgetSpend([budgetOf(account)])
      const ofKey = await first!.keySpend(`key of ${account}`, 0)
      for (const [spend, most] of [
        [ofBudget!, limit],
        [ofKey, keyLimit.limit],
      ] as const)
        expect({ ...spend, within: spend.spent <= most }).toMatchObject({ held: 0n, within: true })
    }
    for (const ledger of ledgers) await ledger.close()
  })
})
