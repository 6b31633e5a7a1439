// What a chat call needs from the rest of the house.

import type { Model } from '../catalog/model.ts'
import type { LedgerStore } from '../credits/ledger.ts'
import type { RequestLog } from '../observe/request-log.ts'
import type { Log } from '../observe/log.ts'
import type { Outbound, ProtocolId } from '../protocols/protocol.ts'
import type { ConfiguredProvider } from '../providers/provider.ts'
import type { Buffered } from './streaming/buffered.ts'
import type { Health } from './routing/health.ts'
import type { Media } from './upstream/inline-media.ts'
import type { InFlight } from './in-flight.ts'
import type { RetryBudget } from './routing/retry-budget.ts'
import type { ConnectionLimit } from './upstream/connection-limit.ts'
import type { Turns } from './streaming/turns.ts'
import type { Watchdog } from './streaming/watchdog.ts'

export interface Gateway {
  readonly catalog: { resolve(id: string): Model }
  readonly providers: ReadonlyMap<string, ConfiguredProvider>
  readonly outbounds: Readonly<Record<ProtocolId, Outbound>>
  readonly ledger: LedgerStore
  readonly signatures: SignatureMemory
  readonly requestLog: RequestLog
  /** Whether the request log may hold the words of requests and answers. */
  readonly keepsContents: boolean
  readonly log: Log
  readonly watchdog: Watchdog
  /** Shares the event loop among all calls. */
  readonly turns: Turns
  /** What waits for the clients of all streams. */
  readonly buffered: Buffered
  readonly limits: ChatLimits
  /** Names this process in holds, so that a zombie cannot end a call that recovery has ended. */
  readonly owner: string
  /** Milliseconds since 1970. */
  readonly now: () => number
  /** Fetches images and files given by URL, for providers that take no URLs or must not fetch them. */
  readonly media: Media
  /** Takes the secrets of this process out of what a provider says: it may quote the key it was sent. */
  readonly redact: (text: string) => string
  /** Calls in flight, for limits and draining. */
  readonly inFlight: InFlight
  readonly health: Health
  readonly retryBudget: RetryBudget
  /** Requests to providers that are open now. */
  readonly upstream: ConnectionLimit
  /** Aborts when the gateway stops and waits no longer: what still runs ends with an error and is settled. */
  readonly stopping: AbortSignal
}

/** Remembers thought signatures by tool-call id, for clients that drop them. */
export interface SignatureMemory {
  remember(toolCallId: string, signature: string): void
  recall(toolCallId: string): string | undefined
}

/** Every bound of a call, from configuration. Milliseconds, tokens and bytes as the names say. */
export interface ChatLimits {
  readonly connectMs: number
  readonly firstByteMs: number
  readonly firstByteReasoningMs: number
  readonly gapMs: number
  readonly totalMs: number
  readonly clientStallMs: number
  readonly drainMs: number
  readonly keepaliveMs: number
  readonly bufferBytes: number
  readonly checkpointMs: number
  readonly checkpointTokens: number
  readonly holdOutputTokens: number
  readonly leaseMs: number
  readonly answerBytes: number
  readonly eventBytes: number
  readonly attempts: number
}
