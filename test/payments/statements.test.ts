// Statements, receipts and journal are compared after every way of the shuffle: what somebody changed in one of them is
// found by the others.

import { Database } from 'bun:sqlite'
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { openStore, type Store } from '../../src/store/open.ts'
import { minute, noon } from '../credits/support.ts'
import { tempDir, type TempDir } from '../support/tmp.ts'
import { receiptGaps, statementFaults } from './statements.ts'
import { openTopUp, rounding } from './top-up.ts'

const december = Date.UTC(2026, 11, 1)
const clock = { now: noon }
let home: TempDir
let store: Store

/** One payment at the end of November, one in the first moment of December, and a refund of the first. */
beforeEach(async () => {
  home = tempDir('weir-statements-')
  clock.now = noon
  store = await openStore(home.path, { clock: () => clock.now, serveAs: 'test' })
  const lot = await paid('1')
  clock.now = december
  await paid('2')
  await store.ledger.refund({ id: 'back', account: 'anna', lot, amount: 5n })
  clock.now += minute
})
afterEach(async () => {
  await store.close()
  home.remove()
})

async function paid(number: string): Promise<string> {
  const { credit } = openTopUp
  const opened = { ...openTopUp, id: `topup_${number}`, reference: `plink_${number}` }
  await store.payments.addTopUp(opened, null, { most: 1, since: 0 })
  const { lot } = await store.ledger.grant({
    source: `payment:razorpay:pay_${number}`,
    account: 'anna',
    pool: 'purchased',
    amount: credit,
    rounding,
    expiresAt: null,
    from: 'cash:razorpay',
  })
  const credited = { paymentId: `pay_${number}`, paidAt: clock.now, creditedAt: clock.now, lot }
  await store.payments.changeTopUp(opened.id, (topUp) => ({ ...topUp, ...credited, state: 'credited' }))
  return lot
}

const faults = async () => [
  ...(await statementFaults({ store, account: 'anna', now: clock.now })),
  ...receiptGaps(store),
]

test('what nobody has changed adds up', async () => {
  expect(await faults()).toEqual([])
})

test.each([
  ['a receipt of another credit', 'UPDATE top_up SET credit = credit + 1'],
  ['a receipt of other rupees', 'UPDATE top_up SET amount = amount + 1'],
  ['a receipt of another lot', "UPDATE top_up SET lot = 'lot_' || id"],
  ['a receipt of another payment', "UPDATE top_up SET payment_id = 'pay_3' WHERE id = 'topup_1'"],
  ['a receipt that is gone', "DELETE FROM top_up WHERE id = 'topup_2'"],
  ['a number that is left out', 'UPDATE top_up SET receipt_number = 3 WHERE receipt_number = 2'],
  ['a payment that is called a present', "UPDATE lot SET source = 'operator:' || id"],
  ['a wallet that holds more', 'UPDATE wallet SET posted = posted + 1'],
  ['a wallet that owes more', 'UPDATE wallet SET debt = debt + 1'],
])('%s is found', async (_, forgery) => {
  using database = new Database(store.path)
  database.run(forgery)
  expect(await faults()).not.toEqual([])
})
