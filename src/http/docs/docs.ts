// The error reference: one page without scripts, one section per code. Errors link to it (`docs_url`).

import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { swagger } from '@elysiajs/swagger'
import type { ElysiaSwaggerConfig } from '@elysiajs/swagger/types'
import { Elysia } from 'elysia'
import scalarPath from '../../../node_modules/@scalar/api-reference/dist/browser/standalone.js' with { type: 'file' }
import { etagMatches } from '../../catalog/wire.ts'
import { errorReference, GatewayError, renderError } from '../../errors/errors.ts'
import { version } from '../../version.ts'
import type { FreeAnswer } from '../intake/paid/limits.ts'
import { takesGzip } from '../intake/read-body.ts'
import { type DocumentedRoute, openApiDocument, type OpenApiDocument } from './openapi.ts'

type Row = ReturnType<typeof errorReference>[number]

/** Water falling over a sill, as a data URL without quotes. */
const icon =
  'data:image/svg+xml,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22 viewBox=%220 0 32 32%22%3E%3Crect width=%2232%22 height=%2232%22 rx=%227%22 fill=%22%230b6e8f%22/%3E%3Cpath d=%22M5 10h11c5 0 4 12 11 12%22 fill=%22none%22 stroke=%22%23fff%22 stroke-width=%223.5%22 stroke-linecap=%22round%22/%3E%3C/svg%3E'

/** The page, and the hash that allows its style element in the Content-Security-Policy. */
function errorPage(rows: readonly Row[]): { html: string; styleHash: string } {
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Weir: errors</title>
<link rel="icon" href="${icon}">
<style>${style}</style>
</head>
<body>
<header>
<p><a href="/docs">API reference</a></p>
<h1>Errors</h1>
${introduction()}
</header>
<nav aria-label="All codes">
${byStatus(rows).map(contents).join('\n')}
</nav>
<main>
${rows.map(section).join('\n')}
</main>
</body>
</html>
`
  return { html, styleHash: hashSource(style) }
}

/** The source expression of an inline style or script for a Content-Security-Policy, without quotes. */
function hashSource(text: string): string {
  return `sha256-${new Bun.CryptoHasher('sha256').update(text).digest('base64')}`
}

function introduction(): string {
  const example = new GatewayError('credits_reserved', { retryAfterMs: 2_000 })
  return `<p>Every error has the same shape. <code>code</code> says what happened and has its section below, <code>param</code> names the field at fault, and <code>request_id</code> finds the request in the log.</p>
<pre><code>${escapeHtml(JSON.stringify(renderError(example, 'req_01a1fcaa216272aa8d5548c4e8af6c09'), null, 2))}</code></pre>
<p>The header <code>x-should-retry</code> tells whether the same request may succeed later, <code>retry-after-ms</code> and <code>retry-after</code> when. The official client libraries obey them. The same table as JSON: <a href="/v1/errors"><code>GET /v1/errors</code></a>.</p>`
}

function byStatus(rows: readonly Row[]): readonly (readonly Row[])[] {
  const groups = Map.groupBy(rows, ({ status }) => status)
  return [...groups].toSorted(([a], [b]) => a - b).map(([, group]) => group)
}

function contents(group: readonly Row[]): string {
  const links = group.map(({ code }) => `<a href="#${code}">${code}</a>`).join(' ')
  return `<p><b>${group[0]!.status}</b> <span>${links}</span></p>`
}

function section({ code, status, type, retryable, means, remedy }: Row): string {
  return `<section id="${code}">
<h2><a href="#${code}">${code}</a></h2>
<p class="facts"><b>${status}</b> ${type} <span>${retryable ? 'may be retried' : 'do not retry unchanged'}</span></p>
<p>${prose(means)}</p>
<p class="remedy">${prose(remedy)}</p>
</section>`
}

function prose(text: string): string {
  return escapeHtml(text).replace(/`([^`]+)`/g, '<code>$1</code>')
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`)
}

const style = `
:root { color-scheme: light dark; --ink: light-dark(#16242b, #dfe9ee); --dim: light-dark(#566970, #93a6ae); --paper: light-dark(#fff, #10181c); --bed: light-dark(#eef4f6, #19252b); --water: light-dark(#0b6e8f, #5cc3e3) }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1.5rem 1rem 6rem; max-width: 46rem; background: var(--paper); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: anywhere }
a { color: var(--water) }
h1 { margin: .5rem 0 1rem; font-size: 2rem; line-height: 1.2 }
h2 { margin: 0; font-size: 1.1rem }
h2 a { color: inherit; text-decoration: none }
h2 a:hover { text-decoration: underline }
code, h2, nav a { font-family: ui-monospace, monospace }
code { font-size: .9em }
pre { padding: 1rem; background: var(--bed); border-radius: .5rem; overflow-x: auto; overflow-wrap: normal; line-height: 1.4 }
nav { margin: 2rem 0; padding: .5rem 1rem; background: var(--bed); border-radius: .5rem; font-size: .9rem }
nav p { display: flex; gap: 1rem; margin: .5rem 0 }
nav b { flex: none }
nav span { display: flex; flex-wrap: wrap; gap: .25rem 1rem }
section { padding: 1.25rem 0; border-top: 1px solid var(--bed); scroll-margin-top: 1rem }
section p { margin: .4rem 0 }
section:target { margin: 0 -1rem; padding: 1.25rem 1rem; border-radius: .5rem; background: var(--bed); box-shadow: inset 4px 0 var(--water) }
.facts { color: var(--dim); font-size: .9rem }
.facts span::before { content: '· ' }
.remedy::before { content: '→ '; color: var(--water) }
`

// The documentation pages: API reference, OpenAPI document, error reference. Loaded with the first reader, and
// self-contained: they work without the internet.

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
