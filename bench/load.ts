// What Weir costs beside a bare proxy, and beside the least that a durable hold and settle allow (floor.ts): throughput,
// added latency, memory, start. `bun bench/load.ts [--quick]`; `--calibrate` puts a second bare proxy in Weir's place, to see how far two equals differ. The gateway has core 0, load and provider share core 1; rounds alternate, so that drift strikes both alike.

import { parseArgs } from 'node:util'
import { startWeir, weirCommand } from '../test/support/run-weir.ts'
import { tempDir } from '../test/support/tmp.ts'
import { bareSyncsUs } from './disk.ts'
import { cpuSeconds, gatewayCore, otherCore, residentMb, type Started, startScript } from './processes.ts'
import { measureFirstResponse } from './start-up.ts'
import { openStreams } from './open-streams.ts'
import { type Figures, drive } from './wrk.ts'

/** The figures to reach. Throughput is of the bare proxy's; latencies in ms, memory in MB. */
const targets = {
  /** At 32 connections. */
  wholeRatio: 0.7,
  streamRatio: 0.8,
  /** Over the bare proxy, at one connection. */
  addedP50AtOne: 0.3,
  /** At a thousand requests a second, over no gateway. */
  addedP50: 1,
  addedP99: 5,
  firstResponseMs: 150,
  idleMb: 90,
  /** Resident with this many streams open, all of it. */
  openStreamsMb: 250,
  openStreams: 2_000,
}

const { values: flags } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    calibrate: { type: 'boolean', default: false },
  },
})
const seconds = flags.quick ? 1 : 4
const rounds = flags.quick ? 1 : 2
/** Until the compiler of both has done most of its work. */
const warmUpSeconds = flags.quick ? 1 : 10

interface Target {
  readonly name: string
  readonly origin: string
  readonly key: string
  readonly model: string
  readonly pid: number
}

interface Cell {
  readonly name: string
  readonly stream: boolean
  readonly connections: number
  readonly pauseMs: number
}

const cells: readonly Cell[] = [
  ...[1, 32, 256].map((connections) => ({ name: 'whole', stream: false, connections, pauseMs: 0 })),
  ...[1, 32, 256].map((connections) => ({ name: 'stream', stream: true, connections, pauseMs: 0 })),
  // 32 connections, each about 32 ms from one request to the next: a thousand a second, far from the limit.
  { name: 'whole, 1,000/s', stream: false, connections: 32, pauseMs: 31 },
]

/** Where 256 connections would wait for each other otherwise. */
const manyRequests = { BUN_CONFIG_MAX_HTTP_REQUESTS: '8192' }

const upstream = await startScript(otherCore, 'upstream.ts')
const proxy = await startProxy(upstream)
using floorData = tempDir('weir-bench-floor-')
const floor = await startScript(
  gatewayCore,
  'floor.ts',
  [upstream.origin, floorData.join('floor.db')],
  manyRequests,
)
using data = tempDir('weir-bench-')
const options = {
  config: configuration(upstream.origin),
  dataDir: data.path,
  prefix: ['taskset', '-c', gatewayCore],
}
try {
  console.log(`${seconds} s a cell, ${rounds} round(s)\n`)
  if (flags.calibrate) await calibrate(upstream, proxy)
  else await measureAll(upstream, proxy)
} finally {
  await floor.stop()
  await proxy.stop()
  await upstream.stop()
}

async function measureAll(upstream: Started, proxy: Started): Promise<void> {
  console.log(`weir runs from ${weirCommand.length === 1 ? 'the executable' : 'its source'}`)
  const weir = await startWeir(options)
  try {
    report('resident idle, MB', residentMb(weir.pid), targets.idleMb)
    // Before the load: what the streams take is asked for, not what a burst of other calls has left behind.
    await measureOpenStreams(`${weir.baseUrl}/chat/completions`, weir)
    // At one connection nothing overlaps with the two syncs of a call: they are part of what is added there.
    const syncsMs = bareSyncsUs(data.join('syncs'), flags.quick ? 100 : 1_000) / 1000
    console.log(`\ntwo bare syncs of this disk: ${syncsMs.toFixed(2)} ms`)
    const { origin, key, pid } = weir
    await measureCells({ name: 'weir', origin, key, model: 'bench/fixed', pid }, upstream, proxy)
  } finally {
    await weir.stop()
  }
  const starts = await measureFirstResponse(options, flags.quick ? 3 : 10)
  console.log(`\nstarts, ms: ${starts.map((ms) => ms.toFixed(0)).join(' ')}`)
  report(
    'first response after start, ms (median)',
    starts[Math.floor(starts.length / 2)]!,
    targets.firstResponseMs,
  )
}

async function calibrate(upstream: Started, proxy: Started): Promise<void> {
  const second = await startProxy(upstream)
  try {
    const { origin, pid } = second
    await measureCells({ name: 'proxy 2', origin, key: 'none', model: 'fixed', pid }, upstream, proxy)
    await measureOpenStreams(`${origin}/v1/chat/completions`, { key: 'none', pid })
  } finally {
    await second.stop()
  }
}

function startProxy(upstream: Started): Promise<Started> {
  return startScript(gatewayCore, 'proxy.ts', [upstream.origin], manyRequests)
}

async function measureCells(subject: Target, upstream: Started, proxy: Started): Promise<void> {
  const direct: Target = {
    name: 'direct',
    origin: upstream.origin,
    key: 'none',
    model: 'fixed',
    pid: upstream.pid,
  }
  const reference: Target = { ...direct, name: 'proxy', origin: proxy.origin, pid: proxy.pid }
  const least: Target = { ...direct, name: 'floor', origin: floor.origin, pid: floor.pid }
  for (const target of [reference, least, subject]) await run(target, cells[1]!, warmUpSeconds)

  const titles = [
    'cell',
    'conns',
    'target',
    'req/s',
    'ratio',
    'p50',
    'p99',
    '+p50',
    '+p99',
    'cpu',
    'RSS',
    'failed',
  ]
  console.log(`\n${row(titles)}`)
  for (const cell of cells) {
    const base = await run(direct, cell, 1)
    print(cell, direct, base, undefined)
    const seen: Record<'reference' | 'least' | 'subject', Sample[]> = {
      reference: [],
      least: [],
      subject: [],
    }
    for (let round = 0; round < rounds; round++) {
      seen.reference.push(await run(reference, cell, seconds))
      seen.least.push(await run(least, cell, seconds))
      seen.subject.push(await run(subject, cell, seconds))
    }
    const bare = average(seen.reference)
    const ours = average(seen.subject)
    print(cell, reference, bare, undefined)
    print(cell, least, average(seen.least), bare)
    print(cell, subject, ours, bare)
    judge(cell, ours, bare, base)
  }
}

type Sample = Figures & { readonly cpu: number; readonly mb: number }

async function run(target: Target, cell: Cell, forSeconds: number): Promise<Sample> {
  const body = {
    model: target.model,
    messages: [{ role: 'user', content: 'Say something about the river, please.' }],
    max_tokens: 128,
    ...(cell.stream ? { stream: true, stream_options: { include_usage: true } } : {}),
  }
  const before = cpuSeconds(target.pid)
  const url = `${target.origin}/v1/chat/completions`
  const { connections, pauseMs } = cell
  const figures = await drive({ url, key: target.key, body, connections, pauseMs, seconds: forSeconds })
  return { ...figures, cpu: (cpuSeconds(target.pid) - before) / forSeconds, mb: residentMb(target.pid) }
}

function average(samples: readonly Sample[]): Sample {
  const mean = (of: (sample: Sample) => number) =>
    samples.reduce((sum, each) => sum + of(each), 0) / samples.length
  return {
    perSecond: mean((each) => each.perSecond),
    p50: mean((each) => each.p50),
    p99: mean((each) => each.p99),
    failures: samples.reduce((sum, each) => sum + each.failures, 0),
    cpu: mean((each) => each.cpu),
    mb: Math.max(...samples.map((each) => each.mb)),
  }
}

function judge(cell: Cell, ours: Sample, bare: Sample, direct: Sample): void {
  report('answers that failed', ours.failures, 0)
  if (cell.pauseMs > 0) {
    report('added over no gateway, p50 ms', ours.p50 - direct.p50, targets.addedP50)
    report('added over no gateway, p99 ms', ours.p99 - direct.p99, targets.addedP99)
  } else if (cell.connections === 1) {
    report('added over the bare proxy, p50 ms', ours.p50 - bare.p50, targets.addedP50AtOne)
  } else if (cell.connections === 32) {
    const least = cell.stream ? targets.streamRatio : targets.wholeRatio
    reportAtLeast('throughput of the bare proxy', ours.perSecond / bare.perSecond, least)
  }
}

async function measureOpenStreams(url: string, gateway: { key: string; pid: number }): Promise<void> {
  const result = await openStreams(url, gateway, 'bench/drip', flags.quick ? 500 : targets.openStreams)
  console.log(
    `\n${result.complete} of ${result.count} streams complete, ${result.eventsPerSecond.toFixed(0)} events/s` +
      (result.failures === '{}' ? '' : `, failures ${result.failures}`),
  )
  reportAtLeast('streams that ended as they should, of all', result.complete / result.count, 1)
  report(`resident with ${result.count} open streams, MB`, result.peakMb, targets.openStreamsMb)
}

function print(cell: Cell, target: Target, ours: Sample, bare: Sample | undefined): void {
  const added = (of: (sample: Sample) => number) => (bare ? (of(ours) - of(bare)).toFixed(2) : '')
  console.log(
    row([
      cell.name,
      String(cell.connections),
      target.name,
      ours.perSecond.toFixed(0),
      bare ? (ours.perSecond / bare.perSecond).toFixed(2) : '',
      ours.p50.toFixed(2),
      ours.p99.toFixed(2),
      added((sample) => sample.p50),
      added((sample) => sample.p99),
      `${(ours.cpu * 100).toFixed(0)}%`,
      ours.mb.toFixed(0),
      String(ours.failures),
    ]),
  )
}

function row(fields: readonly string[]): string {
  return fields.map((field, at) => (at === 0 ? field.padEnd(15) : field.padStart(8))).join('')
}

function report(name: string, value: number, most: number): void {
  console.log(`  ${value <= most ? 'pass' : 'FAIL'}  ${name}: ${rounded(value)} (at most ${most})`)
}

function reportAtLeast(name: string, value: number, least: number): void {
  console.log(`  ${value >= least ? 'pass' : 'FAIL'}  ${name}: ${rounded(value)} (at least ${least})`)
}

function rounded(value: number): string {
  return Number(value.toFixed(2)).toString()
}

function configuration(origin: string): string {
  const model = (name: string) => `
  - id: bench/${name}
    price: { input: "0.10", output: "0.40" }
    context_length: 131072
    max_output_tokens: 8192`
  return `
providers:
  bench: { protocol: openai-chat, base_url: "${origin}/v1", api_key: bench }
models:${model('fixed')}${model('drip')}
`
}
