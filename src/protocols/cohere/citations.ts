// Cohere's citations as annotations of the joined text.

import type { Annotation } from '../../conversation/event.ts'
import { isObject, nonEmpty } from '../json.ts'
import { citationSchema } from './schema.ts'

/** A citation and its text block. */
export interface Cited {
  readonly citation: unknown
  /** Where its block begins in the joined text, UTF-16 units. */
  readonly base: number
}

/** One annotation per source with an address; documents have no field on the wire. `text` is the joined text. */
export function annotationsOf({ citation: sent, base }: Cited, text: string): Annotation[] {
  const citation = citationSchema.safeParse(sent).data
  if (citation === undefined) return []
  const [start, end] = stretchOf(text, base, citation)
  return citation.sources.flatMap((source): Annotation[] => {
    const found = addressOf(source)
    return found === undefined ? [] : [{ kind: 'url-citation', ...found, start, end }]
  })
}

/**
 * The stretch in UTF-16 code units. Offsets count characters, and which kind shows only where a text has characters
 * beyond the basic plane: the reading under which the quoted text stands there is the right one.
 */
function stretchOf(
  text: string,
  base: number,
  citation: { start: number; end: number; text: string },
): readonly [number, number] {
  const plain = [base + citation.start, base + citation.end] as const
  if (text.slice(...plain) === citation.text) return plain
  const characters = Array.from(text.slice(base))
  const unitsBefore = (at: number) => base + characters.slice(0, at).join('').length
  const counted = [unitsBefore(citation.start), unitsBefore(citation.end)] as const
  if (text.slice(...counted) === citation.text) return counted
  return [Math.min(plain[0], text.length), Math.min(plain[1], text.length)]
}

function addressOf(source: unknown): { url: string; title: string } | undefined {
  if (!isObject(source)) return undefined
  const said = [source.document, source.tool_output].find(isObject) ?? {}
  const url = [said.url, said.link, said.id, source.id]
    .map(nonEmpty)
    .find((each) => /^https?:\/\//.test(each ?? ''))
  return url === undefined ? undefined : { url, title: nonEmpty(said.title) ?? url }
}
