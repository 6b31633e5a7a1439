// How many processes serve.

import { availableParallelism } from 'node:os'
import type { Config } from '../config.ts'

/**
 * The most that `auto` starts. Of the processor time of a call the ledger's process takes a third to a half of what a
 * gateway without workers takes: this many keep it busy, and more wait for it.
 */
const mostByItself = 4

/**
 * The workers of a configuration; 1 is this process alone. `auto` leaves a core to the ledger. Throws where several are
 * asked for and the system cannot share a port among processes fairly.
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
