// One search at an HTTP backend: what all four have in common. Each has a file for its requests and answers.

import { boundedBytes, TooLargeError } from '../../../transport/bounded-body.ts'
import { dial, type EgressOptions } from '../../../egress/egress.ts'
import { type Pico, usd } from '../../../credits/money.ts'
import {
  type SearchAnswer,
  type SearchBackend,
  SearchFault,
  type SearchFaultCode,
  type SearchQuery,
} from './backend.ts'

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
