// Decodes a provider's streamed bytes into events, and tracks the progress of the answer.

import type { ChatEvent } from '../../conversation/event.ts'
import { type ContentEvent, EventProgress, type Progress } from '../../conversation/progress.ts'
import { pieceCharacters } from '../../conversation/pieces.ts'
import type { ToolCall } from '../../conversation/request.ts'
import { atOnce, type Steps } from '../../json/steps.ts'
import type { FrameDecoder } from '../../protocols/framing/decoder.ts'
import { unreadable } from '../../protocols/faults.ts'
import { EventReader } from '../../protocols/framing/event-reader.ts'
import { type Frame, SseDecoder } from '../../protocols/framing/sse.ts'
import type { StreamParser, Texts } from '../../protocols/protocol.ts'

const none: readonly Frame[] = []

export interface SourceParts {
  readonly decoder: FrameDecoder
  readonly parser: StreamParser
  readonly onSignature: (call: Pick<ToolCall, 'id' | 'name'>, signature: string) => void
  /** Takes every event but texts; undefined where nobody wants the reasoning. */
  readonly thoughts?: { event(event: ContentEvent): void } | undefined
}

/** Takes the content of an answer in order. */
export interface ContentOutput {
  event(event: ContentEvent): void
  /** Several pieces of text; without it each comes as an event. */
  texts?(pieces: Texts): void
}

/** One provider's answer. Its content goes to `output` in order while bytes are pushed. */
export class AnswerSource {
  readonly #parts: SourceParts
  readonly #output: ContentOutput
  readonly #progress = new EventProgress()
  /** Set if the parser takes texts without decoding. */
  readonly #events: EventReader | undefined
  /** Decoded and not yet parsed from `#frame` on, if it does not. */
  #frames = none
  #frame = 0

  constructor(parts: SourceParts, output: ContentOutput) {
    this.#parts = parts
    this.#output = output
    if (parts.decoder instanceof SseDecoder && parts.parser.texts)
      this.#events = new EventReader(parts.decoder, (received, at) => this.#takeTexts(received, at))
  }

  get progress(): Progress {
    return this.#progress
  }

  /**
   * Takes bytes of the provider's body, cut anywhere: at once, or in the steps that are returned. Unreadable bytes
   * become a fault.
   */
  push(bytes: Uint8Array): Steps<void> | undefined {
    try {
      this.#frame = 0
      if (this.#events) this.#events.push(bytes)
      else this.#frames = this.#parts.decoder.push(bytes)
    } catch (error) {
      this.#breakOff(error)
    }
    const long = this.#advance()
    return long && this.#inSteps(long)
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

  /** Takes what has been pushed up to a frame that is too long to be taken at once, and returns the steps of that. */
  #advance(): Steps<void> | undefined {
    try {
      for (let frame = this.#next(); frame !== undefined; frame = this.#next()) {
        const steps = frame.data.length > pieceCharacters ? this.#longStep(frame) : this.#step(frame)
        if (steps) return steps
      }
      // Kept no longer than it takes: the next read may be minutes away.
      this.#frames = none
    } catch (error) {
      this.#breakOff(error)
    }
    return undefined
  }

  *#inSteps(first: Steps<void>): Steps<void> {
    try {
      for (let steps: Steps<void> | undefined = first; steps; steps = this.#advance()) yield* steps
    } catch (error) {
      this.#breakOff(error)
    }
  }

  #next(): Frame | undefined {
    return this.#events ? this.#events.next() : this.#frames[this.#frame++]
  }

  /** Takes events that need no decoding, and returns where they end. */
  #takeTexts(received: string, at: number): number | undefined {
    const pieces = this.#progress.ended ? undefined : this.#parts.parser.texts?.(received, at)
    if (pieces === undefined) return undefined
    this.#progress.takeText(pieces.choice, pieces.content, pieces.usage)
    if (this.#output.texts) this.#output.texts(pieces)
    else for (const event of textEvents(pieces)) this.#output.event(event)
    return pieces.end
  }

  *#longStep(frame: Frame): Steps<void> {
    yield
    const rest = this.#step(frame)
    if (rest) yield* rest
  }

  #step(frame: Frame): Steps<void> | undefined {
    return this.#progress.ended ? undefined : this.take(this.#parts.parser.push(frame))
  }

  readonly #onContent = (event: ContentEvent): void => {
    if (event.kind === 'tool-call-start' && event.thoughtSignature !== undefined)
      this.#parts.onSignature(event, event.thoughtSignature)
    if (event.kind !== 'text-delta') this.#parts.thoughts?.event(event)
    this.#output.event(event)
  }

  #breakOff(error: unknown): void {
    if (this.#progress.ended) return
    this.#progress.fault = unreadable(error)
  }
}

function doneAtOnce(steps: Steps<void> | undefined): void {
  if (steps) atOnce(steps)
}

/** The pieces as an event each. */
export function textEvents({ choice, texts }: Texts): readonly ContentEvent[] {
  return texts.map((text) => ({ kind: 'text-delta', choice, text: JSON.parse(`"${text}"`) as string }))
}
