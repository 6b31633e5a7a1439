// The daily allowance comes with the first visit of a UTC day, once, and is gone at midnight.

import { afterEach, describe, expect, test } from 'bun:test'
import { Allowances } from '../../src/credits/allowance.ts'
import { usd } from '../../src/credits/money.ts'
import { fundingOf } from '../../src/credits/pool.ts'
import { openStore, type Store, type StoreOptions } from '../../src/store/open.ts'
import { tempDir, type TempDir } from '../support/tmp.ts'
import { day, grantOf, holdOf, noon, settleOf } from './support.ts'

const opened: Store[] = []
const dirs: TempDir[] = []
let now = noon

async function open(options: Partial<StoreOptions> = {}): Promise<{ store: Store; allowances: Allowances }> {
  const dir = tempDir('weir-allowance-')
  dirs.push(dir)
  const store = await openStore(dir.path, { clock: () => now, ...options })
  opened.push(store)
  return { store, allowances: new Allowances(store.ledger, () => now) }
}

afterEach(async () => {
  now = noon
  for (const store of opened.splice(0)) {
    const { checks } = await store.ledger.audit()
    await store.close()
    expect(checks.filter(({ ok }) => !ok)).toEqual([])
  }
  for (const dir of dirs.splice(0)) dir.remove()
})

const daily = async (store: Store) =>
  (await store.ledger.balance('anna')).lots.filter(({ pool }) => pool === 'daily')

describe('the daily allowance', () => {
  test('is 0.20 USD until the next UTC midnight', async () => {
    const { store, allowances } = await open()
    await allowances.ensure('anna')
    expect(await daily(store)).toMatchObject([{ remaining: usd('0.2'), expiresAt: Date.UTC(2026, 10, 22) }])
    now = Date.UTC(2026, 10, 22) - 1
    expect(await daily(store)).toHaveLength(1)
    now = Date.UTC(2026, 10, 22)
    expect(await daily(store)).toEqual([])
  })

  test('64 first visits at once are granted one, also by a second process', async () => {
    const { store, allowances } = await open()
    const others = new Allowances(store.ledger, () => now)
    await Promise.all(Array.from({ length: 64 }, (_, at) => (at % 2 ? allowances : others).ensure('anna')))
    expect(await daily(store)).toMatchObject([{ remaining: usd('0.2') }])
    expect((await store.ledger.audit()).journalEntries).toBe(2)
  })

  test('a visit at midnight is no bad request: it gets the allowance of the day that begins', async () => {
    const midnight = Date.UTC(2026, 10, 22)
    now = midnight - 1
    const { store, allowances } = await open()
    const visit = allowances.ensure('anna')
    // The grant is decided in a later turn of the event loop.
    now = midnight
    await visit
    expect(await daily(store)).toMatchObject([{ remaining: usd('0.2'), expiresAt: midnight + day }])
  })

  test('those of more accounts than may wait end at midnight, and a call that begins then is admitted', async () => {
    const { store, allowances } = await open({ group: { queue: 70 } })
    await store.ledger.grant(grantOf('g', usd(10)))
    for (let account = 0; account < 80; account++) await allowances.ensure(`account${account}`)
    now = noon + day
    const ended = store.ledger.expire(now)
    expect((await store.ledger.hold(holdOf('c'))).kind).toBe('held')
    expect(await ended).toBe(80)
  })

  test('a new day brings a new one, and a clock that goes back none', async () => {
    // Further back than it goes here, nothing would be admitted at all.
    const { store, allowances } = await open({ clockBackMs: 7 * day })
    await allowances.ensure('anna')
    now = noon + day
    await allowances.ensure('anna')
    expect(await daily(store)).toMatchObject([{ remaining: usd('0.2'), grantedAt: noon + day }])
    now = noon
    await allowances.ensure('anna')
    await new Allowances(store.ledger, () => now).ensure('anna')
    now = noon - 3 * day
    await allowances.ensure('anna')
    expect((await store.ledger.audit()).journalEntries).toBe(4)
  })

  test('what a call pinned before midnight may still be charged after it, and no more', async () => {
    const { store, allowances } = await open()
    await allowances.ensure('anna')
    now = Date.UTC(2026, 10, 22) - 1
    const funding = fundingOf('app', true)
    await store.ledger.hold(holdOf('c', { key: null, funding, want: usd('0.1'), least: usd('0.1') }))
    now += 2
    expect(await store.ledger.settle(settleOf('c', usd('0.15')))).toEqual({
      kind: 'settled',
      charged: usd('0.1'),
      absorbed: usd('0.05'),
      overLimit: false,
    })
    expect(await store.ledger.expire(now)).toBe(1)
    expect(await daily(store)).toEqual([])
  })
})
