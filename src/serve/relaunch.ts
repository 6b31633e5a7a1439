// Bun reads its limit of concurrent fetch requests (by default 256, others wait) only at process start. So `serve`
// replaces its process once, with the limit and other start-up settings in its environment.

import { availableParallelism } from 'node:os'
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
