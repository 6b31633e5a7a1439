// What each of several processes has of limits that are for the whole gateway.

import type { Config } from '../../config.ts'

const leastBufferBytes = 1024 ** 2
const leastArrivedBytes = 65_536

/**
 * The configuration of one of `workers` processes: memory and connections are divided, evenly, for connections of
 * clients come to each alike. What is counted in one place (rates, requests in flight, credit) stays whole.
 */
export function shareOf(config: Config, workers: number): Config {
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
