// An hour of ordinary traffic with a few faults (G8): memory must not grow, descriptors must come back, the log of the
// database must stay small, and every call that was served must be in the books.

import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { type RunningWeir, startWeir } from '../support/run-weir.ts'

export interface SoakOptions {
  readonly seconds: number
  /** Of `seconds`, how many are not looked at: compiling, and filling of caches. */
  readonly warmUpSeconds: number
  readonly requestsPerSecond: number
  readonly openStreams: number
  /** How long each of them lasts. */
  readonly streamSeconds: number
  /** Faults of the provider in a thousand answers. */
  readonly faultsPerMille: number
  readonly say: (line: string) => void
}

/** What became of the calls of the clients. */
export interface LoadFigures {
  asked: number
  served: number
  /** Answered with an error before the first byte. */
  refused: number
  /** Ended with an error in the middle. */
  broken: number
  /** Left by the client. */
  left: number
  /** Not asked, as too many were waiting. */
  shed: number
}

export interface SoakReport {
  readonly load: LoadFigures
  /** Megabytes of memory per ten minutes, by regression over the samples after the warm-up. */
  readonly slopeMb: number
  readonly firstMb: number
  readonly lastMb: number
  /** Open descriptors before the load, and after it when all is quiet. */
  readonly descriptors: readonly [before: number, after: number]
  /** Largest size of the database's log, megabytes. */
  readonly logMb: number
  /** 99th percentile of the time to an answer of the health check, milliseconds. */
  readonly healthP99Ms: number
  /** Calls that the books say were settled with their whole usage. */
  readonly charged: number
  readonly audit: boolean
}

/** What an hour must reach (G8). */
export const soakLimits = { slopeMb: 1, descriptors: 5, logMb: 64, healthP99Ms: 50 } as const

const sampleMs = 5_000
const probeMs = 100
/** How long the gateway may take to close what its clients have left, milliseconds. */
const quietMs = 30_000

const config = (port: number) =>
  JSON.stringify({
    bootstrap: { credit_usd: '100000' },
    providers: { lab: { protocol: 'openai-chat', base_url: `http://127.0.0.1:${port}/v1`, api_key: 'k' } },
    models: ['whole', 'stream', 'drip'].map((name) => ({
      id: `lab/${name}`,
      price: { input: '1', output: '2' },
      max_output_tokens: 4_096,
      context_length: 128_000,
    })),
    limits: { requests_in_flight: 10_000, requests_in_flight_per_account: 10_000 },
  })

export async function soak(options: SoakOptions): Promise<SoakReport> {
  const provider = script('provider-child.ts', options.faultsPerMille, options.streamSeconds)
  const weir = await startWeir({ config: config(Number(await provider.line())) })
  try {
    // Whoever asks first loads what is loaded once.
    await (await fetch(`${weir.origin}/healthz`)).text()
    const before = descriptorsOf(weir.pid)
    const { requestsPerSecond, openStreams, streamSeconds } = options
    const load = script(
      'load-child.ts',
      weir.baseUrl,
      weir.key,
      requestsPerSecond,
      openStreams,
      streamSeconds,
    )
    const watched = await watch(weir, options)
    await load.child.stdin.write('end\n')
    await load.child.stdin.end()
    const figures = JSON.parse(await load.line()) as LoadFigures
    await load.child.exited
    // Then the connections that are kept for further calls are closed as well.
    await stopped(provider.child)
    const after = await quietDescriptors(weir.pid, before)
    const charged = await chargedCalls(weir)
    const audit = (await weir.command('ledger', 'audit')).code === 0
    return { load: figures, ...watched, descriptors: [before, after], charged, audit }
  } finally {
    await weir.stop()
    await stopped(provider.child)
  }
}

/** What of a report breaks a promise; the figures of time and memory mean something in a long run alone. */
export function brokenPromises(report: SoakReport, isLong: boolean): string[] {
  const { load, descriptors, logMb, audit, charged, slopeMb, healthP99Ms } = report
  const found: string[] = []
  if (!audit) found.push('the audit finds faults')
  if (charged < load.served) found.push(`${load.served} calls were served, ${charged} are charged`)
  if (load.served === 0) found.push('nothing was served')
  if (descriptors[1] > descriptors[0] + soakLimits.descriptors)
    found.push(`${descriptors[0]} descriptors became ${descriptors[1]}`)
  if (logMb > soakLimits.logMb) found.push(`the log of the database had ${logMb.toFixed(0)} MB`)
  if (!isLong) return found
  if (load.shed > 0) found.push(`${load.shed} requests were not asked: too many waited`)
  if (slopeMb > soakLimits.slopeMb) found.push(`memory grew by ${slopeMb.toFixed(2)} MB in ten minutes`)
  if (healthP99Ms > soakLimits.healthP99Ms) found.push(`the health check took ${healthP99Ms.toFixed(0)} ms`)
  return found
}

/** Slope of a line through points, by least squares: y for each x. */
export function slopeOf(points: readonly (readonly [x: number, y: number])[]): number {
  const mean = (of: (point: readonly [number, number]) => number) =>
    points.reduce((sum, point) => sum + of(point), 0) / points.length
  const [x, y] = [mean(([at]) => at), mean(([, value]) => value)]
  const above = points.reduce((sum, [at, value]) => sum + (at - x) * (value - y), 0)
  const below = points.reduce((sum, [at]) => sum + (at - x) ** 2, 0)
  return below === 0 ? 0 : above / below
}

async function watch(
  weir: RunningWeir,
  { seconds, warmUpSeconds, say }: SoakOptions,
): Promise<Pick<SoakReport, 'slopeMb' | 'firstMb' | 'lastMb' | 'logMb' | 'healthP99Ms'>> {
  const memory: [seconds: number, mb: number][] = []
  const waits: number[] = []
  const log = `${weir.dataDir}/weir.db-wal`
  let logMb = 0
  const started = performance.now()
  const elapsed = () => (performance.now() - started) / 1000
  const sampling = setInterval(
    () => {
      logMb = Math.max(logMb, existsSync(log) ? statSync(log).size / 1024 ** 2 : 0)
      const mb = residentMb(weir.pid)
      if (elapsed() >= warmUpSeconds) memory.push([elapsed(), mb])
      say(`${elapsed().toFixed(0)} s: ${mb.toFixed(1)} MB, ${descriptorsOf(weir.pid)} descriptors`)
    },
    Math.min(sampleMs, (seconds * 1000) / 4),
  )
  while (elapsed() < seconds) {
    const asked = performance.now()
    await (await fetch(`${weir.origin}/healthz`)).text()
    if (elapsed() >= warmUpSeconds) waits.push(performance.now() - asked)
    await Bun.sleep(probeMs)
  }
  clearInterval(sampling)
  waits.sort((a, b) => a - b)
  return {
    slopeMb: slopeOf(memory) * 600,
    firstMb: memory[0]?.[1] ?? 0,
    lastMb: memory.at(-1)?.[1] ?? 0,
    logMb,
    healthP99Ms: waits[Math.floor(waits.length * 0.99)] ?? 0,
  }
}

/** The calls that were charged for the tokens that the provider names, by the gateway's own log. */
async function chargedCalls(weir: RunningWeir): Promise<number> {
  const response = await fetch(`${weir.baseUrl}/credits`, {
    headers: { authorization: `Bearer ${weir.key}` },
  })
  const { data } = (await response.json()) as { data: { total_used: string } }
  // 12 tokens at one dollar a million, 4 at two: calls that broke off are charged less, or as much.
  return Math.round(Number(data.total_used) / ((12 * 1 + 4 * 2) / 1e6))
}

/** Descriptors once those of the clients are closed, or after thirty seconds. */
async function quietDescriptors(pid: number, before: number): Promise<number> {
  const end = performance.now() + quietMs
  let open = descriptorsOf(pid)
  while (open > before + soakLimits.descriptors && performance.now() < end) {
    await Bun.sleep(200)
    open = descriptorsOf(pid)
  }
  return open
}

async function stopped(child: Bun.Subprocess): Promise<void> {
  child.kill()
  await child.exited
}

function descriptorsOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length
}

function residentMb(pid: number): number {
  return (Number(readFileSync(`/proc/${pid}/statm`, 'latin1').split(' ')[1]) * 4096) / 1024 ** 2
}

/** A script of this folder as a process, line by line. */
function script(name: string, ...args: (string | number)[]) {
  const child = Bun.spawn([process.execPath, resolve(import.meta.dir, name), ...args.map(String)], {
    env: { ...process.env, BUN_CONFIG_MAX_HTTP_REQUESTS: '8192', BUN_OPTIONS: '--no-orphans' },
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const reader = child.stdout.getReader()
  const decoder = new TextDecoder()
  let text = ''
  return {
    child,
    async line(): Promise<string> {
      while (!text.includes('\n')) {
        const { done, value } = await reader.read()
        if (done) throw new Error(`${name} ended`)
        text += decoder.decode(value, { stream: true })
      }
      const end = text.indexOf('\n')
      const line = text.slice(0, end)
      text = text.slice(end + 1)
      return line
    },
  }
}
