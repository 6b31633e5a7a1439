// The long run: `bun test/soak/run.ts [--minutes 60] [--rate 300] [--streams 500] [--faults 50]`. Prints memory and
// descriptors every five seconds and the figures at the end; exit 1 when a promise was broken (G8).

import { parseArgs } from 'node:util'
import { brokenPromises, soak } from './soak.ts'

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    rate: { type: 'string', default: '300' },
    streams: { type: 'string', default: '500' },
    faults: { type: 'string', default: '50' },
  },
})
const say = (line: string) => void process.stdout.write(`${line}\n`)
const seconds = Number(values.minutes) * 60
const report = await soak({
  seconds,
  warmUpSeconds: seconds / 6,
  requestsPerSecond: Number(values.rate),
  openStreams: Number(values.streams),
  streamSeconds: 30,
  faultsPerMille: Number(values.faults),
  say,
})
say(JSON.stringify(report))
const broken = brokenPromises(report, true)
for (const line of broken) say(line)
process.exitCode = broken.length > 0 ? 1 : 0
