// What takes the requests of clients: this process, or workers beside it.

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
  /** Stops in good order, and closes the store. */
  stop(): Promise<void>
  /** Stops at once, for a start that failed. */
  close(): Promise<void>
}

export interface FrontParts {
  readonly config: Config
  readonly log: Log
  readonly store: Store
  readonly gateway: Gateway
}

/** This process takes them all. Throws an error that says why the address cannot be listened on. */
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
