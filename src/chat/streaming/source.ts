// Decodes a provider's streamed bytes into events, and tracks the progress of the answer.

import type { ChatEvent } from '../../conversation/event.ts'
import { type ContentEvent, EventProgress, type Progress } from '../../conversation/progress.ts'
import { pieceCharacters } from '../../conversation/pieces.ts'
import { atOnce, type Steps } from '../../json/steps.ts'
import type { FrameDecoder } from '../../protocols/framing/decoder.ts'
import { endOfEvent, type Frame, SseDecoder } from '../../protocols/framing/sse.ts'
import type { StreamParser, Texts } from '../../protocols/protocol.ts'
import { transportFault } from '../routing/fault-error.ts'

export interface SourceParts {
  readonly decoder: FrameDecoder
  readonly parser: StreamParser
  readonly onSignature: (toolCallId: string, signature: string) => void
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
  /** The decoder, if the parser takes texts from what was received. */
  readonly #events: SseDecoder | undefined
  /** Received and not yet decoded from `#at` on. */
  #received = ''
  #at = 0
  /** Decoded and not yet parsed from `#frame` on. */
  #frames: readonly Frame[] = []
  #frame = 0

  constructor(parts: SourceParts, output: ContentOutput) {
    this.#parts = parts
    this.#output = output
    if (parts.decoder instanceof SseDecoder && parts.parser.texts) this.#events = parts.decoder
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
      this.#at = 0
      this.#frame = 0
      if (this.#events) this.#received = this.#events.decode(bytes)
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

  /** The next frame of what has been pushed. Events that need no parsing are taken on the way. */
  #next(): Frame | undefined {
    if (this.#frame < this.#frames.length) return this.#frames[this.#frame++]
    while (this.#at < this.#received.length) {
      if (this.#takeTexts()) continue
      const end = endOfEvent(this.#received, this.#at)
      this.#frames = this.#events!.feed(this.#received.slice(this.#at, end))
      this.#frame = 1
      this.#at = end
      if (this.#frames.length > 0) return this.#frames[0]
    }
    this.#received = ''
    this.#frames = []
    return undefined
  }

  #takeTexts(): boolean {
    if (this.#progress.ended || !this.#events!.between) return false
    const pieces = this.#parts.parser.texts?.(this.#received, this.#at)
    if (pieces === undefined) return false
    this.#at = pieces.end
    this.#progress.takeText(pieces.choice, pieces.content)
    if (this.#output.texts) this.#output.texts(pieces)
    else for (const event of textEvents(pieces)) this.#output.event(event)
    return true
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
      this.#parts.onSignature(event.id, event.thoughtSignature)
    this.#output.event(event)
  }

  #breakOff(error: unknown): void {
    if (this.#progress.ended) return
    this.#progress.fault = transportFault('broken', `the stream could not be read: ${String(error)}`)
  }
}

function doneAtOnce(steps: Steps<void> | undefined): void {
  if (steps) atOnce(steps)
}

/** The pieces as an event each. */
export function textEvents({ choice, texts }: Texts): readonly ContentEvent[] {
  return texts.map((text) => ({ kind: 'text-delta', choice, text: JSON.parse(`"${text}"`) as string }))
}
