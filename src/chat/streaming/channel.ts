// What turns a provider's streamed bytes into the client's, and what it has seen on the way.

import type { Delivered } from '../../conversation/delivered.ts'
import type { ChatEvent, Fault } from '../../conversation/event.ts'
import type { JsonObject } from '../../conversation/request.ts'
import type { Usage } from '../../conversation/usage.ts'
import type { RenderedError } from '../../errors.ts'
import type { Bill } from '../../protocols/protocol.ts'

/** What is known of an answer while it streams. */
export interface Progress {
  /** Content has come: from here on no other offer can take over. */
  readonly started: boolean
  /** The provider ended its answer properly. */
  readonly finished: boolean
  readonly fault: Fault | undefined
  /** What the provider has counted so far. */
  readonly usage: Usage | undefined
  /** What the client was served: for checkpoints, for bounds, and for answers whose provider counts nothing. */
  readonly delivered: Delivered
  readonly finishReason: string | undefined
  readonly upstreamId: string | undefined
}

/** What stopped an answer: the caller's money, its credit, or its bound where the provider kept to none. */
export type StoppedBy = 'max_cost' | 'credits' | 'max_tokens'

/** How an answer says what stopped it; nothing where it ended by itself. */
export function stopNote(stoppedBy: StoppedBy | undefined): JsonObject {
  return stoppedBy === undefined ? {} : { metadata: { stopped_by: stoppedBy } }
}

/** One answer on its way. Frames come out whole: between any two of them something else may be written. */
export interface StreamChannel {
  readonly progress: Progress
  /** Bytes of the provider's body, cut anywhere. Returns what the client gets for them. */
  push(bytes: Uint8Array): readonly Uint8Array[]
  /** The provider's body has ended; afterwards `progress` says `finished` or holds a fault. */
  end(): readonly Uint8Array[]
  /** Events of an answer that came whole although a stream was asked for; the last one ends it. */
  take(events: readonly ChatEvent[]): readonly Uint8Array[]
  /** The last bytes, after the charge is durable. `stoppedBy` when the gateway cut the answer short. */
  finish(usage: Usage, bill: Bill, stoppedBy: StoppedBy | undefined): readonly Uint8Array[]
  /** The last bytes of an answer that failed after its first byte. */
  fail(error: RenderedError): readonly Uint8Array[]
}
