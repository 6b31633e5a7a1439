// Most frames of a stream differ from the one before in nothing but their text. Once such a frame has been mended by
// parsing it, the next are mended by exchanging the text alone.

import { stringEnd } from '../json.ts'

const member = '"content":"'

/** What stands around the text in a provider's frames, and in ours. */
interface Surroundings {
  readonly before: string
  readonly after: string
}

/** A frame that holds one piece of text, and what was made of it. */
export class ContentTemplate {
  readonly #theirs: Surroundings
  readonly #ours: Surroundings

  private constructor(theirs: Surroundings, ours: Surroundings) {
    this.#theirs = theirs
    this.#ours = ours
  }

  /**
   * Learns from a frame and its mended form. Undefined where the text does not stand in both exactly once and as
   * the same JSON string, so that exchanging it could mean something else.
   */
  static learn(theirs: string, ours: string): ContentTemplate | undefined {
    const from = around(theirs)
    const to = around(ours)
    if (!from || !to || textIn(theirs, from) !== textIn(ours, to)) return undefined
    return new ContentTemplate(from, to)
  }

  /** The JSON string body of the text of a frame like the one learnt from; undefined for any other frame. */
  textOf(data: string): string | undefined {
    const { before, after } = this.#theirs
    if (!data.startsWith(before) || !data.endsWith(after)) return undefined
    const end = data.length - after.length
    // An empty text is a delta to leave out, and a quote inside would end the string: both are for the parser.
    return end > before.length && stringEnd(data, before.length) === end
      ? data.slice(before.length, end)
      : undefined
  }

  /** Our frame with this text. */
  mended(text: string): string {
    return this.#ours.before + text + this.#ours.after
  }
}

function around(data: string): Surroundings | undefined {
  const at = data.indexOf(member)
  if (at < 0 || data.indexOf(member, at + 1) >= 0) return undefined
  const start = at + member.length
  const end = stringEnd(data, start)
  return end < 0 ? undefined : { before: data.slice(0, start), after: data.slice(end) }
}

function textIn(data: string, { before, after }: Surroundings): string {
  return data.slice(before.length, data.length - after.length)
}
