// What turns a provider's streamed bytes into the client's, and what it has seen on the way.

import type { ChatEvent } from '../../conversation/event.ts'
import type { Progress } from '../../conversation/progress.ts'
import type { Usage } from '../../conversation/usage.ts'
import type { RenderedError } from '../../errors.ts'
import type { Steps } from '../../json/steps.ts'
import type { Bill } from '../../protocols/protocol.ts'
import type { StoppedBy } from '../outcome.ts'

/** One answer on its way. Frames come out whole: between any two of them something else may be written. */
export interface StreamChannel {
  readonly progress: Progress
  /** Bytes of the provider's body, cut anywhere. Returns what the client gets for them. */
  push(bytes: Uint8Array): Steps<readonly Uint8Array[]>
  /** The provider's body has ended; afterwards `progress` says `finished` or holds a fault. */
  end(): readonly Uint8Array[]
  /** Events of an answer that came whole although a stream was asked for; the last one ends it. */
  take(events: readonly ChatEvent[]): Steps<readonly Uint8Array[]>
  /** The last bytes, after the charge is durable. `stoppedBy` when the gateway cut the answer short. */
  finish(usage: Usage, bill: Bill, stoppedBy: StoppedBy | undefined): Steps<readonly Uint8Array[]>
  /** The last bytes of an answer that failed after its first byte. */
  fail(error: RenderedError): Steps<readonly Uint8Array[]>
}
