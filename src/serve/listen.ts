import type { Config } from '../config.ts'
import type { GatewayCore } from './gateway/gateway.ts'

export type Server = ReturnType<typeof Bun.serve>

export interface Address {
  readonly port: number
  /** Whether other processes of this gateway listen on the same port. */
  readonly shared: boolean
}

/** Throws the runtime's error if it cannot listen; see `listenFault`. */
export function listen(
  { server }: Pick<Config, 'server'>,
  { fetch }: Pick<GatewayCore, 'fetch'>,
  { port, shared }: Address,
): Server {
  return Bun.serve({
    hostname: server.host,
    port,
    // Otherwise a second gateway would share the port unnoticed.
    reusePort: shared,
    ...common,
    idleTimeout: idleSeconds({ server }),
    fetch: (request) => fetch(request),
  })
}

/** Listens on a Unix socket, for other processes of this gateway. */
export function listenOnSocket({ fetch }: Pick<GatewayCore, 'fetch'>, path: string): Server {
  // No idle timeout: slow answers must not be cut off, and `server.timeout` has no effect on Unix sockets. The clients
  // have deadlines of their own. Bun's types lack this option for Unix sockets.
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
  // The routes limit bodies themselves and answer with our error format; Bun would answer without a body.
  maxRequestBodySize: Number.MAX_SAFE_INTEGER,
}
