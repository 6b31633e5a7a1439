// What the first calls after a start cost, of warm ones, in processor time of the gateway, which has a core for itself:
// `bun bench/first-calls.ts EXECUTABLE… [--starts 5] [--stream]`. Each executable has a start in turn, and the last one
// another without its warm-up. Beside it: how long each start took, and the memory before the first call and after the last.

import { parseArgs } from 'node:util'
import { type RunningWeir, startWeir } from '../test/support/run-weir.ts'
import { configuration } from './configuration.ts'
import { cpuMicros, cpuSeconds, gatewayCore, otherCore, residentMb, startScript } from './processes.ts'
import { spread } from './statistics.ts'

const { values: flags, positionals: executables } = parseArgs({
  allowPositionals: true,
  options: {
    starts: { type: 'string', default: '5' },
    stream: { type: 'boolean', default: false },
  },
})
if (executables.length === 0) throw new Error('bun bench/first-calls.ts EXECUTABLE…')

/** Calls that are measured as first, that follow, and that are measured as warm. */
const phases = { first: 2_000, between: 3_000, warm: 2_000 }
const connections = 32

// The driver is this process: on the gateway's core it would take from what it measures.
Bun.spawnSync(['taskset', '-acp', otherCore, String(process.pid)])

interface Start {
  readonly readyMs: number
  readonly idleMb: number
  readonly usedMb: number
  /** Microseconds a call: of all threads, and without those that compile. */
  readonly first: Cost
  readonly warm: Cost
}

type Cost = Readonly<Record<'all' | 'own', number>>

const subjects = executables.flatMap((command, at) =>
  at < executables.length - 1
    ? [{ name: command, command, warmUp: true }]
    : [true, false].map((warmUp) => ({
        name: `${command}${warmUp ? '' : ' without its warm-up'}`,
        command,
        warmUp,
      })),
)

const upstream = await startScript(otherCore, 'upstream.ts')
const body = JSON.stringify({
  model: 'bench/fixed',
  messages: [{ role: 'user', content: 'Say something about the river, please.' }],
  max_tokens: 128,
  ...(flags.stream ? { stream: true } : {}),
})
const measured = new Map(subjects.map(({ name }) => [name, [] as Start[]]))
try {
  for (let start = 0; start < Number(flags.starts); start++) {
    for (const subject of start % 2 === 0 ? subjects : subjects.toReversed())
      measured.get(subject.name)!.push(await measure(subject))
  }
  for (const [name, starts] of measured) print(name, starts)
} finally {
  await upstream.stop()
}

async function measure({ command, warmUp }: (typeof subjects)[number]): Promise<Start> {
  const startedAt = performance.now()
  const weir = await startWeir({
    config: configuration(upstream.origin),
    command: [command],
    env: { WEIR_SERVER_WARM_UP: String(warmUp) },
    prefix: ['taskset', '-c', gatewayCore],
  })
  try {
    while (!(await fetch(`${weir.origin}/readyz`)).ok) await Bun.sleep(5)
    const readyMs = performance.now() - startedAt
    await Bun.sleep(1_000)
    const idleMb = residentMb(weir.pid)
    const first = await costOf(weir, phases.first)
    await costOf(weir, phases.between)
    const warm = await costOf(weir, phases.warm)
    await Bun.sleep(1_000)
    return { readyMs, idleMb, usedMb: residentMb(weir.pid), first, warm }
  } finally {
    await weir.stop()
  }
}

async function costOf(weir: RunningWeir, calls: number): Promise<Cost> {
  const before = { all: cpuSeconds(weir.pid) * 1e6, own: cpuMicros(weir.pid) }
  let left = calls
  const drive = async () => {
    while (left-- > 0) {
      const response = await fetch(`${weir.baseUrl}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${weir.key}`, 'content-type': 'application/json' },
        body,
      })
      await response.arrayBuffer()
      if (!response.ok) throw new Error(`it answered ${response.status}`)
    }
  }
  await Promise.all(Array.from({ length: connections }, drive))
  return {
    all: (cpuSeconds(weir.pid) * 1e6 - before.all) / calls,
    own: (cpuMicros(weir.pid) - before.own) / calls,
  }
}

function print(name: string, starts: readonly Start[]): void {
  const show = (of: (start: Start) => number, decimals: number) => spread(starts.map(of), decimals)
  console.log(`\n${name}`)
  console.log(`  ready after, ms: ${show(({ readyMs }) => readyMs, 0)}`)
  console.log(`  resident before the first call, MB: ${show(({ idleMb }) => idleMb, 1)}`)
  console.log(`  resident after the last, MB: ${show(({ usedMb }) => usedMb, 1)}`)
  for (const threads of ['all', 'own'] as const) {
    const named = threads === 'all' ? 'all threads' : 'without the compiler’s threads'
    const [first, warm] = (['first', 'warm'] as const).map((phase) =>
      show((start) => start[phase][threads], 0),
    )
    console.log(`  µs a call, ${named}: first ${first}, warm ${warm}`)
    console.log(
      `  first of warm, ${named}: ${show((start) => start.first[threads] / start.warm[threads], 2)}`,
    )
  }
}
