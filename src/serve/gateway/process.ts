// The processes of a gateway, and what each of them has.

import type { ConsoleSettings } from '../../accounts/console-settings.ts'
import type { AnswersByProvider } from '../../chat/routing/health.ts'
import type { Config, RereadConfig } from '../../config/config.ts'
import type { HttpParts } from '../../http/parts.ts'
import type { Log, ProcessLog } from '../../observe/log.ts'
import type { Traces } from '../../observe/traces.ts'
import type { Store } from '../../store/store.ts'
import type { Live } from './catalog.ts'

/** What every process of a gateway has, that of the ledger and each worker. */
export interface GatewayProcess {
  readonly config: Config
  readonly live: Live
  readonly log: Log
  /** Milliseconds since 1970. */
  readonly clock: () => number
  /** Identifies this process in holds, so that a process presumed dead cannot end a call that recovery has ended. */
  readonly owner: string
  /** The server that listens for this gateway; undefined before it does, or without one. */
  readonly server: () => ListeningServer | undefined
  /** Undefined where no collector is named. */
  readonly traces: Traces | undefined
}

/** The process that keeps the ledger, and the only one of a gateway without workers. */
export interface LedgerProcess extends GatewayProcess {
  readonly log: ProcessLog
  readonly store: Store
  /** The configuration, where each setting came from, and how it is read again. */
  readonly reread: RereadConfig
  /** What operators have changed of it. */
  readonly kept: ConsoleSettings
  /** What the processes beside this one see; undefined where there are none. */
  readonly workers?: WorkerViews | undefined
}

/** All processes together. */
export interface WorkerViews extends Pick<HttpParts, 'callsOf' | 'healthOf' | 'everyoneHeard'> {
  /** What providers have answered all workers in the last hour. */
  lastHour(): Promise<AnswersByProvider>
  /** Tells all workers that an offer with an open breaker has answered. */
  offerRecovered(offer: string): void
  /** Puts a configuration in force. Resolves when all workers have it, or soon: one that hangs is not waited for. */
  reconfigure(config: Config): Promise<void>
}

/** The part of the server that the gateway uses. */
export type ListeningServer = Pick<ReturnType<typeof Bun.serve>, 'port' | 'timeout' | 'requestIP' | 'upgrade'>
