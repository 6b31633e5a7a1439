// Listens for a gateway.

import type { Config } from '../config.ts'
import type { Servant } from './gateway/gateway.ts'

export type Server = ReturnType<typeof Bun.serve>

export interface Address {
  readonly port: number
  /** Whether other processes of this gateway listen there too. */
  readonly shared: boolean
}

/** Throws what the runtime throws where it cannot; see `listenFault`. */
export function listen(
  { server }: Pick<Config, 'server'>,
  { fetch }: Pick<Servant, 'fetch'>,
  { port, shared }: Address,
): Server {
  return Bun.serve({
    hostname: server.host,
    port,
    // Two gateways on one port would share it, and the database, without a word.
    reusePort: shared,
    ...common,
    idleTimeout: idleSeconds({ server }),
    fetch: (request) => fetch(request),
  })
}

/** The same on a Unix socket: for other processes of this gateway. */
export function listenBeside({ fetch }: Pick<Servant, 'fetch'>, path: string): Server {
  // Its connections stay while an answer takes its time: `timeout` has no effect on a Unix socket, and Bun's types leave
  // this out for one. Those who wait for the answer have deadlines of their own.
  const options: Parameters<typeof Bun.serve>[0] = {
    unix: path,
    ...common,
    fetch: (request) => fetch(request),
  }
  return Bun.serve(Object.assign(options, { idleTimeout: 0 }))
}

/** How long a connection may be idle. */
export function idleSeconds({ server }: Pick<Config, 'server'>): number {
  return Math.round(server.idle_timeout_ms / 1000)
}

const common = {
  development: false,
  // The routes count what they read and refuse in the contract's shape; Bun would answer without a body.
  maxRequestBodySize: Number.MAX_SAFE_INTEGER,
}
