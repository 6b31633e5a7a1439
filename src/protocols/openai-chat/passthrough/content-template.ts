// Most frames of a stream differ from the one before in nothing but their text. Once such a frame has been mended by
// parsing it, the next are mended by exchanging the text alone.

import { stringEnd } from '../../../json/shape.ts'

const member = '"content":"'
/** What no JSON string may hold as it is: the parser refuses a frame with it, and so must who does not parse it. */
const bareControl = /[^ -\uffff]/

/** What stands around the text in a provider's frames, and in ours. */
interface Surroundings {
  readonly before: string
  readonly after: string
}

/** A frame that holds one piece of text, and what was made of it. */
export class ContentTemplate {
  readonly #theirs: Surroundings
  readonly #ours: Surroundings
  /** The same for whole events; made when first asked for, because many templates are learnt and few are used. */
  #events: { readonly from: Surroundings; readonly to: Surroundings } | undefined

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
    if (end <= before.length || stringEnd(data, before.length) !== end) return undefined
    const text = data.slice(before.length, end)
    return bareControl.test(text) ? undefined : text
  }

  /** Our frame with this text. */
  mended(text: string): string {
    return this.#ours.before + text + this.#ours.after
  }

  /** The run of events from `at` on that match the learnt one, repaired; undefined if there is none. */
  run(events: string, at: number): MendedRun | undefined {
    const { from, to } = (this.#events ??= { from: inEvent(this.#theirs), to: inEvent(this.#ours) })
    const run = { text: '', end: at, content: '' }
    while (events.startsWith(from.before, run.end)) {
      const start = run.end + from.before.length
      const end = stringEnd(events, start)
      if (end <= start || !events.startsWith(from.after, end)) break
      const text = events.slice(start, end)
      if (bareControl.test(text)) break
      run.text += to.before + text + to.after
      run.end = end + from.after.length
      run.content += text
    }
    return run.end === at ? undefined : run
  }
}

/** Events that were mended without being parsed. */
export interface MendedRun {
  /** The events for the client, blank lines and all. */
  readonly text: string
  /** The position behind the last of theirs. */
  readonly end: number
  /** What stood in them, as JSON writes it. */
  readonly content: string
}

function around(data: string): Surroundings | undefined {
  const at = data.indexOf(member)
  if (at < 0 || data.indexOf(member, at + 1) >= 0) return undefined
  const start = at + member.length
  const end = stringEnd(data, start)
  return end < 0 ? undefined : { before: data.slice(0, start), after: data.slice(end) }
}

function inEvent({ before, after }: Surroundings): Surroundings {
  return { before: `data: ${before}`, after: `${after}\n\n` }
}

function textIn(data: string, { before, after }: Surroundings): string {
  return data.slice(before.length, data.length - after.length)
}
