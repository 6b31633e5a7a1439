// The long run: `bun test/exactness/run.ts --calls 100000 [--lanes 32] [--seed 1]`. Prints its figures; exit 1 when
// a call was charged wrongly.

import { parseArgs } from 'node:util'
import { measureExactness } from './exactness.ts'
import { measureUncounted } from './uncounted.ts'

const { values } = parseArgs({
  options: {
    calls: { type: 'string', default: '100000' },
    lanes: { type: 'string', default: '32' },
    seed: { type: 'string', default: '1' },
  },
})
const { broken, ...figures } = await measureExactness({
  calls: Number(values.calls),
  lanes: Number(values.lanes),
  seed: Number(values.seed),
})
for (const line of broken.slice(0, 50)) process.stdout.write(`${line}\n`)
const uncounted = await measureUncounted({
  callsOfKind: Math.ceil(Number(values.calls) / 400),
  lanes: Number(values.lanes),
  seed: Number(values.seed),
})
for (const line of uncounted.broken.slice(0, 50)) process.stdout.write(`${line}\n`)
const far = Object.values(uncounted.kinds).filter(({ error }) => Math.abs(error) > 0.05)
const text = JSON.stringify(
  { ...figures, broken: broken.length, uncounted: uncounted.kinds },
  (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value),
)
process.stdout.write(`${text}\n`)
process.exitCode = broken.length + uncounted.broken.length + far.length > 0 ? 1 : 0
