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

// A stream parser that goes from one state to the next.

/** How a protocol writes a frame with one piece of text, which makes one event. */
export interface TextFrames<State> {
  /** The JSON directly before the text, quote included. */
  readonly opening: string
  /** The state after further text. */
  readonly after: (state: State, text: string) => State
  /** Keeps further text in what the states of the stream share. */
  readonly collect?: (state: State, text: string) => void
}

/**
 * The parser of one stream that begins in this state: `step` gives the state after a frame with the events of the
 * frame, from nothing but the two; `end` the events that the end of the body stands for. With `texts`, frames that
 * differ from the one before only in their text are not parsed.
 */
export function stateParser<State extends object>(
  initial: State,
  step: (state: State, frame: Frame) => readonly [State, readonly ChatEvent[]],
  end: (state: State) => readonly ChatEvent[],
  texts?: TextFrames<State>,
): StreamParser {
  return new StateParser(initial, step, end, texts)
}

class StateParser<State extends object> implements StreamParser {
  readonly #step: (state: State, frame: Frame) => readonly [State, readonly ChatEvent[]]
  readonly #end: (state: State) => readonly ChatEvent[]
  readonly #texts: TextFrames<State> | undefined
  readonly #runs = new TextRuns()
  #state: State

  constructor(
    initial: State,
    step: (state: State, frame: Frame) => readonly [State, readonly ChatEvent[]],
    end: (state: State) => readonly ChatEvent[],
    texts: TextFrames<State> | undefined,
  ) {
    this.#state = initial
    this.#step = step
    this.#end = end
    this.#texts = texts
  }

  push(frame: Frame): readonly ChatEvent[] {
    const before = this.#state
    const [next, events] = this.#step(before, frame)
    this.#state = next
    if (this.#texts) this.#learn(this.#texts, before, frame, events)
    return events
  }

  end(): readonly ChatEvent[] {
    return this.#end(this.#state)
  }

  texts(received: string, at: number): Texts | undefined {
    const run = this.#runs.at(received, at)
    if (run === undefined || this.#texts === undefined) return undefined
    this.#texts.collect?.(this.#state, run.content)
    this.#state = this.#texts.after(this.#state, run.content)
    return run
  }

  /** A frame can be the pattern of others if all it did was to add its text. */
  #learn(
    { opening, after }: TextFrames<State>,
    before: State,
    frame: Frame,
    events: readonly ChatEvent[],
  ): void {
    const [event] = events
    if (events.length === 1 && event?.kind === 'text-delta' && equal(after(before, event.text), this.#state))
      this.#runs.learn(frame, event.choice, event.text, opening)
    else if (this.#state !== before) this.#runs.forget()
  }
}

/** Whether two states have the same fields. */
function equal<State extends object>(one: State, other: State): boolean {
  if (one === other) return true
  for (const name in one) if (one[name] !== other[name]) return false
  return true
}
