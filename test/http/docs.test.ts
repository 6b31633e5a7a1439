// The documentation pages as they are served: from this gateway alone, compressed, and not before somebody asks.

import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { type ErrorCode, errorReference, errorTable } from '../../src/errors/errors.ts'
import { Scheduler } from '../../src/scheduler/scheduler.ts'
import { createRoutes } from '../../src/http/routes.ts'
import type { HttpParts } from '../../src/http/parts.ts'
import { LargeBodies } from '../../src/http/intake/read-body.ts'
import { FreeReads } from '../../src/http/intake/paid/limits.ts'
import { CallLog } from '../../src/observe/call-log.ts'

const source = resolve(import.meta.dir, '../../src')

// The pages ask nothing of the service but the bounds of headers, and where a refusal is noted.
const body = { maxBodyBytes: 1024, maxHeaderBytes: 16_384, maxDepth: 8 }
const quiet = () => undefined
const log = { debug: quiet, info: quiet, warn: quiet, error: quiet }
const calls = new CallLog({
  log,
  keep: quiet,
  keepTurnedAway: () => undefined,
  countRefusal: quiet,
  keepRefused: quiet,
  usd: String,
})
const routes = createRoutes({
  body,
  calls,
  scheduler: new Scheduler(),
  largeBodies: new LargeBodies(),
  freeReads: new FreeReads(0, Date.now),
  site: { addressOf: () => '127.0.0.1' } as unknown as HttpParts['site'],
  publicUrl: () => '',
} as Partial<HttpParts> as HttpParts)

function get(path: string, headers: Record<string, string> = {}): Promise<Response> {
  return Promise.resolve(
    routes.handle(
      new Request(`http://localhost:8787${path}`, { headers: { host: 'localhost:8787', ...headers } }),
    ),
  )
}

describe('a page of the documentation', () => {
  // Below /docs/ its script would be looked for at /docs/docs/site.js, and do nothing.
  test.each([
    ['/docs/', '/docs'],
    ['/docs/errors/', '/docs/errors'],
    ['/docs/json/', '/docs/json'],
    ['/docs/start/', '/docs/start'],
  ])('%s leads to %s, also below a path of a proxy', async (path, page) => {
    const response = await get(path)
    expect(response.status).toBe(308)
    const location = response.headers.get('location')!
    expect(new URL(location, `http://host${path}`).pathname).toBe(page)
    expect(new URL(location, `http://host/weir${path}`).pathname).toBe(`/weir${page}`)
  })

  test.each([
    ['/docs', 'text/html'],
    ['/docs/json', 'application/json'],
    ['/docs/site.js', 'text/javascript'],
    ['/docs/site.css', 'text/css'],
    ['/docs/search.json', 'application/json'],
    ['/docs/start', 'text/html'],
    ['/docs/client-codex', 'text/html'],
    ['/docs/api', 'text/html'],
    ['/docs/api-admin', 'text/html'],
    ['/docs/errors', 'text/html'],
  ])('%s is served as %s, and anew only when it has changed', async (path, type) => {
    const response = await get(path)
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toStartWith(type)
    expect((await response.bytes()).length).toBeGreaterThan(500)
    const again = await get(path, { 'if-none-match': response.headers.get('etag') ?? '' })
    expect(again.status).toBe(304)
    expect((await again.bytes()).length).toBe(0)
  })

  test.each([
    ['gzip, deflate, br', 'gzip'],
    ['br, gzip;q=0.5', 'gzip'],
    ['identity', null],
    ['gzip;q=0', null],
    ['', null],
  ])('to a reader who accepts "%s" comes encoded as %p', async (accepted, encoding) => {
    const plain = await (await get('/docs/json')).bytes()
    const response = await get('/docs/json', { 'accept-encoding': accepted })
    expect(response.headers.get('content-encoding')).toBe(encoding)
    const bytes = await response.bytes()
    expect(encoding === 'gzip' ? Bun.gunzipSync(bytes) : bytes).toEqual(plain)
  })

  test('that does not exist is an error of the contract', async () => {
    for (const path of ['/docs/nothing', '/docs/api-nothing', '/docs/client-nothing']) {
      const response = await get(path)
      expect(response.status).toBe(404)
      expect(await response.json()).toMatchObject({ error: { code: 'not_found' } })
    }
  })

  test('is the whole document at /docs/json', async () => {
    const document = (await (await get('/docs/json')).json()) as { openapi: string; paths: object }
    expect(document.openapi).toStartWith('3.1')
    expect(Object.keys(document.paths)).toContain('/v1/chat/completions')
  })

  test.each(['/docs', '/docs/errors', '/docs/start', '/docs/api', '/docs/api-chat'])(
    '%s names no other place to load from, and nothing of the gateway by a path that a proxy may move',
    async (path) => {
      const html = await (await get(path)).text()
      const loaded = Array.from(
        html.matchAll(/<(?:script|link|img)\b[^>]*? (?:src|href)="([^"]*)"/g),
        ([, at]) => at!,
      )
      expect(loaded.length).toBeGreaterThan(1)
      expect(loaded.filter((address) => !/^(data:|docs\/|site)/.test(address))).toEqual([])
      expect(html).not.toMatch(/(?:src|href)="\//)
    },
  )

  test('every link of every page leads to a page and a section of it', async () => {
    const pages = new Map<string, string>()
    const waiting = ['/docs']
    for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
      if (pages.has(path)) continue
      const response = await get(path)
      expect({ path, status: response.status }).toEqual({ path, status: 200 })
      const html = response.headers.get('content-type')!.startsWith('text/html') ? await response.text() : ''
      pages.set(path, html)
      for (const [, href] of html.matchAll(/<a [^>]*?href="([^"#]*)/g))
        if (!/^https?:/.test(href!)) waiting.push(new URL(href!, `http://weir${path}`).pathname)
    }
    const wrong = [...pages].flatMap(([path, html]) =>
      Array.from(
        html.matchAll(/<a [^>]*?href="([^"]*#[^"]+)"/g),
        ([, href]) => new URL(href!, `http://weir${path}`),
      )
        .filter(
          ({ host, pathname, hash }) =>
            host === 'weir' && !pages.get(pathname)?.includes(`id="${hash.slice(1)}"`),
        )
        .map(({ pathname, hash }) => `${path}: ${pathname}${hash}`),
    )
    expect([...new Set(wrong)]).toEqual([])
    expect(pages.size).toBeGreaterThan(60)
  })

  test('is allowed to load from this gateway and from nowhere else', async () => {
    for (const path of ['/docs', '/docs/errors', '/docs/api-chat']) {
      const policy = (await get(path)).headers.get('content-security-policy') ?? ''
      expect(policy).toStartWith("default-src 'none'")
      expect(policy).not.toMatch(/https?:|\*|'unsafe-eval'|script-src[^;]*'unsafe-inline'/)
    }
  })

  test.each(['site.js', 'site.css'])(
    '%s is kept for ever, under an address that changes with it',
    async (file) => {
      const { headers } = await get(`/docs/${file}`)
      expect(headers.get('cache-control')).toContain('immutable')
      const version = (headers.get('etag') ?? '').replaceAll('"', '').slice(0, 12)
      expect(await (await get('/docs')).text()).toContain(`"docs/${file}?v=${version}"`)
      expect(await (await get('/docs/start')).text()).toContain(`"${file}?v=${version}"`)
    },
  )

  test('is loaded with its first reader, not with the gateway', () => {
    const loaded = loadedWith(join(source, 'serve/start.ts'))
    expect(loaded.has(join(source, 'http/routes.ts'))).toBe(true)
    expect([...loaded].filter((file) => /\/(http\/docs|guide)\//.test(file))).toEqual([])
  })
})

describe('the error reference', () => {
  test.each(errorReference().map(({ code, docs_url }) => [code, docs_url] as const))(
    'has a section for %s, where errors of this code link to',
    async (code, link) => {
      // Absolute where a gateway has started in this process.
      const { pathname, hash } = new URL(link, 'http://localhost:8787')
      const html = await (await get(pathname)).text()
      expect(hash).toBe(`#${code}`)
      expect(html.split(`<section id="${code}">`)).toHaveLength(2)
    },
  )

  test('holds no scripts of its own', async () => {
    expect(await (await get('/docs/errors')).text()).not.toMatch(/<script>|javascript:| on\w+=/i)
  })

  test('S22 writes what the table says as text, never as markup', async () => {
    const html = await (await get('/docs/errors')).text()
    expect(errorTable.missing_api_key.remedy).toContain('<key>')
    expect(html).not.toContain('<key>')
    expect(html).toContain('Authorization: Bearer &#60;key&#62;')
  })
})

describe('the error table', () => {
  /** Codes without a place that gives them, each with the reason why its row stays. */
  const notYet: Partial<Record<ErrorCode, string>> = {}

  /** Where codes are answers of a function or entries of a table, on their way into a GatewayError. */
  const givers = ['chat/admission.ts', 'chat/routing/fault-error.ts', 'accounts/identity/oidc.ts']

  test('has no row that nothing gives', () => {
    const given = new Set<string>()
    for (const file of new Bun.Glob('**/*.ts').scanSync({ cwd: source })) {
      const text = readFileSync(join(source, file), 'utf8')
      const pattern = givers.includes(file) ? /'([a-z_]+)'/g : /new GatewayError\(\s*'([a-z_]+)'/g
      for (const [, code] of text.matchAll(pattern)) given.add(code!)
    }
    const dead = Object.keys(errorTable).filter((code) => !given.has(code))
    expect(dead).toEqual(Object.keys(notYet))
  })
})

/** Our own files that are loaded together with one of them: those it imports, not those it imports later. */
function loadedWith(entry: string): Set<string> {
  const transpiler = new Bun.Transpiler({ loader: 'ts' })
  const loaded = new Set<string>()
  const waiting = [entry]
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (loaded.has(file)) continue
    loaded.add(file)
    for (const { kind, path } of transpiler.scanImports(readFileSync(file, 'utf8'))) {
      if (kind === 'import-statement' && path.startsWith('.') && path.endsWith('.ts')) {
        waiting.push(resolve(dirname(file), path))
      }
    }
  }
  return loaded
}
