// Turns a provider's streamed bytes into the client's, and tracks the progress of the answer.

import type { Awaitable } from '../../awaitable.ts'
import type { ChatEvent } from '../../conversation/event.ts'
import type { Progress } from '../../conversation/progress.ts'
import type { Usage } from '../../conversation/usage.ts'
import type { RenderedError } from '../../errors.ts'
import type { DoneOrSteps } from '../../json/steps.ts'
import type { Bill } from '../../protocols/protocol.ts'
import type { StoppedBy } from '../outcome.ts'
import type { Turns, Urgency } from './turns.ts'

/** One streamed answer. Frames are returned whole, so something else may be written between any two. */
export interface StreamChannel {
  readonly progress: Progress
  /** Takes bytes of the provider's body, cut anywhere. Returns the client's bytes. */
  push(bytes: Uint8Array): DoneOrSteps<readonly Uint8Array[]>
  /** The provider's body has ended; afterwards `progress` is finished or holds a fault. */
  end(): readonly Uint8Array[]
  /** Takes the events of an answer that arrived whole although a stream was requested; the last one ends it. */
  take(events: readonly ChatEvent[]): DoneOrSteps<readonly Uint8Array[]>
  /** The last bytes, written once the charge is durable. `stoppedBy` if the gateway cut the answer short. */
  finish(usage: Usage, bill: Bill, stoppedBy: StoppedBy | undefined): DoneOrSteps<readonly Uint8Array[]>
  /** The last bytes of an answer that failed after its first byte. */
  fail(error: RenderedError): DoneOrSteps<readonly Uint8Array[]>
  /** The client disconnected: has what was delivered stored, where answers are. Nothing is sent. */
  cancel?(usage: Usage, bill: Bill): void
}

/** Pushes bytes into a channel when the loop has time for it; in several turns if there is much to do. */
export function pushFrames(
  turns: Turns,
  channel: Pick<StreamChannel, 'push'>,
  bytes: Uint8Array,
  urgency: Urgency,
): Awaitable<readonly Uint8Array[]> {
  return turns.whole(() => channel.push(bytes), urgency)
}
