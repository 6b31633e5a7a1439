// The documentation pages: API reference, OpenAPI document, error reference. Loaded with the first reader, and
// self-contained: they work without the internet.

import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { swagger } from '@elysiajs/swagger'
import type { ElysiaSwaggerConfig } from '@elysiajs/swagger/types'
import { Elysia } from 'elysia'
import scalarPath from '../../../node_modules/@scalar/api-reference/dist/browser/standalone.js' with { type: 'file' }
import { etagMatches } from '../../catalog/wire/models.ts'
import { errorReference, GatewayError } from '../../errors.ts'
import type { FreeAnswer } from '../intake/free-reads.ts'
import { takesGzip } from '../intake/compressed.ts'
import { errorPage, hashSource, icon } from './docs-errors.ts'
import { version } from '../../version.ts'
import { type DocumentedRoute, openApiDocument, type OpenApiDocument } from './openapi.ts'

type Documentation = NonNullable<ElysiaSwaggerConfig['documentation']>

/** A page ready to be sent. */
interface Page {
  readonly body: Uint8Array<ArrayBuffer>
  readonly zipped: Uint8Array<ArrayBuffer>
  readonly headers: Readonly<Record<string, string>>
}

const revalidated = 'public, no-cache'
/** For addresses that contain a hash of their content. */
const forEver = 'public, max-age=31536000, immutable'

const makers: Readonly<Record<string, (routes: readonly DocumentedRoute[]) => Promise<Page>>> = {
  '/docs': async () => {
    // For search engines and link previews; the document's own introduction is longer.
    const description = 'One API in front of every provider of language models.'
    const html = await fromPlugin('/docs', { info: { title: 'Weir API', version, description } })
    return page(html, 'text/html; charset=utf-8', {
      'cache-control': revalidated,
      // Scalar writes styles into the page. `connect-src` limits the requests that readers try out to this gateway.
      'content-security-policy': [
        `default-src 'none'; script-src 'self' ${inlineScriptHashes(html)}; connect-src 'self'`,
        "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:",
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      ].join('; '),
    })
  },
  '/docs/json': async (routes) =>
    page(await fromPlugin('/docs/json', await openApiDocument(routes)), 'application/json', {
      'cache-control': revalidated,
    }),
  '/docs/scalar.js': async () =>
    page(await Bun.file(scalarPath).bytes(), 'text/javascript; charset=utf-8', { 'cache-control': forEver }),
  '/docs/errors': async () => {
    const { html, styleHash } = errorPage(errorReference())
    return page(html, 'text/html; charset=utf-8', {
      'cache-control': revalidated,
      'content-security-policy': `default-src 'none'; style-src '${styleHash}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
    })
  },
}

/** Rendered pages: the same for everybody until the process ends. */
const made = new Map<string, Promise<Page>>()

/** Serves everything under `/docs`, which documents these routes. Throws `not_found` for an unknown page. */
export async function docs(request: Request, routes: readonly DocumentedRoute[]): Promise<FreeAnswer> {
  const { pathname } = new URL(request.url)
  const path = pathname.replace(/\/$/, '')
  const make = makers[path]
  if (!make) {
    throw new GatewayError('not_found', { message: 'There is no such page: see /docs and /docs/errors.' })
  }
  // The pages name their scripts and each other relative to their own address, so that they also work below a path.
  if (path !== pathname)
    return nothing({ status: 308, headers: { location: `../${path.slice(1).split('/').at(-1)}` } })
  const { body, zipped, headers } = await keepPage(path, () => make(routes))
  if (etagMatches(request.headers.get('if-none-match'), headers['etag']!)) {
    return nothing({ status: 304, headers })
  }
  if (!takesGzip(request.headers)) return { response: new Response(body, { headers }), bytes: body.length }
  const response = new Response(zipped, { headers: { ...headers, 'content-encoding': 'gzip' } })
  return { response, bytes: zipped.length }
}

function nothing(init: ResponseInit): FreeAnswer {
  return { response: new Response(null, init), bytes: 0 }
}

function keepPage(path: string, make: () => Promise<Page>): Promise<Page> {
  const before = made.get(path)
  if (before) return before
  const page = make()
  made.set(path, page)
  // A page that failed is tried again by the next reader.
  page.catch(() => made.delete(path))
  return page
}

async function page(
  content: string | Uint8Array<ArrayBuffer>,
  type: string,
  headers: Readonly<Record<string, string>>,
): Promise<Page> {
  const body = typeof content === 'string' ? new TextEncoder().encode(content) : content
  const zipped = new Uint8Array(await promisify(gzip)(body))
  return {
    body,
    zipped,
    headers: {
      'content-type': type,
      etag: `"${digest(body)}"`,
      vary: 'accept-encoding',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      ...headers,
    },
  }
}

function digest(body: Uint8Array): string {
  return new Bun.CryptoHasher('sha256').update(body).digest('base64url').slice(0, 22)
}

/** The hashes of the scripts within a page; the plugin's settings element counts as a script. */
function inlineScriptHashes(html: string): string {
  const scripts = html.matchAll(/<script\b[^>]*>([^<]+)<\/script>/g)
  return Array.from(scripts, ([, text]) => `'${hashSource(text!)}'`).join(' ')
}

/** The plugin's answer at `path`. It gets the whole document, and has no routes of its own to describe. */
async function fromPlugin(path: string, document: Partial<OpenApiDocument>): Promise<string> {
  const plugin = swagger({
    path: '/docs',
    exclude: [/.*/],
    // The plugin's types are for OpenAPI 3.0; it handles 3.1 the same way.
    documentation: document as Documentation,
    scalarCDN: `docs/scalar.js?v=${digest(await Bun.file(scalarPath).bytes())}`,
    scalarConfig,
  })
  const response = await new Elysia().use(plugin).handle(new Request(`http://weir${path}`))
  return response.text()
}

// Written into an attribute with single quotes, so it must not contain any.
const scalarConfig = {
  // The plugin's default for this is deprecated by Scalar.
  spec: undefined,
  url: 'docs/json',
  withDefaultFonts: false,
  telemetry: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  hideClientButton: true,
  showDeveloperTools: 'never',
  documentDownloadType: 'json' as const,
  defaultOpenAllTags: true,
  defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' } as const,
  authentication: { preferredSecurityScheme: 'key' },
  metaData: { title: 'Weir API' },
  favicon: icon,
  customCss: `
    :root { --scalar-font: system-ui, sans-serif; --scalar-font-code: ui-monospace, monospace }
    .light-mode { --scalar-color-accent: #0b6e8f }
    .dark-mode { --scalar-color-accent: #5cc3e3 }
  `,
}
