// The daily allowance comes with the first visit of a UTC day, once, and is gone at midnight.

import { afterEach, describe, expect, test } from 'bun:test'
import { personOf } from '../../src/accounts/identity/mail.ts'
import { Allowances, startOfDay } from '../../src/credits/calendar.ts'
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
  return { store, allowances: allowancesOf(store) }
}

function allowancesOf(store: Store, cap = usd(100), capped = () => undefined as void): Allowances {
  const { identities, ledger } = store
  return new Allowances({ register: identities, ledger, dailyCap: cap, now: () => now, capped })
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

const daily = async (store: Store, account = 'anna') =>
  (await store.ledger.balance(account)).lots.filter(({ pool }) => pool === 'daily')

describe('the daily allowance', () => {
  test('is 0.20 USD until the next UTC midnight', async () => {
    const { store, allowances } = await open()
    await allowances.ensure('anna', 'of anna')
    expect(await daily(store)).toMatchObject([{ remaining: usd('0.2'), expiresAt: Date.UTC(2026, 10, 22) }])
    now = Date.UTC(2026, 10, 22) - 1
    expect(await daily(store)).toHaveLength(1)
    now = Date.UTC(2026, 10, 22)
    expect(await daily(store)).toEqual([])
  })

  test('64 first visits at once are granted one, also by a second process', async () => {
    const { store, allowances } = await open()
    const others = allowancesOf(store)
    await Promise.all(
      Array.from({ length: 64 }, (_, at) => (at % 2 ? allowances : others).ensure('anna', 'of anna')),
    )
    expect(await daily(store)).toMatchObject([{ remaining: usd('0.2') }])
    expect((await store.ledger.audit()).journalEntries).toBe(2)
  })

  test('a visit at midnight is no bad request: it gets the allowance of the day that begins', async () => {
    const midnight = Date.UTC(2026, 10, 22)
    now = midnight - 1
    const { store, allowances } = await open()
    const visit = allowances.ensure('anna', 'of anna')
    // The grant is decided in a later turn of the event loop.
    now = midnight
    await visit
    expect(await daily(store)).toMatchObject([{ remaining: usd('0.2'), expiresAt: midnight + day }])
  })

  test('those of more accounts than may wait end at midnight, and a call that begins then is admitted', async () => {
    const { store, allowances } = await open({ group: { queue: 70 } })
    await store.ledger.grant(grantOf('g', usd(10)))
    for (let account = 0; account < 80; account++)
      await allowances.ensure(`account${account}`, `of ${account}`)
    now = noon + day
    const ended = store.ledger.expire(now)
    expect((await store.ledger.hold(holdOf('c'))).kind).toBe('held')
    expect(await ended).toBe(80)
  })

  test('a new day brings a new one, and a clock that goes back none', async () => {
    // Further back than it goes here, nothing would be admitted at all.
    const { store, allowances } = await open({ clockBackMs: 7 * day })
    await allowances.ensure('anna', 'of anna')
    now = noon + day
    await allowances.ensure('anna', 'of anna')
    expect(await daily(store)).toMatchObject([{ remaining: usd('0.2'), grantedAt: noon + day }])
    now = noon
    await allowances.ensure('anna', 'of anna')
    await allowancesOf(store).ensure('anna', 'of anna')
    now = noon - 3 * day
    await allowances.ensure('anna', 'of anna')
    expect((await store.ledger.audit()).journalEntries).toBe(4)
  })

  test('what a call pinned before midnight may still be charged after it, and no more', async () => {
    const { store, allowances } = await open()
    await allowances.ensure('anna', 'of anna')
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

  test('is that of a person, whatever accounts it has, and whatever process asks', async () => {
    const { store, allowances } = await open()
    const address = personOf('anna@gmail.com')
    const names = ['anna+1@gmail.com', 'a.n.n.a@gmail.com', 'ANNA@googlemail.com']
    await allowances.ensure('anna', address)
    for (const asked of [allowances, allowancesOf(store)])
      for (const name of names) await asked.ensure(name, personOf(name))
    const given = async () =>
      Promise.all(['anna', ...names].map(async (name) => (await daily(store, name)).length))
    expect(await given()).toEqual([1, 0, 0, 0])
    // Whichever of them comes first has that of the next day.
    now = noon + day
    await Promise.all(names.map((name) => allowances.ensure(name, personOf(name))))
    await allowances.ensure('anna', address)
    expect((await given()).reduce((sum, count) => sum + count)).toBe(1)
  })

  test('is capped for each day over all accounts, says so once, and comes back on the next', async () => {
    const { store } = await open()
    let capped = 0
    const count = () => void capped++
    const allowances = allowancesOf(store, usd('0.5'), count)
    const names = Array.from({ length: 20 }, (_, at) => `person${at}`)
    const given = async () => (await Promise.all(names.map((name) => daily(store, name)))).flat().length
    await Promise.all(names.map((name) => allowances.ensure(name, `of ${name}`)))
    expect([await given(), capped]).toEqual([2, 1])
    // A restart forgets nothing of what the day has given, and those who have theirs keep it.
    const later = allowancesOf(store, usd('0.5'))
    for (const name of names) await later.ensure(name, `of ${name}`)
    expect(await given()).toBe(2)
    now = noon + day
    for (const name of names.toReversed()) await allowances.ensure(name, `of ${name}`)
    expect([await given(), capped]).toEqual([2, 2])
    expect(await daily(store, 'person19')).toHaveLength(1)
  })

  test('that a process had claimed and not granted is granted by the next, also at the cap', async () => {
    const { store } = await open()
    const claim = {
      address: 'of anna',
      account: 'anna',
      day: startOfDay(noon),
      amount: usd('0.2'),
      cap: usd('0.2'),
    }
    expect(await store.identities.claimAllowance(claim)).toBe('claimed')
    const later = allowancesOf(store, usd('0.2'))
    await later.ensure('berta', 'of berta')
    await later.ensure('anna', 'of anna')
    expect([await daily(store), await daily(store, 'berta')].map(({ length }) => length)).toEqual([1, 0])
  })
})
