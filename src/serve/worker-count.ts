// The number of processes that serve.

import { availableParallelism } from 'node:os'
import type { Config } from '../config.ts'

/**
 * The maximum for `auto`. The ledger's process needs a third to a half of the processor time that a gateway without
 * workers needs for a call: this many workers keep it busy, and more would wait for it.
 */
const mostByItself = 4

/**
 * The number of workers; 1 means that this process serves. `auto` leaves one core to the ledger. Throws if several are
 * configured and the system cannot distribute connections among processes.
 */
export function workerCount(
  { server }: Pick<Config, 'server'>,
  cores: number = availableParallelism(),
  platform: NodeJS.Platform = process.platform,
): number {
  const { workers } = server
  if (workers === 'auto') return platform === 'linux' ? Math.min(Math.max(1, cores - 1), mostByItself) : 1
  if (workers > 1 && platform !== 'linux')
    throw new Error('server.workers: more than one needs Linux, which shares a port among processes fairly')
  return workers
}
