// Workers take the requests of clients. This process answers what they forward, and keeps the ledger.

import { chmodSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { CatalogFile } from '../../catalog/row.ts'
import type { Environment } from '../../config/read/environment.ts'
import type { Config } from '../../config.ts'
import type { Front, FrontParts } from '../front.ts'
import { listen, listenOnSocket } from '../listen.ts'
import { listenFault } from '../listen-fault.ts'
import { stopServing } from '../stop.ts'
import type { WorkerPool } from './pool.ts'
import { clientAddressHeader } from './forward.ts'

/** The maximum path length of a Unix socket in bytes, without the terminating zero. */
const longestPath = 107

export interface WorkerFrontParts extends FrontParts {
  readonly workers: WorkerPool
  readonly count: number
  readonly env: Environment
  readonly clock: () => number
  readonly catalog: CatalogFile
  /** Called with the listening server, before the first worker sends requests. */
  readonly listens: (front: Front['listening']) => void
}

/** Rejects with an error that says why the address cannot be listened on; then no process is left running. */
export async function serveWithWorkers(parts: WorkerFrontParts): Promise<Front> {
  const { config, log, store, gateway, workers, count, env, clock, catalog } = parts
  const port = await freePort(config)
  const socket = socketIn(config.data_dir)
  const server = listenOnSocket(gateway, socket)
  // Whoever can write to the socket can claim any client address.
  chmodSync(socket, 0o600)
  const listening: Front['listening'] = {
    port,
    timeout: (request, seconds) => server.timeout(request, seconds),
    requestIP: (request) => ({
      address: request.headers.get(clientAddressHeader) ?? '',
      port: 0,
      family: 'IPv4',
    }),
  }
  parts.listens(listening)
  const close = async () => {
    await server.stop(true)
    rmSync(socket, { force: true })
  }
  try {
    const { shared } = gateway
    const common = { config, log, env, clock, store, shared, catalog }
    await workers.start({ ...common, port, forwardTo: socket }, [], count)
  } catch (error) {
    await close()
    throw error
  }
  return {
    listening,
    async stop() {
      gateway.drain()
      await workers.stop(config.timeouts.shutdown_ms)
      await stopServing({ config, log, server, gateway, store })
      rmSync(socket, { force: true })
    },
    async close() {
      await workers.stop(0)
      await close()
    },
  }
}

/** The configured port, or a free one. Throws like `serveAlone` if it is in use. */
async function freePort(config: Config): Promise<number> {
  try {
    // Not shared: workers listen with SO_REUSEPORT and would share the port with another gateway.
    const probe = listen(config, { fetch: () => new Response() }, { port: config.server.port, shared: false })
    const port = probe.port!
    await probe.stop(true)
    return port
  } catch (cause) {
    throw listenFault(config.server, cause)
  }
}

function socketIn(dataDir: string): string {
  const path = join(dataDir, 'serve.sock')
  if (Buffer.byteLength(path) > longestPath)
    throw new Error(`${path} is too long for a socket, which workers need: choose a shorter data directory`)
  // A killed process leaves its socket behind. The lock on the data directory is ours, so nobody uses it.
  rmSync(path, { force: true })
  return path
}
