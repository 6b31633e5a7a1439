// A provider's frame with one piece of text, and its repaired form: the next frames are repaired by exchanging the text.

import type { Frame } from '../../framing/sse.ts'
import { type TextRun, TextTemplate } from '../../framing/text-template.ts'

const opening = '"content":"'

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
    const from = TextTemplate.learn(theirs, opening)
    const to = TextTemplate.learn(ours, opening)
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
