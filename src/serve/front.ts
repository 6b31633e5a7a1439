// Takes the requests of clients: in this process, or in workers.

import type { Config } from '../config.ts'
import type { Log } from '../observe/log.ts'
import type { Store } from '../store/store.ts'
import type { Gateway } from './gateway/gateway.ts'
import type { ListeningServer } from './gateway/gateway-parts.ts'
import { listen } from './listen.ts'
import { listenFault } from './listen-fault.ts'
import { stopServing } from './stop.ts'

export interface Front {
  readonly listening: ListeningServer
  /** Finishes the calls in flight, then closes the store. */
  stop(): Promise<void>
  /** Stops at once, after a failed start. */
  close(): Promise<void>
}

export interface FrontParts {
  readonly config: Config
  readonly log: Log
  readonly store: Store
  readonly gateway: Gateway
}

/** Serves in this process. Throws an error that says why the address cannot be listened on. */
export function serveAlone({ config, log, store, gateway }: FrontParts): Front {
  const { port } = config.server
  try {
    const server = listen(config, gateway, { port, shared: false })
    return {
      listening: server,
      stop: () => stopServing({ config, log, server, gateway, store }),
      close: () => server.stop(true),
    }
  } catch (cause) {
    throw listenFault(config.server, cause)
  }
}
