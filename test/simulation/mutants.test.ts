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
      const play = async (from: number, seeds: number) =>
        (await playMany(planted.root, { from, seeds, steps: 200, statementsOf }, 1)).failures
      // Where the ledger has changed, another history finds it.
      const known = mutant.seed === undefined ? [] : await play(mutant.seed, 1)
      expect(known.length > 0 ? known : await play(0, 1_000)).toHaveLength(1)
    } finally {
      planted.remove()
    }
  },
  60_000,
)
