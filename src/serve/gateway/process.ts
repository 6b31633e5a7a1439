// What the process of a gateway has.

import type { ConsoleSettings } from '../../accounts/console-settings.ts'
import type { Config, RereadConfig } from '../../config/config.ts'
import type { HttpParts } from '../../http/parts.ts'
import type { ProcessLog } from '../../observe/log.ts'
import type { Traces } from '../../observe/traces.ts'
import type { Store } from '../../store/store.ts'
import type { Live } from './catalog.ts'

export interface GatewayProcess {
  readonly config: Config
  readonly live: Live
  readonly log: ProcessLog
  /** Milliseconds since 1970. */
  readonly clock: () => number
  /** Identifies this process in holds, so that a process presumed dead cannot end a call that recovery has ended. */
  readonly owner: string
  /** The server that listens for this gateway; undefined before it does, or without one. */
  readonly server: () => ListeningServer | undefined
  /** Whether it has just started and is not ready: calls are taken meanwhile. */
  readonly warming: () => boolean
  /** Undefined where no collector is named. */
  readonly traces: Traces | undefined
  readonly store: Store
  /** The configuration, where each setting came from, and how it is read again. */
  readonly reread: RereadConfig
  /** What operators have changed of it. */
  readonly kept: ConsoleSettings
  /** The other processes of `server.processes`; left out where this is the only one. */
  readonly siblings?: HttpParts['siblings']
}

/** The part of the server that the gateway uses. */
export type ListeningServer = Pick<ReturnType<typeof Bun.serve>, 'port' | 'timeout' | 'requestIP' | 'upgrade'>
