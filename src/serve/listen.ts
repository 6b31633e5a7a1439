import type { ServerWebSocket } from 'bun'
import { type Config, reasonOf } from '../config/config.ts'
import type { SocketEvents } from '../http/intake/sockets.ts'
import type { Log } from '../observe/log.ts'
import type { Store } from '../store/store.ts'
import { listenAddress } from './banner.ts'
import type { Gateway } from './gateway/gateway.ts'

export type Server = ReturnType<typeof Bun.serve>

/** Throws an error that says why the address cannot be listened on. `port` says whether others share it. */
export function listen(
  { server }: Pick<Config, 'server'>,
  { fetch }: Pick<Gateway, 'fetch'>,
  port: 'own' | 'shared',
): Server {
  const idleTimeout = Math.round(server.idle_timeout_ms / 1000)
  try {
    return Bun.serve({
      hostname: server.host,
      port: server.port,
      // Otherwise a second gateway would share the port unnoticed.
      reusePort: port === 'shared',
      development: false,
      // The routes limit bodies themselves and answer with our error format; Bun would answer without a body.
      maxRequestBodySize: Number.MAX_SAFE_INTEGER,
      idleTimeout,
      fetch,
      websocket: {
        // Its clients answer the runtime's pings.
        idleTimeout: Math.max(socketIdleSeconds, idleTimeout),
        maxPayloadLength: server.max_body_bytes,
        open: (socket: ServerWebSocket<SocketEvents>) => socket.data.onOpen(socket),
        message: (socket: ServerWebSocket<SocketEvents>, data) => socket.data.onMessage(data),
        drain: (socket: ServerWebSocket<SocketEvents>) => socket.data.onDrain(),
        close: (socket: ServerWebSocket<SocketEvents>) => socket.data.onClose(),
      },
    })
  } catch (cause) {
    throw listenFault(server, cause)
  }
}

/** A client that answers no ping for so long is gone. */
const socketIdleSeconds = 60

// Explains why the address cannot be listened on, and what to do about it.

/** Lower ports need privileges, unless the system is configured otherwise. */
const firstFreePort = 1024

/** The error of a start that cannot listen on its address; `cause` is the runtime's error. */
export function listenFault(
  { host, port }: { readonly host: string; readonly port: number },
  cause: unknown,
): Error {
  const isDenied = cause instanceof Error && Reflect.get(cause, 'code') === 'EACCES'
  // Bun says that the port is in use even if the address does not exist.
  const why = !isDenied
    ? 'another program uses the port, or this machine has no such address'
    : port < firstFreePort
      ? `not permitted: ports below ${firstFreePort} need the capability CAP_NET_BIND_SERVICE; take another with --port, and a reverse proxy in front of it`
      : 'not permitted'
  return new Error(`cannot listen on ${listenAddress(host, port)} (${reasonOf(cause)}): ${why}`, { cause })
}

// Graceful shutdown: calls in flight are finished or settled.

/** A gateway of this process, and what has to be ended with it. */
interface ServedGateway {
  readonly config: Config
  readonly log: Log
  readonly gateway: Gateway
  readonly store: Pick<Store, 'close'>
}

/**
 * First readiness is withdrawn. Calls in flight end by themselves, or at the deadline with an error and a settled
 * charge. Then the connections and the store are closed.
 */
export async function stopServing(
  { config, log, gateway, store }: ServedGateway,
  server: Server,
): Promise<void> {
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

/** What the log says of a rejection that nothing has handled; always a fault of ours. */
export const unhandled = 'a promise was rejected and nothing handled it; the gateway goes on'

/**
 * Keeps the process when a promise is rejected that nobody waits for: by default the runtime ends it, and with it the
 * calls of everybody. What is charged does not depend on such a promise: it is in the ledger, or the call is recovered.
 * An exception that nothing catches still ends the process: what it interrupted may be half done.
 */
export function outliveRejections(log: Log): void {
  process.on('unhandledRejection', (error) => log.error(unhandled, { error }))
}

/** How long a process that has done all else may still write its log, milliseconds. */
const writeMs = 1_000

/** To be called last: a log whose reader hangs would otherwise keep the process for ever. */
export function endSoon(): void {
  setTimeout(() => process.exit(), writeMs).unref()
}
