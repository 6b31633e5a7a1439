// Several writers on one database under a scheduler that cuts, kills, stops and replaces. That it would notice: mutants.test.ts.

import { expect, test } from 'bun:test'
import { resolve } from 'node:path'
import { playMany, replayCommand } from './run.ts'

const root = resolve(import.meta.dir, '../../..')
const steps = 100

test('in 150 histories of processes on one PostgreSQL nothing that was said is untrue, no limit is passed, and all that live come back', async () => {
  const { counts, failures } = await playMany(root, { from: 0, seeds: 150, steps })
  expect(failures.map((report) => `${report.broken}\n  ${replayCommand(report, steps)}`)).toEqual([])
  // A simulation in which nothing happens proves nothing.
  expect(counts.groups).toBeGreaterThan(2_500)
  expect(counts.refused).toBeGreaterThan(1_000)
  expect(counts.cuts).toBeGreaterThan(500)
  expect(counts.ended).toBeGreaterThan(100)
  expect(counts.recovered).toBeGreaterThan(100)
  expect(counts.historiesLost).toBeGreaterThan(5)
}, 120_000)
