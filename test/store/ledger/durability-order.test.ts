// When answers are given where commits are synced on another thread: never before the sync that covers them.

import { existsSync, readFileSync, readlinkSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'bun:test'
import { usd } from '../../../src/credits/money.ts'
import { one, openDatabase } from '../../../src/store/sqlite/database/sqlite.ts'
import { LogSync } from '../../../src/store/commits/durability.ts'
import { SpillFile } from '../../../src/store/commits/spill.ts'
import { holdOf, noon, settleOf } from '../../credits/support.ts'
import { tempDir } from '../../support/tmp.ts'
import { bench, removeBenches, seen, turn } from './durability-bench.ts'

afterEach(removeBenches)

describe('where the log is synced on another thread', () => {
  test('a hold is decided at once, durable after its sync, and its settle is answered after a sync of its own', async () => {
    const { disk, ledger } = await bench()
    const { result, durable } = await ledger.startHold(holdOf('a'), 'at-once')
    expect(result).toEqual({ kind: 'held', amount: usd(1) })
    const held = seen(durable.then(() => 'durable'))
    const settled = seen(ledger.settle(settleOf('a', usd(1))))
    await turn()
    expect({ held: held.value, settled: settled.value, syncs: disk.syncs }).toEqual({
      held: undefined,
      settled: undefined,
      syncs: 2,
    })
    await disk.end()
    expect({ held: held.value, settled: settled.value }).toEqual({ held: 'durable', settled: undefined })
    await disk.end()
    expect(settled.value).toMatchObject({ kind: 'settled', charged: usd(1) })
  })

  test('while a sync runs one group of holds is decided; what else comes is gathered for the next', async () => {
    const { disk, ledger } = await bench()
    await ledger.startHold(holdOf('a'), 'at-once')
    await ledger.startHold(holdOf('b'), 'at-once')
    const third = seen(ledger.startHold(holdOf('c'), 'at-once'))
    const whole = seen(ledger.hold(holdOf('d')))
    await turn()
    expect(third.value).toBeUndefined()
    await disk.end()
    expect(third.value?.result).toMatchObject({ kind: 'held' })
    expect(whole.value).toBeUndefined()
    await disk.end()
    expect(whole.value).toMatchObject({ kind: 'held' })
  })

  test('holds that were decided during a sync share the next one with what was gathered meanwhile', async () => {
    const { disk, ledger } = await bench()
    await ledger.startHold(holdOf('a'), 'at-once')
    const { durable } = await ledger.startHold(holdOf('b'), 'at-once')
    const held = seen(durable.then(() => 'durable'))
    const settled = seen(ledger.settle(settleOf('a', usd(1))))
    await disk.end()
    const { syncs } = disk
    expect({ held: held.value, settled: settled.value }).toEqual({ held: undefined, settled: undefined })
    await disk.end()
    expect({ held: held.value, settled: settled.value?.kind, syncs: disk.syncs }).toEqual({
      held: 'durable',
      settled: 'settled',
      syncs,
    })
  })

  test('holds that were decided during a sync become durable though the group after them fails', async () => {
    const { disk, ledger, database } = await bench()
    await ledger.startHold(holdOf('a'), 'at-once')
    const { durable } = await ledger.startHold(holdOf('b'), 'at-once')
    const held = seen(durable.then(() => 'durable'))
    const settled = seen(ledger.settle(settleOf('a', usd(1))))
    database.run('PRAGMA query_only = ON')
    await disk.end()
    await disk.end()
    expect({ held: held.value, settled: settled.value }).toEqual({ held: 'durable', settled: undefined })
    database.run('PRAGMA query_only = OFF')
    await disk.end()
    expect(settled.value).toMatchObject({ kind: 'settled' })
  })

  test('a hold that has to be durable soon waits for a sync that somebody needs', async () => {
    const { disk, ledger } = await bench({ soonMs: 60_000 })
    const { syncs } = disk
    const soon = await ledger.startHold(holdOf('a'), 'soon')
    const first = seen(soon.durable.then(() => 'durable'))
    await turn()
    expect({ syncs: disk.syncs, first: first.value }).toEqual({ syncs, first: undefined })
    await ledger.startHold(holdOf('b'), 'at-once')
    await disk.end()
    expect({ syncs: disk.syncs, first: first.value }).toEqual({ syncs: syncs + 1, first: 'durable' })
  })

  test('a hold that has to be durable soon begins a sync by itself where nobody needs one', async () => {
    const { disk, ledger } = await bench()
    const { syncs } = disk
    const { durable } = await ledger.startHold(holdOf('a'), 'soon')
    await disk.end()
    await durable
    expect(disk.syncs).toBe(syncs + 1)
  })

  test('a refusal is given at once', async () => {
    const { disk, ledger } = await bench()
    const { result } = await ledger.startHold(holdOf('a', { want: usd(20), least: usd(20) }), 'at-once')
    expect(result).toMatchObject({ kind: 'refused', reason: 'insufficient' })
    await disk.end()
    await ledger.close()
  })

  test('a call is shown, and the head of the journal anchored, when they are durable', async () => {
    const { disk, ledger, anchored } = await bench()
    const { durable } = await ledger.startHold(holdOf('a'), 'at-once')
    await disk.end()
    await durable
    const before = { anchored: [...anchored], head: ledger.head().tx }
    const settled = ledger.settle(settleOf('a', usd(1)))
    await turn()
    const call = ledger.call('anna', 'a')
    expect(call).toBeInstanceOf(Promise)
    const shown = seen(Promise.resolve(call))
    await turn()
    expect(shown.value).toBeUndefined()
    expect({ anchored, head: ledger.head().tx }).toEqual(before)
    await disk.end()
    await settled
    expect(shown.value).toMatchObject({ state: 'settled', charged: usd(1) })
    expect(ledger.head().tx).toBe(before.head + 1)
    expect(anchored.at(-1)).toBe(before.head + 1)
  })

  test('what others write through the same connection waits for its own sync', async () => {
    const { disk, ledger, database } = await bench()
    const held = ledger.hold(holdOf('a'))
    await turn()
    expect(one(database, 'PRAGMA synchronous')).toBe(2n)
    await disk.end()
    await held
  })

  test('closing waits for the sync', async () => {
    const { disk, ledger } = await bench()
    const settled = ledger.hold(holdOf('a')).then(() => ledger.settle(settleOf('a', usd(1))))
    await disk.end()
    await turn()
    const closed = seen(ledger.close().then(() => 'closed'))
    await turn()
    expect(closed.value).toBeUndefined()
    await disk.end()
    expect(await settled).toMatchObject({ charged: usd(1) })
    expect(closed.value).toBe('closed')
  })

  test('closing makes durable what had time until soon', async () => {
    const { disk, ledger } = await bench()
    const { durable } = await ledger.startHold(holdOf('a'), 'soon')
    const held = seen(durable.then(() => 'durable'))
    const closed = seen(ledger.close().then(() => 'closed'))
    await disk.end()
    expect({ held: held.value, closed: closed.value }).toEqual({ held: 'durable', closed: 'closed' })
  })

  test('the spill file keeps an end until its commit is durable', async () => {
    const { disk, ledger, database, dataDir } = await bench()
    const spill = new SpillFile(dataDir, noon)
    ledger.group.spillTo(spill)
    const held = ledger.hold(holdOf('a'))
    await disk.end()
    await held
    database.run('PRAGMA query_only = ON')
    const settled = seen(ledger.settle(settleOf('a', usd(1))))
    while (await ledger.writable()) await turn()
    const spilled = () => new SpillFile(dataDir, noon).read().length
    expect(spilled()).toBe(1)
    database.run('PRAGMA query_only = OFF')
    const syncs = disk.syncs
    while (disk.syncs === syncs) await turn()
    expect({ settled: settled.value, spilled: spilled() }).toEqual({ settled: undefined, spilled: 1 })
    await disk.end()
    expect(settled.value).toMatchObject({ charged: usd(1) })
    expect(spilled()).toBe(0)
    await ledger.close()
    spill.close()
  })
})

describe('a disk that does not answer', () => {
  test('G21: after five seconds nothing more is admitted, ends of calls wait, and all goes on when it is back', async () => {
    const { disk, ledger } = await bench()
    const { durable } = await ledger.startHold(holdOf('a'), 'at-once')
    const settled = seen(ledger.settle(settleOf('a', usd(1))))
    const now = performance.now
    performance.now = () => now.call(performance) + 5_001
    try {
      expect(await ledger.writable()).toBe(false)
      await expect(ledger.hold(holdOf('b'))).rejects.toMatchObject({ code: 'store_unavailable', status: 503 })
    } finally {
      performance.now = now
    }
    await disk.end()
    await durable
    expect(await ledger.writable()).toBe(true)
    await disk.end()
    expect(settled.value).toMatchObject({ charged: usd(1) })
  })
})

describe('a sync that fails', () => {
  test('ends the process: it is never repeated, and nothing is answered from then on', async () => {
    const { disk, ledger, lost } = await bench()
    const { durable } = await ledger.startHold(holdOf('a'), 'at-once')
    const held = seen(durable.then(() => 'durable'))
    const settled = seen(ledger.settle(settleOf('a', usd(1))))
    const broken = new Error('EIO')
    await disk.fail(broken)
    expect(lost).toEqual([broken])
    expect({ held: held.value, settled: settled.value, syncs: disk.syncs }).toEqual({
      held: undefined,
      settled: undefined,
      syncs: 2,
    })
    expect(await ledger.writable()).toBe(false)
    const refused = { code: 'store_unavailable', status: 503 }
    await expect(ledger.hold(holdOf('b'))).rejects.toMatchObject(refused)
    await expect(ledger.startHold(holdOf('b'), 'at-once')).rejects.toMatchObject(refused)
    await expect(
      ledger.release({ call: 'a', owner: 'here', reason: 'x', attempts: [] }),
    ).rejects.toMatchObject(refused)
    await expect(ledger.close()).rejects.toMatchObject(refused)
  })
})

describe.skipIf(!existsSync('/proc/self/fd'))('the descriptor of the log', () => {
  const openFiles = (path: string) =>
    readdirSync('/proc/self/fd').flatMap((name) => {
      try {
        const target = readlinkSync(join('/proc/self/fd', name))
        return target.startsWith(path) ? [target] : []
      } catch {
        return []
      }
    })

  test('fails where the log has been removed, and leaves no descriptor open', async () => {
    using dir = tempDir('weir-log-')
    const path = dir.join('weir.db')
    writeFileSync(`${path}-wal`, 'one')
    const log = new LogSync(path)
    await log.sync()
    await log.sync()
    expect(openFiles(path)).toEqual([`${path}-wal`])
    rmSync(`${path}-wal`)
    await expect(log.sync()).rejects.toMatchObject({ code: 'ENOENT' })
    log.close()
    expect(openFiles(path)).toEqual([])
  })

  test('a checkpoint that empties the log is no other file', async () => {
    using dir = tempDir('weir-log-')
    const database = openDatabase(dir.path, noon)
    const path = dir.join('weir.db')
    const log = new LogSync(path)
    database.run("INSERT INTO server (owner, started_at) VALUES ('a', 0)")
    await log.sync()
    const before = openFiles(`${path}-wal`)
    database.run('PRAGMA wal_checkpoint(TRUNCATE)')
    expect(readFileSync(`${path}-wal`)).toHaveLength(0)
    database.run("INSERT INTO server (owner, started_at) VALUES ('b', 0)")
    await log.sync()
    expect(openFiles(`${path}-wal`)).toEqual(before)
    log.close()
    database.close()
  })
})
