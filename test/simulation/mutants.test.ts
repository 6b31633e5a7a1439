// G1: faults planted into the ledger, one at a time: the simulation must find each of them.

import { expect, test } from 'bun:test'
import { isOfStatements, mutants, plant } from './mutants.ts'
import { playMany } from './run.ts'

test.each(mutants)(
  'G1: within 1,000 histories it is found that $name',
  async (mutant) => {
    const planted = plant(mutant)
    try {
      const statementsOf = isOfStatements(mutant) ? 1 : 10
      const { failures } = await playMany(
        planted.root,
        { from: 0, seeds: 1_000, steps: 200, statementsOf },
        1,
      )
      expect(failures).toHaveLength(1)
    } finally {
      planted.remove()
    }
  },
  60_000,
)
