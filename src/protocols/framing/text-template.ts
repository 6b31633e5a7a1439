// Most frames of a stream differ from the one before only in their text. Once one has been parsed, the texts of the
// next ones are read, and written, without parsing any.

import { stringEnd } from '../../json/json.ts'
import { parseJson } from '../lenient.ts'
import type { Texts } from '../protocol.ts'
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

// Recognises the frames of a stream that differ from the last parsed one only in their text, and in some counts.

/** Pieces of text that need no parsing, with the counts of the last event if those change: they hold until the next run. */
interface Run extends Texts {
  readonly counts: readonly number[] | undefined
}

export class TextRuns {
  #template: TextTemplate | undefined
  /** The choice that the template's frames belong to. */
  #choice = 0

  /**
   * Takes a frame that only added `text` to a choice as the pattern of the next ones. `opening` and `counts` as for
   * `TextTemplate.learn`. Returns the pattern; undefined if the frame cannot be one.
   */
  learn(
    frame: Frame,
    choice: number,
    text: string,
    opening: string,
    counts?: readonly string[],
  ): TextTemplate | undefined {
    const template = TextTemplate.learn(frame, opening, counts)
    this.#template = template && unescapeText(template.learnt) === text ? template : undefined
    this.#choice = choice
    return this.#template
  }

  forget(): void {
    this.#template = undefined
  }

  /** The run of events at `at`; undefined if the next event has to be parsed. */
  at(received: string, at: number): Run | undefined {
    const run = this.#template?.run(received, at)
    if (run === undefined) return undefined
    const { texts, content, counts, end } = run
    const choice = this.#choice
    if (!content.includes('\\')) return { choice, texts, content, counts, end }
    const written = texts.map(canonical)
    // The parser reports what is no JSON.
    if (!written.every((text) => text !== undefined)) return undefined
    return { choice, texts: written, content: unescapeText(written.join('')), counts, end }
  }
}

/** The body of a JSON string as JSON.stringify writes it; undefined if it is not JSON. */
function canonical(body: string): string | undefined {
  if (!body.includes('\\')) return body
  const text = parseJson(`"${body}"`)
  return typeof text === 'string' ? JSON.stringify(text).slice(1, -1) : undefined
}

/** The text of a JSON string's body, which is JSON. */
function unescapeText(body: string): string {
  return body.includes('\\') ? String(parseJson(`"${body}"`)) : body
}

// JSON that is the same in the frames of a stream except for some counts.

const zero = 0x30
const nine = 0x39
/** A number holds no more digits exactly. */
const mostDigits = 15

class ChangingCounts {
  /** The counts in the frame that this was learnt from. */
  readonly learnt: readonly number[]
  /** The JSON before, between and after the counts. */
  readonly #fixed: readonly string[]
  /** The counts that were taken last. */
  values: number[] = []
  /** Where `isAt` has ended, and what it has read. */
  end = 0
  #read: number[] = []

  private constructor(fixed: readonly string[], learnt: readonly number[]) {
    this.#fixed = fixed
    this.learnt = learnt
  }

  /**
   * Learns the JSON of an object between two places. Undefined unless it has the counts of these names, in this order,
   * and the rest of the object does not have them.
   */
  static learn(
    json: string,
    start: number,
    end: number,
    names: readonly string[],
  ): ChangingCounts | undefined {
    const fixed: string[] = []
    const learnt: number[] = []
    let from = start
    for (const name of names) {
      const key = `"${name}"`
      const at = json.indexOf(key)
      if (at < from || json.includes(key, at + 1)) return undefined
      let digits = at + key.length
      while (json[digits] === ' ' || json[digits] === ':') digits++
      let after = digits
      while (isDigit(json.charCodeAt(after))) after++
      if (after === digits) return undefined
      fixed.push(json.slice(from, digits))
      learnt.push(Number(json.slice(digits, after)))
      from = after
    }
    return new ChangingCounts([...fixed, json.slice(from, end)], learnt)
  }

  /** Whether this JSON is in `text` from `from` on, with any counts. */
  isAt(text: string, from: number): boolean {
    const fixed = this.#fixed
    if (!text.startsWith(fixed[0]!, from)) return false
    let at = from + fixed[0]!.length
    for (let next = 1; next < fixed.length; next++) {
      const start = at
      let count = 0
      for (let code = text.charCodeAt(at); isDigit(code); code = text.charCodeAt(++at))
        count = count * 10 + code - zero
      const digits = at - start
      // JSON has no leading zeros.
      if (digits === 0 || digits > mostDigits || (digits > 1 && text.charCodeAt(start) === zero)) return false
      if (!text.startsWith(fixed[next]!, at)) return false
      at += fixed[next]!.length
      this.#read[next - 1] = count
    }
    this.end = at
    return true
  }

  /** Whether the first count has grown since those that were taken last. */
  get hasGrown(): boolean {
    return this.#read[0]! > this.values[0]!
  }

  /** Takes the counts that were read. */
  take(): void {
    const { values } = this
    this.values = this.#read
    this.#read = values
  }
}

function isDigit(code: number): boolean {
  return code >= zero && code <= nine
}

// A chat completion's frame with one piece of text, and its repaired form: the next frames are repaired by exchanging the
// text.

const contentOpening = '"content":"'

export class ContentTemplate {
  readonly #theirs: TextTemplate
  readonly #ours: TextTemplate

  private constructor(theirs: TextTemplate, ours: TextTemplate) {
    this.#theirs = theirs
    this.#ours = ours
  }

  /**
   * Learns from a frame and its repaired form. Undefined unless the text is in both exactly once as the same JSON
   * string; otherwise replacing it could change something else.
   */
  static learn(theirs: Frame, ours: Frame): ContentTemplate | undefined {
    const from = TextTemplate.learn(theirs, contentOpening)
    const to = TextTemplate.learn(ours, contentOpening)
    return from && to && from.learnt === to.learnt ? new ContentTemplate(from, to) : undefined
  }

  /** The JSON string body of the text in a frame like the learnt one; undefined for any other frame. */
  textOf(data: string): string | undefined {
    return this.#theirs.textOf(data)
  }

  /** The run of events from `at` on that match the learnt one; undefined if there is none. */
  run(events: string, at: number): TextRun | undefined {
    return this.#theirs.run(events, at)
  }

  /** Our frame with this text. */
  mend(text: string): string {
    return this.#ours.with(text)
  }

  /** Our events with these texts. */
  write(texts: readonly string[]): string {
    return this.#ours.event.write(texts)
  }
}
