// G1: the ledger under a scheduler that crashes it anywhere, and the proof that the simulation would notice.

import { expect, test } from 'bun:test'
import { resolve } from 'node:path'
import { mutants, plant } from './mutants.ts'
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

test.each(mutants)(
  'G1: within 1,000 histories it is found that $name',
  async (mutant) => {
    const planted = plant(mutant)
    try {
      const { failures } = await playMany(planted.root, { from: 0, seeds: 1_000, steps: 200 }, 1)
      expect(failures).toHaveLength(1)
    } finally {
      planted.remove()
    }
  },
  60_000,
)
