// What a call costs two builds of Weir, in their processor time: `bun bench/compare.ts OLD NEW [--rounds 8] [--seconds 2]
// [--warm-up 16] [--only CELL]`. Both run beside each other and are driven in turns, so that whatever else the machine
// does strikes both alike; the figure is the median of the rounds' ratios. Time of the processor is what to go by: a busy
// machine hardly changes it. How many calls were answered in a second stands beside it.

import { parseArgs } from 'node:util'
import { startWeir } from '../test/support/run-weir.ts'
import { conversations, tools, turnOf } from './agents.ts'
import { configuration } from './configuration.ts'
import { cpuMicros, gatewayCore, otherCore, startScript } from './processes.ts'
import { median, spread } from './statistics.ts'
import { another, drive } from './wrk.ts'

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '8' },
    only: { type: 'string', default: '' },
    seconds: { type: 'string', default: '2' },
    'warm-up': { type: 'string', default: '16' },
  },
})
const [before, after] = positionals
if (before === undefined || after === undefined) throw new Error('bun bench/compare.ts OLD NEW')
const [rounds, seconds] = [Number(flags.rounds), Number(flags.seconds)]

const chat = {
  path: '/v1/chat/completions',
  connections: 32,
  body: { messages: [{ role: 'user', content: 'Say something about the river, please.' }], max_tokens: 128 },
}
const streamed = { ...chat, body: { ...chat.body, stream: true } }
const agent = { ...chat, connections: 8 }
/** What the connections send; the last of a conversation's words differ from call to call. */
const cells = [
  { name: 'whole', ...chat },
  { name: 'stream', ...streamed },
  { name: 'stream, translated', ...streamed, path: '/v1/messages' },
  { name: '200 kB, new', ...agent, body: turnOf(200_000, another) },
  { name: '200 kB, again', ...agent, body: turnOf(200_000, 'Be brief.') },
  { name: '28 kB of tools', ...agent, body: { ...turnOf(1_000, 'Be brief.'), tools } },
  { name: '40 turns', ...agent, body: conversations.chat(40) },
  {
    name: '40 turns, Messages',
    ...agent,
    path: '/v1/messages',
    body: {
      ...conversations.messages(40),
      model: 'bench-claude/fixed',
      max_tokens: 128,
      stream: true,
    },
  },
  {
    name: '40 turns, Responses',
    ...agent,
    path: '/v1/responses',
    body: { ...conversations.responses(40), stream: true },
  },
].filter(({ name }) => name.includes(flags.only))

const upstream = await startScript(otherCore, 'upstream.ts')
const config = configuration(upstream.origin)
const subjects = await Promise.all(
  [before, after].map((executable) =>
    startWeir({ config, command: [executable], prefix: ['taskset', '-c', gatewayCore] }),
  ),
)

/** Until the compiler has done most of its work. */
const warmUpCalls = 16_000
/** At most this long: of large calls a second has few, and of any on a busy machine. */
const warmUpSeconds = Number(flags['warm-up'])

/** How many calls were answered in that time, and what each took of the processor, in microseconds. */
async function run(at: number, cell: (typeof cells)[number], forSeconds: number) {
  const { pid, origin, key } = subjects[at]!
  const body = { model: 'bench/fixed', ...cell.body }
  const from = cpuMicros(pid)
  const load = {
    url: origin + cell.path,
    key,
    body,
    connections: cell.connections,
    pauseMs: 0,
    seconds: forSeconds,
  }
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
      for (let calls = 0, spent = 0; calls < warmUpCalls && spent < warmUpSeconds; spent += seconds)
        calls += (await run(at, cell, seconds)).calls
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
