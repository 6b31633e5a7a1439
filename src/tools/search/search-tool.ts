// The web search as a tool of the model: reads its arguments, asks the backend, and returns numbered sources.

import { z } from 'zod'
import { type ToolResult, type WebSearchDeclaration, webTools } from '../../conversation/gateway-tools.ts'
import type { GatewayTool, ToolContext } from '../tool.ts'
import {
  argumentsIn,
  failedResult,
  recencies,
  type Recency,
  type SearchBackend,
  SearchFault,
  type SearchResult,
} from './backends/backend.ts'
import { boundText, hostsOf, pageKey, resultsText, visible } from './results.ts'

interface SearchToolOptions {
  readonly backend: SearchBackend
  readonly request: WebSearchDeclaration
  /** The maximum age of pages, whatever the model asks for. */
  readonly recency: Recency | undefined
  readonly maxResults: number
  /** The domain rules of the request. */
  readonly allows: (url: string) => boolean
  /** Called for every failed search, for the operator. */
  readonly onFault: (fault: SearchFault) => void
}

/** What every backend takes. */
const queryCharacters = 400

const argumentsSchema = z.object({
  query: z.string().trim().min(1),
  recency: z.enum(recencies).nullish().catch(undefined),
})

/** The tool for one call; it counts its uses. */
export function searchTool(options: SearchToolOptions): GatewayTool {
  const { request } = options
  let uses = 0
  return {
    preferredName: webTools['web-search'].name,
    description: descriptionOf(request),
    parameters: {
      type: 'object',
      properties: {
        query: {
          type: 'string',
          description: 'What to look for: a few words, in the language of the pages.',
        },
        recency: {
          type: 'string',
          enum: [...recencies],
          description: 'Only pages of the last day, week, month or year. Leave it out unless it matters.',
        },
      },
      required: ['query'],
      additionalProperties: false,
    },
    origin: { kind: 'web-search' },
    mostCost: options.backend.mostPrice,
    run: async (argumentsText, context) => {
      context.signal.throwIfAborted()
      const read = argumentsIn(argumentsText, argumentsSchema)
      if (!read)
        return failedResult(
          'invalid_arguments',
          'The arguments must be JSON with a "query" that is not empty.',
        )
      const query = boundText(visible(read.query), queryCharacters)
      if (request.maxUses !== undefined && uses >= request.maxUses)
        return {
          ...failedResult(
            'max_uses_exceeded',
            `All ${request.maxUses} searches of this call are used: answer without.`,
          ),
          action: actionOf(query, []),
        }
      // Counted before the answer: calls of one round run concurrently.
      uses++
      return runSearch(options, query, read.recency ?? undefined, context)
    },
  }
}

async function runSearch(
  { backend, request, recency: oldest, maxResults, allows, onFault }: SearchToolOptions,
  query: string,
  recency: Recency | undefined,
  { signal, deadlineAt }: ToolContext,
): Promise<ToolResult> {
  const count = request.contextSize === 'low' ? Math.ceil(maxResults / 2) : maxResults
  const deadline = AbortSignal.timeout(Math.max(1, Math.ceil(deadlineAt - performance.now())))
  try {
    const { results, cost } = await backend.search(
      {
        text: query,
        allowedDomains: hostsOf(request.allowedDomains),
        // A rule for a part of a host must not block the rest of it.
        blockedDomains: hostsOf(request.blockedDomains.filter((rule) => !hasPath(rule))),
        // The model may ask for newer pages than the request allows, not for older ones.
        recency: narrower(oldest, recency),
        location: request.location,
        contextSize: request.contextSize,
        count,
      },
      AbortSignal.any([signal, deadline]),
    )
    signal.throwIfAborted()
    const kept = usable(results, allows).slice(0, count)
    return {
      text: resultsText(query, kept, request.contextSize),
      cost: cost ?? backend.price,
      searches: 1,
      sources: kept.map(({ url, title, text, publishedAt }) => ({
        url,
        title: title === '' ? url : title,
        snippet: boundText(text, 300),
        ...(publishedAt === undefined ? {} : { publishedAt }),
      })),
      action: actionOf(query, kept),
    }
  } catch (error) {
    signal.throwIfAborted()
    const fault = deadline.aborted
      ? new SearchFault('search_timeout', `${backend.id} was not done when the time for tools ended`)
      : error
    if (!(fault instanceof SearchFault)) throw fault
    onFault(fault)
    return { ...failedResult(fault.code, fault.message), action: actionOf(query, []) }
  }
}

/** Each page once, at addresses that a client can follow and the request allows. */
function usable(results: readonly SearchResult[], allows: (url: string) => boolean): SearchResult[] {
  const seen = new Set<string>()
  return results.flatMap((result) => {
    const url = URL.parse(result.url.trim())
    if (!url || (url.protocol !== 'https:' && url.protocol !== 'http:') || !allows(url.href)) return []
    if (url.username !== '' || url.password !== '' || url.href.length > longestUrl) return []
    const page = pageKey(url)
    if (seen.has(page)) return []
    seen.add(page)
    return [{ ...result, url: url.href, title: visible(result.title).replace(/\s+/g, ' ').trim() }]
  })
}

const longestUrl = 2_048

function narrower(a: Recency | undefined, b: Recency | undefined): Recency | undefined {
  if (a === undefined || b === undefined) return a ?? b
  return recencies.indexOf(a) < recencies.indexOf(b) ? a : b
}

function hasPath(rule: string): boolean {
  return /^(https?:\/\/)?[^/]+\/./i.test(rule.trim())
}

/** The action of a `web_search_call` item. */
function actionOf(query: string, results: readonly SearchResult[]) {
  return { type: 'search', query, sources: results.map(({ url }) => ({ type: 'url', url })) }
}

function descriptionOf({ location, allowedDomains }: WebSearchDeclaration): string {
  const place = [location?.city, location?.region, location?.country].filter((part) => part !== undefined)
  return [
    'Searches the web and returns numbered sources with addresses and excerpts.',
    'Use it for what is recent, or what you are not sure of, and cite sources as markdown links.',
    ...(place.length > 0 ? [`The user is in ${boundText(visible(place.join(', ')), 200)}.`] : []),
    ...(allowedDomains.length > 0
      ? [`Only pages of these sites are found: ${allowedDomains.slice(0, 20).join(', ')}.`]
      : []),
  ].join(' ')
}
