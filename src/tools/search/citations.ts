// Finds the sources that an answer cites: search results whose address is in its text.

import type { Annotation } from '../../conversation/event.ts'
import type { Source } from '../../conversation/gateway-tools.ts'
import { pageKey } from './page-key.ts'

/**
 * A place of the text that cites a source. `start` and `end` count UTF-16 code units, `codePoints` the same place in
 * code points. On the wire of chat and responses stand UTF-16 units: OpenAI's document says "the index of the first
 * character" and no recording of it tells more, and the official client for JavaScript, the AI SDK and our console
 * slice strings with them. The two differ only behind characters beyond U+FFFF, such as emoji.
 */
export interface Citation extends Annotation {
  readonly codePoints: { readonly start: number; readonly end: number }
}

/** The longest label of a markdown link that is looked at, in characters. */
const labelCharacters = 500

/**
 * Every place where a source's address is in the text: the whole markdown link, or the plain address. Pure, in text
 * order; for complete texts.
 */
export function citationsIn(text: string, sources: readonly Source[]): Citation[] {
  const known = new Map<string, Source>()
  for (const source of sources) {
    const url = URL.parse(source.url)
    if (url && !known.has(pageKey(url))) known.set(pageKey(url), source)
  }
  if (known.size === 0) return []
  const places = withoutInner(placesOf(text, known))
  const points = codePointsAt(
    text,
    places.flatMap(({ start, end }) => [start, end]),
  )
  return places.map(({ source: { url, title }, start, end }) => ({
    kind: 'url-citation',
    url,
    title,
    start,
    end,
    codePoints: { start: points.get(start)!, end: points.get(end)! },
  }))
}

interface Place {
  readonly source: Source
  readonly start: number
  readonly end: number
}

function placesOf(text: string, known: ReadonlyMap<string, Source>): Place[] {
  // East Asian full stops and brackets end an address like a space does.
  const addresses = text.matchAll(/https?:\/\/(?:(?!\]\()[^\s<>"`\u3000-\u303f\uff00-\uffef]){1,2100}/gi)
  return [...addresses].flatMap((match) => {
    const at = match.index
    const linked = text.slice(Math.max(0, at - 3), at).match(/\]\(<?$/) !== null
    for (const length of lengthsOf(match[0], linked)) {
      const url = URL.parse(match[0].slice(0, length))
      const source = url && known.get(pageKey(url))
      if (!source) continue
      return [{ source, ...(linked ? linkAround(text, at, at + length) : { start: at, end: at + length }) }]
    }
    return []
  })
}

/** Candidate lengths of the address: what follows it without a space may be punctuation, or text in another script. */
function lengthsOf(run: string, linked: boolean): number[] {
  const ascii = run.search(/[^\x21-\x7e]/)
  const runs = ascii < 0 ? [run] : [run, run.slice(0, ascii)]
  return runs.map((each) => (linked ? closedBy(each) : trimEnd(each)))
}

/** Up to the bracket that closes the link; brackets inside the address are balanced. */
function closedBy(run: string): number {
  let open = 0
  for (let at = 0; at < run.length; at++) {
    if (run[at] === '(') open++
    else if (run[at] === ')' && --open < 0) return at
  }
  return trimEnd(run)
}

/** Without trailing punctuation; a closing bracket is kept if the address opens it. */
function trimEnd(run: string): number {
  let open = run.split('(').length - run.split(')').length
  let end = run.length
  for (; end > 0; end--) {
    const last = run[end - 1]!
    if (last === ')' && open >= 0) return end
    if (!/[.,;:!?'*_~|\\)\]}]/.test(last)) return end
    if (last === ')') open++
  }
  return end
}

/** The markdown link with its address at this place. */
function linkAround(text: string, start: number, end: number): { start: number; end: number } {
  const close = /^>?(?:\s+(?:"[^"\n]*"|'[^'\n]*'))?\s*\)/.exec(text.slice(end, end + labelCharacters))
  let open = 0
  const from = Math.max(0, start - labelCharacters)
  for (let at = start - 1; at >= from; at--) {
    if (text[at] === ']') open++
    else if (text[at] === '[' && --open === 0) return { start: at, end: end + (close?.[0].length ?? 0) }
  }
  return { start, end }
}

/** A link that shows its own address is one citation. */
function withoutInner(places: readonly Place[]): Place[] {
  const links = places.toSorted((a, b) => a.start - b.start || b.end - a.end)
  let covered = 0
  return links.filter(({ end }) => {
    if (end <= covered) return false
    covered = end
    return true
  })
}

/** Maps UTF-16 offsets to code point offsets, in one pass over the text. */
function codePointsAt(text: string, units: readonly number[]): Map<number, number> {
  const wanted = [...new Set(units)].toSorted((a, b) => a - b)
  const points = new Map<number, number>()
  let unit = 0
  let point = 0
  for (const offset of wanted) {
    for (; unit < offset; point++) unit += text.codePointAt(unit)! > 0xffff ? 2 : 1
    points.set(offset, point)
  }
  return points
}
