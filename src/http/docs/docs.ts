// The documentation: the guide, the API reference, the error reference, the OpenAPI document. Loaded with the first
// reader, and self-contained: it works without the internet.

import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { etagMatches, etagOf } from '../../catalog/wire.ts'
import { errorReference, GatewayError, renderError } from '../../errors/errors.ts'
import { guideFiles, guidePage } from '../../guide/pages.ts'
import { escapeHtml } from '../../text/html.ts'
import type { FreeAnswer } from '../intake/paid/limits.ts'
import { takesGzip } from '../intake/read-body.ts'
import { type DocumentedRoute, openApiDocument } from './openapi.ts'
import { referenceEntries, referenceNames, referencePage } from './reference.ts'
import {
  guideEntries,
  homePage,
  renderMarkdown,
  renderPage,
  type SearchEntry,
  siteFiles,
  type SitePage,
  sitePolicy,
} from './site.ts'

// The error reference: a section for each code. Errors link to it (`docs_url`).

type Row = ReturnType<typeof errorReference>[number]

function errorPage(rows: readonly Row[]): SitePage {
  const example = new GatewayError('credits_reserved', { retryAfterMs: 2_000 })
  const main = `<h1>Errors</h1>
<p>Every error has the same shape. <code>code</code> says what happened and has its section below, <code>param</code> names the field at fault, and <code>request_id</code> finds the request in the log.</p>
<pre tabindex="0"><code>${escapeHtml(JSON.stringify(renderError(example, 'req_01a1fcaa216272aa8d5548c4e8af6c09'), null, 2))}</code></pre>
<p>The header <code>x-should-retry</code> tells whether the same request may succeed later, <code>retry-after-ms</code> and <code>retry-after</code> when. The official client libraries obey them. The same table as JSON: <code>GET /v1/errors</code>.</p>
${byStatus(rows).map(contents).join('\n')}
${rows.map(section).join('\n')}`
  return { name: 'errors', title: 'Errors', main }
}

function byStatus(rows: readonly Row[]): readonly (readonly Row[])[] {
  const groups = Map.groupBy(rows, ({ status }) => status)
  return [...groups].toSorted(([a], [b]) => a - b).map(([, group]) => group)
}

function contents(group: readonly Row[]): string {
  const links = group.map(({ code }) => `<a href="#${code}">${code}</a>`).join(' ')
  return `<p><b>${group[0]!.status}</b> ${links}</p>`
}

function section({ code, status, type, retryable, means, remedy }: Row): string {
  return `<section id="${code}">
<h2><a href="#${code}">${code}</a></h2>
<p class="facts"><b>${status}</b> ${type} · ${retryable ? 'may be retried' : 'do not retry unchanged'}</p>
<p>${prose(means)}</p>
<p class="remedy">${prose(remedy)}</p>
</section>`
}

function prose(text: string): string {
  return escapeHtml(text).replace(/`([^`]+)`/g, '<code>$1</code>')
}

function errorEntries(): SearchEntry[] {
  return errorReference().map(({ code, means, remedy }) => ({
    page: 'errors',
    title: 'Errors',
    heading: code,
    anchor: code,
    text: `${means} ${remedy}`,
  }))
}

// What is served under /docs.

/** An answer ready to be sent. */
interface Page {
  readonly body: Uint8Array<ArrayBuffer>
  readonly zipped: Uint8Array<ArrayBuffer>
  readonly headers: Readonly<Record<string, string>>
}

type Maker = (routes: readonly DocumentedRoute[]) => Promise<Page>

const revalidated = { 'cache-control': 'public, no-cache' }
/** For addresses that contain a hash of their content. */
const forEver = { 'cache-control': 'public, max-age=31536000, immutable' }

const htmlOf = (made: SitePage) =>
  page(renderPage(made), 'text/html; charset=utf-8', {
    ...revalidated,
    'content-security-policy': sitePolicy,
  })

const others: Readonly<Record<string, Maker>> = {
  '/docs': () => htmlOf(homePage()),
  '/docs/errors': () => htmlOf(errorPage(errorReference())),
  '/docs/json': async (routes) =>
    page(JSON.stringify(await openApiDocument(routes)), 'application/json', revalidated),
  '/docs/search.json': async (routes) => {
    const entries = [...guideEntries(), ...errorEntries(), ...referenceEntries(await openApiDocument(routes))]
    return page(JSON.stringify(entries), 'application/json', revalidated)
  },
  ...Object.fromEntries(
    Object.entries(guideFiles).map(([name, { text, type }]) => [
      `/docs/${name}`,
      () => page(text, type, revalidated),
    ]),
  ),
  ...Object.fromEntries(
    Object.entries(siteFiles).map(([name, { text, type }]) => [
      `/docs/${name}`,
      () => page(text, type, forEver),
    ]),
  ),
}

/** How the page at a path is made; undefined where there is none. */
function makerOf(path: string): Maker | undefined {
  const other = others[path]
  if (other) return other
  const name = path.slice('/docs/'.length)
  if (referenceNames.includes(name))
    return async (routes) => htmlOf(referencePage(await openApiDocument(routes), name))
  const guide = guidePage(name)
  return guide && (() => htmlOf({ name, title: guide.title, main: renderMarkdown(guide.text) }))
}

/** Rendered pages: the same for everybody until the process ends. */
const made = new Map<string, Promise<Page>>()

/** Serves everything under `/docs`, which documents these routes. Throws `not_found` for an unknown page. */
export async function docs(request: Request, routes: readonly DocumentedRoute[]): Promise<FreeAnswer> {
  const { pathname } = new URL(request.url)
  const path = pathname.replace(/\/$/, '')
  const make = makerOf(path)
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

async function page(content: string, type: string, headers: Readonly<Record<string, string>>): Promise<Page> {
  const body = new TextEncoder().encode(content)
  const zipped = new Uint8Array(await promisify(gzip)(body))
  return {
    body,
    zipped,
    headers: {
      'content-type': type,
      etag: etagOf(content),
      vary: 'accept-encoding',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      ...headers,
    },
  }
}
