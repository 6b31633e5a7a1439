// The search backends: their interface and how they fail, and a row for each that is reached over HTTP.

import { z } from 'zod'
import type { SearchLocation, ToolResult, WebSearchDeclaration } from '../../conversation/gateway-tools.ts'
import { parseUsd, type Pico, usd } from '../../credits/money.ts'
import { boundedBytes, TooLargeError } from '../../transport/bounded-body.ts'
import { dial, type EgressOptions } from '../../egress/egress.ts'

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

// One search at an HTTP backend: what all four have in common. Each has a file for its requests and answers.

/** How to query a backend and read its answers: data and pure functions. */
export interface HostedBackend {
  readonly id: 'searxng' | 'tavily' | 'brave' | 'exa'
  /** Its public address; undefined without one. */
  readonly baseUrl: string | undefined
  /** The list price of a search, US dollars. */
  readonly listPrice: string
  /** If it reports the cost of a search: the highest value that is accepted, and held, US dollars. */
  readonly mostPrice?: string
  /** The most results for the price of one search. */
  readonly mostResults: number
  request(query: SearchQuery, key: string | undefined): HostedRequest
  /** undefined if it is not an answer of this backend. */
  read(answer: unknown): SearchAnswer | undefined
  /** Why it refused, if the status is not enough or misleading. */
  faultOf?(status: number, text: string): SearchFaultCode | undefined
}

interface HostedRequest {
  /** Appended to the base address, with the query string. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** Sent as JSON by POST; without it the request is a GET. */
  readonly body?: object
}

interface HostedSettings {
  readonly baseUrl: string | undefined
  readonly apiKey: string | undefined
  /** What a search costs; undefined for the backend's list price. */
  readonly price: Pico | undefined
  readonly timeoutMs: number
  /** How the network is reached, in tests. */
  readonly rim: Pick<EgressOptions, 'fetcher' | 'resolve'>
}

/** The largest answer that is read: twenty results with all snippets are a tenth of it. */
const answerBytes = 4 * 1024 * 1024
/** How much of a refusal is shown to the operator, characters. */
const detailCharacters = 200
/** The configured backend. Opens no connection. */
export function hostedBackend(row: HostedBackend, settings: HostedSettings): SearchBackend {
  const price = settings.price ?? usd(row.listPrice)
  const mostPrice = settings.price ?? usd(row.mostPrice ?? row.listPrice)
  return {
    id: row.id,
    price,
    mostPrice,
    search: async (query, signal) => {
      const asked = { ...query, count: Math.min(query.count, row.mostResults) }
      const text = await answerOf(row, settings, asked, signal)
      const answer = row.read(parseAnswer(row, text))
      if (!answer) throw new SearchFault('search_unusable_answer', `${row.id} answered without results`)
      const { cost } = answer
      const credible = cost !== undefined && cost >= 0n && cost <= mostPrice
      // The operator's price takes precedence: a contract may be cheaper than the list.
      return { ...answer, cost: settings.price === undefined && credible ? cost : price }
    },
  }
}

async function textOf(response: Response, signal: AbortSignal): Promise<string> {
  return new TextDecoder().decode(await boundedBytes(response, answerBytes, signal))
}

async function answerOf(
  row: HostedBackend,
  settings: HostedSettings,
  query: SearchQuery,
  signal: AbortSignal,
): Promise<string> {
  const base = settings.baseUrl ?? row.baseUrl ?? ''
  const deadline = AbortSignal.timeout(settings.timeoutMs)
  const either = AbortSignal.any([signal, deadline])
  const { path, headers, body } = row.request(query, settings.apiKey)
  try {
    const response = await dial(
      base + path,
      {
        method: body === undefined ? 'GET' : 'POST',
        headers: new Headers({
          accept: 'application/json',
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        }),
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      },
      // The operator configured this address, which may be on this machine.
      { allowHosts: [new URL(base).host], signal: either, ...settings.rim },
    )
    if (response.status === 200) return await textOf(response, either)
    // However much a refusal says, and however it ends, its status decides.
    const reason = await textOf(response, either).catch(() => '')
    throw refusal(row, response.status, reason)
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof SearchFault) throw error
    if (deadline.aborted)
      throw new SearchFault('search_timeout', `${row.id} did not answer within ${settings.timeoutMs} ms`)
    if (error instanceof TooLargeError)
      throw new SearchFault('search_unusable_answer', `${row.id}: ${error.message}`, error)
    const reason = error instanceof Error ? error.message : String(error)
    throw new SearchFault('search_unavailable', `${row.id} at ${base}: ${reason}`, error)
  }
}

const byStatus: Readonly<Record<number, SearchFaultCode>> = {
  401: 'search_credentials',
  402: 'search_quota',
  403: 'search_credentials',
  429: 'search_rate_limited',
}

function refusal(row: HostedBackend, status: number, text: string): SearchFault {
  const code =
    row.faultOf?.(status, text) ??
    byStatus[status] ??
    (status < 500 ? 'search_refused' : 'search_unavailable')
  const words = text.replace(/\s+/g, ' ').trim().slice(0, detailCharacters)
  return new SearchFault(code, `${row.id} answers with HTTP ${status}: ${JSON.stringify(words)}`)
}

function parseAnswer(row: HostedBackend, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    const what = /^\s*</.test(text) ? 'a web page' : text.trim() === '' ? 'nothing' : 'no JSON'
    throw new SearchFault('search_unusable_answer', `${row.id} answers with ${what}`, error)
  }
}

/** The query with domain operators, for backends without a field for them. */
export function withSites({ text, allowedDomains, blockedDomains }: SearchQuery): string {
  const allowed = allowedDomains.slice(0, mostSites).map((host) => `site:${host}`)
  const blocked = blockedDomains.slice(0, mostSites).map((host) => `-site:${host}`)
  const sites = allowed.length > 1 ? [`(${allowed.join(' OR ')})`] : allowed
  return [text, ...sites, ...blocked].join(' ')
}

/** Backends limit the length of queries: results outside of the remaining domains are removed afterwards. */
const mostSites = 8

// The requests and answers of SearXNG, Tavily, Brave and Exa. Each names its sources.

const text = z
  .string()
  .nullish()
  .transform((value) => value ?? '')
const optionalText = z
  .string()
  .nullish()
  .transform((value) => value ?? undefined)

/** Invalid results are left out one by one: one oddity must not fail the search. */
function resultsOf<Row>(list: readonly unknown[], schema: z.ZodType<Row>, as: (row: Row) => SearchResult) {
  return list.flatMap((item) => {
    const row = schema.safeParse(item)
    return row.success ? [as(row.data)] : []
  })
}

const listed = z.object({ results: z.array(z.unknown()) })

/**
 * https://docs.searxng.org/dev/search_api.html: the format json must be allowed in its settings, else it answers 403.
 * It pages, and knows no number of results.
 */
export const searxng: HostedBackend = {
  id: 'searxng',
  baseUrl: undefined,
  listPrice: '0',
  mostResults: 50,
  request: (query, key) => {
    const fields = new URLSearchParams({ q: withSites(query), format: 'json' })
    if (query.recency) fields.set('time_range', query.recency)
    const headers: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` }
    return { path: `/search?${fields.toString()}`, headers }
  },
  read: (answer) => {
    const body = listed.safeParse(answer)
    if (!body.success) return undefined
    const row = z.object({ url: z.string(), title: text, content: text, publishedDate: optionalText })
    return {
      results: resultsOf(body.data.results, row, ({ content, publishedDate, ...rest }) => ({
        ...rest,
        text: content,
        publishedAt: publishedDate,
      })),
      cost: 0n,
    }
  },
  // It has no accounts: 403 means that the JSON format is not enabled.
  faultOf: (status) => (status === 403 ? 'search_refused' : undefined),
}

/**
 * https://docs.tavily.com/documentation/api-reference/endpoint/search. A basic search is one credit, 0.008 USD when paid
 * as it goes (https://docs.tavily.com/documentation/api-credits). 432 and 433 are used-up plans.
 */
export const tavily: HostedBackend = {
  id: 'tavily',
  baseUrl: 'https://api.tavily.com',
  listPrice: '0.008',
  mostResults: 20,
  request: (query, key) => ({
    path: '/search',
    headers: { authorization: `Bearer ${key ?? ''}` },
    body: {
      query: query.text,
      // Advanced searches cost two credits.
      search_depth: 'basic',
      max_results: query.count,
      ...(query.allowedDomains.length > 0 ? { include_domains: query.allowedDomains } : {}),
      ...(query.blockedDomains.length > 0 ? { exclude_domains: query.blockedDomains } : {}),
      ...(query.recency ? { time_range: query.recency } : {}),
      ...countryName(query.location?.country),
    },
  }),
  read: (answer) => {
    const body = listed.safeParse(answer)
    if (!body.success) return undefined
    const row = z.object({ url: z.string(), title: text, content: text, published_date: optionalText })
    return {
      results: resultsOf(body.data.results, row, ({ content, published_date, ...rest }) => ({
        ...rest,
        text: content,
        publishedAt: published_date,
      })),
      cost: undefined,
    }
  },
  faultOf: (status) => (status === 432 || status === 433 ? 'search_quota' : undefined),
}

/** Tavily knows countries by their English names, in lower case. */
function countryName(code: string | undefined): { country?: string } {
  if (code === undefined || !/^[a-z]{2}$/i.test(code)) return {}
  const name = new Intl.DisplayNames(['en'], { type: 'region', fallback: 'none' }).of(code.toUpperCase())
  return name === undefined ? {} : { country: name.toLowerCase() }
}

const freshness: Readonly<Record<Recency, string>> = { day: 'pd', week: 'pw', month: 'pm', year: 'py' }

/**
 * https://api-dashboard.search.brave.com/app/documentation/web-search: at most 400 characters and 20 results; 5 USD
 * for 1,000 requests (https://api-dashboard.search.brave.com/app/plans); only successful ones are counted. A wrong key is 422.
 */
export const brave: HostedBackend = {
  id: 'brave',
  baseUrl: 'https://api.search.brave.com',
  listPrice: '0.005',
  mostResults: 20,
  request: (query, key) => {
    const fields = new URLSearchParams({ q: withSites(query).slice(0, 400), count: String(query.count) })
    if (query.recency) fields.set('freshness', freshness[query.recency])
    const { country, city, timezone, region } = query.location ?? {}
    const located = {
      'x-loc-country': country,
      'x-loc-city': city,
      'x-loc-timezone': timezone,
      'x-loc-state-name': region,
    }
    const headers = Object.entries(located).filter(([, value]) => value !== undefined && isHeaderText(value))
    return {
      path: `/res/v1/web/search?${fields.toString()}`,
      headers: { 'x-subscription-token': key ?? '', ...Object.fromEntries(headers) },
    }
  },
  read: (answer) => {
    // Without results there is no `web`.
    const body = z
      .object({ type: z.literal('search'), web: z.object({ results: z.array(z.unknown()) }).nullish() })
      .safeParse(answer)
    if (!body.success) return undefined
    const row = z.object({
      url: z.string(),
      title: text,
      description: text,
      extra_snippets: z.array(z.string()).nullish(),
      page_age: optionalText,
      age: optionalText,
    })
    return {
      results: resultsOf(body.data.web?.results ?? [], row, (result) => ({
        url: result.url,
        title: withoutTags(result.title),
        text: [result.description, ...(result.extra_snippets ?? [])].map(withoutTags).join('\n'),
        publishedAt: result.page_age ?? result.age,
      })),
      cost: undefined,
    }
  },
  faultOf: (status, body) => {
    if (status === 422 && body.includes('SUBSCRIPTION_TOKEN_INVALID')) return 'search_credentials'
    if (status === 429 && body.includes('QUOTA_LIMITED')) return 'search_quota'
    return undefined
  },
}

/** City names may contain characters that headers cannot. */
function isHeaderText(value: string): boolean {
  return /^[\x20-\x7e]{1,100}$/.test(value)
}

/** It marks the words of the query by <strong> and escapes the rest. */
function withoutTags(html: string): string {
  return html
    .replace(/<\/?strong>/g, '')
    .replace(/&(lt|gt|quot|apos|#x27|#39|amp);/g, (_, name: string) => entities[name] ?? '')
}

const entities: Readonly<Record<string, string>> = {
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  '#x27': "'",
  '#39': "'",
  amp: '&',
}

const textCharacters = { low: 500, medium: 1_500, high: 3_000 } as const

/**
 * https://exa.ai/docs/reference/search: `costDollars.total` is what this search cost. 7 USD for 1,000 searches of up
 * to ten results with their text (https://exa.ai/docs/reference/pricing). 402 is a used-up account (https://exa.ai/docs/reference/error-codes).
 */
export function exa(clock: () => number): HostedBackend {
  return {
    id: 'exa',
    baseUrl: 'https://api.exa.ai',
    listPrice: '0.007',
    mostPrice: '0.02',
    mostResults: 10,
    request: (query, key) => ({
      path: '/search',
      headers: { 'x-api-key': key ?? '' },
      body: {
        query: query.text,
        type: 'auto',
        numResults: query.count,
        contents: { text: { maxCharacters: textCharacters[query.contextSize] } },
        ...(query.allowedDomains.length > 0 ? { includeDomains: query.allowedDomains } : {}),
        ...(query.blockedDomains.length > 0 ? { excludeDomains: query.blockedDomains } : {}),
        ...(query.location?.country ? { userLocation: query.location.country.toUpperCase() } : {}),
        ...(query.recency ? { startPublishedDate: since(clock(), query.recency) } : {}),
      },
    }),
    read: (answer) => {
      const body = listed
        .extend({ costDollars: z.object({ total: z.number() }).nullish().catch(undefined) })
        .safeParse(answer)
      if (!body.success) return undefined
      const row = z.object({
        url: z.string(),
        title: text,
        text,
        highlights: z.array(z.string()).nullish(),
        publishedDate: optionalText,
      })
      return {
        results: resultsOf(body.data.results, row, (result) => ({
          url: result.url,
          title: result.title,
          text: result.text === '' ? (result.highlights ?? []).join('\n') : result.text,
          publishedAt: result.publishedDate,
        })),
        cost: picoOf(body.data.costDollars?.total),
      }
    },
  }
}

function since(now: number, recency: Recency): string {
  return new Date(now - oldestDays[recency] * dayMs).toISOString()
}

/** A price that came as a JSON number, at a precision that no price list exceeds. */
function picoOf(dollars: number | undefined): Pico | undefined {
  return dollars === undefined || !(dollars >= 0 && dollars < 1e6) ? undefined : parseUsd(dollars.toFixed(9))
}
