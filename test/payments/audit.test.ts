// What a forger with the file in hand may do to payments, and that the audit says so.

import { Database } from 'bun:sqlite'
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { openStore, type Store } from '../../src/store/open.ts'
import { noon } from '../credits/support.ts'
import { tempDir, type TempDir } from '../support/tmp.ts'
import { openTopUp as open, plansOver, rounding } from './top-up.ts'

const check = 'one payment is one credit'

let home: TempDir
let store: Store

beforeEach(async () => {
  home = tempDir('weir-payment-audit-')
  store = await openStore(home.path, { clock: () => noon, serveAs: 'test' })
  await store.payments.addTopUp(open, null, { most: 1, since: 0 })
  const { lot } = await store.ledger.grant({
    source: 'payment:razorpay:pay_1',
    account: 'anna',
    pool: 'purchased',
    amount: open.credit,
    rounding,
    expiresAt: null,
    from: 'cash:razorpay',
  })
  const paid = { paymentId: 'pay_1', paidAt: noon, creditedAt: noon, lot, state: 'credited' as const }
  await store.payments.changeTopUp('topup_1', (topUp) => ({ ...topUp, ...paid }))
})
afterEach(async () => {
  await store.close()
  home.remove()
})

const broken = async () => {
  const { checks } = await store.ledger.audit()
  const { checks: ofDay } = await store.ledger.auditDay(noon - (noon % 86_400_000))
  return [checks, ofDay].map((all) => all.filter(({ ok }) => !ok).map(({ name }) => name))
}

test('a payment that was credited is sound, with what rounding took', async () => {
  expect(await broken()).toEqual([[], []])
})

test.each([
  ['a credit that is not what was ordered', 'UPDATE top_up SET credit = credit + 1'],
  ['a credit of another account', "UPDATE top_up SET account = 'berta'"],
  ['a lot of another payment', "UPDATE top_up SET payment_id = 'pay_2'"],
  ['a credit without a top-up', 'DELETE FROM top_up'],
])('%s is found, by the whole audit and by that of the day', async (_, forgery) => {
  using database = new Database(store.path)
  database.run(forgery)
  expect(await broken()).toEqual([[check], [check]])
})

test('a top-up whose lot is not there is found by the whole audit', async () => {
  using database = new Database(store.path)
  database.run("UPDATE top_up SET lot = 'lot_none'")
  expect((await broken())[0]).toEqual([check])
})

test.each([
  ['a plan without its period', 'DELETE FROM subscription', true],
  [
    'a second period of a payment',
    "INSERT INTO subscription SELECT period || 'x', source, subscription, account, product, starts_at, ends_at, state, amount, NULL, taken_back, created_at, updated_at, models, cancelled_at, reminded_at FROM subscription",
    false,
  ],
  ['a period that was not paid', 'DELETE FROM top_up WHERE plan IS NOT NULL', false],
  ['a period of another credit', 'UPDATE subscription SET amount = amount + 1', true],
  ['a period of another account', "UPDATE subscription SET account = 'berta'", true],
  ['a lot of another period', "UPDATE subscription SET lot = 'lot_none'", false],
] as const)('%s is found', async (_, forgery, ofDay) => {
  const plan = { id: 'basic', title: 'Basic', months: 1, models: null, period: null }
  const topUp = { ...open, id: 'topup_a1', reference: null, plan }
  await store.payments.addTopUp(topUp, null, { most: 10, since: 0 })
  await plansOver(store, () => noon).begin(topUp)
  const paid = { paymentId: 'pay_2', paidAt: noon, creditedAt: noon, state: 'credited' as const }
  await store.payments.changeTopUp('topup_a1', (row) => ({ ...row, ...paid }))
  expect(await broken()).toEqual([[], []])
  using database = new Database(store.path)
  database.run(forgery)
  expect(await broken()).toEqual([[check], ofDay ? [check] : []])
})
