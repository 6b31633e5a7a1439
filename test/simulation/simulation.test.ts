// G1: the ledger under a scheduler that crashes it anywhere. That it would notice: mutants.test.ts.

import { expect, test } from 'bun:test'
import { resolve } from 'node:path'
import { holdOf, settleOf } from '../credits/support.ts'
import { issueOf, type SimulatedProcess } from './process.ts'
import { histories, playMany, replayCommand } from './run.ts'
import { show, Simulation } from './simulation.ts'
import { Stage } from './stage.ts'
import { systemIn } from './system.ts'

const root = resolve(import.meta.dir, '../..')
const steps = 200

test(`G1: in ${histories} long histories with crashes, locks, full disks and clock jumps no invariant ever breaks`, async () => {
  const totals = await playMany(root, { from: 0, seeds: histories, steps, statementsOf: 5 })
  const failures = totals.failures.map((report) => `${report.broken}\n  ${replayCommand(report, steps)}`)
  expect(failures).toEqual([])
  expect(totals.seeds).toBe(histories)
  // A simulation in which nothing happens proves nothing.
  expect(totals.commits).toBeGreaterThan(30 * histories)
  expect(totals.crashes).toBeGreaterThan(5 * histories)
  expect(totals.ownSyncs).toBeGreaterThan(10 * histories)
  expect(totals.statements).toBeGreaterThan(1.5 * histories)
}, 300_000)

test('a recovery behind a replayed settle of the same group is booked for the call that it ended', async () => {
  const stage = new Stage(await systemIn(root))
  try {
    stage.clear()
    const failures: string[] = []
    const simulation = new Simulation(stage, 1)
    simulation.fail = (why) => void failures.push(why)
    simulation.scheduler.within(() => replayThenRecover(simulation))
    expect(failures).toEqual([])
    expect(simulation.oracle.calls.get('settled')?.state).toBe('settled')
    expect(simulation.oracle.calls.get('abandoned')?.state).toBe('voided')
  } finally {
    stage.close()
  }
})

/** One process spills a settle and dies; the next finds the file locked, so that replay and recovery share a group. */
function replayThenRecover(simulation: Simulation): void {
  const { scheduler, random } = simulation
  const run = (turns: number) => {
    for (let turn = 0; turn < turns; turn++) scheduler.runOne(random)
  }
  const dying = simulation.living()
  const successor = otherThan(simulation, dying)
  const { owner } = dying
  for (const call of ['settled', 'abandoned']) {
    const command = holdOf(call, { owner, key: null, want: 0n, least: 0n })
    simulation.ask(
      dying,
      issueOf({ kind: 'hold', command }),
      () => show(command),
      () => dying.ledger.hold(command),
    )
  }
  run(10)
  dying.database.faults.full = { undoes: false }
  const command = settleOf('settled', 0n, { owner, lines: [] })
  simulation.ask(
    dying,
    issueOf({ kind: 'settle', command }),
    () => show(command),
    () => dying.ledger.settle(command),
  )
  run(3)
  simulation.crash(dying)
  successor.database.faults.busy = 1
  simulation.sweep(successor, 'recover')
  run(10)
}

function otherThan(simulation: Simulation, process: SimulatedProcess): SimulatedProcess {
  for (;;) {
    const other = simulation.living()
    if (other !== process) return other
  }
}
