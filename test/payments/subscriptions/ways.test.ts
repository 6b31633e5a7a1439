// G6 for subscriptions: messages in any order, and a gateway that is killed at any step, leave each period what was
// paid for, and nothing of what went back.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { usd } from '../../../src/credits/money.ts'
import { Subscriptions, type SubscriptionState } from '../../../src/payments/subscriptions.ts'
import { openStore, type Store } from '../../../src/store/open.ts'
import { day, noon } from '../../credits/support.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'
import { subscriptionWays } from './ways.ts'

let home: TempDir
let store: Store

beforeAll(async () => {
  home = tempDir('weir-subscriptions-')
  store = await openStore(home.path, { clock: () => noon, serveAs: 'test' })
})
afterAll(async () => {
  await store.close()
  home.remove()
})

/** Told of one period of an account: `killed` dies when it has granted, before it can note that. */
async function told(account: string, states: readonly SubscriptionState[]): Promise<bigint[]> {
  const period = { from: new Date(noon - day).toISOString(), to: new Date(noon + 20 * day).toISOString() }
  const parts = {
    store: store.subscriptions,
    accountOf: (id: string) => id,
    products: new Map([['premium_month', { credit: usd(5), months: 1 }]]),
    graceMs: 16 * day,
    now: () => noon,
  }
  const killed: Pick<Store['ledger'], 'now' | 'grant' | 'adjust' | 'balance'> = {
    now: () => store.ledger.now(),
    balance: (id) => store.ledger.balance(id),
    adjust: (command) => store.ledger.adjust(command),
    grant: async (command) => {
      await store.ledger.grant(command)
      throw new Error('killed')
    },
  }
  for (const [number, state] of states.entries()) {
    const of = { subscription: account, source: 'play', account, product: 'premium_month' }
    const message = { ...of, period, state, test: false }
    const ledger = number === 0 ? killed : store.ledger
    const taken = new Subscriptions({ ...parts, ledger }).take(message)
    if (number === 0) await expect(taken).rejects.toThrow('killed')
    else await taken
  }
  const { lots } = await store.ledger.balance(account)
  return lots.map(({ remaining }) => remaining)
}

test.each([
  ['its refund leaves nothing', ['active', 'refunded'], []],
  ['its refund leaves nothing, however late it is told of again', ['active', 'refunded', 'active'], []],
  ['first told of in grace, its refund leaves nothing', ['grace', 'refunded', 'grace'], []],
  ['its grace period grants nothing more', ['active', 'grace', 'active'], [usd(5)]],
  ['its refund that is reversed returns it once', ['grace', 'refunded', 'refund_reversed'], [usd(5)]],
] as const)(
  'a period granted by a gateway that was killed before it noted that: %s',
  async (name, states, left) => {
    expect(await told(name.replaceAll(/[^a-z]+/g, '-'), states)).toEqual([...left])
  },
)

test('G6: in 300 orders of messages, with kills at any step, each period has what was paid for it', async () => {
  const report = await subscriptionWays({ from: 0, ways: 300 })
  expect(report.broken).toEqual([])
  expect(report.ways).toBe(300)
  expect(report.kills).toBeGreaterThan(100)
  expect(report.refunded).toBeGreaterThan(50)
  expect(report.paid).toBeGreaterThan(100)
}, 60_000)
