// The interface of search backends, and how they fail.

import type { z } from 'zod'
import type { SearchLocation, ToolResult, WebSearchDeclaration } from '../../../conversation/gateway-tools.ts'
import type { Pico } from '../../../credits/money.ts'

/** The backends by name: values of `search.backend` and `engine`. */
export const searchEngines = ['searxng', 'tavily', 'brave', 'exa', 'sim'] as const
export type SearchEngine = (typeof searchEngines)[number]

/** The maximum age of pages, newest first. */
export const recencies = ['day', 'week', 'month', 'year'] as const
export type Recency = (typeof recencies)[number]

export interface SearchQuery {
  readonly text: string
  /** A hint: results outside of these rules are removed afterwards. */
  readonly allowedDomains: readonly string[]
  readonly blockedDomains: readonly string[]
  readonly recency: Recency | undefined
  readonly location: SearchLocation | undefined
  readonly contextSize: WebSearchDeclaration['contextSize']
  /** How many results are wanted. */
  readonly count: number
}

export interface SearchResult {
  readonly url: string
  readonly title: string
  /** The relevant text of the page; may be empty. */
  readonly text: string
  /** As the backend writes it: a date, or text such as "2 days ago". */
  readonly publishedAt: string | undefined
}

export interface SearchAnswer {
  readonly results: readonly SearchResult[]
  /** The cost reported by the backend, if any. */
  readonly cost: Pico | undefined
}

export interface SearchBackend {
  readonly id: SearchEngine
  /** The cost of a search if the backend does not report it, picodollars. */
  readonly price: Pico
  /** The most that a search can cost, held before it runs, picodollars. */
  readonly mostPrice: Pico
  /** Throws SearchFault for every fault of the backend, and the signal's reason if the caller gave up. */
  search(query: SearchQuery, signal: AbortSignal): Promise<SearchAnswer>
}

const searchFaults = {
  search_unavailable: 'The search backend cannot be reached or fails.',
  search_timeout: 'The search took too long.',
  search_refused: 'The search backend refuses the request.',
  search_credentials: 'The search backend does not accept the key of this gateway.',
  search_quota: 'The quota of this gateway at the search backend is used up.',
  search_rate_limited: 'The search backend limits the rate of requests at the moment.',
  search_unusable_answer: 'The search backend answered with something that is no search result.',
} as const

export type SearchFaultCode = keyof typeof searchFaults

/** A failed search. The message is for clients and models, `detail` for the operator. */
export class SearchFault extends Error {
  readonly code: SearchFaultCode
  readonly detail: string

  constructor(code: SearchFaultCode, detail: string, cause?: unknown) {
    super(searchFaults[code], { cause })
    this.name = 'SearchFault'
    this.code = code
    this.detail = detail
  }
}

export const dayMs = 86_400_000

/** How old a page of a recency may be, in days. */
export const oldestDays: Readonly<Record<Recency, number>> = { day: 1, week: 7, month: 31, year: 366 }

/** The arguments that a model wrote; undefined if they are no JSON of this shape. */
export function argumentsIn<T>(text: string, schema: z.ZodType<T>): T | undefined {
  try {
    return schema.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}

// A failed tool call: the model gets the reason, nobody is charged.

export function failedResult(code: string, message: string): ToolResult {
  return { text: `Error: ${message}`, failure: { code, message }, cost: 0n, searches: 0 }
}
