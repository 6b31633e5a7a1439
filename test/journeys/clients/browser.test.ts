// S18: pages of other origins call /v1 with a key of their own, as the official client does in a browser; nothing that
// goes by a session can be called so.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Browser, Page } from 'playwright-core'
import { browserPath, closePages, sharedBrowser } from '../../support/browser.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

const start = (origins?: readonly string[]) =>
  serveWeir({
    config: JSON.stringify({
      local_servers: { discover: false },
      ...(origins && { server: { cors_origins: origins } }),
    }),
  })

let weir: ServedWeir
let narrowed: ServedWeir
let closed: ServedWeir

beforeAll(async () => {
  weir = await start()
  narrowed = await start(['https://app.example'])
  closed = await start([])
}, 60_000)

afterAll(async () => {
  await Promise.all([weir?.stop(), narrowed?.stop(), closed?.stop()])
})

const page = 'https://page.example'

const preflight = (to: ServedWeir, path: string, origin = page, method = 'POST') =>
  fetch(to.origin + path, {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': method,
      'access-control-request-headers': 'authorization,content-type,x-stainless-os',
    },
  })

const corsOf = ({ headers }: Response) =>
  [...headers].filter(([name]) => name.startsWith('access-control-')).map(([name]) => name)

describe('S18 a preflight', () => {
  test.each([
    '/v1/chat/completions',
    '/v1/responses',
    '/v1/messages',
    '/v1/embeddings',
    '/v1/models',
    '/v1/models/sim/echo',
    '/v1/responses/resp_1',
    '/v1/credits',
  ])('for %s is answered, without credentials', async (path) => {
    const response = await preflight(weir, path)
    expect(response.status).toBe(204)
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'access-control-allow-origin': '*',
      'access-control-allow-methods': 'GET, POST, DELETE',
      'access-control-allow-headers': 'authorization,content-type,x-stainless-os',
    })
    expect(response.headers.has('access-control-allow-credentials')).toBe(false)
  })

  test.each([
    '/app/v1/chat/completions',
    '/app/v1/credits',
    '/console',
    '/hooks/stripe',
    '/docs',
    '/healthz',
    '/',
    '/v1',
  ])('for %s is not', async (path) => {
    const response = await preflight(weir, path)
    expect(response.status).not.toBe(204)
    expect(corsOf(response)).toEqual([])
  })

  test('repeats no headers that could be more than names', async () => {
    const response = await fetch(`${weir.baseUrl}/models`, {
      method: 'OPTIONS',
      headers: {
        origin: page,
        'access-control-request-method': 'GET',
        'access-control-request-headers': 'a"b<c>',
      },
    })
    expect(response.headers.has('access-control-allow-headers')).toBe(false)
  })

  test('is for the origins that the operator names', async () => {
    const own = await preflight(narrowed, '/v1/models', 'https://app.example')
    expect(own.headers.get('access-control-allow-origin')).toBe('https://app.example')
    expect(own.headers.get('vary')).toContain('origin')
    for (const origin of [page, 'https://app.example.evil.example', 'http://app.example', 'null'])
      expect(corsOf(await preflight(narrowed, '/v1/models', origin))).toEqual([])
    expect(corsOf(await preflight(closed, '/v1/models'))).toEqual([])
  })
})

describe('S18 an answer', () => {
  test.each([
    ['/v1/models', 200],
    ['/v1/credits', 401],
    ['/v1/nowhere', 404],
  ])('of %s, %d, may be read by any page, and its headers', async (path, status) => {
    const response = await fetch(weir.origin + path, { headers: { origin: page } })
    expect(response.status).toBe(status)
    expect(response.headers.get('access-control-allow-origin')).toBe('*')
    expect(response.headers.get('access-control-expose-headers')).toMatch(
      /x-request-id.*retry-after.*x-should-retry.*x-ratelimit-remaining-tokens/,
    )
    expect(response.headers.has('access-control-allow-credentials')).toBe(false)
  })

  test.each(['/app/v1/credits', '/docs', '/healthz'])('of %s may not', async (path) => {
    expect(corsOf(await fetch(weir.origin + path, { headers: { origin: page } }))).toEqual([])
  })

  test('says nothing of it to those who are no page, nor to pages that are not named', async () => {
    expect(corsOf(await fetch(`${weir.baseUrl}/models`))).toEqual([])
    expect(corsOf(await fetch(`${narrowed.baseUrl}/models`, { headers: { origin: page } }))).toEqual([])
    const named = await fetch(`${narrowed.baseUrl}/models`, { headers: { origin: 'https://app.example' } })
    expect(named.headers.get('access-control-allow-origin')).toBe('https://app.example')
  })
})

describe.skipIf(browserPath === null)('the official client in a browser', () => {
  let browser: Browser
  let site: ReturnType<typeof Bun.serve>
  let opened: Page

  beforeAll(async () => {
    const built = await Bun.build({
      entrypoints: ['/client.ts'],
      files: { '/client.ts': `import OpenAI from 'openai'; globalThis.OpenAI = OpenAI` },
      root: '/',
      target: 'browser',
    })
    const script = await built.outputs[0]!.text()
    site = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: ({ url }) =>
        new URL(url).pathname === '/client.js'
          ? new Response(script, { headers: { 'content-type': 'text/javascript' } })
          : new Response('<!doctype html><title>page</title><script src="/client.js"></script>', {
              headers: { 'content-type': 'text/html' },
            }),
    })
    browser = await sharedBrowser()
    opened = await browser.newPage()
    await opened.goto(`http://127.0.0.1:${site.port}/`)
  }, 60_000)

  afterAll(async () => {
    await closePages()
    await site?.stop(true)
  })

  /** Runs the client on a page of another origin than the gateway's. */
  const ask = (to: ServedWeir) =>
    opened.evaluate(
      async ({ baseURL, apiKey }) => {
        const { OpenAI } = globalThis as unknown as { OpenAI: typeof import('openai').default }
        const client = new OpenAI({ baseURL, apiKey, dangerouslyAllowBrowser: true, maxRetries: 0 })
        const body = { model: 'sim/echo', messages: [{ role: 'user' as const, content: 'over the river' }] }
        try {
          const whole = await client.chat.completions.create(body).withResponse()
          let streamed = ''
          for await (const chunk of await client.chat.completions.create({ ...body, stream: true }))
            streamed += chunk.choices[0]?.delta.content ?? ''
          const refused = await client.chat.completions
            .create({ ...body, model: 'sim/nobody' })
            .catch((error: { status?: number; requestID?: string }) => error)
          return {
            content: whole.data.choices[0]!.message.content,
            streamed,
            requestId: whole.request_id,
            refused: {
              status: (refused as { status?: number }).status,
              id: (refused as { requestID?: string }).requestID,
            },
            models: (await client.models.list()).data.length,
          }
        } catch (error) {
          return { failed: String(error) }
        }
      },
      { baseURL: to.baseUrl, apiKey: to.key },
    )

  test('S18 gets whole answers, streams, errors and their request ids', async () => {
    expect(await ask(weir)).toEqual({
      content: 'over the river',
      streamed: 'over the river',
      requestId: expect.stringMatching(/^req_/),
      refused: { status: 404, id: expect.stringMatching(/^req_/) },
      models: expect.any(Number),
    })
  }, 30_000)

  test('S18 gets nothing where the operator has closed the door', async () => {
    expect(await ask(closed)).toEqual({ failed: expect.stringContaining('Connection error') })
  }, 30_000)
})
