// A process that replaces itself, because the runtime reads some things only at its start.
//
// Bun reads its limit of concurrent fetch requests (by default 256, others wait) only at process start. So `serve`
// replaces its process once, with the limit and other start-up settings in its environment.

import { existsSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import type { Environment } from '../config/read/environment.ts'

const limitName = 'BUN_CONFIG_MAX_HTTP_REQUESTS'

/**
 * Bun refuses headers above 16 kB with an empty 431. Raised, so that `server.max_header_bytes` decides and the answer
 * has our error format.
 */
const runtimeOptions = '--max-http-header-size=1048576'

const poolName = 'UV_THREADPOOL_SIZE'

/** Threads for blocking work. At most two hash passwords, for 70 ms each, so ledger syncs do not wait for those. */
const leastThreads = 4

/**
 * How much a function runs in the interpreter before it is compiled; by default 500. Most of what a start runs, it runs
 * a few dozen times: compiling that took a fifth of the time to the first answer, and 3 MB.
 */
const compileLater = { BUN_JSC_thresholdForJITAfterWarmUp: '5000' }

/** Bun's maximum. The actual limit is `limits.max_connections_upstream`. */
const mostRequests = '65336'

/** The command that starts this program, without its arguments. */
export function ownCommand(): [string, ...string[]] {
  const script = process.argv[1]
  // In an executable the script is a file inside it, and the arguments follow the program's name directly.
  const isInside = script === undefined || script.startsWith('/$bunfs/')
  return isInside ? [process.execPath] : [process.execPath, ...process.execArgv, script]
}

/** The files of the working directory from which Bun sets variables before a script runs. */
const dotenv = ['', '.development', '.production', '.test'].flatMap((mode) => [
  `.env${mode}`,
  `.env${mode}.local`,
])

/**
 * Replaces a process that runs from source in a folder with a .env file by one that does not read it, as the executable
 * reads none: it would say where keys go (WEIR_URL, HTTP_PROXY). The environment is that of the process as it was started;
 * where the platform does not show it, what such a file names is left out.
 */
export function leaveDotenv(env: Environment, cwd: string): void {
  const hasEnvFileOption = process.execArgv.some((option) => /^--(no-)?env-file\b/.test(option))
  if (ownCommand().length === 1 || hasEnvFileOption) return
  const files = dotenv.map((name) => join(cwd, name)).filter((path) => existsSync(path))
  if (files.length === 0) return
  const started = environmentAtStart() ?? withoutNames(env, namesIn(files))
  if (typeof process.execve !== 'function' || process.platform === 'win32')
    throw new Error(`${files[0]} was read: run it as bun --no-env-file`)
  const [program, ...rest] = ownCommand()
  process.execve(program, [program, '--no-env-file', ...rest, ...process.argv.slice(2)], started)
}

/** Linux alone shows it, and not in every container. */
function environmentAtStart(): Record<string, string> | undefined {
  try {
    const written = readFileSync('/proc/self/environ', 'utf8').split('\0').filter(Boolean)
    return Object.fromEntries(
      written.map((each) => [each.slice(0, each.indexOf('=')), each.slice(each.indexOf('=') + 1)]),
    )
  } catch {
    return undefined
  }
}

function namesIn(files: readonly string[]): ReadonlySet<string> {
  const texts = files.map((path) => readFileSync(path, 'utf8'))
  return new Set(
    texts.flatMap((text) =>
      [...text.matchAll(/^\s*(?:export\s+)?([\w.-]+)\s*[=:]/gm)].map(([, name]) => name!),
    ),
  )
}

function withoutNames(env: Environment, names: ReadonlySet<string>): Record<string, string> {
  const given = Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined)
  return Object.fromEntries(given.filter(([name]) => !names.has(name)))
}

/**
 * Replaces the process, keeping its id, unless the limit is set already. Returns if the platform cannot (Windows):
 * then 256 concurrent requests are the limit.
 */
export function raiseFetchLimit(env: Environment): void {
  if (env[limitName] || typeof process.execve !== 'function' || process.platform === 'win32') return
  const given = Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined)
  process.execve(process.execPath, [...ownCommand(), ...process.argv.slice(2)], {
    ...compileLater,
    ...Object.fromEntries(given),
    [limitName]: mostRequests,
    [poolName]: env[poolName] ?? `${Math.max(leastThreads, availableParallelism())}`,
    BUN_OPTIONS: [env['BUN_OPTIONS'], runtimeOptions].filter(Boolean).join(' '),
  })
}
