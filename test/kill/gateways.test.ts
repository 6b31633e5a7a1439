// Gateways on one database are killed, stopped for too long and cut off while they work: nothing that was acknowledged is
// lost, nothing is charged twice, and no hold stays.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { SQL } from 'bun'
import { usd } from '../../src/credits/money.ts'
import { openOnPostgres } from '../../src/store/postgres/open.ts'
import { grantOf } from '../credits/support.ts'
import { describeOnPostgres, freshDatabase } from '../support/postgres.ts'
import { Gateway, tallyOf } from './gateway.ts'

const gateways = 3
const accounts = 4
const lanes = 8
const rounds = 9
/** Of so many requests of a gateway one is lost with its connection: the request, or its answer. */
const cutEvery = 150
/** Calls that all gateways together have acknowledged between two blows. */
const callsBetween = 60

const none = { lostHolds: 0, lostSettles: 0, doubled: 0, overspent: 0, wrong: 0, open: 0 }

type Ledger = Awaited<ReturnType<typeof openOnPostgres>>['ledger']

describeOnPostgres('gateways on one database', () => {
  let url: string
  let admin: SQL
  beforeAll(async () => {
    url = await freshDatabase('gateways')
    admin = new SQL({ url, max: 1 })
  })
  const all: Gateway[] = []
  afterAll(async () => {
    for (const gateway of all) gateway.kill('SIGKILL')
    await admin.close()
  })

  const openCallsOf = async (owner: string) => {
    const [row] = await admin.unsafe('SELECT count(*)::int AS count FROM open_call WHERE owner = $1', [owner])
    return (row as { count: number }).count
  }

  /** What ten seconds without a sign of life do, and what the leader does then. */
  async function bury(ledger: Ledger, owner: string): Promise<number> {
    await admin.unsafe('UPDATE chain SET heartbeat_until = 0 WHERE owner = $1', [owner])
    let ended = 0
    // Who was stopped in the middle of a transaction keeps what it has locked for two seconds: then the database gives it up.
    do ended += await ledger.recover(Date.now()).catch(() => 0)
    while ((await openCallsOf(owner)) > 0)
    return ended
  }

  test('survive what befalls each of them', async () => {
    const { ledger, close } = await openOnPostgres(url, {
      clock: Date.now,
      owner: 'leader',
      peers: { graceMs: 0 },
    })
    for (let n = 0; n < accounts; n++)
      // The last one is poor: what it has is spent soon, and not a picodollar more.
      await ledger.grant(grantOf(`g${n}`, n === accounts - 1 ? 50_000n : usd(1), { account: `account ${n}` }))

    const start = async () => {
      const gateway = new Gateway(url, `gateway${all.length}`, { accounts, lanes })
      all.push(gateway)
      await gateway.ready
      gateway.proxy.cutEvery = cutEvery
      return gateway
    }
    const living = await Promise.all(Array.from({ length: gateways }, start))
    const acknowledged = () => all.reduce((sum, { settled }) => sum + settled.length, 0)
    const work = async () => {
      const enough = acknowledged() + callsBetween
      while (acknowledged() < enough) await new Promise((resolve) => setImmediate(resolve))
    }

    let recovered = 0
    for (let round = 0; round < rounds; round++) {
      await work()
      const at = round % gateways
      const gateway = living[at]!
      if (round % 3 === 0) {
        gateway.kill('SIGKILL')
        await gateway.ended()
        recovered += await bury(ledger, gateway.owner)
      } else if (round % 3 === 1) {
        gateway.kill('SIGSTOP')
        recovered += await bury(ledger, gateway.owner)
        const before = gateway.settled.length
        gateway.kill('SIGCONT')
        expect([await gateway.ended(), gateway.lost]).toEqual([1, 'Fenced'])
        // What it had on its way when it was stopped may still be read; it is checked below as all else.
        expect(gateway.settled.length - before).toBeLessThanOrEqual(lanes)
      } else {
        gateway.proxy.carriage = round % 2 ? 'lose-answers' : 'lose-requests'
        const before = gateway.proxy.withheld
        while (gateway.proxy.withheld === before) await new Promise((resolve) => setImmediate(resolve))
        gateway.proxy.cut()
        gateway.proxy.carriage = 'pass'
        continue
      }
      living[at] = await start()
    }
    await work()
    for (const gateway of living) {
      gateway.kill('SIGKILL')
      await gateway.ended()
      recovered += await bury(ledger, gateway.owner)
    }
    expect(recovered).toBeGreaterThan(0)

    const {
      held,
      settled,
      recovered: ended,
      lostHolds,
      lostSettles,
      doubled,
      overspent,
      wrong,
      open,
    } = await tallyOf(all, admin)
    expect({ lostHolds, lostSettles, doubled, overspent, wrong, open }).toEqual(none)
    expect(held).toBeGreaterThanOrEqual(settled)
    expect(settled).toBeGreaterThanOrEqual(rounds * callsBetween)
    expect(ended).toBeGreaterThanOrEqual(recovered)
    const cuts = all.map(({ proxy }) => Math.min(proxy.cuts.requests, proxy.cuts.answers))
    expect(Math.max(...cuts)).toBeGreaterThan(0)
    expect((await ledger.audit()).checks.filter(({ ok }) => !ok)).toEqual([])
    await close()
  }, 60_000)
})
