// Parsers of answers that are made of events. A whole answer is read as the events that its stream would have had.

import type { ChatEvent } from '../conversation/event.ts'
import { errorEvent, fault } from './faults.ts'
import type { Frame } from './framing/sse.ts'
import { TextRuns } from './framing/text-template.ts'
import type { StreamParser, Texts } from './protocol.ts'

/** How one protocol writes its streams. */
interface Wire {
  /** What the last event of an answer is called, for the error of a stream without it. */
  readonly lastEvent: string
  /** The JSON directly before the text of a frame that only adds text, quote included. */
  readonly beforeText?: string
}

/** Reads one answer. Subclasses say what a wire event means by `emit`, `addText`, `finish` and `fail`. */
export abstract class EventParser<WireEvent> implements StreamParser {
  readonly #wire: Wire
  readonly #runs = new TextRuns()
  #events: ChatEvent[] = []
  #isOver = false
  /** Whether the event that is read adds text and changes nothing else. */
  protected addsOnlyText = false
  /** UTF-16 length of the text so far. */
  protected textLength = 0

  constructor(wire: Wire) {
    this.#wire = wire
  }

  protected abstract readFrame(frame: Frame): void
  protected abstract read(event: WireEvent): void

  push(frame: Frame): readonly ChatEvent[] {
    if (this.#isOver) return []
    this.#events = []
    this.addsOnlyText = false
    this.readFrame(frame)
    const events = this.#events
    const [event] = events
    const { beforeText } = this.#wire
    // The next frames that differ from this one only in their text are not parsed.
    if (beforeText !== undefined && this.addsOnlyText && events.length === 1 && event?.kind === 'text-delta')
      this.#runs.learn(frame, event.choice, event.text, beforeText)
    else this.#runs.forget()
    return events
  }

  texts(received: string, at: number): Texts | undefined {
    const run = this.#runs.at(received, at)
    if (run !== undefined) this.keepText(run.content)
    return run
  }

  end(): readonly ChatEvent[] {
    if (this.#isOver) return []
    return [errorEvent(fault('cut', `the stream ended before ${this.#wire.lastEvent}`))]
  }

  /** What these events of a whole answer mean together. */
  readAll(wire: Iterable<WireEvent>): readonly ChatEvent[] {
    for (const event of wire) {
      if (this.#isOver) break
      this.read(event)
    }
    if (!this.#isOver) this.fail('the answer has no stop reason')
    return this.#events
  }

  protected emit(event: ChatEvent): void {
    this.#events.push(event)
  }

  /** Adds text; an empty piece is no event. */
  protected addText(text: string): void {
    if (text === '') return
    this.keepText(text)
    this.emit({ kind: 'text-delta', choice: 0, text })
  }

  protected keepText(text: string): void {
    this.textLength += text.length
  }

  /** Gives the terminal event. */
  protected finish(last: ChatEvent = { kind: 'finish' }): void {
    this.#isOver = true
    this.emit(last)
  }

  /** The provider did not keep to its protocol. */
  protected fail(message: string): void {
    this.finish(errorEvent(fault('broken', message)))
  }
}
