// Attacks a gateway while steady streams run through it and a watch looks on, and tells what it has cost them.

import { readFileSync } from 'node:fs'
import { type RunningWeir, startWeir } from '../support/run-weir.ts'
import { linesOf, startChild, startControl } from '../support/slowness.ts'
import { attacks } from './attacks.ts'

/** What the watch has seen since the last time. */
export interface Figures {
  readonly probes: number
  /** The longest that the loop answered nobody, milliseconds of its own thread's work. */
  readonly holdMs: number
  readonly events: number
  /** Events of steady streams that did not come, or not in their turn. */
  readonly lost: number
  readonly broken: number
  readonly open: number
  /** The longest that an event of a steady stream took through the gateway, of which its thread was at work. */
  readonly delayMs: number
}

export interface HostileOptions {
  /** Runs the attacks again until so much time is over; once at least. */
  readonly seconds: number
  /** How many of everything: 1 is the full attack. */
  readonly scale: number
  readonly streams: number
  /** Which of the attacks. */
  readonly chosen: (name: string) => boolean
  /** Each by itself, which says which of them it was, and then all at once; or only that. */
  readonly rounds: 'each and all' | 'all'
  readonly say: (line: string) => void
}

export interface Report extends Figures {
  readonly worst: string
  readonly residentMb: number
  /** The longest hold and delay, each divided by how much slower the machine was then than at its best. */
  readonly fairHoldMs: number
  readonly fairDelayMs: number
}

/** The figures of one attack, and how much slower than at its best the machine was meanwhile. */
interface Seen extends Figures {
  readonly slowness: number
}

const price = '{ input: "1", output: "2" }'
const models = (names: readonly string[]) =>
  names
    .map((name) => {
      // Every other answer is cut at its bound; this one is to come whole.
      const most = name === 'stalled' ? 1_000_000 : 1_000
      return `  - { id: lab/${name}, price: ${price}, max_output_tokens: ${most} }`
    })
    .join('\n')

/** Starts a hostile provider in a process of its own; the gateway in front of it goes with it. */
export async function startBesieged(): Promise<{ weir: RunningWeir; stop: () => Promise<void> }> {
  const provider = Bun.spawn([process.execPath, `${import.meta.dir}/provider-child.ts`], {
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const { value: line } = await linesOf(provider.stdout).next()
  const port = Number(/port (\d+)/.exec(line ?? '')?.[1])
  const config = `
local_servers: { discover: false }
limits: { attempts: 1, requests_in_flight: 10000, requests_in_flight_per_account: 10000 }
bootstrap: { credit_usd: "100000" }
providers:
  lab: { protocol: openai-chat, base_url: "http://127.0.0.1:${port}/v1", api_key: lab-secret }
${otherProtocols.map(([id, protocol]) => `  ${id}: { protocol: ${protocol}, base_url: "http://127.0.0.1:${port}/v1", api_key: s }`).join('\n')}
models:
${models(modelNames.split(' '))}
${otherProtocols.map(([id]) => `  - { id: ${id}/m, price: ${price}, max_output_tokens: 1000 }`).join('\n')}
  - { id: lab/vectors, output_modalities: [embeddings], price: ${price}, context_length: 8192 }
`
  const weir = await startWeir({ config })
  return {
    weir,
    stop: async () => {
      await weir.stop()
      await provider.stdin.end()
      await provider.exited
    },
  }
}

/** Providers that are asked in other words. What they answer cannot be read. */
const otherProtocols = [
  ['claude', 'anthropic-messages'],
  ['bedrock', 'bedrock-converse'],
  ['gemini', 'gemini'],
  ['responses', 'openai-responses'],
] as const

const modelNames =
  'paced small stalled deep-event deep-objects wide-event full-event long-event tiny-events ' +
  'tiny-odd-events tiny-calls many-calls comments blank-lines deep-whole wide-whole logprobs-whole long-whole calls-whole deep-arguments'

/** Runs the attacks until the time is over. */
export async function besiege(options: HostileOptions): Promise<Report> {
  const { seconds, scale, say } = options
  const chosen = attacks.filter(({ name }) => options.chosen(name))
  const { weir, stop } = await startBesieged()
  const watch = await startWatch(weir, options.streams, 3_600)
  const control = startControl()
  const seen: Seen[] = []
  let worst = { name: '', ms: 0 }
  let resident = 0
  const note = async (name: string) => {
    const figures = { ...(await watch.figures()), slowness: await control.slowness() }
    const residentMb = residentMbOf(weir)
    seen.push(figures)
    resident = Math.max(resident, residentMb)
    const ms = Math.max(figures.holdMs, figures.delayMs / 2) / figures.slowness
    if (ms > worst.ms) worst = { name, ms }
    say(rowOf(name, figures, residentMb))
  }
  const begun = performance.now()
  try {
    await Bun.sleep(1_000)
    await note('nothing')
    do {
      if (options.rounds === 'each and all') {
        for (const attack of chosen) {
          await attack.run(weir, scale)
          await note(attack.name)
        }
      }
      if (chosen.length > 1) {
        await Promise.all(chosen.map((attack) => attack.run(weir, scale / 4)))
        await note('all at once')
      }
    } while (performance.now() - begun < seconds * 1000)
    const most = (of: (figures: Seen) => number) => Math.max(...seen.map(of))
    return {
      ...totalOf(seen),
      worst: worst.name,
      residentMb: resident,
      fairHoldMs: most(({ holdMs, slowness }) => holdMs / slowness),
      fairDelayMs: most(({ delayMs, slowness }) => delayMs / slowness),
    }
  } finally {
    watch.stop()
    control.stop()
    await stop()
  }
}

function totalOf(seen: readonly Seen[]): Figures {
  const most = (of: (figures: Figures) => number) => Math.max(...seen.map(of))
  const sum = (of: (figures: Figures) => number) => seen.reduce((total, figures) => total + of(figures), 0)
  return {
    probes: sum(({ probes }) => probes),
    holdMs: most(({ holdMs }) => holdMs),
    events: sum(({ events }) => events),
    lost: sum(({ lost }) => lost),
    broken: sum(({ broken }) => broken),
    open: seen.at(-1)!.open,
    delayMs: most(({ delayMs }) => delayMs),
  }
}

function rowOf(name: string, figures: Seen, residentMb: number): string {
  const { probes, holdMs, events, lost, delayMs, slowness } = figures
  const cells = [`${holdMs.toFixed(0)} ms held`, `${delayMs.toFixed(0)} ms late`, `${lost} lost of ${events}`]
  const rest = `${residentMb.toFixed(0)} MB, ${probes} probes, the machine ${slowness.toFixed(1)} times slower`
  return `${name.padEnd(52)} ${cells.join(', ').padEnd(50)} ${rest}`
}

/** The memory of the gateway's process, megabytes. */
export function residentMbOf({ pid }: RunningWeir): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024
}

async function startWatch(weir: RunningWeir, streams: number, seconds: number) {
  const { child, lines } = startChild(`${import.meta.dir}/watch-child.ts`, [
    weir.origin,
    weir.pid,
    weir.key,
    streams,
    seconds,
  ])
  return {
    async figures(): Promise<Figures> {
      await child.stdin.write('\n')
      const { value } = await lines.next()
      if (value === undefined) throw new Error('the watch has ended: the gateway closed its connection')
      return JSON.parse(value) as Figures
    },
    stop: () => void child.stdin.end(),
  }
}

/** What is promised: milliseconds that nothing may hold the loop for, and that no event of a steady stream may gain. */
const mostHoldMs = 50
const mostDelayMs = 100

/** The promises that were broken; `slack` multiplies what is promised. */
export function findingsOf(report: Report, slack = 1): string[] {
  const { fairHoldMs, fairDelayMs, lost, broken, worst } = report
  return [
    ...(fairHoldMs > slack * mostHoldMs
      ? [`the loop was held for ${fairHoldMs.toFixed(0)} ms; the worst was ${worst}`]
      : []),
    ...(fairDelayMs > slack * mostDelayMs
      ? [`an event came ${fairDelayMs.toFixed(0)} ms late; the worst was ${worst}`]
      : []),
    ...(lost > 0 ? [`${lost} events of steady streams were lost`] : []),
    ...(broken > 0 ? [`${broken} steady streams broke off`] : []),
  ]
}
