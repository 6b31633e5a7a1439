// Plays many histories of the ledger: `bun test/simulation/run.ts --seeds 1000000 [--from 0] [--steps 500] [--trace]`.
// A history that breaks is printed with the command that plays it again; the exit code is then 1.

import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { simulate, type Report } from './simulation.ts'
import { Stage } from './stage.ts'
import { systemIn } from './system.ts'

/** How many histories every run of the tests plays: twice as many as any planted fault needs to be found. */
export const histories = 400

export interface Run {
  readonly from: number
  readonly seeds: number
  readonly steps: number
  /** The statements of every so many histories are compared with the journal; of each when left out. */
  readonly statementsOf?: number
  /** Told everything that happens. */
  readonly tell?: (line: string) => void
}

export interface Totals {
  seeds: number
  commits: number
  commands: number
  crashes: number
  /** Syncs that the thread of the ledger has waited for. */
  ownSyncs: number
  /** How many statements of a month were compared with the journal. */
  statements: number
  readonly failures: Report[]
}

/** Plays `seeds` histories of the ledger below `root`; stops after `most` that break. */
export async function playMany(root: string, run: Run, most = 5): Promise<Totals> {
  const { from, seeds, steps, statementsOf = 1, tell } = run
  const stage = new Stage(await systemIn(root))
  const totals: Totals = {
    seeds: 0,
    commits: 0,
    commands: 0,
    crashes: 0,
    ownSyncs: 0,
    statements: 0,
    failures: [],
  }
  try {
    for (let seed = from; seed < from + seeds && totals.failures.length < most; seed++) {
      const report = simulate(stage, seed, steps, tell)
      totals.seeds++
      totals.commits += report.commits
      totals.commands += report.commands
      totals.crashes += report.crashes
      totals.ownSyncs += report.ownSyncs
      if (report.broken !== null) totals.failures.push(report)
      else if (seed % statementsOf === 0) {
        const { months, broken } = await stage.statements.compare()
        totals.statements += months
        if (broken !== null) totals.failures.push({ ...report, broken })
      }
    }
  } finally {
    stage.close()
  }
  return totals
}

export function replayCommand({ seed }: Report, steps: number): string {
  return `bun test/simulation/run.ts --from ${seed} --seeds 1 --steps ${steps} --trace`
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      seeds: { type: 'string', default: '10000' },
      from: { type: 'string', default: '0' },
      steps: { type: 'string', default: '500' },
      trace: { type: 'boolean', default: false },
    },
  })
  const say = (line: string) => void process.stdout.write(`${line}\n`)
  const range = { from: Number(values.from), seeds: Number(values.seeds), steps: Number(values.steps) }
  const run: Run = values.trace ? { ...range, tell: say } : range
  const started = performance.now()
  const totals = await playMany(resolve(import.meta.dir, '../..'), run)
  const seconds = ((performance.now() - started) / 1000).toFixed(1)
  for (const report of totals.failures) {
    say(`seed ${report.seed}: ${report.broken}\n  ${replayCommand(report, run.steps)}`)
  }
  const { failures, ...counts } = totals
  say(JSON.stringify({ ...counts, broken: failures.length, seconds }))
  process.exitCode = failures.length > 0 ? 1 : 0
}
