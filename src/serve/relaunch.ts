// Bun reads the number of requests that fetch may have under way when the process starts, and never again: 256, the
// rest wait in silence. So `serve` replaces its process by itself once, with the number in its environment, and with
// how its memory is to be collected.

import type { Environment } from '../config/read/environment.ts'

const limitName = 'BUN_CONFIG_MAX_HTTP_REQUESTS'

/**
 * Bun refuses headers of more than 16 kB with an empty 431 of its own. Raised, so that `server.max_header_bytes`
 * decides, and the answer has the contract's shape.
 */
const runtimeOptions = '--max-http-header-size=1048576'

/**
 * Whether a collection may look at what is new alone. What a stream leaves behind has been alive for seconds, so it
 * counts as old, and the old is looked at when the heap is a multiple of what is alive: half a gigabyte after two
 * thousand streams of 200 kB, instead of a quarter. Looking at all of it costs a call 0.1 ms of another core.
 */
const generationsName = 'BUN_JSC_useGenerationalGC'

/** The most Bun takes. How many requests are really sent is bounded by `limits.max_connections_upstream`. */
const mostRequests = '65336'

/**
 * Replaces the process, under the same process id, unless the limit is set already. Returns where the platform
 * cannot do that (Windows): then 256 requests at a time are the limit.
 */
export function raiseFetchLimit(env: Environment): void {
  if (env[limitName] || typeof process.execve !== 'function' || process.platform === 'win32') return
  const script = process.argv[1]
  // In an executable the script is a file inside it, and the arguments follow the program's name directly.
  const own = script === undefined || script.startsWith('/$bunfs/') ? [] : [...process.execArgv, script]
  const given = Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined)
  process.execve(process.execPath, [process.execPath, ...own, ...process.argv.slice(2)], {
    ...Object.fromEntries(given),
    [limitName]: mostRequests,
    [generationsName]: env[generationsName] ?? '0',
    BUN_OPTIONS: [env['BUN_OPTIONS'], runtimeOptions].filter(Boolean).join(' '),
  })
}
