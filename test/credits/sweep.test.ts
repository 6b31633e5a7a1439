// The sweep does in one round what nobody asks for: dead calls, expired credit, old idempotency keys.

import { expect, test } from 'bun:test'
import { usd } from '../../src/credits/money.ts'
import { startSweep } from '../../src/credits/ledger/sweep.ts'
import { GatewayError } from '../../src/errors/errors.ts'
import { openStore } from '../../src/store/open.ts'
import { tempDir } from '../support/tmp.ts'
import { grantOf, holdOf, minute, noon } from './support.ts'

/** Longer than any test: rounds are run by hand. */
const never = 2 ** 30

test('one round ends abandoned calls, books expired credit and forgets old keys; the next finds nothing', async () => {
  using dir = tempDir('weir-sweep-')
  let now = noon
  const store = await openStore(dir.path, { clock: () => now })
  const { ledger, idempotency } = store
  await ledger.grant(grantOf('stays', usd(1)))
  await ledger.grant(grantOf('lapses', usd(1), { pool: 'subscription', expiresAt: noon + minute }))
  await ledger.hold(holdOf('abandoned', { leaseUntil: noon + minute }))
  const bodyHash = new Uint8Array(32)
  await idempotency.claim({ account: 'anna', key: 'k', bodyHash, call: 'x', expiresAt: noon + minute })
  const sweep = startSweep({
    ledger,
    forgetful: [idempotency],
    leads: () => true,
    anchor: () => store.anchor(),
    clock: () => now,
    everyMs: never,
    onFailure: () => undefined,
  })
  expect(await sweep.run()).toEqual({ recovered: 0, expired: 0, forgotten: 0 })
  now = noon + minute
  const [first, same] = await Promise.all([sweep.run(), sweep.run()])
  expect(first).toEqual({ recovered: 1, expired: 1, forgotten: 1 })
  expect(same).toBe(first)
  expect(await sweep.run()).toEqual({ recovered: 0, expired: 0, forgotten: 0 })
  sweep.stop()
  expect((await ledger.balance('anna')).lots).toMatchObject([{ remaining: usd(1), pinned: 0n }])
  expect((await ledger.audit()).checks.filter(({ ok }) => !ok)).toEqual([])
  await store.close()
})

test('a round in which something fails does all the rest and rejects, and the next one runs', async () => {
  let broken = true
  const done: string[] = []
  const sweep = startSweep({
    ledger: {
      recover: () => (broken ? Promise.reject(new GatewayError('store_unavailable')) : Promise.resolve(2)),
      expire: () => Promise.resolve(0),
    },
    forgetful: [
      { sweep: () => (broken ? Promise.reject(new Error('of one store')) : Promise.resolve(3)) },
      { sweep: () => Promise.resolve(done.push('another store')) },
    ],
    leads: () => true,
    anchor: () => void done.push('anchor'),
    clock: () => noon,
    everyMs: never,
    onFailure: () => undefined,
  })
  await expect(sweep.run()).rejects.toMatchObject({ code: 'store_unavailable' })
  expect(done).toEqual(['anchor', 'another store'])
  broken = false
  done.length = 0
  expect(await sweep.run()).toEqual({ recovered: 2, expired: 0, forgotten: 5 })
  sweep.stop()
})

test('who does not lead leaves to the leader what is done for all, and still ends calls', async () => {
  const done: string[] = []
  const does = (what: string) => () => Promise.resolve(done.push(what))
  let leads = false
  const sweep = startSweep({
    ledger: { recover: does('recover'), expire: does('expire') },
    forgetful: [{ sweep: does('forget') }],
    leads: () => leads,
    anchor: () => undefined,
    clock: () => noon,
    everyMs: never,
    onFailure: () => undefined,
  })
  await sweep.run()
  expect(done.splice(0)).toEqual(['recover'])
  leads = true
  await sweep.run()
  expect(done).toEqual(['recover', 'expire', 'forget'])
  sweep.stop()
})

test('money does not wait for a backlog of records, nor does a second round of them begin', async () => {
  const backlog = Promise.withResolvers<number>()
  const thrice = Promise.withResolvers<void>()
  let [recovered, swept] = [0, 0]
  const sweep = startSweep({
    ledger: {
      recover: () => {
        if (++recovered === 3) thrice.resolve()
        return Promise.resolve(0)
      },
      expire: () => Promise.resolve(0),
    },
    forgetful: [
      {
        sweep: () => {
          swept++
          return backlog.promise
        },
      },
    ],
    leads: () => true,
    anchor: () => undefined,
    clock: () => noon,
    everyMs: 1,
    onFailure: () => undefined,
  })
  await thrice.promise
  expect(swept).toBe(1)
  sweep.stop()
  backlog.resolve(5)
})

test('a round that is stopped ends with the step it is in, and reports nothing', async () => {
  const recovering = Promise.withResolvers<number>()
  const asked = Promise.withResolvers<void>()
  const done: string[] = []
  const sweep = startSweep({
    ledger: {
      recover: () => {
        asked.resolve()
        return recovering.promise
      },
      expire: () => Promise.resolve(done.push('expire')),
    },
    forgetful: [{ sweep: () => Promise.resolve(done.push('another store')) }],
    leads: () => true,
    anchor: () => void done.push('anchor'),
    clock: () => noon,
    everyMs: 1,
    onFailure: () => void done.push('failure'),
  })
  await asked.promise
  sweep.stop()
  recovering.reject(new GatewayError('store_unavailable'))
  await expect(sweep.run()).rejects.toMatchObject({ code: 'store_unavailable' })
  expect(done).toEqual([])
})
