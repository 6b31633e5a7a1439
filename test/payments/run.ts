// Plays the messages of payments and subscriptions in many orders: `bun test/payments/run.ts --ways 10000 [--from 0]`.

import { parseArgs } from 'node:util'
import { shuffled } from './shuffle.ts'
import { subscriptionWays } from './subscriptions/ways.ts'

const { values } = parseArgs({
  options: { ways: { type: 'string', default: '10000' }, from: { type: 'string', default: '0' } },
})
// A thousand at a time: the sweep of a gateway looks at all that is open, of other ways as well.
const perGateway = 1_000
const totals = { ways: 0, messages: 0, forged: 0, credited: 0, broken: [] as string[] }
const [from, ways] = [Number(values.from), Number(values.ways)]
for (let at = 0; at < ways && totals.broken.length === 0; at += perGateway) {
  const part = await shuffled({ from: from + at, ways: Math.min(perGateway, ways - at) })
  for (const name of ['ways', 'messages', 'forged', 'credited'] as const) totals[name] += part[name]
  totals.broken.push(...part.broken)
}
const subscriptions = await subscriptionWays({ from, ways })
process.stdout.write(`${JSON.stringify({ ...totals, subscriptions }, null, 1)}\n`)
process.exitCode = totals.broken.length + subscriptions.broken.length > 0 ? 1 : 0
