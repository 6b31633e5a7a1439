// The credit of a month comes with the first use of its account in it, once: whatever processes ask, die, or are told by a
// clock that goes back.

import { afterEach, expect, test } from 'bun:test'
import { grantMonthly, MonthlyCredit } from '../../src/credits/calendar.ts'
import { usd } from '../../src/credits/money.ts'
import { openStore, type Store } from '../../src/store/open.ts'
import { tempDir, type TempDir } from '../support/tmp.ts'
import { day, noon } from './support.ts'

const december = Date.UTC(2026, 11)
const opened: Store[] = []
let dir: TempDir | undefined
let now = noon

async function open(): Promise<{ store: Store; monthly: MonthlyCredit }> {
  dir ??= tempDir('weir-monthly-')
  const store = await openStore(dir.path, { clock: () => now, clockBackMs: 400 * day })
  opened.push(store)
  const { ledger } = store
  return {
    store,
    monthly: new MonthlyCredit(
      (of) => grantMonthly(ledger, of),
      () => ledger.now(),
    ),
  }
}

async function closeAll(): Promise<void> {
  for (const store of opened.splice(0)) {
    expect((await store.ledger.audit()).checks.filter(({ ok }) => !ok)).toEqual([])
    await store.close()
  }
}

afterEach(async () => {
  now = noon
  await closeAll()
  dir?.remove()
  dir = undefined
})

const lots = async ({ ledger }: Store, account = 'anna') => (await ledger.balance(account)).lots
const anna = { id: 'anna', email: 'anna@example.org', monthlyCredit: usd(10) }

test('it is purchased credit until the first midnight of the next month, also for whoever joins on its last day', async () => {
  now = december - 1_000
  const { store, monthly } = await open()
  await monthly.ensure(anna)
  expect(await lots(store)).toMatchObject([
    { pool: 'purchased', remaining: usd(10), expiresAt: december, grantedAt: now },
  ])
  now = december
  expect(await lots(store)).toEqual([])
  await monthly.ensure(anna)
  expect(await lots(store)).toMatchObject([{ remaining: usd(10), expiresAt: Date.UTC(2027, 0) }])
})

test('whoever deletes an account and comes back with the same address has it once', async () => {
  const { store, monthly } = await open()
  await monthly.ensure(anna)
  await monthly.ensure({ ...anna, id: 'anna-again' })
  expect(await lots(store, 'anna-again')).toEqual([])
  await monthly.ensure({ ...anna, id: 'berta', email: 'berta@example.org' })
  expect(await lots(store, 'berta')).toMatchObject([{ remaining: usd(10) }])
  now = december
  await monthly.ensure({ ...anna, id: 'anna-again' })
  expect(await lots(store, 'anna-again')).toMatchObject([{ remaining: usd(10) }])
})

test('64 uses at once are granted one, by two processes', async () => {
  const [here, there] = [await open(), await open()]
  await Promise.all(Array.from({ length: 64 }, (_, at) => (at % 2 ? here : there).monthly.ensure(anna)))
  expect(await lots(here.store)).toMatchObject([{ remaining: usd(10) }])
})

test('a grant that waits over midnight is that of the month that begins', async () => {
  now = december - 1
  const { store, monthly } = await open()
  const asked = monthly.ensure(anna)
  // The grant is decided in a later turn of the event loop.
  now = december
  await asked
  expect(await lots(store)).toMatchObject([{ remaining: usd(10), expiresAt: Date.UTC(2027, 0) }])
})

test('another amount holds from the next month on; who has none gets none', async () => {
  const { store, monthly } = await open()
  await monthly.ensure({ id: 'berta', email: 'berta@example.org', monthlyCredit: 0n })
  await monthly.ensure(anna)
  await grantMonthly(store.ledger, { ...anna, monthlyCredit: usd(25) })
  expect(await lots(store)).toMatchObject([{ remaining: usd(10) }])
  expect(await lots(store, 'berta')).toEqual([])
  now = december
  await monthly.ensure({ ...anna, monthlyCredit: usd(25) })
  expect(await lots(store)).toMatchObject([{ remaining: usd(25) }])
})

test('whatever the clock says and however often it is started again, each month grants once', async () => {
  // A walk forth and back through a year and a half: the time of the ledger is the latest that it has seen.
  const months = new Set<string>()
  let latest = 0
  let seed = 7
  const random = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below
  let { store, monthly } = await open()
  for (let step = 0; step < 120; step++) {
    now = noon + step * 4 * day - random(40) * day
    if (random(10) === 0) {
      await closeAll()
      ;({ store, monthly } = await open())
    }
    await monthly.ensure({ ...anna, monthlyCredit: usd(1 + random(3)) })
    latest = Math.max(latest, now)
    months.add(new Date(latest).toISOString().slice(0, 7))
  }
  const history = await store.reports.history('anna')
  const grants = history.filter(({ kind }) => kind === 'grant')
  expect(grants.map(({ source }) => source?.slice(0, 15)).toSorted()).toEqual(
    [...months].map((month) => `monthly:${month}`).toSorted(),
  )
})
