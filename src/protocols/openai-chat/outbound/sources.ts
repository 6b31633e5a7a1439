// Converts numbered sources, as in Perplexity's answers, to annotations with offsets.

import type { Annotation } from '../../../conversation/event.ts'
import type { JsonObject } from '../../../conversation/request.ts'
import { isObject } from '../../json.ts'

export interface Source {
  readonly url: string
  readonly title: string
}

/** The numbered sources in a chunk or body, if any. They repeat on every chunk. */
export function sourcesIn(chunk: JsonObject): readonly Source[] | undefined {
  const results = (Array.isArray(chunk.search_results) ? chunk.search_results : []).filter(isObject)
  const titles = new Map(results.map((result) => [result.url, result.title]))
  const urls = Array.isArray(chunk.citations) ? chunk.citations : results.map((result) => result.url ?? null)
  const sources = urls
    .filter((url) => typeof url === 'string')
    .map((url) => {
      const title = titles.get(url)
      return { url, title: typeof title === 'string' ? title : '' }
    })
  return sources.length === 0 ? undefined : sources
}

/** The search that found these sources, as an item of the Responses protocol. */
export function searchItem(sources: readonly Source[]): JsonObject {
  const action = { type: 'search', query: '', sources: sources.map(({ url }) => ({ type: 'url', url })) }
  return { type: 'web_search_call', status: 'completed', action }
}

/**
 * One annotation for each citation `[2]` in the text; a source without a citation gets one without a place, so that
 * the numbers can be looked up.
 */
export function citationsOf(text: string, sources: readonly Source[]): readonly Annotation[] {
  if (sources.length === 0) return []
  const places = sources.map((): { start: number; end: number }[] => [])
  for (const match of text.matchAll(/\[(\d{1,3})\]/g)) {
    places[Number(match[1]) - 1]?.push({ start: match.index, end: match.index + match[0].length })
  }
  return sources.flatMap((source, index) => {
    const cited = places[index]!
    const where = cited.length === 0 ? [{ start: 0, end: 0 }] : cited
    return where.map((place) => ({ kind: 'url-citation' as const, ...source, ...place }))
  })
}
