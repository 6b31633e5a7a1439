// The API reference, made from the OpenAPI document: a page for each group of operations, with a place to try a call.

import type { OpenApiDocument } from './openapi.ts'
import { escapeHtml } from '../../text/html.ts'
import { tags } from './operation.ts'
import { codeBlock, renderMarkdown, type SearchEntry, type SitePage, tableOf } from './site.ts'

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
