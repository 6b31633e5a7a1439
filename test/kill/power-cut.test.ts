// G3: a power cut at any moment loses nothing that was acknowledged.

import { expect, test } from 'bun:test'
import { coveredBySyncs, cutPower, type Event } from './power-cut.ts'

const recordable = Bun.which('strace') !== null
const trial = { images: 60, calls: 120, seed: 5 }

test.skipIf(!recordable)(
  'G3: on 60 disks as a power cut leaves them every acknowledged charge is there and the audit agrees',
  async () => {
    const { logSyncs, ...report } = await cutPower('synced by each commit', trial)
    expect(report).toEqual({ images: 60, acknowledged: 120, damaged: [], lost: 0 })
    expect(logSyncs.byPool).toBe(0)
  },
  60_000,
)

test.skipIf(!recordable)(
  'G3: nor is anything lost where the log is synced on another thread, and answers wait for it',
  async () => {
    const { logSyncs, ...report } = await cutPower('answered after the sync', trial)
    expect(report).toEqual({ images: 60, acknowledged: 120, damaged: [], lost: 0 })
    // The loop itself syncs the log for what others write, for checkpoints and where the log begins again.
    expect(logSyncs.byPool).toBeGreaterThan(40)
  },
  60_000,
)

test.skipIf(!recordable)(
  'G3: nor where calls come one at a time, and the thread of the ledger syncs what it has committed for each',
  async () => {
    const { logSyncs, ...report } = await cutPower('answered after the sync', {
      ...trial,
      calls: 60,
      lanes: 1,
    })
    expect(report).toEqual({ images: 60, acknowledged: 60, damaged: [], lost: 0 })
    expect(logSyncs.byLoop + logSyncs.byPool).toBeGreaterThan(100)
  },
  60_000,
)

test.skipIf(!recordable).each(['answered before the sync', 'never synced'] as const)(
  'G3: %s, the same disks lose charges, so the trial is a trial',
  async (order) => {
    // Few cuts fall between an answer and its sync where the disk is quick.
    expect((await cutPower(order, { ...trial, images: 300, enough: 1 })).lost).toBeGreaterThan(0)
  },
  60_000,
)

test('a sync that ends after a later one takes nothing back of what the later one covered', () => {
  const synced = (began: number): Event => ({ kind: 'sync', file: 'weir.db-wal', began, thread: '1' })
  const events = [synced(3), synced(20), synced(10)]
  expect(coveredBySyncs(events, 'weir.db-wal')).toBe(20)
  expect(coveredBySyncs(events, 'weir.db')).toBe(0)
})
