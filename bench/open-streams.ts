// Many slow streams through the gateway at once: do all of them end well, and what memory do they take.

import { resolve } from 'node:path'
import { otherCore, residentMb } from './processes.ts'

export interface OpenStreams {
  readonly count: number
  readonly complete: number
  readonly eventsPerSecond: number
  /** The most memory the gateway had meanwhile, in MB. */
  readonly peakMb: number
  /** Reasons and how often, as JSON. */
  readonly failures: string
}

/** Opens the streams from a process of its own and samples the gateway's memory until the last has ended. */
export async function openStreams(
  url: string,
  gateway: { readonly key: string; readonly pid: number },
  model: string,
  count: number,
): Promise<OpenStreams> {
  const script = resolve(import.meta.dir, 'streams.ts')
  const child = Bun.spawn(
    ['taskset', '-c', otherCore, process.execPath, script, url, gateway.key, model, String(count)],
    {
      // Without it the client itself would open 256 and let the others wait.
      env: { ...process.env, BUN_CONFIG_MAX_HTTP_REQUESTS: '8192', BUN_OPTIONS: '--no-orphans' },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'inherit',
    },
  )
  let peakMb = 0
  const sampler = setInterval(() => (peakMb = Math.max(peakMb, residentMb(gateway.pid))), 100)
  const limit = setTimeout(() => child.kill('SIGKILL'), 60_000)
  try {
    const lines = (await new Response(child.stdout).text()).trim().split('\n')
    const end = JSON.parse(lines.at(-1) || '{}') as Partial<End>
    return {
      count,
      complete: end.complete ?? 0,
      eventsPerSecond: (end.events ?? 0) / (end.seconds ?? 1),
      peakMb,
      failures: JSON.stringify(end.failures ?? { 'the client did not finish': count }),
    }
  } finally {
    clearInterval(sampler)
    clearTimeout(limit)
  }
}

interface End {
  readonly complete: number
  readonly events: number
  readonly seconds: number
  readonly failures: Readonly<Record<string, number>>
}
