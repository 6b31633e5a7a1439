// Most frames of a stream differ from the one before only in their text. Once one has been parsed, the texts of the
// next ones are read, and written, without parsing any.

import { stringEnd } from '../../json/shape.ts'
import { ChangingCounts } from './changing-counts.ts'
import type { Frame } from './sse.ts'

/** Characters that JSON strings may not contain: the parser would refuse the frame, so this must too. */
const bareControl = /[^ -\uffff]/
const space = 0x20
/** The end of an event whose data is an object. */
const closing = '}\n\n'
/** The same in the stream of a server that ends lines as HTTP does. */
const otherClosing = '}\r\n\r\n'

/** Consecutive events that differ from a parsed one only in their text and their counts. */
export interface TextRun {
  /** The text of each event as the body of a JSON string; never empty. */
  readonly texts: readonly string[]
  /** The texts joined. */
  readonly content: string
  /** The counts of the last event, until the next run; undefined if none change. */
  readonly counts: readonly number[] | undefined
  /** The position after the last event. */
  readonly end: number
}

/** What comes before and after the text of an event. */
export class TextEvent {
  readonly before: string
  readonly after: string
  readonly #between: string

  constructor(before: string, after: string) {
    this.before = before
    this.after = after
    this.#between = [after, before].join('')
  }

  /** One event for each text; `texts` are bodies of JSON strings. */
  write(texts: readonly string[]): string {
    return this.before + texts.join(this.#between) + this.after
  }
}

/** A frame with one text. */
export class TextTemplate {
  /** The learnt text as the body of a JSON string. */
  readonly learnt: string
  /** The JSON before the text, and after it up to the last brace and the spaces before that. */
  readonly #before: string
  readonly #after: string
  readonly #event: string | undefined
  /** What follows the text, if counts in it change. */
  readonly #counts: ChangingCounts | undefined
  /** The whole event; built on first use, because few of the learnt templates are used. */
  #whole: TextEvent | undefined

  private constructor(frame: Frame, start: number, end: number, counts: readonly string[]) {
    this.learnt = frame.data.slice(start, end)
    this.#before = frame.data.slice(0, start)
    this.#after = frame.data.slice(end, -1).trimEnd()
    this.#event = frame.event
    this.#counts =
      counts.length === 0
        ? undefined
        : ChangingCounts.learn(frame.data, end, end + this.#after.length, counts)
  }

  /**
   * Learns from a frame. `opening`: the JSON directly before the text, quote included. Undefined unless the frame
   * is an object that contains it exactly once: otherwise replacing the text could change something else. `counts` may
   * differ as well, if they follow the text in this order: a run only takes events in which the first of them grows.
   */
  static learn(frame: Frame, opening: string, counts: readonly string[] = []): TextTemplate | undefined {
    const at = frame.data.indexOf(opening)
    if (at < 0 || frame.data.indexOf(opening, at + 1) >= 0) return undefined
    const start = at + opening.length
    const end = stringEnd(frame.data, start)
    // Data of several lines looks otherwise in the stream.
    if (frame.data.includes('\n')) return undefined
    return end < 0 || !frame.data.endsWith('}') ? undefined : new TextTemplate(frame, start, end, counts)
  }

  /** The whole event around the text, as `encodeFrame` writes it. */
  get event(): TextEvent {
    if (this.#whole === undefined) {
      const name = this.#event === undefined ? '' : `event: ${this.#event}\n`
      this.#whole = new TextEvent(`${name}data: ${this.#before}`, this.#after + closing)
    }
    return this.#whole
  }

  /** The JSON string body of the text in a frame like the learnt one; undefined for any other frame. */
  textOf(data: string): string | undefined {
    if (!data.startsWith(this.#before) || !data.endsWith(`${this.#after}}`)) return undefined
    const start = this.#before.length
    const end = data.length - this.#after.length - 1
    // An empty text is dropped, and a quote would end the string: both need the parser.
    if (end <= start || stringEnd(data, start) !== end) return undefined
    const text = data.slice(start, end)
    return bareControl.test(text) ? undefined : text
  }

  /** The JSON of a frame like the learnt one with this text, the body of a JSON string. */
  with(text: string): string {
    return `${this.#before}${text}${this.#after}}`
  }

  /** The learnt counts; undefined if none may change. */
  get learntCounts(): readonly number[] | undefined {
    return this.#counts?.learnt
  }

  /** The run of events from `at` on that match the learnt one; undefined if there is none. */
  run(events: string, at: number): TextRun | undefined {
    const { before } = this.event
    const counts = this.#counts
    const texts: string[] = []
    let end = at
    while (events.startsWith(before, end)) {
      const start = end + before.length
      const quote = stringEnd(events, start)
      if (quote <= start) break
      if (!(counts ? counts.isAt(events, quote) : events.startsWith(this.#after, quote))) break
      // Anthropic hides the length of a text behind spaces, which mean nothing here.
      let brace = counts ? counts.end : quote + this.#after.length
      while (events.charCodeAt(brace) === space) brace++
      const isOther = !events.startsWith(closing, brace)
      if (isOther && !events.startsWith(otherClosing, brace)) break
      if (counts) {
        if (texts.length > 0 && !counts.hasGrown) break
        counts.take()
      }
      texts.push(events.slice(start, quote))
      end = brace + (isOther ? otherClosing : closing).length
    }
    if (end === at) return undefined
    const content = texts.join('')
    // The parser finds which of the events is refused.
    return bareControl.test(content) ? undefined : { texts, content, counts: counts?.values, end }
  }
}
