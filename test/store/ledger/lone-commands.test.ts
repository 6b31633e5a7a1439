// A command that comes alone is synced on the thread of the ledger, if nobody else would wait for that.

import { afterEach, describe, expect, test } from 'bun:test'
import { usd } from '../../../src/credits/money.ts'
import { holdOf, settleOf } from '../../credits/support.ts'
import { quickBench, releaseOf, removeBenches, seen, turn } from './durability-bench.ts'

afterEach(removeBenches)

describe('where one command comes at a time and the disk is quick', () => {
  test('the thread of the ledger waits for the sync, and answers after it', async () => {
    const { disk, ledger, anchored } = await quickBench()
    expect(await ledger.hold(holdOf('a'))).toMatchObject({ kind: 'held' })
    const before = anchored.length
    let answered = false
    disk.waitedFor = () =>
      expect({ answered, anchored: anchored.length }).toEqual({ answered: false, anchored: before })
    const settled = ledger.settle(settleOf('a', usd(1))).finally(() => (answered = true))
    expect(await settled).toMatchObject({ charged: usd(1) })
    expect({ now: disk.syncsNow, later: disk.syncs, anchored: anchored.length }).toEqual({
      now: 3,
      later: 0,
      anchored: before + 1,
    })
    await ledger.close()
  })

  test('what follows the decision of a hold begins before the thread waits for its sync', async () => {
    const { disk, ledger } = await quickBench()
    const order: string[] = []
    disk.waitedFor = () => order.push('sync')
    const { durable } = await ledger.startHold(holdOf('a'))
    for (let n = 0; n < 100; n++) await Promise.resolve()
    order.push('asked the provider')
    await durable.then(() => order.push('durable'))
    expect(order).toEqual(['asked the provider', 'sync', 'durable'])
    await ledger.close()
  })

  test('nobody is made to wait for the sync of another: several commands, and other open calls, leave it to the pool', async () => {
    const { disk, ledger } = await quickBench()
    const both = Promise.all([ledger.hold(holdOf('a')), ledger.hold(holdOf('b'))])
    await disk.end()
    await both
    const alone = ledger.hold(holdOf('c'))
    await disk.end()
    await alone
    expect({ now: disk.syncsNow, later: disk.syncs }).toEqual({ now: 1, later: 2 })
  })

  test('a disk that has become slow is left to the pool until it is quick again', async () => {
    const { disk, ledger } = await quickBench()
    disk.takesMs = 30
    await ledger.hold(holdOf('a'))
    const { syncs, syncsNow } = disk
    const settled = ledger.settle(settleOf('a', usd(1)))
    await disk.end()
    await settled
    expect({ now: disk.syncsNow, later: disk.syncs }).toEqual({ now: syncsNow, later: syncs + 1 })
    disk.takesMs = 0
    for (let n = 0; disk.syncsNow === syncsNow && n < 100; n++) {
      const held = seen(
        ledger
          .hold(holdOf(`call-${n}`))
          .then(() => ledger.release(releaseOf(`call-${n}`)))
          .then(() => true),
      )
      while (!held.value) {
        if (disk.waits) await disk.end()
        await turn()
      }
    }
    expect(disk.syncsNow).toBeGreaterThan(syncsNow)
  })

  test('a sync that fails ends the process', async () => {
    const { disk, ledger, lost } = await quickBench()
    disk.fails = new Error('EIO')
    const held = seen(ledger.hold(holdOf('a')))
    await turn()
    expect({ lost, held: held.value }).toEqual({ lost: [disk.fails], held: undefined })
    await expect(ledger.startHold(holdOf('b'))).rejects.toMatchObject({ code: 'store_unavailable' })
  })
})
