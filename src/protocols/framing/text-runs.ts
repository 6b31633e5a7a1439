// Recognises the frames of a stream that differ from the last parsed one only in their text, and in some counts.

import { parseJson } from '../json.ts'
import type { Texts } from '../protocol.ts'
import type { Frame } from './sse.ts'
import { TextTemplate } from './text-template.ts'

/** Pieces of text that need no parsing, with the counts of the last event if those change: they hold until the next run. */
export interface Run extends Texts {
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
