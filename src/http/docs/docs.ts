// The documentation: the guide, the API reference, the error reference, the OpenAPI document. Loaded with the first
// reader, and self-contained: it works without the internet.

import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { Marked, type Tokens } from 'marked'
import script from './site-script.js' with { type: 'text' }
import style from './site.css' with { type: 'text' }
import { etagMatches, etagOf } from '../../catalog/wire.ts'
import { errorReference, GatewayError, renderError } from '../../errors/errors.ts'
import { guideFiles, guidePage, type GuidePart, guideParts } from '../../guide/pages.ts'
import { escapeHtml } from '../../text/text.ts'
import type { FreeAnswer } from '../intake/paid/limits.ts'
import { takesGzip } from '../intake/read-body.ts'
import { type DocumentedRoute, openApiDocument, type OpenApiDocument } from './openapi.ts'
import { tags } from './operation.ts'

// How the pages of /docs look, and how Markdown becomes one of them. Pages name each other, the style and the script
// relative to their own address, so that they also work below a path of a proxy.

/** Water falling over a sill, as a data URL without quotes. */
const icon =
  'data:image/svg+xml,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22 viewBox=%220 0 32 32%22%3E%3Crect width=%2232%22 height=%2232%22 rx=%227%22 fill=%22%230b6e8f%22/%3E%3Cpath d=%22M5 10h11c5 0 4 12 11 12%22 fill=%22none%22 stroke=%22%23fff%22 stroke-width=%223.5%22 stroke-linecap=%22round%22/%3E%3C/svg%3E'

/** What the pages load besides themselves, at addresses that change with their text. */
export const siteFiles = {
  'site.js': { text: script, type: 'text/javascript; charset=utf-8' },
  'site.css': { text: style, type: 'text/css; charset=utf-8' },
} as const

/** The policy of every page: this gateway and nobody else, also for the calls that a reader tries. */
export const sitePolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

export interface SitePage {
  /** Of its address below /docs; empty for the first page. */
  readonly name: string
  readonly title: string
  /** HTML. */
  readonly main: string
}

/** A whole page. */
export function renderPage({ name, title, main }: SitePage): string {
  const near = name === '' ? 'docs/' : ''
  const file = (path: keyof typeof siteFiles) => `${near}${path}?v=${hashOf(siteFiles[path].text)}`
  const titleText = name === '' ? 'Weir: the guide' : `${title} – Weir`
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(titleText)}</title>
<link rel="icon" href="${icon}">
<link rel="stylesheet" href="${file('site.css')}">
<script src="${file('site.js')}" data-docs="${near}" defer></script>
</head>
<body>
<a class="skip" href="#main">To the text</a>
<header>
<a class="home" href="${name === '' ? 'docs' : '../docs'}">Weir</a>
<search><label><span>Search</span><input id="search" type="search" autocomplete="off" placeholder="Search the guide" aria-controls="found"></label><ol id="found" hidden></ol></search>
<button id="menu" type="button" aria-expanded="false" aria-controls="pages">Pages</button>
</header>
<nav id="pages" aria-label="Pages">
${parts()
  .map((part) => partMenu(part, name, near))
  .join('\n')}
</nav>
<main id="main" tabindex="-1">
${main}
</main>
</body>
</html>
`
}

/** The guide's parts, with the pages that are not Markdown among the references. */
export function parts(): readonly (Pick<GuidePart, 'title' | 'about'> & {
  readonly pages: readonly { readonly name: string; readonly title: string }[]
})[] {
  return guideParts.map((part) =>
    part.title === 'Reference'
      ? {
          ...part,
          pages: [{ name: 'api', title: 'The API' }, { name: 'errors', title: 'Errors' }, ...part.pages],
        }
      : part,
  )
}

function partMenu(part: ReturnType<typeof parts>[number], name: string, near: string): string {
  const isHere = part.pages.some((page) => isShownIn(page.name, name))
  const links = part.pages.map((page) => {
    const here = page.name === name ? ' aria-current="page"' : ''
    return `<li><a href="${near}${page.name}"${here}>${escapeHtml(page.title)}</a></li>`
  })
  return `<details${isHere || name === '' ? ' open' : ''}><summary>${part.title}</summary><ul>${links.join('')}</ul></details>`
}

/** Pages of the API are one in the menu. */
function isShownIn(entry: string, name: string): boolean {
  return entry === name || (entry === 'api' && name.startsWith('api-'))
}

/** The first page: the doors of the guide. */
export function homePage(): SitePage {
  const doors = parts().map(
    ({ title, about, pages }) => `<section class="door">
<h2>${title}</h2>
<p>${about}</p>
<ul>${pages.map((page) => `<li><a href="docs/${page.name}">${escapeHtml(page.title)}</a></li>`).join('')}</ul>
</section>`,
  )
  const main = `<h1>Weir</h1>
<p class="lead">One API in front of every provider of language models. Every call is charged at the provider’s own price, exactly, once.</p>
<p><a class="begin" href="docs/start">Start here</a> <a class="begin" href="docs/api">The API</a></p>
<div class="doors">
${doors.join('\n')}
</div>`
  return { name: '', title: 'Weir', main }
}

/** Markdown of ours as HTML: headings have anchors, links to other pages lead to them, tables scroll by themselves. */
export function renderMarkdown(text: string): string {
  return markdown.parse(text, { async: false })
}

const markdown = new Marked({
  renderer: {
    heading({ tokens, depth, text }: Tokens.Heading) {
      const inner = this.parser.parseInline(tokens)
      if (depth === 1) return `<h1>${inner}</h1>\n`
      const id = anchorOf(text)
      return `<h${depth} id="${id}"><a href="#${id}">${inner}</a></h${depth}>\n`
    },
    link({ href, tokens }: Tokens.Link) {
      // An address of mail in an example is nobody's.
      if (href.startsWith('mailto:')) return this.parser.parseInline(tokens)
      const to = href.replace(/^([a-z0-9-]+)\.md(?=#|$)/, '$1')
      return `<a href="${escapeHtml(to)}">${this.parser.parseInline(tokens)}</a>`
    },
    code({ text, lang }: Tokens.Code) {
      const language = (lang ?? '').split(' ')[0] ?? ''
      return codeBlock(text, language)
    },
    table({ header, rows, align }: Tokens.Table) {
      const cell = (tag: 'th' | 'td') => (one: Tokens.TableCell, at: number) =>
        `<${tag}${tag === 'th' ? ' scope="col"' : ''}${align[at] ? ` class="${align[at]}"` : ''}>${this.parser.parseInline(one.tokens)}</${tag}>`
      const body = rows.map((row) => `<tr>${row.map(cell('td')).join('')}</tr>`).join('')
      return tableOf(`<thead><tr>${header.map(cell('th')).join('')}</tr></thead><tbody>${body}</tbody>`)
    },
  },
})

/** A block that may be wider than the page: it scrolls, also by the keyboard. */
export function codeBlock(text: string, language: string): string {
  const named = language === '' ? '' : ` data-language="${language}"`
  return `<pre${named} tabindex="0"><code>${escapeHtml(text)}</code></pre>\n`
}

export function tableOf(rows: string): string {
  return `<div class="table" tabindex="0"><table>${rows}</table></div>\n`
}

/** `What a call costs` → `what-a-call-costs`. */
export function anchorOf(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, '-')
    .replace(/^-|-$/g, '')
}

/** What changes an address together with a text. */
export function hashOf(text: string): string {
  return new Bun.CryptoHasher('sha256').update(text).digest('base64url').slice(0, 12)
}

/** A part of a page that the search finds. */
export interface SearchEntry {
  readonly page: string
  readonly title: string
  readonly heading: string
  readonly anchor: string
  readonly text: string
}

/** The sections of every page of the guide, as plain words. */
export function guideEntries(): SearchEntry[] {
  return guideParts.flatMap(({ pages }) =>
    pages.flatMap(({ name, title, text }) =>
      text.split(/^## /m).map((section, at) => {
        const [first = '', ...rest] = section.split('\n')
        const heading = at === 0 ? '' : first
        return {
          page: name,
          title,
          heading,
          anchor: at === 0 ? '' : anchorOf(heading),
          text: rest
            .join(' ')
            .replace(/```\w*( shown)?|[`*|#>]|\]\([^)]*\)|\[/g, ' ')
            .replace(/\s+/g, ' ')
            .trim(),
        }
      }),
    ),
  )
}

// The API reference, made from the OpenAPI document: a page for each group of operations, with a place to try a call.

interface SchemaObject {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly properties?: Readonly<Record<string, SchemaObject>>
  readonly required?: readonly string[]
  readonly items?: SchemaObject
  readonly additionalProperties?: SchemaObject | boolean
  readonly anyOf?: readonly SchemaObject[]
  readonly oneOf?: readonly SchemaObject[]
  readonly allOf?: readonly SchemaObject[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly default?: unknown
  readonly format?: string
}

interface MediaObject {
  readonly schema?: SchemaObject
  readonly example?: unknown
  readonly examples?: Readonly<Record<string, { readonly summary?: string; readonly value: unknown }>>
}

interface ParameterObject {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly description: string
  readonly schema: SchemaObject
  readonly example?: string
}

interface OperationObject {
  readonly operationId: string
  readonly tags: readonly string[]
  readonly summary: string
  readonly description: string
  readonly security: readonly Readonly<Record<string, unknown>>[]
  readonly parameters?: readonly ParameterObject[]
  readonly requestBody?: { readonly content: Readonly<Record<string, MediaObject>> }
  readonly responses: Readonly<
    Record<string, { readonly description: string; readonly content?: Readonly<Record<string, MediaObject>> }>
  >
}

interface Placed {
  readonly method: string
  readonly path: string
  readonly operation: OperationObject
}

/** Fields that are shown within each other before a schema says no more than its kind. */
const deepest = 5

/** The names of the reference's pages: that of all operations, and one for each group. */
export const referenceNames: readonly string[] = ['api', ...Object.keys(tags).map(groupName)]

/** The page of this name, one of `referenceNames`. */
export function referencePage(document: OpenApiDocument, name: string): SitePage {
  const all = operationsOf(document)
  const groups = document.tags.map((tag) => ({
    ...tag,
    operations: all.filter(({ operation }) => operation.tags.includes(tag.name)),
  }))
  const group = groups.find((one) => groupName(one.name) === name)
  if (group !== undefined) {
    const main = groupPage(document, group.name, group.description, group.operations)
    return { name, title: `The API: ${group.name}`, main }
  }
  const list = groups.map(
    (one) => `<h2><a href="${groupName(one.name)}">${one.name}</a></h2>
${renderMarkdown(one.description)}
${tableOf(
  one.operations
    .map(
      ({ method, path, operation }) =>
        `<tr><td><code>${method}</code></td><td><code>${escapeHtml(path)}</code></td><td><a href="${groupName(one.name)}#${operation.operationId}">${escapeHtml(operation.summary)}</a></td></tr>`,
    )
    .join(''),
)}`,
  )
  const main = `<h1>The API</h1>
${ownLinks(renderMarkdown(document.info.description))}
<p>The whole as <a href="json">OpenAPI 3.1</a>, and <a href="errors">every error</a>.</p>
${list.join('\n')}`
  return { name, title: 'The API', main }
}

/** What the search finds of the reference. */
export function referenceEntries(document: OpenApiDocument): SearchEntry[] {
  return operationsOf(document).map(({ method, path, operation }) => ({
    page: groupName(operation.tags[0] ?? ''),
    title: `${method} ${path}`,
    heading: operation.summary,
    anchor: operation.operationId,
    text: operation.description.slice(0, 600),
  }))
}

function operationsOf(document: OpenApiDocument): Placed[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      operation: operation as OperationObject,
    })),
  )
}

function groupName(tag: string): string {
  return `api-${tag.toLowerCase()}`
}

/** Links of the document are addresses of the gateway; those of these pages are beside them. */
function ownLinks(html: string): string {
  return html.replaceAll('href="/docs/', 'href="')
}

function groupPage(
  document: OpenApiDocument,
  name: string,
  description: string,
  operations: readonly Placed[],
): string {
  const schemas = new Schemas(document.components.schemas as Readonly<Record<string, SchemaObject>>)
  const sections = operations.map((placed) => operationSection(placed, schemas, document))
  return `<h1>The API: ${escapeHtml(name)}</h1>
${renderMarkdown(description)}
<ul class="plain">${operations.map(({ operation }) => `<li><a href="#${operation.operationId}">${escapeHtml(operation.summary)}</a></li>`).join('')}</ul>
${sections.join('\n')}
${schemas.sections()}`
}

function operationSection(
  { method, path, operation }: Placed,
  schemas: Schemas,
  document: OpenApiDocument,
): string {
  const { operationId, summary, description, parameters = [], requestBody, responses } = operation
  const body = requestBody === undefined ? undefined : Object.entries(requestBody.content)
  const answered = Object.entries(responses).map(([status, { description: means, content }]) => {
    const [media] = Object.values(content ?? {})
    const shape =
      media?.schema === undefined ? '' : ` <span class="kind">${schemas.kindOf(media.schema)}</span>`
    return `<tr><td><code>${status}</code></td><td>${inline(means)}${shape}</td></tr>`
  })
  return `<section class="operation" id="${operationId}">
<h2><a href="#${operationId}">${escapeHtml(summary)}</a></h2>
<p class="route"><b>${method}</b> <code>${escapeHtml(path)}</code></p>
${ownLinks(renderMarkdown(description))}
<p class="facts">${securityText(operation, document)}</p>
${parameters.length === 0 ? '' : `<h3>Parameters</h3>\n${parameterTable(parameters, schemas)}`}
${body === undefined ? '' : `<h3>Body</h3>\n${body.map(([type, media]) => bodyText(type, media, schemas)).join('')}`}
<h3>Answers</h3>
${tableOf(answered.join(''))}
${tryForm({ method, path, operation })}
</section>`
}

function securityText({ security }: OperationObject, { components }: OpenApiDocument): string {
  const schemes = security.flatMap((one) => Object.keys(one))
  if (schemes.length === 0) return 'Needs no key.'
  const described = components.securitySchemes as Readonly<Record<string, { readonly description: string }>>
  return schemes.map((name) => inline(described[name]?.description ?? name)).join(' Or: ')
}

function parameterTable(parameters: readonly ParameterObject[], schemas: Schemas): string {
  return tableOf(
    parameters
      .map(
        ({ name, in: place, required, description, schema }) =>
          `<tr><td><code>${escapeHtml(name)}</code></td><td class="kind">${place}${required === true ? ', required' : ''}</td><td class="kind">${schemas.kindOf(schema)}</td><td>${inline(description)}</td></tr>`,
      )
      .join(''),
  )
}

function bodyText(type: string, media: MediaObject, schemas: Schemas): string {
  const examples = Object.values(media.examples ?? {})
  const shown = media.example === undefined ? examples : [{ value: media.example }, ...examples]
  return `<p class="facts"><code>${escapeHtml(type)}</code> <span class="kind">${media.schema === undefined ? '' : schemas.kindOf(media.schema)}</span></p>
${shown
  .map(({ summary, value }) => {
    const block = codeBlock(exampleText(value), 'json')
    return summary === undefined
      ? block
      : `<details><summary>${escapeHtml(summary)}</summary>${block}</details>`
  })
  .join('')}`
}

const exampleText = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value, null, 2))

/** A place to try a call, where a key in a header is all that it needs. */
function tryForm({ method, path, operation }: Placed): string {
  const scheme = operation.security.flatMap((one) => Object.keys(one))[0] ?? 'none'
  const media = operation.requestBody?.content['application/json']
  if (scheme === 'cookie' || (operation.requestBody !== undefined && media === undefined)) return ''
  const example = media?.example ?? Object.values(media?.examples ?? {})[0]?.value ?? {}
  const fields = (operation.parameters ?? []).map(({ name, in: place, required, example: value }) => {
    const filled = value === undefined ? '' : ` value="${escapeHtml(String(value))}"`
    return `<label>${escapeHtml(name)} <input name="${escapeHtml(name)}" data-in="${place}"${filled}${required === true ? ' required' : ''} autocomplete="off"></label>`
  })
  const key =
    scheme === 'none'
      ? ''
      : '<label>Key <input name="key" type="password" autocomplete="off" placeholder="kept in this tab alone"></label>'
  const body =
    media === undefined
      ? ''
      : `<label>Body <textarea name="body" spellcheck="false">${escapeHtml(exampleText(example))}</textarea></label>`
  return `<details class="try"><summary>Try it</summary><form data-method="${method}" data-path="${escapeHtml(path)}" data-scheme="${scheme}">
${key}${fields.join('')}${body}<button>Send</button> <output></output></form></details>`
}

/** One line of Markdown within other HTML. */
function inline(text: string): string {
  return ownLinks(renderMarkdown(text.trim()))
    .replace(/^<p>|<\/p>\s*$/g, '')
    .trim()
}

/** The named schemas that a page mentions: each is shown once, at its end. */
class Schemas {
  readonly #all: Readonly<Record<string, SchemaObject>>
  readonly #mentioned = new Set<string>()

  constructor(all: Readonly<Record<string, SchemaObject>>) {
    this.#all = all
  }

  /** What a value of the schema is, in a few words; named ones are links. */
  kindOf(schema: SchemaObject): string {
    if (schema.$ref !== undefined) {
      const name = schema.$ref.split('/').at(-1) ?? ''
      if (!(name in this.#all)) return escapeHtml(name)
      this.#mentioned.add(name)
      return `<a href="#schema-${name}">${escapeHtml(name)}</a>`
    }
    const either = schema.anyOf ?? schema.oneOf
    if (either !== undefined) return [...new Set(either.map((one) => this.kindOf(one)))].join(' or ')
    if (schema.allOf !== undefined) return schema.allOf.map((one) => this.kindOf(one)).join(' and ')
    if (schema.const !== undefined) return `<code>${escapeHtml(JSON.stringify(schema.const))}</code>`
    if (schema.enum !== undefined)
      return schema.enum.map((value) => `<code>${escapeHtml(JSON.stringify(value))}</code>`).join(' or ')
    if (schema.type === 'array') return `list of ${this.kindOf(schema.items ?? {})}`
    const type = Array.isArray(schema.type) ? schema.type.join(' or ') : schema.type
    return escapeHtml(String(type ?? 'anything'))
  }

  /** Every schema that was mentioned, also by another one. */
  sections(): string {
    const shown: string[] = []
    // The set grows while it is gone through.
    for (const name of this.#mentioned) {
      const schema = this.#all[name]!
      shown.push(`<section class="operation" id="schema-${name}">
<h2><a href="#schema-${name}">${escapeHtml(name)}</a></h2>
${schema.description === undefined ? '' : renderMarkdown(schema.description)}
${this.#fields(schema, 0) || `<p class="kind">${this.kindOf(schema)}</p>`}
</section>`)
    }
    return shown.length === 0 ? '' : `<h2>What is sent and answered</h2>\n${shown.join('\n')}`
  }

  #fields(schema: SchemaObject, depth: number): string {
    if (schema.$ref !== undefined || depth > deepest) return ''
    if (schema.items !== undefined) return this.#fields(schema.items, depth)
    const variants = [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])]
    if (variants.length > 0)
      return variants
        .map((one) => this.#fields(one, depth))
        .filter((html) => html !== '')
        .join('<p class="kind">or</p>')
    const rest = typeof schema.additionalProperties === 'object' ? schema.additionalProperties : undefined
    const fields = Object.entries(schema.properties ?? {})
    if (rest !== undefined && Object.keys(rest).length > 0) fields.push(['…', rest])
    if (fields.length === 0) return ''
    const lines = fields.map(([name, field]) => {
      const required = schema.required?.includes(name) === true ? ', required' : ''
      const inner = this.#fields(field, depth + 1)
      const head = `<code>${escapeHtml(name)}</code> <span class="kind">${this.kindOf(field)}${required}</span>`
      const means = field.description === undefined ? '' : `<br>${inline(field.description)}`
      const nested =
        inner === '' ? '' : `<details><summary class="kind">its fields</summary>${inner}</details>`
      return `<li class="field">${head}${means}${nested}</li>`
    })
    return `<ul class="fields">${lines.join('')}</ul>`
  }
}

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
