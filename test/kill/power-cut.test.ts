// G3: a power cut at any moment loses nothing that was acknowledged.

import { expect, test } from 'bun:test'
import { cutPower } from './power-cut.ts'

const recordable = Bun.which('strace') !== null

test.skipIf(!recordable)(
  'G3: on 60 disks as a power cut leaves them every acknowledged charge is there and the audit agrees',
  async () => {
    const report = await cutPower('FULL', { images: 60, calls: 120, seed: 5 })
    expect(report).toEqual({ images: 60, acknowledged: 120, damaged: 0, lost: 0 })
  },
  60_000,
)

test.skipIf(!recordable)(
  'G3: without a sync for every commit the same disks lose charges, so the trial is a trial',
  async () => {
    expect((await cutPower('NORMAL', { images: 60, calls: 120, seed: 5 })).lost).toBeGreaterThan(0)
  },
  60_000,
)
