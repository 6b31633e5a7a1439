// Faults planted into the protocol of several writers, one at a time: the simulation must find each of them.

import { expect, test } from 'bun:test'
import { mutants, plant } from './mutants.ts'
import { playMany } from './run.ts'

test.each(mutants)(
  'within 1,000 histories it is found that $name',
  async (mutant) => {
    const planted = plant(mutant)
    try {
      const { failures } = await playMany(
        planted.root,
        { from: mutant.seed ?? 0, seeds: 1_000, steps: 100 },
        1,
      )
      expect(failures).toHaveLength(1)
    } finally {
      planted.remove()
    }
  },
  60_000,
)
