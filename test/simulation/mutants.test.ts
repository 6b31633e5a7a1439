// G1: faults planted into the ledger, one at a time: the simulation must find each of them.

import { afterAll, expect, test } from 'bun:test'
import { isOfStatements, LedgerCopy, mutants } from './mutants.ts'
import { histories, playMany } from './run.ts'

const copy = new LedgerCopy()
afterAll(() => copy.remove())

test.each(mutants)(
  `G1: within ${histories} histories it is found that $name`,
  async (mutant) => {
    copy.plant(mutant)
    const statementsOf = isOfStatements(mutant) ? 1 : 10
    const play = async (from: number, seeds: number) =>
      (await playMany(copy.root, { from, seeds, steps: 200, statementsOf }, 1)).failures
    // Where the ledger has changed, another history finds it.
    const known = mutant.seed === undefined ? [] : await play(mutant.seed, 1)
    expect(known.length > 0 ? known : await play(0, histories)).toHaveLength(1)
  },
  60_000,
)
