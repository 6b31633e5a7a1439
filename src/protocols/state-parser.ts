// A stream parser that goes from one state to the next.

import type { ChatEvent } from '../conversation/event.ts'
import type { StreamParser, Texts } from './protocol.ts'
import type { Frame } from './framing/sse.ts'
import { TextTemplate } from './framing/text-template.ts'
import { parseJson } from './json.ts'

/** How a protocol writes a frame with one piece of text, which makes one event. */
export interface TextFrames<State> {
  /** The JSON directly before the text, quote included. */
  readonly opening: string
  /** The state after further text. */
  readonly after: (state: State, text: string) => State
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
  #state: State
  #template: TextTemplate | undefined
  /** The choice that the template's frames belong to. */
  #choice = 0

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
    const run = this.#template?.run(received, at)
    if (run === undefined || this.#texts === undefined) return undefined
    const texts = run.content.includes('\\') ? run.texts.map(canonical) : run.texts
    // The parser reports what is no JSON.
    if (!texts.every((text) => text !== undefined)) return undefined
    const content = unescaped(texts.join(''))
    this.#state = this.#texts.after(this.#state, content)
    return { choice: this.#choice, texts, content, end: run.end }
  }

  /** A frame can be the pattern of others if all it did was to add its text. */
  #learn(
    { opening, after }: TextFrames<State>,
    before: State,
    frame: Frame,
    events: readonly ChatEvent[],
  ): void {
    const [event] = events
    if (
      events.length === 1 &&
      event?.kind === 'text-delta' &&
      equal(after(before, event.text), this.#state)
    ) {
      const template = TextTemplate.learn(frame, opening)
      this.#template = template && unescaped(template.learnt) === event.text ? template : undefined
      this.#choice = event.choice
    } else if (this.#state !== before) this.#template = undefined
  }
}

/** Whether two states have the same fields. */
function equal<State extends object>(one: State, other: State): boolean {
  if (one === other) return true
  for (const name in one) if (one[name] !== other[name]) return false
  return true
}

/** The body of a JSON string as JSON.stringify writes it; undefined if it is not JSON. */
function canonical(body: string): string | undefined {
  if (!body.includes('\\')) return body
  const text = parseJson(`"${body}"`)
  return typeof text === 'string' ? JSON.stringify(text).slice(1, -1) : undefined
}

/** The text of a JSON string's body, which is JSON. */
function unescaped(body: string): string {
  return body.includes('\\') ? String(parseJson(`"${body}"`)) : body
}
