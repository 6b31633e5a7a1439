// Workers take the requests of clients; this process answers what they pass on, and keeps the ledger.

import { chmodSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Environment } from '../../config/read/environment.ts'
import type { Config } from '../../config.ts'
import type { Front, FrontParts } from '../front.ts'
import { listen, listenBeside } from '../listen.ts'
import { listenFault } from '../listen-fault.ts'
import { stopServing } from '../stop.ts'
import type { Crew } from './crew.ts'
import { clientHeader } from './forward.ts'

/** What an address of a Unix socket may measure, its last zero left out. */
const longestPath = 107

export interface WorkerFrontParts extends FrontParts {
  readonly crew: Crew
  readonly count: number
  readonly env: Environment
  readonly clock: () => number
  /** Called with what listens, before the first worker asks. */
  readonly listens: (front: Front['listening']) => void
}

/** Rejects with an error that says why the address cannot be listened on, and then nothing is left running. */
export async function serveWithWorkers(parts: WorkerFrontParts): Promise<Front> {
  const { config, log, store, gateway, crew, count, env, clock } = parts
  const port = await freePort(config)
  const socket = socketIn(config.data_dir)
  const server = listenBeside(gateway, socket)
  // Whoever may write here may say where a client is.
  chmodSync(socket, 0o600)
  const listening: Front['listening'] = {
    port,
    timeout: (request, seconds) => server.timeout(request, seconds),
    requestIP: (request) => ({ address: request.headers.get(clientHeader) ?? '', port: 0, family: 'IPv4' }),
  }
  parts.listens(listening)
  const close = async () => {
    await server.stop(true)
    rmSync(socket, { force: true })
  }
  try {
    const { shared } = gateway
    await crew.start({ config, log, env, clock, store, shared, port, forwardTo: socket }, [], count)
  } catch (error) {
    await close()
    throw error
  }
  return {
    listening,
    async stop() {
      gateway.drain()
      await crew.stop(config.timeouts.shutdown_ms)
      await stopServing({ config, log, server, gateway, store })
      rmSync(socket, { force: true })
    },
    async close() {
      await crew.stop(0)
      await close()
    },
  }
}

/** The port that is configured, or a free one, which nobody else has at this moment. Throws like `serveAlone`. */
async function freePort(config: Config): Promise<number> {
  try {
    // Alone, for workers would share it with whoever shares.
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
  // What a killed process left behind: the lock says that nobody serves here.
  rmSync(path, { force: true })
  return path
}
