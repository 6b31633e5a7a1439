// What a call through Weir costs beside a bare proxy, beside the least that a durable hold and settle allow (floor.ts),
// and beside an earlier build: throughput, added latency, memory, start.
// `bun bench/load.ts [--against EXECUTABLE] [--rounds 4] [--quick] [--only CELL]`; `--calibrate` puts a second bare proxy in Weir's
// place, to see how far two equals differ. The gateway has core 0, load and provider share core 1. Rounds alternate, so
// that drift strikes all alike; figures are medians of the rounds, ratios are medians of paired rounds.

import { parseArgs } from 'node:util'
import { startWeir, weirCommand } from '../test/support/run-weir.ts'
import { tempDir } from '../test/support/tmp.ts'
import { tools, turnOf } from './agents.ts'
import { configuration } from './configuration.ts'
import { bareSyncsUs } from './disk.ts'
import { openStreams } from './open-streams.ts'
import { cpuSeconds, gatewayCore, otherCore, residentMb, type Started, startScript } from './processes.ts'
import { measureFirstResponse } from './start-up.ts'
import { median, spread } from './statistics.ts'
import { another, drive, type Figures } from './wrk.ts'

/** The figures to reach. Latencies in ms, memory in MB. */
const targets = {
  /** Throughput at 32 connections, of the floor's. */
  ofFloor: 0.7,
  /** Throughput at 32 connections, of the earlier build's (commit 6b11018). */
  wholeOfEarlier: 2.5,
  streamOfEarlier: 2.1,
  /** Over the floor's, at one connection. */
  addedP50: 0.2,
  /** Over the floor's, at a thousand requests a second. */
  addedP99: 1.5,
  /** Throughput of translated streams, of streams that are not translated. */
  translated: 0.7,
  firstResponseMs: 110,
  idleMb: 80,
  /** Resident with this many streams open. */
  openStreamsMb: 210,
  openStreams: 2_000,
  /** Processor time of a call with a large prompt, of the bare proxy's; and where its prefix came before, of the first. */
  agentOfProxy: 3,
  againOfFirst: 0.6,
  /** Processor time of a call of a route, of one of the model that serves it. */
  routeOfModel: 1.03,
}

const { values: flags } = parseArgs({
  options: {
    against: { type: 'string' },
    rounds: { type: 'string', default: '4' },
    quick: { type: 'boolean', default: false },
    calibrate: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
  },
})
const seconds = flags.quick ? 1 : 3
const rounds = flags.quick ? 1 : Number(flags.rounds)
/**
 * Until the compiler has done most of its work: the gateway's has spent 1.8 of its 2.2 s after 13,000 calls. By calls and
 * not by time, as a busy machine is warm later; by time for what makes so few.
 */
const warmUp = flags.quick ? { calls: 1, seconds: 1 } : { calls: 16_000, seconds: 24 }

/** Short pairs of a plain model and a route in front of it for each round: what differs is less than what drifts. */
const pairsOfRound = 12
const pairSeconds = 1

interface Target {
  readonly name: string
  readonly origin: string
  readonly key: string
  /** Before the names of models that every target has. */
  readonly prefix: string
  readonly pid: number
}

interface Cell {
  readonly name: string
  /** A translated one with its provider. */
  readonly model: string
  readonly stream: boolean
  readonly connections: number
  readonly pauseMs: number
  /** Bare proxies do not translate. */
  readonly translated?: boolean
  /** What is sent instead of a short question. */
  readonly prompt?: Prompt
}

interface Prompt {
  readonly messages: readonly object[]
  readonly tools?: readonly object[]
}

const chat = { model: 'fixed', pauseMs: 0 }
const whole = { ...chat, name: 'whole', stream: false }
const stream = { ...chat, name: 'stream', stream: true }
const agent = { ...chat, connections: 8, stream: false }
const firstTurn: Cell = { ...agent, name: '200 kB, new', prompt: turnOf(200_000, another) }
const nextTurn: Cell = { ...agent, name: '200 kB, again', prompt: turnOf(200_000, 'Be brief.') }
const agents: readonly Cell[] = [
  firstTurn,
  nextTurn,
  { ...nextTurn, name: '200 kB, stream', stream: true },
  { ...agent, name: '28 kB of tools', prompt: { ...turnOf(1_000, 'Be brief.'), tools } },
]

const wholeAt32: Cell = { ...whole, connections: 32 }
const streamAt32: Cell = { ...stream, connections: 32 }
const cells: readonly Cell[] = [
  { ...whole, connections: 1 },
  wholeAt32,
  { ...whole, connections: 256 },
  { ...stream, connections: 1 },
  streamAt32,
  { ...stream, connections: 256 },
  { ...streamAt32, name: 'stream, Claude', model: 'bench-claude/fixed', translated: true },
  { ...streamAt32, name: 'stream, Gemini', model: 'bench-gemini/fixed', translated: true },
  // 32 connections, each about 32 ms from one request to the next: a thousand a second, far from the limit.
  { ...whole, name: 'whole, 1,000/s', connections: 32, pauseMs: 31 },
  ...agents,
].filter(({ name }) => name.includes(flags.only))

type Sample = Figures & { readonly cpu: number; readonly mb: number }
/** The rounds of each target by its name. */
type Rounds = ReadonlyMap<string, readonly Sample[]>

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
const pinned = { config: configuration(upstream.origin), prefix: ['taskset', '-c', gatewayCore] }
const bare = { key: 'none', prefix: '' }
const direct: Target = { ...bare, name: 'direct', origin: upstream.origin, pid: upstream.pid }
const references: readonly Target[] = [
  { ...bare, name: 'proxy', origin: proxy.origin, pid: proxy.pid },
  { ...bare, name: 'floor', origin: floor.origin, pid: floor.pid },
]
try {
  console.log(`${rounds} round(s), ${seconds} s a cell\n`)
  if (flags.calibrate) await calibrate()
  else await measureAll()
} finally {
  await floor.stop()
  await proxy.stop()
  await upstream.stop()
}

async function measureAll(): Promise<void> {
  console.log(`weir runs from ${weirCommand.length === 1 ? 'the executable' : 'its source'}`)
  if (flags.only === '') await measureMemory()
  using data = tempDir('weir-bench-')
  const options = { ...pinned, dataDir: data.path }
  const weir = await startWeir(options)
  const earlier =
    flags.against === undefined ? undefined : await startWeir({ ...pinned, command: [flags.against] })
  try {
    // At one connection nothing overlaps with the two syncs of a call: they are part of what is added there.
    const syncsMs = bareSyncsUs(data.join('syncs'), flags.quick ? 100 : 1_000) / 1000
    console.log(`\ntwo bare syncs of this disk: ${syncsMs.toFixed(2)} ms`)
    const gateways = [weir, ...(earlier ? [earlier] : [])].map(({ origin, key, pid }, at) => ({
      name: at === 0 ? 'weir' : 'earlier',
      origin,
      key,
      prefix: 'bench/',
      pid,
    }))
    if (cells.length > 0) judge(await measureCells([...references, ...gateways]))
    await measureRoute(gateways[0]!)
  } finally {
    await earlier?.stop()
    await weir.stop()
  }
  if (flags.only !== '') return
  const starts = await measureFirstResponse(options, flags.quick ? 3 : 10)
  console.log(`\nstarts, ms: ${starts.map((ms) => ms.toFixed(0)).join(' ')}`)
  report('first response after start, ms (median)', median(starts), targets.firstResponseMs)
}

/** In a process of its own: one that has had thousands of streams is slower afterwards, and the others have had none. */
async function measureMemory(): Promise<void> {
  readFromDisk()
  const weir = await startWeir(pinned)
  try {
    // One that has just begun is not idle yet.
    await Bun.sleep(1_000)
    report('resident idle, MB', residentMb(weir.pid), targets.idleMb)
    await measureOpenStreams(`${weir.baseUrl}/chat/completions`, weir, 'bench/drip')
  } finally {
    await weir.stop()
  }
}

/** What its build has left of the executable in memory counts up to 5 MB more than what is read when it is needed. */
function readFromDisk(): void {
  const [executable] = weirCommand
  if (executable === undefined || weirCommand.length > 1) return
  for (const command of [
    ['sync', executable],
    ['dd', `if=${executable}`, 'iflag=nocache', 'count=0', 'status=none'],
  ])
    Bun.spawnSync(command)
}

async function calibrate(): Promise<void> {
  const second = await startProxy(upstream)
  try {
    const { origin, pid } = second
    await measureCells([...references, { ...bare, name: 'proxy 2', origin, pid }])
    await measureOpenStreams(`${origin}/v1/chat/completions`, { key: 'none', pid }, 'drip')
  } finally {
    await second.stop()
  }
}

function startProxy({ origin }: Started): Promise<Started> {
  return startScript(gatewayCore, 'proxy.ts', [origin], manyRequests)
}

/** What a route adds to a call: the two alternate, so that drift strikes both. */
async function measureRoute(weir: Target): Promise<void> {
  if (!'route'.includes(flags.only)) return
  const route: Cell = { ...wholeAt32, name: 'whole, route', model: 'bench-route', translated: true }
  for (const cell of [wholeAt32, route]) await run(weir, cell, warmUp.seconds / 2)
  const samples = { plain: [] as Sample[], route: [] as Sample[] }
  for (let pair = 0; pair < rounds * pairsOfRound; pair++) {
    const turn = [wholeAt32, route]
    for (const cell of pair % 2 === 0 ? turn : turn.toReversed())
      samples[cell === route ? 'route' : 'plain'].push(await run(weir, cell, pairSeconds))
  }
  print(wholeAt32, 'weir', samples.plain)
  print(route, 'weir', samples.route)
  const ratios = (of: (sample: Sample) => number) =>
    samples.route.map((each, at) => of(each) / of(samples.plain[at]!))
  const time = ratios(({ cpu, perSecond }) => cpu / perSecond)
  const most = targets.routeOfModel
  const verdict = median(time) <= most ? 'pass' : 'FAIL'
  console.log(
    `  ${verdict}  a route: processor time of a call, of a plain model's: ${spread(time, 3)} (at most ${most})`,
  )
  console.log(
    `        throughput of a plain model: ${spread(
      ratios(({ perSecond }) => perSecond),
      3,
    )}`,
  )
}

/** Measures each cell in rounds in which each target has a turn, and prints the medians. */
async function measureCells(all: readonly Target[]): Promise<ReadonlyMap<Cell, Rounds>> {
  const translates = ({ prefix }: Target) => prefix !== ''
  for (const target of all) {
    for (const cell of [wholeAt32, streamAt32]) {
      let calls = 0
      for (let spent = 0; spent < warmUp.seconds && calls < warmUp.calls; spent += seconds)
        calls += (await run(target, cell, seconds)).perSecond * seconds
    }
  }
  const titles = ['cell', 'conns', 'target', 'req/s', 'p50', 'p99', 'cpu', 'RSS', 'failed']
  console.log(`\n${row(titles)}`)
  const measured = new Map<Cell, Rounds>()
  for (const cell of cells) {
    const able = cell.translated ? all.filter(translates) : all
    if (able.length === 0) continue
    if (!cell.translated) print(cell, direct.name, [await run(direct, cell, 1)])
    const samples = new Map(able.map(({ name }) => [name, [] as Sample[]]))
    for (let round = 0; round < rounds; round++) {
      // Who comes first changes, as what one leaves behind may cost the next.
      const turn = round % 2 === 0 ? able : able.toReversed()
      for (const target of turn) samples.get(target.name)!.push(await run(target, cell, seconds))
    }
    for (const [name, of] of samples) print(cell, name, of)
    measured.set(cell, samples)
  }
  return measured
}

async function run(target: Target, cell: Cell, forSeconds: number): Promise<Sample> {
  const body = {
    model: cell.translated ? cell.model : target.prefix + cell.model,
    messages: [{ role: 'user', content: 'Say something about the river, please.' }],
    ...cell.prompt,
    max_tokens: 128,
    ...(cell.stream ? { stream: true, stream_options: { include_usage: true } } : {}),
  }
  const before = cpuSeconds(target.pid)
  const url = `${target.origin}/v1/chat/completions`
  const { connections, pauseMs } = cell
  const figures = await drive({ url, key: target.key, body, connections, pauseMs, seconds: forSeconds })
  return { ...figures, cpu: (cpuSeconds(target.pid) - before) / forSeconds, mb: residentMb(target.pid) }
}

/** Compares the rounds of Weir with those of the others, and prints what is reached and what is not. */
function judge(measured: ReadonlyMap<Cell, Rounds>): void {
  console.log('')
  const pairs = (cell: Cell, other: string, of: (weir: Sample, other: Sample) => number) => {
    const samples = measured.get(cell)
    const theirs = samples?.get(other)
    return samples?.get('weir')?.flatMap((ours, at) => (theirs ? [of(ours, theirs[at]!)] : [])) ?? []
  }
  const rate = (ours: Sample, theirs: Sample) => ours.perSecond / theirs.perSecond
  const failures = [...measured.values()]
    .flatMap((each) => each.get('weir') ?? [])
    .map((each) => each.failures)
  report(
    'answers that failed',
    failures.reduce((sum, each) => sum + each, 0),
    0,
  )
  const time = ({ cpu, perSecond }: Sample) => cpu / perSecond
  for (const cell of agents) {
    const ofProxy = pairs(cell, 'proxy', (ours, theirs) => time(ours) / time(theirs))
    reportPaired(`${cell.name}: processor time, of the bare proxy's`, ofProxy, targets.agentOfProxy)
    const ofEarlier = pairs(cell, 'earlier', (ours, theirs) => time(ours) / time(theirs))
    if (ofEarlier.length > 0) console.log(`        of the earlier build's: ${spread(ofEarlier)}`)
  }
  const firsts = measured.get(firstTurn)?.get('weir') ?? []
  const again =
    measured
      .get(nextTurn)
      ?.get('weir')
      ?.map((each, at) => time(each) / time(firsts[at]!)) ?? []
  reportPaired('the same prefix again: processor time, of the first turn', again, targets.againOfFirst)
  for (const cell of cells) {
    if (cell.prompt) continue
    const { name, connections } = cell
    const what = `${name}, ${connections} connection(s)`
    if (cell.translated) {
      const streams = measured.get(streamAt32)?.get('weir') ?? []
      const ratios = (measured.get(cell)?.get('weir') ?? []).map((ours, at) => rate(ours, streams[at]!))
      reportAtLeast(`${what}: throughput of untranslated`, ratios, targets.translated)
    } else if (cell.pauseMs > 0) {
      const added = pairs(cell, 'floor', (ours, theirs) => ours.p99 - theirs.p99)
      reportPaired(`${what}: p99 over the floor's, ms`, added, targets.addedP99)
    } else if (connections === 1) {
      const added = pairs(cell, 'floor', (ours, theirs) => ours.p50 - theirs.p50)
      reportPaired(`${what}: p50 over the floor's, ms`, added, targets.addedP50)
    } else if (connections === 32) {
      const least = cell.stream ? targets.streamOfEarlier : targets.wholeOfEarlier
      reportAtLeast(`${what}: throughput of the floor`, pairs(cell, 'floor', rate), targets.ofFloor)
      reportAtLeast(`${what}: throughput of the earlier build`, pairs(cell, 'earlier', rate), least)
      console.log(`        throughput of the bare proxy: ${spread(pairs(cell, 'proxy', rate))}`)
    }
  }
}

async function measureOpenStreams(
  url: string,
  gateway: { readonly key: string; readonly pid: number },
  model: string,
): Promise<void> {
  const result = await openStreams(url, gateway, model, flags.quick ? 500 : targets.openStreams)
  console.log(
    `\n${result.complete} of ${result.count} streams complete, ${result.eventsPerSecond.toFixed(0)} events/s` +
      (result.failures === '{}' ? '' : `, failures ${result.failures}`),
  )
  reportAtLeast('streams that ended as they should, of all', [result.complete / result.count], 1)
  report(`resident with ${result.count} open streams, MB`, result.peakMb, targets.openStreamsMb)
}

function print({ name, connections }: Cell, target: string, samples: readonly Sample[]): void {
  const middle = (of: (sample: Sample) => number) => median(samples.map(of))
  console.log(
    row([
      name,
      String(connections),
      target,
      middle((each) => each.perSecond).toFixed(0),
      middle((each) => each.p50).toFixed(2),
      middle((each) => each.p99).toFixed(2),
      `${middle((each) => each.cpu * 100).toFixed(0)}%`,
      Math.max(...samples.map((each) => each.mb)).toFixed(0),
      String(samples.reduce((sum, each) => sum + each.failures, 0)),
    ]),
  )
}

function row(fields: readonly string[]): string {
  return fields.map((field, at) => (at === 0 ? field.padEnd(15) : field.padStart(9))).join('')
}

function report(name: string, value: number, most: number): void {
  reportPaired(name, [value], most)
}

function reportPaired(name: string, values: readonly number[], most: number): void {
  if (values.length === 0) return
  console.log(`  ${median(values) <= most ? 'pass' : 'FAIL'}  ${name}: ${spread(values)} (at most ${most})`)
}

function reportAtLeast(name: string, values: readonly number[], least: number): void {
  if (values.length === 0) return
  console.log(
    `  ${median(values) >= least ? 'pass' : 'FAIL'}  ${name}: ${spread(values)} (at least ${least})`,
  )
}
