// Whether the time of an answer tells that an address has an account: sign-in, sign-up and reset with known and unknown
// addresses in turns, with the mean difference and its standard error. `bun bench/known-address.ts [--pairs 1000]`

import { parseArgs } from 'node:util'
import { ConsoleClient } from '../test/support/console-client.ts'
import { serveWeir } from '../test/support/serve-weir.ts'

/** The means may differ by less than this, milliseconds. */
const mostMs = 2

const { values } = parseArgs({ options: { pairs: { type: 'string', default: '1000' } } })
const pairs = Number(values.pairs)
const ways = [
  ['sign-in', { password: 'some other rivers' }],
  ['sign-up', { password: 'some other rivers' }],
  ['reset', {}],
] as const

const weir = await serveWeir({
  config: `
local_servers: { discover: false }
accounts:
  sign_up: open
  sign_ups: 10000
  sign_ups_per_network: 10000
  sign_in_failures_per_network: 10000`,
})
for (let nth = 0; nth < pairs; nth++) {
  const credentials = { email: `known-${nth}@example.org`, password: 'nine bright rivers' }
  await new ConsoleClient(weir).post('sign-up', credentials)
}

async function timeOf(path: string, body: object): Promise<number> {
  const began = performance.now()
  await new ConsoleClient(weir).post(path, body)
  return performance.now() - began
}

for (const [path, more] of ways) {
  const differences: number[] = []
  for (let nth = 0; nth < pairs; nth++) {
    const known = () => timeOf(path, { email: `known-${nth}@example.org`, ...more })
    const unknown = () => timeOf(path, { email: `${path}-${nth}@example.net`, ...more })
    const first = nth % 2 === 0
    const one = await (first ? known() : unknown())
    const other = await (first ? unknown() : known())
    differences.push(first ? one - other : other - one)
  }
  const mean = differences.reduce((sum, difference) => sum + difference, 0) / pairs
  const spread = differences.reduce((sum, difference) => sum + (difference - mean) ** 2, 0) / (pairs - 1)
  const error = Math.sqrt(spread / pairs)
  console.log(`${path}: known − unknown ${mean.toFixed(2)} ms ± ${error.toFixed(2)} (less than ${mostMs})`)
  if (Math.abs(mean) - 2 * error >= mostMs) process.exitCode = 1
}
await weir.stop()
