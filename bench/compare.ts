// What a call costs two builds of Weir, in their processor time: `bun bench/compare.ts OLD NEW [--rounds 8]`. Both run
// beside each other and are driven in turns, so that whatever else the machine does strikes both alike; the figure is
// the median of the rounds' ratios. Time of the processor is what to go by: a busy machine hardly changes it. How many
// calls were answered in a second stands beside it.

import { parseArgs } from 'node:util'
import { startWeir } from '../test/support/run-weir.ts'
import { configuration } from './configuration.ts'
import { cpuMicros, gatewayCore, otherCore, startScript } from './processes.ts'
import { median, spread } from './statistics.ts'
import { drive } from './wrk.ts'

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '8' },
    seconds: { type: 'string', default: '2' },
  },
})
const [before, after] = positionals
if (before === undefined || after === undefined) throw new Error('bun bench/compare.ts OLD NEW')
const [rounds, seconds] = [Number(flags.rounds), Number(flags.seconds)]

const chat = {
  path: '/v1/chat/completions',
  messages: [{ role: 'user', content: 'Say something about the river, please.' }],
}
const cells = [
  { name: 'whole', ...chat, stream: false },
  { name: 'stream', ...chat, stream: true },
  { name: 'stream, translated', path: '/v1/messages', messages: chat.messages, stream: true },
]

const upstream = await startScript(otherCore, 'upstream.ts')
const config = configuration(upstream.origin)
const subjects = await Promise.all(
  [before, after].map((executable) =>
    startWeir({ config, command: [executable], prefix: ['taskset', '-c', gatewayCore] }),
  ),
)

/** Until the compiler has done most of its work. */
const warmUpCalls = 16_000

/** How many calls were answered in that time, and what each took of the processor, in microseconds. */
async function run(at: number, cell: (typeof cells)[number], forSeconds: number) {
  const { pid, origin, key } = subjects[at]!
  const body = {
    model: 'bench/fixed',
    messages: cell.messages,
    max_tokens: 128,
    ...(cell.stream ? { stream: true } : {}),
  }
  const from = cpuMicros(pid)
  const load = { url: origin + cell.path, key, body, connections: 32, pauseMs: 0, seconds: forSeconds }
  const { perSecond, failures } = await drive(load)
  if (failures > 0) throw new Error(`${failures} answers failed: ${subjects[at]!.output().slice(-2_000)}`)
  const calls = perSecond * forSeconds
  return { calls, perCall: (cpuMicros(pid) - from) / calls }
}

/** Of the old build and of the new one. */
type Pair = [number, number]

/** Both medians, and their ratios. */
function compared(pairs: readonly Pair[]): string {
  const [old, now] = [median(pairs.map(([one]) => one)), median(pairs.map(([, two]) => two))]
  return `${old.toFixed(0)} → ${now.toFixed(0)}, ratio ${spread(pairs.map(([one, two]) => two / one))}`
}

try {
  for (const cell of cells) {
    // By calls and not by time: a busy machine is warm later.
    for (const at of [0, 1])
      for (let calls = 0; calls < warmUpCalls;) calls += (await run(at, cell, seconds)).calls
    const cost: Pair[] = []
    const rate: Pair[] = []
    for (let round = 0; round < rounds; round++) {
      // The one that comes first changes, as what it leaves behind may cost the other.
      const order = round % 2 === 0 ? [0, 1] : [1, 0]
      const perCall: Pair = [0, 0]
      const perSecond: Pair = [0, 0]
      for (const at of order) {
        const ran = await run(at, cell, seconds)
        perCall[at as 0 | 1] = ran.perCall
        perSecond[at as 0 | 1] = ran.calls / seconds
      }
      cost.push(perCall)
      rate.push(perSecond)
    }
    console.log(`${cell.name}: ${compared(cost)} µs a call; ${compared(rate)} calls a second`)
  }
} finally {
  for (const subject of subjects) await subject.stop()
  await upstream.stop()
}
