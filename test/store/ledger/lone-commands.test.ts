// A command that comes alone is synced by its own commit, if nobody else would wait for that.

import { afterEach, describe, expect, test } from 'bun:test'
import { usd } from '../../../src/credits/money.ts'
import { holdOf, settleOf } from '../../credits/support.ts'
import { loneBench, releaseOf, removeBenches, seen, synced, turn } from './durability-bench.ts'

afterEach(removeBenches)

describe('where one command comes at a time and the disk is quick', () => {
  test('it is durable and anchored when it is answered, and no other thread is asked', async () => {
    const { disk, ledger, anchored } = await loneBench()
    expect(await ledger.hold(holdOf('a'))).toMatchObject({ kind: 'held' })
    const before = anchored.length
    expect(await ledger.settle(settleOf('a', usd(1)))).toMatchObject({ charged: usd(1) })
    expect({ syncs: disk.syncs, anchored: anchored.length }).toEqual({ syncs: 0, anchored: before + 1 })
    await ledger.close()
  })

  test('the provider of a hold is asked while another thread syncs it', async () => {
    const { disk, ledger } = await loneBench()
    const { durable } = await ledger.startHold(holdOf('a'), 'at-once')
    const held = seen(durable.then(() => 'durable'))
    await turn()
    expect({ syncs: disk.syncs, held: held.value }).toEqual({ syncs: 1, held: undefined })
    // Its settle waits for that sync, and has one of its own.
    const settled = seen(ledger.settle(settleOf('a', usd(1))))
    await turn()
    expect(settled.value).toBeUndefined()
    await disk.end()
    expect({ syncs: disk.syncs, held: held.value }).toEqual({ syncs: 1, held: 'durable' })
    expect(settled.value).toMatchObject({ charged: usd(1) })
  })

  test('a hold that has to be durable soon is synced with its settle', async () => {
    const { disk, ledger, anchored } = await loneBench()
    const { durable } = await ledger.startHold(holdOf('a'), 'soon')
    const held = seen(durable.then(() => 'durable'))
    const before = anchored.length
    expect(await ledger.settle(settleOf('a', usd(1)))).toMatchObject({ charged: usd(1) })
    await turn()
    expect({ syncs: disk.syncs, held: held.value, anchored: anchored.length }).toEqual({
      syncs: 0,
      held: 'durable',
      anchored: before + 1,
    })
    await ledger.close()
  })

  test('nobody is made to wait for the sync of another: several commands, and other open calls, leave it to the pool', async () => {
    const bench = await loneBench()
    const { disk, ledger } = bench
    await synced(bench, Promise.all([ledger.hold(holdOf('a')), ledger.hold(holdOf('b'))]))
    expect(disk.syncs).toBe(1)
    await synced(bench, ledger.hold(holdOf('c')))
    expect(disk.syncs).toBe(2)
  })

  test('a disk that has become slow is left to the pool until it is quick again', async () => {
    const bench = await loneBench(20)
    const { disk, ledger } = bench
    const { durable } = await ledger.startHold(holdOf('a'), 'at-once')
    await turn()
    const until = performance.now() + 200
    while (performance.now() < until);
    await disk.end()
    await durable
    const { syncs } = disk
    await synced(bench, ledger.settle(settleOf('a', usd(1))))
    expect(disk.syncs).toBe(syncs + 1)
    let asked = true
    for (let n = 0; asked && n < 100; n++) {
      const before = disk.syncs
      await synced(bench, ledger.hold(holdOf(`call-${n}`)))
      await synced(bench, ledger.release(releaseOf(`call-${n}`)))
      asked = disk.syncs > before
    }
    expect(asked).toBe(false)
  })
  test('a sync that fails ends the process: nothing is answered any more, and the end of a call is kept for the next', async () => {
    const { disk, ledger, lost } = await loneBench()
    const kept: unknown[] = []
    ledger.group.spillTo({
      append: (record) => kept.push(record),
      sync: () => undefined,
      clear: () => (kept.length = 0),
    })
    await ledger.hold(holdOf('a'))
    const failing = Object.assign(new Error('disk I/O error'), { code: 'SQLITE_IOERR_FSYNC' })
    disk.fails = failing
    const settled = seen(ledger.settle(settleOf('a', usd(1))).catch(() => 'refused'))
    await turn()
    expect({ lost, settled: settled.value, kept }).toEqual({
      lost: [failing],
      settled: undefined,
      kept: [{ kind: 'settle', command: settleOf('a', usd(1)) }],
    })
    await expect(ledger.startHold(holdOf('b'), 'at-once')).rejects.toMatchObject({
      code: 'store_unavailable',
    })
    expect(disk.syncs).toBe(0)
  })
})
