// The configuration of one worker: its share of the gateway's limits.

import type { Config } from '../../config.ts'

const leastBufferBytes = 1024 ** 2
const leastArrivedBytes = 65_536

/**
 * The configuration of one of `workers` processes. Memory and connections are divided evenly, as connections of clients
 * are. Limits that the ledger's process counts (rates, requests in flight, credit) stay as they are.
 */
export function workerConfig(config: Config, workers: number): Config {
  const { limits, stream } = config
  return {
    ...config,
    limits: {
      ...limits,
      max_connections_upstream: Math.ceil(limits.max_connections_upstream / workers),
      arrived_bytes: Math.max(leastArrivedBytes, Math.floor(limits.arrived_bytes / workers)),
    },
    stream: {
      ...stream,
      total_buffer_bytes: Math.max(leastBufferBytes, Math.floor(stream.total_buffer_bytes / workers)),
    },
  }
}
