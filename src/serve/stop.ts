// Graceful shutdown: calls in flight are finished or settled.

import type { Config } from '../config.ts'
import type { Log } from '../observe/log.ts'
import type { Store } from '../store/store.ts'
import type { GatewayCore } from './gateway/gateway.ts'

export interface Serving {
  readonly config: Pick<Config, 'timeouts'>
  readonly log: Log
  readonly server: Pick<ReturnType<typeof Bun.serve>, 'pendingRequests' | 'stop'>
  readonly gateway: Omit<GatewayCore, 'fetch' | 'memory'>
  readonly store: Pick<Store, 'close'>
}

/**
 * First readiness is withdrawn. Calls in flight end by themselves, or at the deadline with an error and a settled
 * charge. Then the connections and the store are closed.
 */
export async function stopServing({ config, log, server, gateway, store }: Serving): Promise<void> {
  const { inFlight } = gateway
  gateway.drain()
  if (!(await within(config.timeouts.shutdown_ms, () => inFlight.size === 0))) {
    log.warn('calls in flight are cut off: the time to finish them is over', { calls: inFlight.size })
    gateway.cutOff()
    if (!(await within(settleMs, () => inFlight.size === 0)))
      log.warn('stopping with calls in flight: recovery settles them', { calls: inFlight.size })
  }
  // Last answers may still be being sent; connections without a request need no time.
  await within(settleMs, () => server.pendingRequests === 0)
  await server.stop(true)
  gateway.close()
  await store.close()
}

/** How long the last calls may take to be settled, and then their answers to be sent. */
const settleMs = 2_000

/** Waits until `holds` returns true; false if it does not in time. */
async function within(ms: number, holds: () => boolean): Promise<boolean> {
  const deadline = performance.now() + ms
  while (!holds()) {
    if (performance.now() >= deadline) return false
    await Bun.sleep(10)
  }
  return true
}
