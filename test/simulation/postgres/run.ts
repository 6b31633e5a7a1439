// Plays many histories of processes on one PostgreSQL: `bun test/simulation/postgres/run.ts --seeds 10000 [--from 0]
// [--steps 100] [--trace]`. A history that breaks is printed with the command that plays it again; the exit code is then 1.

import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { type Report, simulate } from './simulation.ts'
import { systemIn } from './system.ts'

export interface Totals {
  readonly counts: Record<Exclude<keyof Report, 'seed' | 'broken'>, number>
  readonly failures: Report[]
}

interface Run {
  readonly from: number
  readonly seeds: number
  readonly steps: number
  /** Told everything that happens. */
  readonly tell?: (line: string) => void
}

/** Plays `seeds` histories of the ledger below `root`; stops after `most` that break. */
export async function playMany(root: string, { from, seeds, steps, tell }: Run, most = 5): Promise<Totals> {
  const system = await systemIn(root)
  const counts = { commands: 0, groups: 0, cuts: 0, ended: 0, recovered: 0, historiesLost: 0, refused: 0 }
  const failures: Report[] = []
  for (let seed = from; seed < from + seeds && failures.length < most; seed++) {
    const report = simulate(system, seed, steps, tell)
    for (const name of Object.keys(counts) as (keyof typeof counts)[]) counts[name] += report[name]
    if (report.broken !== null) failures.push(report)
  }
  return { counts, failures }
}

export function replayCommand({ seed }: Report, steps: number): string {
  return `bun test/simulation/postgres/run.ts --from ${seed} --seeds 1 --steps ${steps} --trace`
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      seeds: { type: 'string', default: '10000' },
      from: { type: 'string', default: '0' },
      steps: { type: 'string', default: '100' },
      trace: { type: 'boolean', default: false },
    },
  })
  const say = (line: string) => void process.stdout.write(`${line}\n`)
  const range = { from: Number(values.from), seeds: Number(values.seeds), steps: Number(values.steps) }
  const started = performance.now()
  const { counts, failures } = await playMany(
    resolve(import.meta.dir, '../../..'),
    values.trace ? { ...range, tell: say } : range,
  )
  for (const report of failures)
    say(`seed ${report.seed}: ${report.broken}\n  ${replayCommand(report, range.steps)}`)
  const seconds = ((performance.now() - started) / 1000).toFixed(1)
  say(JSON.stringify({ ...range, ...counts, broken: failures.length, seconds }))
  process.exitCode = failures.length > 0 ? 1 : 0
}
