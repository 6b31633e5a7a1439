// What a gateway is put together from.

import type { Config } from '../../config.ts'
import type { HttpParts } from '../../http/parts.ts'
import type { Log } from '../../observe/log.ts'
import type { Store } from '../../store/store.ts'
import type { Live } from './live.ts'

export interface GatewayParts {
  readonly config: Config
  readonly store: Store
  readonly live: Live
  readonly log: Log
  /** The configuration as people read it: with origins, and secrets masked. */
  readonly settings: HttpParts['settings']
  /** Milliseconds since 1970. */
  readonly clock: () => number
  /** Names this process in holds, so that a zombie cannot end a call that recovery has ended. */
  readonly owner: string
  /** What listens for this gateway; undefined before it does, and where nothing does. */
  readonly server: () => ListeningServer | undefined
}

/** What the gateway uses of the server that listens for it. */
type ListeningServer = Pick<ReturnType<typeof Bun.serve>, 'port' | 'timeout' | 'requestIP'>
