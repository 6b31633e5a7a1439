// The requests and answers of SearXNG, Tavily, Brave and Exa. Each names its sources.

import { z } from 'zod'
import { parseUsd, type Pico } from '../../../credits/money.ts'
import { dayMs, oldestDays, type Recency, type SearchResult } from './backend.ts'
import { type HostedBackend, withSites } from './hosted.ts'

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
