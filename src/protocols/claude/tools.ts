// Claude's tools: ids of calls that its APIs accept, and the search that Anthropic runs itself.

import type { WebSearchDeclaration } from '../../conversation/gateway-tools.ts'
import type {
  ChatRequest,
  FunctionTool,
  Json,
  JsonObject,
  Message,
  ReasoningDetail,
  ResponseFormat,
  ToolCall,
} from '../../conversation/request.ts'
import { GatewayError } from '../../errors/errors.ts'
import { isObject, nonEmpty, parseJson } from '../lenient.ts'
import { freeName, FreeNames } from '../names.ts'
import { ableTo, approximateLocation, bareDomain, type OwnSearch, unable, type Warn } from '../lowering.ts'
import { answerTool } from './models.ts'

const allowed = /^[a-zA-Z0-9_-]+$/

/**
 * Gives every call of a conversation a unique id. A valid id is kept on its first use; others (Kimi's `functions.x:0`,
 * or Bedrock Mantle's `call_0`, repeated in each turn) are replaced.
 */
export class ToolIds {
  readonly #longest: number
  readonly #taken: Set<string>
  readonly #used = new Set<string>()
  readonly #names = new FreeNames()

  /** `longest`: the maximum length of an id. */
  constructor(messages: readonly Message[], longest: number) {
    this.#longest = longest
    const ids = messages.flatMap((message) =>
      message.role === 'assistant' ? message.toolCalls.map((call) => call.id) : [],
    )
    this.#taken = new Set(ids.filter((id) => this.#fits(id)))
  }

  /** The ids of a turn's calls: client id to wire id. Throws if two calls share one. */
  rename(calls: readonly ToolCall[], param: string): Map<string, string> {
    if (calls.length > 1 && new Set(calls.map((call) => call.id)).size < calls.length) {
      throw new GatewayError('invalid_request', {
        message: 'Two tool calls of one message have the same id.',
        param,
      })
    }
    const fresh = new Map<string, string>()
    for (const { id } of calls) fresh.set(id, this.#fresh(id))
    return fresh
  }

  #fresh(id: string): string {
    const fresh = this.#fits(id) && !this.#used.has(id) ? id : this.#mint(id)
    this.#taken.add(fresh)
    this.#used.add(fresh)
    return fresh
  }

  #fits(id: string): boolean {
    return allowed.test(id) && id.length <= this.#longest
  }

  #mint(id: string): string {
    const stem = id.replace(/[^a-zA-Z0-9_-]/g, '_') || 'call'
    return freeName(this.#names, stem, this.#longest, (name) => this.#taken.has(name))
  }
}

// Carries what Anthropic's own search did in a turn through clients of every protocol, as opaque reasoning: the
// results are encrypted, and Claude can only cite them in later turns if they come back unchanged.

/** A format of its own: code that returns Claude's thoughts must not mistake these for one. */
const format = 'anthropic-claude-tools-v1'

/** The detail of a block, with its `index` in the turn's reasoning; undefined for other blocks. */
export function detailOfWork(block: JsonObject, index: number): ReasoningDetail | undefined {
  const work = workOf(block)
  return work && { type: 'reasoning.encrypted', format, index, data: JSON.stringify(work) }
}

/** The original blocks of these details, each use with its result; incomplete pairs are left out. */
export function workBlocks(details: readonly ReasoningDetail[]): readonly JsonObject[] {
  const blocks = blocksOf(details)
  const uses = new Set(blocks.map((block) => block.id))
  const results = resultsIn(blocks)
  return blocks.filter((block) => (isUse(block) ? results.has(block.id) : uses.has(block.tool_use_id)))
}

/** Uses without a result yet: Anthropic runs them when a paused turn is sent back. */
export function begunWork(details: readonly ReasoningDetail[]): readonly JsonObject[] {
  const blocks = blocksOf(details)
  const results = resultsIn(blocks)
  return blocks.filter((block) => isUse(block) && !results.has(block.id))
}

function isUse({ type }: JsonObject): boolean {
  return type === 'server_tool_use'
}

function resultsIn(blocks: readonly JsonObject[]): ReadonlySet<Json | undefined> {
  return new Set(blocks.map((block) => block.tool_use_id))
}

function blocksOf(details: readonly ReasoningDetail[]): readonly JsonObject[] {
  return details
    .toSorted((a, b) => a.index - b.index)
    .flatMap((detail) => {
      const parsed = isWork(detail) ? parseJson(detail.data ?? '') : undefined
      const block = isObject(parsed) ? workOf(parsed) : undefined
      return block ? [block] : []
    })
}

/** Whether a detail is a step of an Anthropic tool rather than reasoning. */
export function isWork(detail: Pick<ReasoningDetail, 'format'>): boolean {
  return detail.format === format
}

/** A search for clients of other protocols: an item of the Responses protocol without its id. */
export function searchItem(query: string, content: unknown): JsonObject {
  const results = Array.isArray(content) ? content.filter(isObject) : []
  const sources = results.flatMap(({ url }) => (typeof url === 'string' ? [{ type: 'url', url }] : []))
  // A failure is an object instead of the list.
  const status = Array.isArray(content) ? 'completed' : 'failed'
  return { type: 'web_search_call', status, action: { type: 'search', query, sources } }
}

/** Only these fields are returned, because the data comes from a client. */
function workOf(block: JsonObject): JsonObject | undefined {
  const { type, id, name, input, tool_use_id, content } = block
  if (type === 'server_tool_use' && name === 'web_search' && nonEmpty(id) !== undefined)
    return { type, id: id!, name, input: isObject(input) ? input : {} }
  if (type === 'web_search_tool_result' && nonEmpty(tool_use_id) !== undefined && content !== undefined)
    return { type, tool_use_id: tool_use_id!, content }
  return undefined
}

// The web search that Anthropic runs itself:
// https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool

const name = 'web_search'
/** Later versions run code as well. */
const toolType = 'web_search_20250305'

export function ownSearch(
  search: WebSearchDeclaration,
  { tools }: ChatRequest,
  { quirks }: { readonly quirks: { readonly webSearch?: boolean } },
): OwnSearch | undefined {
  if (quirks.webSearch !== true) return undefined
  if (tools.some((tool) => tool.name === name)) return unable(`cannot stand beside a function named ${name}`)
  const wishes = ['allowed_domains', 'blocked_domains', 'paths', 'user_location', 'max_uses'] as const
  const own = ableTo(search, 'search', wishes)
  // https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons: `pause_turn`
  return own.kind === 'able' ? { ...own, pauses: true } : own
}

/** The tool, if the request wants a search. */
export function searchTools({ webSearch }: ChatRequest): readonly JsonObject[] {
  if (webSearch === undefined) return []
  const { allowedDomains, blockedDomains, maxUses } = webSearch
  return [
    {
      type: toolType,
      name,
      ...(maxUses === undefined ? {} : { max_uses: maxUses }),
      ...(allowedDomains.length > 0 ? { allowed_domains: allowedDomains.map(bareDomain) } : {}),
      ...(blockedDomains.length > 0 ? { blocked_domains: blockedDomains.map(bareDomain) } : {}),
      ...approximateLocation(webSearch),
    },
  ]
}

/** Fields of the tool without a price of their own. */
const toolFields = ['name', 'allowed_domains', 'blocked_domains', 'user_location', 'cache_control']

/**
 * A client's own body with its search, of any version, replaced by the version whose price is known, limited to
 * `searches`; undefined if the body has a search that may not run at Anthropic, or lacks one that should.
 */
export function withBoundedSearch(body: JsonObject, searches: number | undefined): JsonObject | undefined {
  const tools = Array.isArray(body.tools) ? body.tools : []
  const isSearch = (tool: Json): tool is JsonObject =>
    isObject(tool) && nonEmpty(tool.type)?.startsWith('web_search_') === true
  if (tools.some(isSearch) !== (searches !== undefined)) return undefined
  if (searches === undefined) return body
  const boundUses = (tool: JsonObject): JsonObject => ({
    ...Object.fromEntries(toolFields.flatMap((field) => (tool[field] == null ? [] : [[field, tool[field]]]))),
    type: toolType,
    max_uses: typeof tool.max_uses === 'number' ? Math.min(tool.max_uses, searches) : searches,
  })
  return { ...body, tools: tools.map((tool) => (isSearch(tool) ? boundUses(tool) : tool)) }
}

// Converts JSON Schema for Claude's grammar (structured answers, strict tools): every object closed, no recursion, few
// constraints. Anything else fails the whole request with 400.

interface ClosedSchema {
  readonly schema: JsonObject
  /** Keywords moved into descriptions because they cannot be enforced, each once. */
  readonly described: readonly string[]
}

/** Limit of schemas per conversion; Claude's grammar compiler gives up long before. */
const maxSchemas = 4000
/** The longest chain of references; a longer one is taken for a circle. */
const longestChain = 32

/** Keywords with the same meaning there; those that contain schemas are converted below. */
const kept: ReadonlySet<string> = new Set([
  '$ref',
  'const',
  'default',
  'description',
  'enum',
  'required',
  'title',
  'type',
])
/** Keywords that constrain nothing, or are said anew. */
const silent: ReadonlySet<string> = new Set(['$anchor', '$comment', '$id', '$schema', 'additionalProperties'])
const named: ReadonlySet<string> = new Set(['$defs', 'definitions', 'properties'])
const lists: ReadonlySet<string> = new Set(['anyOf', 'oneOf'])
/** A schema without any of these is empty, and refused. */
const telling = ['$ref', 'type', 'enum', 'const', 'anyOf', 'oneOf', 'allOf', 'properties']
const formats: readonly unknown[] = [
  'date',
  'date-time',
  'duration',
  'email',
  'hostname',
  'ipv4',
  'ipv6',
  'time',
  'uri',
  'uuid',
]

interface Walk {
  readonly described: Set<string>
  left: number
  /** Something was met that has no form there. */
  failed: boolean
}

/**
 * The schema with its objects closed: whatever matches it matches the client's schema too. Undefined for a schema that
 * the grammar cannot express: recursion, values of any type, objects with unknown keys.
 */
export function closedSchema(schema: JsonObject): ClosedSchema | undefined {
  const walk: Walk = { described: new Set(), left: maxSchemas, failed: isRecursive(schema) }
  const closed = convert(schema, walk)
  return walk.failed ? undefined : { schema: closed, described: [...walk.described].toSorted() }
}

/** Warns of keywords that the model is told about but not held to. `param` names the field with the schema. */
export function warnOfDescribed({ described }: ClosedSchema, param: string, warn: Warn): void {
  if (described.length > 0)
    warn(param, `The model is described of ${described.join(', ')}, but not held to it.`)
}

function convert(wrapped: Json, walk: Walk): JsonObject {
  walk.left -= 1
  const schema = isObject(wrapped) ? unwrapSchema(wrapped) : {}
  if (walk.left < 0 || !telling.some((keyword) => keyword in schema) || isTorn(schema)) walk.failed = true
  if (walk.failed) return {}
  const result: JsonObject = {}
  const words: string[] = []
  for (const [keyword, value] of Object.entries(withoutSiblings(schema))) {
    if (kept.has(keyword) || isEnforced(keyword, value)) result[keyword] = value
    else if (named.has(keyword) && isObject(value)) result[keyword] = convertNamed(value, walk)
    else if (lists.has(keyword) && Array.isArray(value)) {
      result['anyOf'] = value.map((each) => convert(each, walk))
    } else if (keyword === 'items' && isObject(value)) result[keyword] = convert(value, walk)
    else if (!silent.has(keyword)) {
      walk.described.add(keyword)
      words.push(`${keyword}: ${JSON.stringify(value)}`)
    }
  }
  if (describesObjects(schema)) Object.assign(result, closing(schema, walk))
  if (words.length > 0) result['description'] = inWords(schema['description'], words)
  return result
}

/** The single schema of an `allOf` that only adds a description. */
function unwrapSchema(schema: JsonObject): JsonObject {
  const { allOf, ...others } = schema
  if (!Array.isArray(allOf) || allOf.length !== 1 || !isObject(allOf[0])) return schema
  return unwrapSchema({ ...others, ...allOf[0] })
}

/** Whether an object is described in several places: closed, each would forbid the keys of the others. */
function isTorn(schema: JsonObject): boolean {
  return 'allOf' in schema || (describesObjects(schema) && ('anyOf' in schema || 'oneOf' in schema))
}

/** Beside a reference only definitions may stand. */
function withoutSiblings(schema: JsonObject): JsonObject {
  if (typeof schema['$ref'] !== 'string') return schema
  const { $ref, $defs, definitions } = schema
  return {
    $ref,
    ...($defs === undefined ? {} : { $defs }),
    ...(definitions === undefined ? {} : { definitions }),
  }
}

function convertNamed(schemas: JsonObject, walk: Walk): JsonObject {
  // Own properties even for `__proto__`.
  return Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, convert(schema, walk)]))
}

function isEnforced(keyword: string, value: Json): boolean {
  return (
    (keyword === 'format' && formats.includes(value)) ||
    (keyword === 'minItems' && (value === 0 || value === 1))
  )
}

function describesObjects({ type, properties }: JsonObject): boolean {
  return isObject(properties) || type === 'object' || (Array.isArray(type) && type.includes('object'))
}

/** An object with unknown keys, closed, could only be empty. */
function closing({ type, properties, additionalProperties }: JsonObject, walk: Walk): JsonObject {
  const empty = !isObject(properties) || Object.keys(properties).length === 0
  if (empty && additionalProperties !== false) walk.failed = true
  return { type: type ?? 'object', additionalProperties: false }
}

function inWords(description: Json | undefined, words: readonly string[]): string {
  return `${typeof description === 'string' ? `${description}\n\n` : ''}{${words.join(', ')}}`
}

/** Whether a definition refers back to itself, or to the whole schema. */
function isRecursive(root: JsonObject): boolean {
  const open = new Set<string>()
  const done = new Set<string>()
  const leadsBack = (value: Json): boolean => {
    if (Array.isArray(value)) return value.some(leadsBack)
    if (!isObject(value)) return false
    const { $ref: pointer, $defs: _, definitions: __, ...members } = value
    return (typeof pointer === 'string' && follows(pointer)) || Object.values(members).some(leadsBack)
  }
  const follows = (pointer: string): boolean => {
    if (open.has(pointer) || open.size > longestChain) return true
    if (done.has(pointer)) return false
    const target = targetOf(root, pointer)
    if (target === undefined) return false
    open.add(pointer)
    const found = leadsBack(target)
    open.delete(pointer)
    done.add(pointer)
    return found
  }
  open.add('#')
  return leadsBack(root)
}

/** The target of a reference within a schema; undefined if it points elsewhere or nowhere. */
function targetOf(root: JsonObject, pointer: string): Json | undefined {
  if (!pointer.startsWith('#/')) return undefined
  let at: Json | undefined = root
  for (const step of pointer.slice(2).split('/')) {
    const key = step.replaceAll('~1', '/').replaceAll('~0', '~')
    at = isObject(at) && Object.hasOwn(at, key) ? at[key] : undefined
  }
  return at
}

// Converts tool argument schemas for providers that take nothing but an object at the root: OpenAI, Claude, older
// Geminis.

interface RootObject {
  readonly schema: JsonObject
  /** Whether alternatives were merged: the model then does not see which members exclude each other. */
  readonly merged: boolean
}

/** The deepest nesting of alternatives, or of references to references. */
const maxDepth = 5
/** The limit of what is read for one schema, in characters and names: a reference repeats what it refers to. */
const mostWork = 4_000_000

interface RootWalk {
  readonly root: JsonObject
  work: number
  /** What a reference leads to, by the reference and the depth: read each time, nested references would multiply. */
  readonly read: Map<string, JsonObject>
}

/** Accepts any object if the client gave no object schema. Throws GatewayError `invalid_request` for one beyond reason. */
export function rootObjectOf(parameters: JsonObject | undefined): RootObject {
  if (parameters === undefined) return { schema: { type: 'object', properties: {} }, merged: false }
  const { anyOf, oneOf, allOf, $ref: pointer, ...own } = parameters
  const merged = [anyOf, oneOf, allOf].some(Array.isArray)
  const walk: RootWalk = { root: parameters, work: mostWork, read: new Map() }
  const refers = typeof pointer === 'string'
  const parts = [...(Array.isArray(allOf) ? allOf : []), ...(refers ? [{ $ref: pointer }] : [])]
  const lists = { ...(anyOf && { anyOf }), ...(oneOf && { oneOf }), allOf: parts }
  const schema = merged || refers ? flattenSchema({ ...own, ...lists }, walk, maxDepth) : parameters
  return { schema: { ...schema, type: 'object' }, merged }
}

function spend(walk: RootWalk, work: number): void {
  walk.work -= work
  if (walk.work >= 0) return
  const message = 'The schema of a tool has alternatives that repeat each other more often than can be read.'
  throw new GatewayError('invalid_request', { message, param: 'tools' })
}

/** The schema without alternatives: all of their members; required is what every alternative requires. */
function flattenSchema(schema: JsonObject, walk: RootWalk, depth: number): JsonObject {
  const { anyOf, oneOf, allOf, ...own } = schema
  const flat = (list: Json | undefined): JsonObject[] =>
    Array.isArray(list) ? distinct(list.filter(isObject)).map((each) => followRef(each, walk, depth)) : []
  const parts = flat(allOf)
  const choices = [...flat(anyOf), ...flat(oneOf)]
  const members = new Members(walk)
  for (const each of [...choices, ...parts, own]) if (isObject(each.properties)) members.lay(each.properties)
  const requiredOf = (each: JsonObject) => requiredBy(each, walk)
  const always = [own, ...parts].flatMap(requiredOf)
  const required = [...new Set([...always, ...sharedBy(choices.map(requiredOf))])]
  return {
    ...own,
    properties: members.properties,
    ...(required.length === 0 ? {} : { required }),
  }
}

/** Without the references that are there twice. */
function distinct(schemas: readonly JsonObject[]): readonly JsonObject[] {
  const pointers = new Set<Json>()
  return schemas.filter(({ $ref: pointer }) => {
    if (typeof pointer !== 'string') return true
    const isNew = !pointers.has(pointer)
    pointers.add(pointer)
    return isNew
  })
}

function followRef(schema: JsonObject, walk: RootWalk, depth: number): JsonObject {
  if (depth <= 0) return {}
  const { $ref: pointer } = schema
  if (typeof pointer !== 'string') return flattenSchema(schema, walk, depth - 1)
  const place = `${depth} ${pointer}`
  const known = walk.read.get(place)
  if (known !== undefined) return known
  spend(walk, pointer.length)
  const target = targetOf(walk.root, pointer)
  const found = isObject(target) ? behind(target, walk, depth - 1) : {}
  walk.read.set(place, found)
  return found
}

function behind(target: JsonObject, walk: RootWalk, depth: number): JsonObject {
  return typeof target['$ref'] === 'string'
    ? followRef(target, walk, depth)
    : flattenSchema(target, walk, depth)
}

/** The members of all alternatives by their names; a member of several may match any of them. */
class Members {
  readonly #walk: RootWalk
  readonly #members = new Map<string, { readonly texts: Set<string>; readonly schemas: Json[] }>()

  constructor(walk: RootWalk) {
    this.#walk = walk
  }

  lay(properties: JsonObject): void {
    for (const [name, schema] of Object.entries(properties)) {
      const text = JSON.stringify(schema)
      spend(this.#walk, name.length + text.length)
      const known = this.#members.get(name)
      if (known === undefined) this.#members.set(name, { texts: new Set([text]), schemas: [schema] })
      else if (!known.texts.has(text)) {
        known.texts.add(text)
        known.schemas.push(schema)
      }
    }
  }

  get properties(): JsonObject {
    // Own properties even for `__proto__`.
    return Object.fromEntries(Array.from(this.#members, ([name, { schemas }]) => [name, oneOfThem(schemas)]))
  }
}

function oneOfThem(schemas: readonly Json[]): Json {
  const [only, ...others] = schemas
  return others.length === 0
    ? only!
    : { anyOf: schemas.flatMap((schema) => alternativesIn(schema) ?? [schema]) }
}

function alternativesIn(schema: Json): readonly Json[] | undefined {
  if (!isObject(schema) || Object.keys(schema).length > 1) return undefined
  return Array.isArray(schema['anyOf']) ? schema['anyOf'] : undefined
}

function requiredBy({ required }: JsonObject, walk: RootWalk): string[] {
  const names = Array.isArray(required) ? required.filter((name) => typeof name === 'string') : []
  spend(walk, names.length)
  return names
}

function sharedBy(lists: readonly (readonly string[])[]): readonly string[] {
  const [first = [], ...others] = lists
  const sets = others.map((list) => new Set(list))
  return first.filter((name) => sets.every((names) => names.has(name)))
}

/** A tool's argument schema; warns of alternatives at the root that Claude cannot be shown. */
export function argumentsSchema({ name, parameters }: FunctionTool, warn: Warn): JsonObject {
  const { schema, merged } = rootObjectOf(parameters)
  if (merged) warn('tools', `The alternatives in the schema of ${name} are shown to the model as one object.`)
  return schema
}

interface AnswerTool {
  readonly name: string
  readonly description: string
  readonly schema: JsonObject
}

/** The tool that carries a structured answer, for a schema that the model does not support natively. */
export function answerToolFor(format: ResponseFormat | undefined): AnswerTool | undefined {
  if (format === undefined || format.kind === 'text') return undefined
  const asked = format.kind === 'json-schema' ? format : undefined
  const description = 'Gives the final answer to the user. The arguments are the answer.'
  return {
    name: answerTool,
    description: asked?.description === undefined ? description : `${description} ${asked.description}`,
    // Without a schema (JSON mode) any object is accepted.
    schema: { ...(asked?.schema ?? { additionalProperties: true }), type: 'object' },
  }
}
