// Most frames of a stream differ from the one before only in their text. Once one has been parsed and repaired, the
// next are repaired by replacing the text in the result.

import { stringEnd } from '../../../json/shape.ts'

const member = '"content":"'
/** Characters that JSON strings may not contain: the parser would refuse the frame, so this must too. */
const bareControl = /[^ -\uffff]/

/** The JSON before and after the text in a provider's frames, and in ours. */
interface Surroundings {
  readonly before: string
  readonly after: string
}

/** A frame with one piece of text, and its repaired form. */
export class ContentTemplate {
  readonly #theirs: Surroundings
  readonly #ours: Surroundings
  /** The same for whole events; built on first use, because few of the learnt templates are used. */
  #events: { readonly from: Surroundings; readonly to: Surroundings } | undefined

  private constructor(theirs: Surroundings, ours: Surroundings) {
    this.#theirs = theirs
    this.#ours = ours
  }

  /**
   * Learns from a frame and its repaired form. Undefined unless the text is in both exactly once as the same JSON
   * string; otherwise replacing it could change something else.
   */
  static learn(theirs: string, ours: string): ContentTemplate | undefined {
    const from = around(theirs)
    const to = around(ours)
    if (!from || !to || textIn(theirs, from) !== textIn(ours, to)) return undefined
    return new ContentTemplate(from, to)
  }

  /** The JSON string body of the text in a frame like the learnt one; undefined for any other frame. */
  textOf(data: string): string | undefined {
    const { before, after } = this.#theirs
    if (!data.startsWith(before) || !data.endsWith(after)) return undefined
    const end = data.length - after.length
    // An empty text is dropped, and a quote would end the string: both need the parser.
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
    if (!events.startsWith(from.before, at)) return undefined
    return plainRun(events, at, from, to) ?? this.#eachOf(events, at)
  }

  #eachOf(events: string, at: number): MendedRun | undefined {
    const { from, to } = this.#events!
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

/** A quote would end a JSON string, and what `bareControl` finds no JSON string holds as it is. */
const notPlain = /[^ !#-\uffff]/

/**
 * The events from `at` up to the last like them, if there is nothing else among them: then what stands between two
 * texts is the same every time, and all are exchanged at once. Undefined where a text is empty or holds a quote, and
 * where other events stand between.
 */
function plainRun(events: string, at: number, from: Surroundings, to: Surroundings): MendedRun | undefined {
  const end = events.lastIndexOf(from.after)
  const start = at + from.before.length
  if (end <= start) return undefined
  const within = events.slice(start, end)
  // A backslash before a quote makes it part of the text.
  if (within.endsWith('\\') || within.includes('\\"')) return undefined
  const texts = within.split(from.after + from.before)
  const content = texts.join('')
  if (notPlain.test(content) || texts.includes('')) return undefined
  return {
    text: to.before + texts.join(to.after + to.before) + to.after,
    end: end + from.after.length,
    content,
  }
}

/** Events that were mended without being parsed. */
export interface MendedRun {
  /** The events for the client, including blank lines. */
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
