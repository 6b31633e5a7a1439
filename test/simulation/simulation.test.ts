// G1: the ledger under a scheduler that crashes it anywhere. That it would notice: mutants.test.ts.

import { expect, test } from 'bun:test'
import { resolve } from 'node:path'
import { playMany, replayCommand } from './run.ts'

const root = resolve(import.meta.dir, '../..')
const steps = 50

test('G1: in 10,000 histories with crashes, locks, full disks and clock jumps no invariant ever breaks', async () => {
  const totals = await playMany(root, { from: 0, seeds: 10_000, steps, statementsOf: 5 })
  const failures = totals.failures.map((report) => `${report.broken}\n  ${replayCommand(report, steps)}`)
  expect(failures).toEqual([])
  expect(totals.seeds).toBe(10_000)
  // A simulation in which nothing happens proves nothing.
  expect(totals.commits).toBeGreaterThan(100_000)
  expect(totals.crashes).toBeGreaterThan(5_000)
  expect(totals.statements).toBeGreaterThan(10_000)
}, 300_000)
