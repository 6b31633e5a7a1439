// Processes of a bench: started on a core of their own, watched, and always taken down.

import { readdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'

/** The gateway has this core for itself; load and provider share the other. */
export const gatewayCore = '0'
export const otherCore = '1'

export interface Started {
  readonly pid: number
  /** `http://127.0.0.1:<port>`, as it printed it. */
  readonly origin: string
  stop(): Promise<void>
}

/** Starts a script of this folder that prints `port <n>`, pinned to a core. */
export async function startScript(
  core: string,
  script: string,
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<Started> {
  const child = Bun.spawn(
    ['taskset', '-c', core, process.execPath, resolve(import.meta.dir, script), ...args],
    {
      env: { ...process.env, BUN_OPTIONS: '--no-orphans', ...env },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'inherit',
    },
  )
  const stop = async () => {
    child.kill('SIGTERM')
    await child.exited
  }
  let printed = ''
  const decoder = new TextDecoder()
  for await (const bytes of child.stdout) {
    printed += decoder.decode(bytes, { stream: true })
    const port = /port (\d+)\n/.exec(printed)?.[1]
    if (port !== undefined) return { pid: child.pid, origin: `http://127.0.0.1:${port}`, stop }
  }
  throw new Error(`${script} did not start: ${printed}`)
}

/** Resident memory of a process, in megabytes (10⁶ bytes). */
export function residentMb(pid: number): number {
  const kb = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return (Number(kb ?? 0) * 1024) / 1e6
}

/** Threads of the compiler: what they do ends once the program is warm, and takes longer the larger it is. */
const compiling = /^(JITWorker|JSCWarmUp)/

/**
 * Processor time that a process has used so far, in microseconds: all its threads but those that compile. What threads
 * had used that have ended since is not in it, so a difference may come out too small.
 */
export function cpuMicros(pid: number): number {
  let nanoseconds = 0
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const folder = `/proc/${pid}/task/${thread}`
    try {
      if (compiling.test(readFileSync(`${folder}/comm`, 'utf8'))) continue
      nanoseconds += Number(readFileSync(`${folder}/schedstat`, 'utf8').split(' ')[0])
    } catch {
      // It has ended meanwhile.
    }
  }
  return nanoseconds / 1000
}

/** Processor time that a process has used so far, in seconds. */
export function cpuSeconds(pid: number): number {
  // The name in parentheses may hold spaces; the fields after it do not. Ticks are hundredths of a second.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) / 100
}
