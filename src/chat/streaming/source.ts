// Decodes a provider's streamed bytes into events, and tracks the progress of the answer.

import type { ChatEvent } from '../../conversation/event.ts'
import { type ContentEvent, EventProgress, type Progress } from '../../conversation/progress.ts'
import { pieceCharacters } from '../../conversation/pieces.ts'
import { atOnce, type Steps } from '../../json/steps.ts'
import type { FrameDecoder } from '../../protocols/framing/decoder.ts'
import type { Frame } from '../../protocols/framing/sse.ts'
import type { StreamParser } from '../../protocols/protocol.ts'
import { transportFault } from '../routing/fault-error.ts'

export interface SourceParts {
  readonly decoder: FrameDecoder
  readonly parser: StreamParser
  readonly onSignature: (toolCallId: string, signature: string) => void
}

/** One provider's answer. Its events go to `emit` in order while bytes are pushed. */
export class AnswerSource {
  readonly #parts: SourceParts
  readonly #emit: (event: ContentEvent) => void
  readonly #progress = new EventProgress()

  constructor(parts: SourceParts, emit: (event: ContentEvent) => void) {
    this.#parts = parts
    this.#emit = emit
  }

  get progress(): Progress {
    return this.#progress
  }

  /** Takes bytes of the provider's body, cut anywhere. Unreadable bytes become a fault. */
  *push(bytes: Uint8Array): Steps<void> {
    try {
      for (const frame of this.#parts.decoder.push(bytes)) {
        if (frame.data.length > pieceCharacters) yield
        const rest = this.#step(frame)
        if (rest) yield* rest
      }
    } catch (error) {
      this.#breakOff(error)
    }
  }

  /** The provider's body has ended; afterwards `progress` is finished or holds a fault. */
  end(): void {
    try {
      for (const frame of this.#parts.decoder.end()) doneAtOnce(this.#step(frame))
      if (!this.#progress.ended) doneAtOnce(this.take(this.#parts.parser.end()))
    } catch (error) {
      this.#breakOff(error)
    }
  }

  /** Takes events of a whole answer or of one frame: at once, or in the steps that are returned. */
  take(events: readonly ChatEvent[]): Steps<void> | undefined {
    return this.#progress.take(events, this.#onContent)
  }

  #step(frame: Frame): Steps<void> | undefined {
    return this.#progress.ended ? undefined : this.take(this.#parts.parser.push(frame))
  }

  readonly #onContent = (event: ContentEvent): void => {
    if (event.kind === 'tool-call-start' && event.thoughtSignature !== undefined)
      this.#parts.onSignature(event.id, event.thoughtSignature)
    this.#emit(event)
  }

  #breakOff(error: unknown): void {
    if (this.#progress.ended) return
    this.#progress.fault = transportFault('broken', `the stream could not be read: ${String(error)}`)
  }
}

function doneAtOnce(steps: Steps<void> | undefined): void {
  if (steps) atOnce(steps)
}
