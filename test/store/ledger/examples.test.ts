// The examples of issue 10, as they were measured.

import { afterEach, describe, expect, test } from 'bun:test'
import { formatUsd, usd } from '../../../src/credits/money.ts'
import { openStore } from '../../../src/store/open.ts'
import type { Store } from '../../../src/store/store.ts'
import { grantOf, holdOf, minute, noon, settleOf } from '../../credits/support.ts'
import { tempDir } from '../../support/tmp.ts'

const dirs: ReturnType<typeof tempDir>[] = []
const stores: Store[] = []

async function freshStore(): Promise<Store> {
  const dir = tempDir('weir-examples-')
  dirs.push(dir)
  const store = await openStore(dir.path, { clock: () => noon })
  stores.push(store)
  return store
}

afterEach(async () => {
  for (const store of stores.splice(0)) await store.close()
  for (const dir of dirs.splice(0)) dir.remove()
})

describe('credit that is refunded while a call holds it (item 1)', () => {
  test('repays the debt when the call ends, and is not spent again', async () => {
    const { ledger } = await freshStore()
    await ledger.grant(grantOf('paid', usd(10)))
    const lot = (await ledger.balance('anna')).lots[0]!.id
    const large = { want: usd('9.6'), least: usd('9.6'), leaseUntil: noon + 10 * minute }
    expect(await ledger.hold(holdOf('running', large))).toMatchObject({ kind: 'held', amount: usd('9.6') })
    const refund = { id: 'r1', account: 'anna', lot, amount: usd(10) }
    expect(await ledger.refund(refund)).toMatchObject({ taken: usd('0.4'), debt: usd('9.6') })
    await ledger.settle(settleOf('running', usd('0.00004')))
    const { debt, lots } = await ledger.balance('anna')
    expect([formatUsd(debt), lots.reduce((sum, { remaining }) => sum + remaining, 0n)]).toEqual([
      '0.00004',
      0n,
    ])
    expect(await ledger.hold(holdOf('next', { want: 1n, least: 1n }))).toMatchObject({ kind: 'refused' })
  })
})

describe('an id of a grant (item 8)', () => {
  test('is one grant in the whole ledger: another account or amount is a conflict', async () => {
    const { ledger } = await freshStore()
    expect(await ledger.grant(grantOf('X', usd(1)))).toMatchObject({ granted: true })
    expect(await ledger.grant(grantOf('X', usd(1)))).toMatchObject({ granted: false })
    const conflict = { code: 'idempotency_conflict' }
    await expect(ledger.grant(grantOf('X', usd(1), { account: 'bert' }))).rejects.toMatchObject(conflict)
    await expect(ledger.grant(grantOf('X', usd(2)))).rejects.toMatchObject(conflict)
    const { lots } = await ledger.balance('bert')
    expect(lots).toEqual([])
  })
})
