// The ledger's time never runs backwards, whatever the clock does.

import { afterEach, beforeEach, expect, test } from 'bun:test'
import { Allowances, dayMs } from '../../../src/credits/calendar.ts'
import { usd } from '../../../src/credits/money.ts'
import { openStore, type Store, StoreOpenError, type StoreOptions } from '../../../src/store/open.ts'
import { grantOf, holdOf, minute, noon, settleOf } from '../../credits/support.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'

const hour = 60 * minute
const opened: Store[] = []
let dir: TempDir
let now = noon
let notices: unknown[] = []

async function open(options: Partial<StoreOptions> = {}): Promise<Store> {
  const notice = (message: string, facts: unknown) => void notices.push([message, facts])
  const store = await openStore(dir.path, { clock: () => now, notice, ...options })
  opened.push(store)
  return store
}

beforeEach(() => {
  dir = tempDir('weir-time-')
  now = noon
  notices = []
})
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close()
  dir.remove()
})

const subscription = { key: null, funding: ['subscription'] as const, least: usd(1), want: usd(1) }

/** A subscription that has ended, and a call that ended after it. */
async function lapsed(store: Store): Promise<void> {
  const { ledger } = store
  await ledger.grant(grantOf('s', usd(5), { pool: 'subscription', expiresAt: noon + 10 * minute }))
  await ledger.grant(grantOf('g', usd(10)))
  await ledger.hold(holdOf('before', { leaseUntil: noon + hour }))
  now = noon + 20 * minute
  await ledger.settle(settleOf('before', 0n))
}

test('what has expired stays so when the clock goes back, here, in other processes and after a restart', async () => {
  const here = await open()
  await lapsed(here)
  now = noon + 5 * minute
  for (const [n, store] of [here, await open(), await open({ serveAs: 'next' })].entries()) {
    expect(store.ledger.now()).toBe(noon + 20 * minute)
    expect(await store.ledger.hold(holdOf(`h${n}`, subscription))).toMatchObject({ kind: 'refused' })
    expect((await store.ledger.balance('anna')).lots.map(({ pool }) => pool)).toEqual(['purchased'])
  }
  // What is booked meanwhile has the time at which the ledger stands.
  await here.ledger.hold(holdOf('c'))
  await here.ledger.settle(settleOf('c', usd(1)))
  expect(await here.ledger.call('anna', 'c')).toMatchObject({
    openedAt: noon + 20 * minute,
    endedAt: noon + 20 * minute,
  })
  now = noon + 21 * minute
  expect(here.ledger.now()).toBe(now)
})

test('a step is told once, and what a disciplined clock goes back by is not', async () => {
  const { ledger } = await open()
  await ledger.grant(grantOf('g', usd(10)))
  now -= 900
  await ledger.hold(holdOf('a'))
  expect(notices).toEqual([])
  now -= minute
  await ledger.hold(holdOf('b'))
  await ledger.hold(holdOf('c'))
  expect(notices).toEqual([[expect.stringContaining('the clock went back'), { behind_ms: minute + 900 }]])
})

test('while it is further back than it may be nothing is admitted, and ends of calls are', async () => {
  const store = await open()
  const { ledger } = store
  const { lot } = await ledger.grant(grantOf('g', usd(10)))
  await ledger.hold(holdOf('c', { leaseUntil: noon + hour }))
  now = noon - hour
  expect((await ledger.hold(holdOf('d'))).kind).toBe('held')
  now = noon - hour - 1
  const refused = { code: 'store_unavailable', message: expect.stringContaining('3600 s behind') }
  await expect(ledger.hold(holdOf('e'))).rejects.toMatchObject(refused)
  await expect(ledger.grant(grantOf('h', usd(1)))).rejects.toMatchObject(refused)
  await expect(ledger.refund({ id: 'r', account: 'anna', lot, amount: 1n })).rejects.toMatchObject(refused)
  expect(await ledger.writable()).toBe(false)
  expect(await ledger.settle(settleOf('c', usd(1)))).toMatchObject({ charged: usd(1) })
  expect(
    await ledger.release({ call: 'd', owner: 'here', reason: 'unreachable', attempts: [] }),
  ).toMatchObject({
    kind: 'settled',
  })
  now = noon
  expect((await ledger.hold(holdOf('e'))).kind).toBe('held')
  expect(await ledger.writable()).toBe(true)
})

test('no server starts with a clock that is further back, unless it is told to let the ledger stand still', async () => {
  await lapsed(await open())
  for (const store of opened.splice(0)) await store.close()
  now = noon - dayMs
  await expect(open({ serveAs: 'server' })).rejects.toThrow(StoreOpenError)
  await expect(open({ serveAs: 'server' })).rejects.toThrow('87600 s behind the last entry of the ledger')
  const { ledger } = await open({ serveAs: 'server', clockBackMs: 2 * dayMs })
  expect((await ledger.hold(holdOf('c'))).kind).toBe('held')
})

test('the allowance is that of the day at which the ledger stands', async () => {
  const { ledger, identities } = await open()
  await ledger.grant(grantOf('g', usd(10)))
  now = noon + 12 * hour + minute
  const grant = async () => {
    const parts = { register: identities, ledger, dailyCap: usd(1), now: () => ledger.now() }
    await new Allowances({ ...parts, capped: () => undefined }).ensure('anna', 'of anna')
    return (await ledger.balance('anna')).lots.filter(({ pool }) => pool === 'daily')
  }
  expect(await grant()).toHaveLength(1)
  now = noon + 11 * hour + 59 * minute
  expect(await grant()).toMatchObject([{ remaining: usd('0.2'), expiresAt: noon + 36 * hour }])
})

test('a clock set forward past the leases ends no call in flight, and going back refuses no end of one', async () => {
  const running = new Set(['own', 'late', 'of-a-dead-one'])
  const { ledger } = await open({
    serveAs: 'here',
    isRunning: (call) => running.has(call),
  })
  await ledger.grant(grantOf('g', usd(10)))
  await ledger.hold(holdOf('own'))
  await ledger.hold(holdOf('late', { owner: 'here' }))
  await ledger.hold(holdOf('of-a-dead-one', { owner: 'killed' }))
  await ledger.hold(holdOf('forgotten'))
  now += 2 * hour
  // One whose owner is dead, and one that its owner has lost: leases are for these.
  expect(await ledger.recover(now)).toBe(2)
  expect(await ledger.settle(settleOf('own', usd(0.5)))).toMatchObject({ charged: usd(0.5) })
  now -= 2 * hour
  expect(await ledger.recover(now)).toBe(0)
  const late = settleOf('late', usd(0.25), { owner: 'here' })
  expect(await ledger.settle(late)).toMatchObject({ charged: usd(0.25) })
  expect(await ledger.settle(late)).toEqual({ kind: 'already-ended' })
  await expect(ledger.hold(holdOf('next'))).rejects.toMatchObject({ code: 'store_unavailable' })
  now += 2 * hour
  expect((await ledger.hold(holdOf('next'))).kind).toBe('held')
  const [lot] = (await ledger.balance('anna')).lots
  expect(lot).toMatchObject({ remaining: usd(9.25), pinned: usd(1) })
  expect((await ledger.audit()).ok).toBe(true)
})
