// Plays the messages of payments in many orders: `bun test/payments/run.ts --ways 10000 [--from 0]`.

import { parseArgs } from 'node:util'
import { shuffled } from './shuffle.ts'

const { values } = parseArgs({
  options: { ways: { type: 'string', default: '10000' }, from: { type: 'string', default: '0' } },
})
const report = await shuffled({ ways: Number(values.ways), from: Number(values.from) })
process.stdout.write(`${JSON.stringify(report, null, 1)}\n`)
process.exitCode = report.broken.length > 0 ? 1 : 0
