// Converts Gemini's sources for text ranges to annotations. Google counts UTF-8 bytes, annotations UTF-16 units.

import type { Annotation } from '../../../conversation/event.ts'
import type { JsonObject } from '../../../conversation/request.ts'
import type { CitationMetadata, GroundingMetadata } from './schema.ts'

/** A candidate's sources so far. Chunks of a stream may repeat or extend them. */
export interface Sources {
  readonly chunks: readonly { readonly uri: string; readonly title: string }[]
  readonly supports: readonly Support[]
  readonly queries: readonly string[]
}

interface Support {
  readonly start: number
  readonly end: number
  readonly text: string | undefined
  /** The source itself, or its index in `chunks`. */
  readonly source: number | { readonly uri: string; readonly title: string }
}

export const noSources: Sources = { chunks: [], supports: [], queries: [] }

/** The sources after one more chunk. */
export function addSources(
  before: Sources,
  grounding: GroundingMetadata | undefined,
  citations: CitationMetadata | undefined,
): Sources {
  if (grounding === undefined && citations === undefined) return before
  const chunks = (grounding?.groundingChunks ?? []).map(({ web, retrievedContext, maps }) => {
    const { uri = '', title = '' } = web ?? retrievedContext ?? maps ?? {}
    return { uri, title }
  })
  const grounded = (grounding?.groundingSupports ?? []).flatMap((support) =>
    (support.groundingChunkIndices ?? []).map((source) => ({
      start: support.segment?.startIndex ?? 0,
      end: support.segment?.endIndex ?? 0,
      text: support.segment?.text,
      source,
    })),
  )
  const cited = (citations?.citations ?? [])
    .filter((citation) => citation.uri !== undefined && citation.endIndex !== undefined)
    .map((citation) => ({
      start: citation.startIndex ?? 0,
      end: citation.endIndex ?? 0,
      text: undefined,
      source: { uri: citation.uri ?? '', title: citation.title ?? '' },
    }))
  const queries = grounding?.webSearchQueries ?? []
  return {
    chunks: chunks.length > 0 ? chunks : before.chunks,
    supports: [...before.supports, ...grounded, ...cited],
    queries: queries.length > 0 ? queries : before.queries,
  }
}

/** The search as an item of the Responses protocol: Google does not say which query found which page. */
export function searchItems({ queries, chunks }: Sources): readonly JsonObject[] {
  const [query] = queries
  if (query === undefined) return []
  const sources = chunks.flatMap(({ uri }) => (uri === '' ? [] : [{ type: 'url', url: uri }]))
  const action = { type: 'search', query, queries: [...queries], sources }
  return [{ type: 'web_search_call', status: 'completed', action }]
}

/**
 * The annotations of the whole text, each stretch and source once. A stretch whose bytes do not hold the text that
 * Google says they hold is looked for by that text, and left out when it is not there: a wrong place is worse than
 * none.
 */
export function annotationsOf(sources: Sources, text: string): Annotation[] {
  const toUnits = unitsAt(
    text,
    sources.supports.flatMap((support) => [support.start, support.end]),
  )
  const seen = new Set<string>()
  const annotations: Annotation[] = []
  for (const support of sources.supports) {
    const source = typeof support.source === 'number' ? sources.chunks[support.source] : support.source
    const place = placeOf(support, text, toUnits)
    if (source === undefined || source.uri === '' || place === undefined) continue
    const key = `${place.start} ${place.end} ${source.uri}`
    if (seen.has(key)) continue
    seen.add(key)
    annotations.push({ kind: 'url-citation', url: source.uri, title: source.title, ...place })
  }
  return annotations
}

function placeOf(
  support: Support,
  text: string,
  toUnits: ReadonlyMap<number, number>,
): { start: number; end: number } | undefined {
  const start = toUnits.get(support.start) ?? text.length
  const end = toUnits.get(support.end) ?? text.length
  const named = support.text
  if (named === undefined || named === '') return end > start ? { start, end } : undefined
  if (text.slice(start, end) === named) return { start, end }
  const found = text.indexOf(named)
  return found < 0 ? undefined : { start: found, end: found + named.length }
}

/** Maps UTF-8 byte offsets to UTF-16 offsets, in one pass over the text. */
export function unitsAt(text: string, byteOffsets: readonly number[]): Map<number, number> {
  const wanted = [...new Set(byteOffsets)].toSorted((a, b) => a - b)
  const units = new Map<number, number>()
  let bytes = 0
  let unit = 0
  let next = 0
  const settle = () => {
    while (next < wanted.length && wanted[next]! <= bytes) units.set(wanted[next++]!, unit)
  }
  settle()
  for (const character of text) {
    if (next >= wanted.length) break
    bytes += Buffer.byteLength(character)
    unit += character.length
    settle()
  }
  return units
}
