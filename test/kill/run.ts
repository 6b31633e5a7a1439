// The long run: `bun test/kill/run.ts --kills 1000 [--lanes 50] [--seed 1] [--pause 800] [--responses]`. Two of three kills are at a named
// failpoint, each in its turn. Prints a row for each and the figures; exit 1 when a promise was broken or a point was
// not reached.

import { parseArgs } from 'node:util'
import { killAgainAndAgain, tableOf } from './kill.ts'

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '1000' },
    lanes: { type: 'string', default: '50' },
    seed: { type: 'string', default: '1' },
    pause: { type: 'string', default: '800' },
    responses: { type: 'boolean', default: false },
  },
})
const say = (line: string) => void process.stdout.write(`${line}\n`)
const report = await killAgainAndAgain({
  kills: Number(values.kills),
  lanes: Number(values.lanes),
  seed: Number(values.seed),
  pauseMs: Number(values.pause),
  responses: values.responses,
  tell: say,
})
for (const line of report.broken.slice(0, 50)) say(line)
say(tableOf(report))
const { causes: _, ...figures } = report
say(JSON.stringify({ ...figures, broken: report.broken.length }))
process.exitCode = report.broken.length > 0 ? 1 : 0
