// Anthropic's citations as annotations of the joined text.

import type { Annotation } from '../../../conversation/event.ts'
import { citationSchema } from './schema.ts'

/**
 * The web sources of a text block, each for the whole block (start to end, UTF-16 offsets into the answer's text).
 * Citations of documents have no address and are left out.
 */
export function webAnnotations(citations: readonly unknown[], start: number, end: number): Annotation[] {
  if (end <= start) return []
  return citations.flatMap((raw) => {
    const citation = citationSchema.safeParse(raw)
    if (!citation.success) return []
    const url = citation.data.url ?? citation.data.source ?? ''
    if (!/^https?:\/\//i.test(url)) return []
    return [{ kind: 'url-citation' as const, url, title: citation.data.title ?? '', start, end }]
  })
}
