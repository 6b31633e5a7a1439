// SearXNG, Tavily, Brave and Exa: servers on loopback give the answers that their documentation shows, and fail as it
// says they fail.

import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { usd } from '../../../src/credits/money.ts'
import {
  brave,
  exa,
  hostedBackend,
  type SearchBackend,
  SearchFault,
  type SearchQuery,
  searxng,
  tavily,
} from '../../../src/tools/search/backends.ts'

interface Asked {
  readonly method: string
  readonly url: URL
  readonly headers: Headers
  readonly body: unknown
}

let asked: Asked[] = []
let answer: (request: Request) => Response | Promise<Response> = () => new Response('{}')
const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch: async (request) => {
    const text = await request.text()
    const { method, headers } = request
    asked.push({
      method,
      url: new URL(request.url),
      headers,
      body: text === '' ? undefined : JSON.parse(text),
    })
    return answer(request)
  },
})
afterAll(() => server.stop(true))
beforeEach(() => {
  asked = []
})

const now = Date.UTC(2026, 10, 22)
const rows = { searxng, tavily, brave, exa: exa(() => now) }
const key = 'key-of-the-operator-1234567890'

function backend(id: keyof typeof rows, price?: string, timeoutMs = 2_000): SearchBackend {
  return hostedBackend(rows[id], {
    baseUrl: `http://127.0.0.1:${server.port}`,
    apiKey: key,
    price: price === undefined ? undefined : usd(price),
    timeoutMs,
    rim: {},
  })
}

const query: SearchQuery = {
  text: 'who is Leo Messi?',
  allowedDomains: [],
  blockedDomains: [],
  recency: undefined,
  location: undefined,
  contextSize: 'medium',
  count: 5,
}

const wishes: Partial<SearchQuery> = {
  allowedDomains: ['example.com', 'example.org'],
  blockedDomains: ['ads.example'],
  recency: 'week',
  location: { country: 'DE', city: 'Berlin', timezone: 'Europe/Berlin' },
}

function search(of: SearchBackend, more: Partial<SearchQuery> = {}, signal = new AbortController().signal) {
  return of.search({ ...query, ...more }, signal)
}

/** Answers as the documentation of each shows them, shortened. */
const documented = {
  searxng: {
    query: 'who is Leo Messi?',
    number_of_results: 0,
    results: [
      {
        url: 'https://example.com/messi',
        title: 'Lionel Messi',
        content: 'An Argentine footballer.',
        engine: 'duckduckgo',
        parsed_url: ['https', 'example.com', '/messi', '', '', ''],
        engines: ['duckduckgo'],
        positions: [1],
        publishedDate: '2026-11-20T00:00:00',
        score: 1,
        category: 'general',
      },
      { title: 'an answer without an address' },
    ],
    answers: [],
    corrections: [],
    infoboxes: [],
    suggestions: [],
    unresponsive_engines: [['qwant', 'access denied']],
  },
  tavily: {
    query: 'who is Leo Messi?',
    answer: null,
    images: [],
    results: [
      {
        title: 'Lionel Messi Facts',
        url: 'https://example.com/messi',
        content: 'An Argentine footballer.',
        score: 0.81025416,
        raw_content: null,
      },
    ],
    response_time: '1.67',
    request_id: '123e4567-e89b-12d3-a456-426614174111',
  },
  brave: {
    type: 'search',
    query: { original: 'who is Leo Messi?', more_results_available: true },
    mixed: { type: 'mixed', main: [{ type: 'web', index: 0, all: false }], top: [], side: [] },
    web: {
      type: 'search',
      results: [
        {
          title: 'Lionel <strong>Messi</strong> &amp; others',
          url: 'https://example.com/messi',
          is_source_local: false,
          description: 'An <strong>Argentine</strong> footballer.',
          page_age: '2026-11-20T00:00:00',
          profile: { name: 'Example', url: 'https://example.com' },
          language: 'en',
          extra_snippets: ['He plays in Miami.'],
          age: '2 days ago',
        },
      ],
      family_friendly: true,
    },
  },
  exa: {
    requestId: 'b5947044c4b78efa9552a7c89b306d95',
    resolvedSearchType: 'neural',
    results: [
      {
        title: 'Lionel Messi',
        url: 'https://example.com/messi',
        publishedDate: '2026-11-20T01:36:32.547Z',
        author: 'somebody',
        id: 'https://example.com/messi',
        text: 'An Argentine footballer.',
      },
    ],
    costDollars: { total: 0.007, search: { neural: 0.005 }, contents: { text: 0.002 } },
  },
} as const

const ids = ['searxng', 'tavily', 'brave', 'exa'] as const

describe.each(ids)('%s', (id) => {
  test('its documented answer is read', async () => {
    answer = () => Response.json(documented[id])
    const { results } = await search(backend(id))
    expect(results).toHaveLength(1)
    expect(results[0]).toMatchObject({ url: 'https://example.com/messi' })
    expect(results[0]!.title).toMatch(/^Lionel Messi/)
    expect(results[0]!.text).toMatch(/^An Argentine footballer\./)
    expect(results[0]!.title + results[0]!.text).not.toMatch(/<|&amp;/)
  })

  test('what the operator says a search costs, it costs', async () => {
    answer = () => Response.json(documented[id])
    expect((await search(backend(id, '0.0031'))).cost).toBe(usd('0.0031'))
  })

  test.each([
    [
      'a web page',
      () =>
        new Response('<!doctype html><title>Sign in</title>', { headers: { 'content-type': 'text/html' } }),
    ],
    ['nothing', () => new Response('')],
    ['another JSON', () => Response.json({ ok: true })],
    ['a list', () => Response.json([])],
    ['null', () => Response.json(null)],
    [
      'results that are no list',
      () => Response.json({ type: 'search', web: { results: 7 }, results: 'many' }),
    ],
    [
      'without an end',
      () => new Response(new ReadableStream({ pull: (to) => to.enqueue(new Uint8Array(65_536)) })),
    ],
  ])('%s is no answer', async (_, respond) => {
    answer = respond
    expect(await faultOf(search(backend(id)))).toMatchObject({ code: 'search_unusable_answer' })
  })

  test.each([
    [401, {}, 'search_credentials'],
    [429, { error: 'slow down' }, 'search_rate_limited'],
    [400, {}, 'search_refused'],
    [500, {}, 'search_unavailable'],
    [503, {}, 'search_unavailable'],
    [302, {}, 'search_refused'],
  ] as const)('HTTP %p is %p: %s', async (status, body, code) => {
    answer = () => Response.json(body, { status, headers: { location: 'http://169.254.169.254/' } })
    expect(await faultOf(search(backend(id)))).toMatchObject({ code })
    expect(asked).toHaveLength(1)
  })

  test('a refusal without end is still a refusal', async () => {
    const endless = () => new ReadableStream({ pull: (to) => to.enqueue(new Uint8Array(65_536)) })
    answer = () => new Response(endless(), { status: 429 })
    expect(await faultOf(search(backend(id)))).toMatchObject({ code: 'search_rate_limited' })
  })

  test('a fault names the backend to the operator, and the key to nobody', async () => {
    answer = () => new Response('no', { status: 500 })
    const fault = await faultOf(search(backend(id)))
    expect(fault.detail).toContain(`${id} answers with HTTP 500`)
    expect(fault.message + fault.detail).not.toContain(key)
    expect(fault.message).not.toContain('127.0.0.1')
  })

  test('is left at its deadline', async () => {
    answer = () => new Promise(() => undefined)
    expect(await faultOf(search(backend(id, undefined, 30)))).toMatchObject({ code: 'search_timeout' })
  })

  test('that cannot be reached is unavailable', async () => {
    const gone = hostedBackend(rows[id], {
      baseUrl: 'http://127.0.0.1:1',
      apiKey: key,
      price: undefined,
      timeoutMs: 2_000,
      rim: {},
    })
    expect(await faultOf(search(gone))).toMatchObject({ code: 'search_unavailable' })
  })

  test('rejects with the reason of the caller who gave up', async () => {
    answer = () => new Promise(() => undefined)
    const caller = new AbortController()
    const searching = search(backend(id), {}, caller.signal)
    caller.abort(new Error('the client disconnected'))
    expect(searching).rejects.toThrow('the client disconnected')
  })
})

test('S15 ten thousand searches at once: none gets what another asked for', async () => {
  const asking = backend('searxng', undefined, 60_000)
  answer = (request) => {
    const nonce = new URL(request.url).searchParams.get('q')!
    return Response.json({ results: [{ url: `https://example.com/${nonce}`, title: nonce, content: nonce }] })
  }
  const foreign: string[] = []
  const accounts = Array.from({ length: 200 }, async (_, account) => {
    for (let call = 0; call < 50; call += 1) {
      const nonce = `n${account}x${call}`
      const { results } = await search(asking, { text: nonce })
      if (results.length !== 1 || results[0]!.text !== nonce) foreign.push(nonce)
    }
  })
  await Promise.all(accounts)
  expect(foreign).toEqual([])
  expect(asked).toHaveLength(10_000)
}, 60_000)

describe('what each is asked', () => {
  test('searxng: operators for domains, its word for recency', async () => {
    answer = () => Response.json(documented.searxng)
    await search(backend('searxng'), wishes)
    const [{ method, url, headers }] = asked as [Asked]
    expect(`${method} ${url.pathname}`).toBe('GET /search')
    expect(Object.fromEntries(url.searchParams)).toEqual({
      q: 'who is Leo Messi? (site:example.com OR site:example.org) -site:ads.example',
      format: 'json',
      time_range: 'week',
    })
    expect(headers.get('authorization')).toBe(`Bearer ${key}`)
  })

  test('tavily: one credit a search, fields for all wishes', async () => {
    answer = () => Response.json(documented.tavily)
    await search(backend('tavily'), wishes)
    const [{ method, url, headers, body }] = asked as [Asked]
    expect(`${method} ${url.pathname}`).toBe('POST /search')
    expect(headers.get('authorization')).toBe(`Bearer ${key}`)
    expect(body).toEqual({
      query: 'who is Leo Messi?',
      search_depth: 'basic',
      max_results: 5,
      include_domains: ['example.com', 'example.org'],
      exclude_domains: ['ads.example'],
      time_range: 'week',
      country: 'germany',
    })
  })

  test('brave: freshness, and the place in headers', async () => {
    answer = () => Response.json(documented.brave)
    await search(backend('brave'), {
      ...wishes,
      location: { ...wishes.location, region: 'Baden-Württemberg' },
    })
    const [{ method, url, headers }] = asked as [Asked]
    expect(`${method} ${url.pathname}`).toBe('GET /res/v1/web/search')
    expect(Object.fromEntries(url.searchParams)).toEqual({
      q: 'who is Leo Messi? (site:example.com OR site:example.org) -site:ads.example',
      count: '5',
      freshness: 'pw',
    })
    expect(headers.get('x-subscription-token')).toBe(key)
    expect([headers.get('x-loc-country'), headers.get('x-loc-city')]).toEqual(['DE', 'Berlin'])
    expect(headers.get('x-loc-state-name')).toBeNull()
  })

  test('exa: a bounded text, and the day since which pages count', async () => {
    answer = () => Response.json(documented.exa)
    await search(backend('exa'), wishes)
    const [{ method, url, headers, body }] = asked as [Asked]
    expect(`${method} ${url.pathname}`).toBe('POST /search')
    expect(headers.get('x-api-key')).toBe(key)
    expect(body).toEqual({
      query: 'who is Leo Messi?',
      type: 'auto',
      numResults: 5,
      contents: { text: { maxCharacters: 1_500 } },
      includeDomains: ['example.com', 'example.org'],
      excludeDomains: ['ads.example'],
      userLocation: 'DE',
      startPublishedDate: '2026-11-15T00:00:00.000Z',
    })
  })

  test('no more results than a search pays for', async () => {
    answer = () => Response.json(documented.exa)
    await search(backend('exa'), { count: 50 })
    expect(asked[0]!.body).toMatchObject({ numResults: 10 })
  })
})

describe('what a search costs', () => {
  test.each([
    ['searxng', '0'],
    ['tavily', '0.008'],
    ['brave', '0.005'],
    ['exa', '0.007'],
  ] as const)('%s: %s USD, as it says or by its price list', async (id, cost) => {
    answer = () => Response.json(documented[id])
    expect((await search(backend(id))).cost).toBe(usd(cost))
  })

  test.each([[-1], [0.021], [1e9], ['0.001'], [null]])(
    'a cost of %p that exa claims is not believed',
    async (total) => {
      answer = () => Response.json({ ...documented.exa, costDollars: { total } })
      expect((await search(backend('exa'))).cost).toBe(usd('0.007'))
    },
  )
})

describe('refusals that a backend words in its own way', () => {
  test.each([
    ['searxng', 403, '<title>403 Forbidden</title>', 'search_refused'],
    [
      'tavily',
      432,
      '{"detail":{"error":"This request exceeds your plan\'s set usage limit."}}',
      'search_quota',
    ],
    ['tavily', 433, '{"detail":{"error":"This request exceeds the pay-as-you-go limit."}}', 'search_quota'],
    [
      'brave',
      422,
      '{"type":"ErrorResponse","error":{"code":"SUBSCRIPTION_TOKEN_INVALID","status":422}}',
      'search_credentials',
    ],
    ['brave', 429, '{"type":"ErrorResponse","error":{"code":"QUOTA_LIMITED","status":429}}', 'search_quota'],
    [
      'brave',
      429,
      '{"type":"ErrorResponse","error":{"code":"RATE_LIMITED","status":429}}',
      'search_rate_limited',
    ],
    ['exa', 402, '{"requestId":"1","error":"out of credits","tag":"NO_MORE_CREDITS"}', 'search_quota'],
  ] as const)('%s %p %s', async (id, status, body, code) => {
    answer = () => new Response(body, { status })
    expect(await faultOf(search(backend(id)))).toMatchObject({ code })
  })
})

async function faultOf(searching: Promise<unknown>): Promise<SearchFault> {
  const thrown = await searching.then(
    () => undefined,
    (error: unknown) => error,
  )
  if (thrown instanceof SearchFault) return thrown
  throw new Error(`no SearchFault: ${String(thrown)}`)
}
